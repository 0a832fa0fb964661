"""Splat sets, rasterisers, losses, densification and the training step. May touch: the foundation, backends, photos."""
