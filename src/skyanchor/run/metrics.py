"""metrics.json: what `skyanchor evaluate` measured of a run."""

from __future__ import annotations

from dataclasses import dataclass, field

from skyanchor.run.memory import Peak

METRICS_FILE = "metrics.json"


@dataclass(frozen=True)
class PoseMetrics:
    """Root mean square errors over the frames that have a pose and a truth; None where there is nothing to measure."""

    registered: int
    """Frames with a pose."""
    total: int
    """Frames that were to get one."""
    ate_m: float | None
    """Absolute trajectory error: distance of camera centres, metres."""
    rpe_t_m: float | None
    """Relative pose error between consecutive frames, translation, metres."""
    rpe_r_deg: float | None
    """Relative pose error between consecutive frames, rotation, degrees."""


@dataclass(frozen=True)
class ImageMetrics:
    """Means over the held-out views; None where there are none."""

    psnr: float | None
    """dB."""
    ssim: float | None
    """11x11 Gaussian window of 1.5 px, zero padded, as in the Gaussian splatting papers."""
    lpips: float | None
    """VGG16, version 0.1, images scaled to -1..1; None where the weights are absent."""


@dataclass(frozen=True)
class RenderMetrics:
    """Aerial and ground views apart."""

    aerial: ImageMetrics
    ground: ImageMetrics


@dataclass(frozen=True)
class AlignedMetrics:
    """The same errors after the best similarity, for methods without a metric frame."""

    anchors: PoseMetrics
    trajectory: PoseMetrics


@dataclass(frozen=True)
class SurfaceMetrics:
    """The mesh against the true surface, where enough true cameras look; None where there is nothing to measure."""

    tolerance_m: float
    """Metres."""
    accuracy: float | None
    """Share of the mesh within the tolerance of the truth, 0..1."""
    completeness: float | None
    """Share of the truth within the tolerance of the mesh, 0..1."""
    mean_m: float | None
    """Mean distance of the mesh from the truth, metres."""
    median_m: float | None
    """Its median, metres."""
    mesh_points: int
    """Points of the mesh that were judged."""
    true_points: int
    """Points of the truth that were looked for."""


@dataclass(frozen=True)
class StatedMetrics:
    """What the run states of its camera centres, beside their errors; frames of one walk are off together."""

    sigma_m: float
    """Stated: one standard deviation along one axis, the shift that all frames share included; median, metres."""
    radius_95_m: float
    """Stated: the radius within which 95 % of the centres are expected, metres."""
    below_sigma: float
    """Share of the errors along an axis that are below their frame's sigma; 0.68 over many walks where it is right."""
    within_radius: float
    """Share of the centres within the radius; 0.95 over many walks where it is right."""


@dataclass(frozen=True)
class Metrics:
    """metrics.json."""

    anchors: PoseMetrics
    trajectory: PoseMetrics
    render: RenderMetrics
    seconds: dict[str, float]
    """Wall time per stage."""
    aligned: AlignedMetrics | None = None
    memory: dict[str, Peak] = field(default_factory=dict)
    """Most memory at a time per stage."""
    surface: SurfaceMetrics | None = None
    """The mesh, where there is one and its truth was given."""
    stated: StatedMetrics | None = None
    """Whether what the run states of its positions holds; None where nothing was located."""
