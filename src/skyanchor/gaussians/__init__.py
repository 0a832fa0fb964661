"""Splat sets, rasterisers, losses, densification and the training step.

- *The set*: splats (the value), harmonics (its colours); ply_header, ply, gsplat_checkpoint, spz,
  splat_file (files, and the frame they are in).
- *Drawn*: rasteriser (the protocol), devices (which one runs where), cpu/ and gsplat_adapter (the two there are),
  surfels (flat Gaussians, for surfaces).
- *Trained*: seeding (the first Gaussians), split (which views train, decide and judge), views (photos as targets),
  exposure, parameters, densify, losses, cuda_loss, training (the step and its loop), train_state, checkpoint.
- *Judged*: scoring.

May touch: the foundation, backends, photos.
"""
