"""The Numba rasteriser: projection, binning and tiles as kernels, one numpy layer, one torch.autograd.Function.

`*_kernels.py` hold the compiled code, `drawing.py` strings it together on numpy arrays, `autograd.py` shows it to
torch. Work is cut into blocks whose size does not depend on the number of threads, and gradients are written one row
per (Gaussian, tile) and then summed in a fixed order: the same input gives the same bits for any number of threads.
"""
