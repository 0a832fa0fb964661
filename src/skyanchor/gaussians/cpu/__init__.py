"""The Numba rasteriser."""
