"""One small structure from motion for anchors and trajectory. May touch: the foundation, matching.

tracks (keypoints that see one point) -> triangulation (where it is) -> bundle (cameras, points, observations) ->
adjustment (their optimum, by the dense solver or by Ceres) -> uncertainty (how well it is known); resection poses one
more camera, covisibility finds pairs worth matching, relaxation spreads a gap over a chain of poses.
"""
