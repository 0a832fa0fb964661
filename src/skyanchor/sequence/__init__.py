"""The ground photos or video: order, intrinsics, masks, submaps and anchor groups.

- *Read*: loading (the whole, checked), video, copies, upright (photos that a run writes for itself), intrinsics,
  same_photos, summary (what was understood, for people).
- *Cut up*: segments (stretches, between cuts), submaps (submaps and anchor groups).
- *Seen by networks of the user*: networks, segmentation (masks), monocular, depth_files (depth).

May touch: the foundation, photos, matching.
"""

from skyanchor.sequence.loading import SequenceConfig, load_sequence
from skyanchor.sequence.submaps import SubmapConfig
from skyanchor.sequence.video import VideoConfig
