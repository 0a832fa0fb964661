"""Stage 1: cross-view anchor localisation."""
