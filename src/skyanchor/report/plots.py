"""Static plots for papers: trajectory and curves as PNG files."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from skyanchor.report.content import Curve, MapContent

DOTS_PER_INCH = 160


def plot_map(content: MapContent, path: Path) -> None:
    """Write the top view of the walk: frames coloured by position sigma, aerial cameras, truth when there is one."""
    figure, axes = _figure(7.0, 6.0)
    axes.scatter(
        [c.x for c in content.cameras], [c.y for c in content.cameras], marker="^", s=14, c="#1565c0", label="aerial"
    )
    if content.truth:
        axes.plot(*np.array(content.truth).T, c="#8e24aa", lw=3, alpha=0.5, label="truth")
    posed = [f for f in content.frames if np.isfinite(f.x)]
    sigma = [f.sigma_m for f in posed]
    dots = axes.scatter(
        [f.x for f in posed], [f.y for f in posed], c=sigma, s=10, cmap="viridis", label="ground frames"
    )
    if posed:
        figure.colorbar(dots, ax=axes, label="position sigma [m]")
    axes.set(xlabel="x [m]", ylabel="y [m]", aspect="equal")
    axes.legend(loc="best", fontsize=8)
    figure.savefig(path, dpi=DOTS_PER_INCH, metadata={"Software": None})


def plot_curves(curves: tuple[Curve, ...], path: Path) -> None:
    """Write PSNR against iterations, one line per curve."""
    figure, axes = _figure(6.0, 3.6)
    for curve in curves:
        axes.plot(curve.x, curve.y, label=curve.label)
    axes.set(xlabel="iteration", ylabel="held-out PSNR [dB]")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
    figure.savefig(path, dpi=DOTS_PER_INCH, metadata={"Software": None})


def _figure(width: float, height: float):  # type: ignore[no-untyped-def]
    """A figure that needs no display, and its axes."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.add_subplot()
