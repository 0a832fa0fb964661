"""Stage 2: cross-view anchor localisation, of one group (`group`) and of all groups of a walk (`walk`).

In the order in which a group meets them:

- frames, search: what all steps of a group's localisation share.
- shape/: the group's own reconstruction, from ground photos alone.
- place_finding, walk_votes, likelihood: where it may stand, by its looks and by those of the whole walk.
- evidence, expected, solve, adjustment, edges, place_refinement: one place, refined by views rendered there and judged.
- last_look, verdict, agreement: what is accepted, of one group and of all together. showing: matches for people.

Beside them:

- ladder: what is tried before a group is given up.
- place_description, place_index, place_code: described places. prepared_scaffold: all that groups are looked for in.
- priors, area_file: what the user knows of where the walk was.
- odometry: the walk's own motion. focal, self_lens: its camera.
- earlier_walks/: street photos that were located before. paper_route/: the paper's way. ablated: ours in part.
- in_process: all of it without jobs.

May touch: the foundation, photos, matching, sfm, bridges, scaffold, sequence, feedforward.
"""

from skyanchor.anchors.config import AnchorConfig
from skyanchor.anchors.priors import Area, Near

__all__ = ["AnchorConfig", "Area", "Near"]
