"""Verbs around the runs: what this machine can do, weights, masks, depth, and a town to try things on."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

import tyro

from skyanchor.bounds import Pixels, Radius, Range, Seed
from skyanchor.cli.options import unless_said
from skyanchor.cli.tables import print_table


def doctor() -> None:
    """Say which backends, weights and devices are usable here, and how to get the others."""
    from skyanchor.cli.doctor import diagnose, verdict

    print(verdict())
    findings = diagnose()
    rows = [[f.part, "yes" if f.usable else "no", f.detail, f.advice] for f in findings]
    print_table("skyanchor on this machine", ["part", "usable", "found", "to get it"], rows)


def weights(
    name: Annotated[str | None, tyro.conf.Positional, unless_said("[NAME]")] = None, download: bool = False
) -> None:
    """List the trained weights that backends can use and where they lie, or get one set of them.

    Args:
        name: Weights to look for or to get, as the list names them; all of them without it.
        download: Get the named weights from their authors. Nothing is ever downloaded without this.
    """
    from skyanchor.backends import weights as held
    from skyanchor.errors import BackendError

    chosen = [w for w in held.KNOWN if name in (None, w.name)]
    if not chosen or (download and name is None):
        problem = f"There are no weights {name}" if name else "--download gets one set of weights"
        raise BackendError(f"{problem}. Name one: {', '.join(w.name for w in held.KNOWN)}")
    if name is not None:
        if download and held.find(chosen[0]) is None:
            print(f"getting about {chosen[0].megabytes} MB from {chosen[0].url}", file=sys.stderr)
        found = held.resolve(chosen[0], download=download)
        print(f"{chosen[0].purpose}; {held.terms(chosen[0])}", file=sys.stderr)
        print(found)
        return
    rows = [[w.name, w.purpose, held.terms(w), f"{w.megabytes} MB", str(held.find(w) or "-")] for w in chosen]
    print_table("trained weights", ["name", "for", "licence", "size", "found"], rows)


def masks(
    ground: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="PHOTOS")],
    /,
    model: Annotated[Path, tyro.conf.arg(metavar="NET.onnx")],
    ignore: Annotated[tuple[Annotated[int, Range(0, 1000)], ...] | None, unless_said("N ...")] = None,
    longest: Annotated[Pixels, tyro.conf.arg(metavar="PX")] = 1024,
) -> None:
    """Mask sky, people and vehicles in street photos with a segmentation network that you have.

    Args:
        ground: Folder of street photos (of a video: RUN/frames); masks/ is written beside it, masks there stay.
        model: Segmentation network, an .onnx file.
        ignore: Classes to mask; sky, people and vehicles of the 19 Cityscapes classes without it.
        longest: Longer side that photos are shrunk to for the network, pixels.
    """
    from skyanchor.report.progress import display
    from skyanchor.sequence.segmentation import CITYSCAPES, SegmentationConfig, write_masks

    with display(sys.stderr) as listen:
        out = write_masks(ground, model, SegmentationConfig(ignore or CITYSCAPES, longest), listen)
    print(f"written to {out}")


def depth(
    ground: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="PHOTOS")],
    /,
    model: Annotated[Path, tyro.conf.arg(metavar="NET.onnx")],
    longest: Annotated[Pixels, tyro.conf.arg(metavar="PX")] = 518,
    multiple: Annotated[Radius, tyro.conf.arg(metavar="PX")] = 14,
    inverse: bool = False,
) -> None:
    """Make depth maps of street photos with a monocular network that you have, for `update --anchors.local.depth`.

    Args:
        ground: Folder of street photos (of a video: RUN/frames); depth/ is written beside it, maps there stay.
        model: Monocular depth network, an .onnx file. Maps need no common scale, but depth up to one factor each.
        longest: Longer side that photos are shrunk to for the network, pixels.
        multiple: Both sides are rounded to multiples of this, pixels; 32 for convolutional networks.
        inverse: The network answers with inverse depth.
    """
    from skyanchor.report.progress import display
    from skyanchor.sequence.monocular import MonocularConfig, write_depth

    with display(sys.stderr) as listen:
        out = write_depth(ground, model, MonocularConfig(longest, multiple, inverse), listen)
    print(f"written to {out}: skyanchor update ... --anchors.local.depth {out}")


def town(
    out: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="OUT")],
    /,
    preset: Literal["mini", "town", "city", "hard-1", "hard-2", "hard-3", "hard-4"] = "town",
    seed: Annotated[Seed | None, unless_said("N")] = None,
    weather: Annotated[tuple[str, ...], unless_said("NAME=VALUE ...")] = (),
) -> None:
    """Build a procedural town: aerial photos with a COLMAP model, a street walk, and its true poses apart.

    Args:
        out: Folder to write; it must be empty or absent.
        preset: mini is the demo's scene, town a larger one, city a square kilometre; hard-1 to hard-4
            are mini on days that are harder from one to the next.
        seed: Another seed builds another town; the preset's own without it.
        weather: What is different on the day: world.snow=0.6 flight.nadir=true; docs/commands.md lists them.
    """
    from skyanchor.cli import kernels
    from skyanchor.report.progress import display
    from skyanchor.town import PRESETS, build_town
    from skyanchor.town.weather import changed

    chosen = PRESETS[preset]
    with display(sys.stderr) as listen:
        kernels.announce_town(listen)
        build_town(out, replace(chosen, weather=changed(chosen.weather, weather)), seed, listen)
    print(f"written to {out}")
