"""Stage 3: cross-view scene update."""
