"""Splat sets, rasterisers, losses, densification and the training step."""
