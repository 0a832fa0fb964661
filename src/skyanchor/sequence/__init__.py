"""The ground photos or video: order, intrinsics, masks, submaps and anchor groups.

May touch: the foundation, photos, matching.
"""

from skyanchor.sequence.loading import SequenceConfig, load_sequence
from skyanchor.sequence.submaps import SubmapConfig
from skyanchor.sequence.video import VideoConfig
