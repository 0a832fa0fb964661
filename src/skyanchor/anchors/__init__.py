"""Stage 2: cross-view anchor localisation, of one group (`group`) and of all groups of a walk (`walk`).

frames, search (what a look works on) -> shape/ (the group's own reconstruction) -> places, likelihood, walk_votes
(where it may stand) -> evidence, solve, adjustment, edges, place (one place, refined and judged) -> last_look,
verdict, agreement (what is accepted) -> showing (for people). Beside them: ladder (what is tried before giving up);
prepare, place_index (described places); priors, area_file (where the walk was); odometry (its own motion); focal,
self_lens (its camera); keyframes, earlier (earlier walks); in_process (all of it without jobs); paper_route/ (the
paper's way), ablated (ours in part).

May touch: the foundation, photos, matching, sfm, bridges, scaffold, sequence, feedforward.
"""

from skyanchor.anchors.config import AnchorConfig
from skyanchor.anchors.priors import Area, Near

__all__ = ["AnchorConfig", "Area", "Near"]
