"""Stage 2: anchor-constrained trajectory recovery."""
