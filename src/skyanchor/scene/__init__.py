"""Stage 4: cross-view scene update: ground points, frozen insertion, joint refinement, patch.

May touch: the foundation, photos, stereo, gaussians, bridges, changes, scaffold.
"""
