"""The paper's way from a group's shape to its place, selectable beside bridge views (`--anchors.route paper`).

support (photos retrieved, verified, joined by the graph; and the way that lifts their matches) -> mixed,
mixed_depth (aerial photos registered into the group's frame, with depth maps where they are needed) -> snapped (after
the alignment, aerial poses constant) -> route (all of it, and both ways side by side).
"""
