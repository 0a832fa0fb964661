"""Dense depth at known poses and its fusion to a coloured cloud."""
