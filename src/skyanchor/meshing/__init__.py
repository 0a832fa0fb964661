"""A coloured mesh of the street: depth maps fused to a truncated distance field on a sparse grid, then marching cubes.

Values in, values out. The field is never held whole: it is computed block by block, each with the borders that its
neighbours compute too, bit for bit, so that blocks can be meshed apart and joined without a seam.

May touch: the foundation, stereo.
"""

from skyanchor.meshing.extraction import joined, meshed
from skyanchor.meshing.field import MeshConfig, blocks_near, depth_stack, sampled
from skyanchor.meshing.mesh import Mesh, coarser, without_crumbs

__all__ = [
    "Mesh",
    "MeshConfig",
    "blocks_near",
    "coarser",
    "depth_stack",
    "joined",
    "meshed",
    "sampled",
    "without_crumbs",
]
