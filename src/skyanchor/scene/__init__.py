"""3. Cross-view scene update: ground points, frozen insertion, joint refinement, patch."""
