"""Stage 4: cross-view scene update: ground points, frozen insertion, joint refinement, patch.

update is the whole stage. In the order of the work:

- inputs, config: what the update is given, and its settings. reach: which part of a large model takes part.
- ground_points: the street's depth and its points. colours: how the street's colours relate to the aerial ones.
- views, rendered, earlier: photos and pictures that train, guard and judge.
- floaters, hiding: aerial Gaussians that hang in the street, found and hidden.
- seeds, sky: the first Gaussians of the street.
- schedule, scoring: a phase of training, and how good it is.
- patch, patch_head: the change as a file that comes off again, and what the header of a .ply says of its patches.
  tiles, tile_places, tile_patches: the same on an area cut into squares.

Beside them: since, masks (what is another way than on earlier days); contradicted (what a single photo shows and its
neighbours do not); surfels (the street trained for its surface, for the mesh); kernels.

May touch: the foundation, photos, stereo, gaussians, bridges, changes, scaffold.
"""
