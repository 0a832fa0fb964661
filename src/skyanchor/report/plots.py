"""Static plots for papers: trajectory and curves as PNG files."""

from __future__ import annotations

import base64
import io
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from skyanchor.report.content import Curve, GroupRow, MapContent
from skyanchor.storage import files
from skyanchor.types import Floats

DOTS_PER_INCH = 200
WIDTH_IN = 7.0
"""Of the figures, inches: a text width."""
ACCEPTED, REFUSED = "#1e8e3e", "#d93025"


def plot_map(content: MapContent, path: Path, groups: tuple[GroupRow, ...] = ()) -> None:
    """Write the top view of the walk: frames coloured by position sigma, anchor groups, aerial cameras, truth."""
    low, high = _window(content)
    height = float(np.clip(WIDTH_IN * 0.86 * (high[1] - low[1]) / (high[0] - low[0]) + 0.6, 2.6, 9.0))
    figure, axes = _figure(WIDTH_IN, height)
    if content.raster:
        x0, y0, x1, y1 = content.extent
        axes.imshow(_pixels(content.raster), extent=(x0, x1, y0, y1), alpha=0.6, zorder=0)
    aerial = np.array([[c.x, c.y] for c in content.cameras]).reshape(-1, 2)
    axes.scatter(*aerial.T, marker="^", s=16, c="#1565c0", ec="white", lw=0.3, label="aerial cameras")
    if content.truth:
        axes.plot(*np.array(content.truth).T, c="#8e24aa", lw=4, alpha=0.45, label="truth")
    _draw_frames(figure, axes, content)
    _draw_groups(axes, groups)
    axes.set(xlabel="x [m]", ylabel="y [m]", aspect="equal", xlim=(low[0], high[0]), ylim=(low[1], high[1]))
    axes.legend(loc="best", fontsize=7)
    _save(figure, path)


def _draw_frames(figure: Any, axes: Any, content: MapContent) -> None:
    posed = [f for f in content.frames if np.isfinite(f.x)]
    if not posed:
        return
    places, sigma = np.array([[f.x, f.y] for f in posed]), [f.sigma_m for f in posed]
    dots = axes.scatter(*places.T, c=sigma, s=12, cmap="viridis", label="street frames", zorder=3)
    figure.colorbar(dots, ax=axes, label="standard deviation per axis [m]", fraction=0.04, pad=0.02)


def _draw_groups(axes: Any, groups: tuple[GroupRow, ...]) -> None:
    for accepted, colour in ((True, ACCEPTED), (False, REFUSED)):
        word = "accepted" if accepted else "refused"
        some = [group for group in groups if group.accepted is accepted and np.isfinite(group.x)]
        places = np.array([[group.x, group.y] for group in some]).reshape(-1, 2)
        if some:
            axes.scatter(*places.T, s=90, fc="none", ec=colour, lw=1.8, label=f"anchor group, {word}", zorder=4)


def _window(content: MapContent) -> tuple[Floats, Floats]:
    """Corners of what is drawn: the walk and the truth with room around them, else the aerial cameras."""
    posed = [[f.x, f.y] for f in content.frames if np.isfinite(f.x)]
    seen = np.array([*posed, *content.truth] or [[c.x, c.y] for c in content.cameras] or [[0.0, 0.0]])
    low, high = seen.min(axis=0), seen.max(axis=0)
    margin = 0.25 * float((high - low).max()) + 5.0
    return low - margin, high + margin


def _pixels(uri: str) -> Image.Image:
    return Image.open(io.BytesIO(base64.b64decode(uri.split(",")[1])))


def plot_curves(curves: tuple[Curve, ...], path: Path) -> None:
    """Write PSNR against iterations, one line per curve."""
    figure, axes = _figure(WIDTH_IN, 3.6)
    for curve in curves:
        axes.plot(curve.x, curve.y, label=curve.label)
    axes.set(xlabel="iteration", ylabel="PSNR of validation views [dB]")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
    _save(figure, path)


def load_plotting() -> tuple[Any, Any]:
    """The figure and the canvas that needs no display, which take half a second to import."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    return Figure, FigureCanvasAgg


def _figure(width: float, height: float) -> tuple[Any, Any]:
    """A figure that needs no display, and its axes."""
    Figure, FigureCanvasAgg = load_plotting()
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.add_subplot()


def _save(figure: Any, path: Path) -> None:
    picture = io.BytesIO()
    figure.savefig(picture, dpi=DOTS_PER_INCH, format="png", metadata={"Software": None})
    files.write_bytes(path, picture.getvalue())
