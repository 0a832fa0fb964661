"""One small structure from motion for anchors and trajectory: tracks, adjustment, uncertainty."""
