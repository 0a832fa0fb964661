"""Whether EXIF positions of a walk lie on the aerial model, told before any work begins."""

from __future__ import annotations

import numpy as np

from skyanchor.geometry import planes, rigid
from skyanchor.scaffold.georeference import local_from_gps
from skyanchor.types import Floats, Scaffold


def gps_on_model(places: tuple[tuple[float, float, float], ...], scaffold: Scaffold) -> tuple[str, str | None]:
    """How EXIF positions lie on the aerial model, for people; and a warning where they are of no use."""
    local = local_from_gps(np.array(places), scaffold.georef)
    if local is None:
        named = scaffold.georef.crs
        why = f"they do not lie in its {named}" if named else "it does not say where on Earth it lies"
        return "not used", f"GPS cannot be laid on the aerial model, {why}: see `skyanchor scaffold check`"
    off = _beyond(local, scaffold)
    inside = int(np.sum(off == 0.0))
    said = f"{inside} of {len(places)} inside the aerial model"
    if inside:
        return said, None
    return said, f"GPS lies {off.min():.0f} m and more outside the aerial model: is it a walk of this place?"


def _beyond(local: Floats, scaffold: Scaffold) -> Floats:
    """(N,), metres from the box around what the model shows, along the ground; 0 inside."""
    shown = scaffold.points
    if not len(shown):
        shown = rigid.centres_in_world([view.cam_from_world for view in scaffold.views])
    across = planes.basis(scaffold.ground.normal)
    low, high = np.percentile(shown @ across.T, [1.0, 99.0], axis=0)
    flat = local @ across.T
    return np.asarray(np.linalg.norm(np.maximum(0.0, np.maximum(low - flat, flat - high)), axis=1))
