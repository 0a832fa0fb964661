"""`skyanchor dataset`: the paper's public scenes, or a joint model of your own, made ready and run by its protocol."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

import tyro
from tyro.conf import arg

from skyanchor.bounds import Coordinate, Positive, Range
from skyanchor.cli.options import WITH_COMMAS, Folder, ImagesPath, SceneRun, unless_said
from skyanchor.errors import SkyAnchorError

if TYPE_CHECKING:
    from skyanchor.evaluation.paper_scenes import PaperScene
    from skyanchor.evaluation.split_model import Protocol

Source: TypeAlias = Annotated[Path, tyro.conf.Positional, arg(metavar="JOINT")]
Patterns: TypeAlias = Annotated[str | None, unless_said("PATTERNS"), WITH_COMMAS]
NeededPatterns: TypeAlias = Annotated[str, arg(metavar="PATTERNS"), WITH_COMMAS]
Walks: TypeAlias = Annotated[str | None, unless_said("FIRST:LAST,..."), WITH_COMMAS]


def horizongs(
    path: Source,
    /,
    scene: Literal["park", "road"],
    out: Folder,
    images: ImagesPath = None,
    aerial: Patterns = None,
    ground: Patterns = None,
    drop: Patterns = None,
    least_height: Annotated[Coordinate | None, unless_said("METRES")] = None,
    metres_per_unit: Positive = 1.0,
) -> None:
    """Make a scene of Horizon-GS ready: flight and walk apart, linking images left out, reference poses as truth.

    Args:
        path: Folder of the scene, with sparse/ and images/.
        scene: Which one, for the length of its submaps and the paper's row.
        out: Folder to write.
        images: Folder of the photos, where it is not found beside the model.
        aerial: Patterns of aerial image names, with commas; @FILE holds one per line.
        ground: Patterns of street image names, e.g. those of one camera of the helmet.
        drop: Patterns of images that link both and are left out.
        least_height: Leave out aerial photos lower above the ground, metres.
        metres_per_unit: What one unit of the model is in metres.
    """
    from skyanchor.evaluation.paper_scenes import HORIZONGS

    _make(path, images, out, HORIZONGS[scene], (aerial, ground, drop), least_height, metres_per_unit, None)


def isprs(
    path: Source,
    /,
    scene: Literal["rathaus", "stadthaus", "zeche"],
    out: Folder,
    images: ImagesPath = None,
    aerial: Patterns = None,
    ground: Patterns = None,
    drop: Patterns = None,
    segments: Walks = None,
    metres_per_unit: Positive = 1.0,
) -> None:
    """Make a scene of the ISPRS multi-platform benchmark ready; its linking images stay, as in the paper.

    Args:
        path: Folder with sparse/ and images/: the joint reference model.
        scene: Which one, for the length of its submaps and the paper's row.
        out: Folder to write.
        images: Folder of the photos, where it is not found beside the model.
        aerial: Patterns of aerial image names, with commas; @FILE holds one per line.
        ground: Patterns of street image names.
        drop: Patterns of images that are left out.
        segments: Walks that do not join, FIRST:LAST,FIRST:LAST: three for rathaus.
        metres_per_unit: What one unit of the model is in metres.
    """
    from skyanchor.evaluation.paper_scenes import ISPRS

    wanted = ISPRS[scene]
    if wanted.segments > 1 and segments is None:
        raise SkyAnchorError(f"{scene} has {wanted.segments} walks that do not join: name them with --segments")
    _make(path, images, out, wanted, (aerial, ground, drop), None, metres_per_unit, segments)


def alog(
    path: Source,
    /,
    out: Folder,
    scene: Literal["uni10k"] = "uni10k",
    images: ImagesPath = None,
    aerial: Patterns = None,
    ground: Patterns = None,
    drop: Patterns = None,
    metres_per_unit: Positive = 1.0,
) -> None:
    """Make a scene of ALoG ready: the high flight and the ground sequence of one campus.

    Args:
        path: Folder with sparse/ and images/: the joint reference model.
        out: Folder to write.
        scene: Which one, for the length of its submaps and the paper's row.
        images: Folder of the photos, where it is not found beside the model.
        aerial: Patterns of aerial image names, with commas; @FILE holds one per line.
        ground: Patterns of street image names.
        drop: Patterns of images that are left out, e.g. those of lower flights.
        metres_per_unit: What one unit of the model is in metres.
    """
    from skyanchor.evaluation.paper_scenes import ALOG

    _make(path, images, out, ALOG[scene], (aerial, ground, drop), None, metres_per_unit, None)


def folder(
    path: Source,
    /,
    aerial: NeededPatterns,
    ground: NeededPatterns,
    out: Folder,
    drop: Patterns = None,
    images: ImagesPath = None,
    submap: Annotated[int, Range(2, 1e6)] = 100,
    segments: Walks = None,
    least_height: Annotated[Coordinate | None, unless_said("METRES")] = None,
    metres_per_unit: Positive = 1.0,
) -> None:
    """Make any joint COLMAP model of flight and walk a scene with truth.

    Args:
        path: Folder with sparse/ and images/, or the COLMAP model itself.
        aerial: Patterns of aerial image names, with commas; @FILE holds one per line.
        ground: Patterns of street image names.
        out: Folder to write.
        drop: Patterns of images that link both and are left out.
        images: Folder of the photos, where it is not found beside the model.
        submap: Frames per submap, about.
        segments: Walks that do not join, FIRST:LAST,FIRST:LAST.
        least_height: Leave out aerial photos lower above the ground, metres.
        metres_per_unit: What one unit of the model is in metres.
    """
    from skyanchor.evaluation.paper_scenes import Choice
    from skyanchor.evaluation.split_model import SplitConfig, split_model

    choice = Choice(_words(aerial), _words(ground), _words(drop))
    config = SplitConfig(choice, submap, 6, metres_per_unit, least_height, _segments(segments))
    _said(out, split_model(path, images, out, path.resolve().name, config))


def run(options: Annotated[SceneRun, arg(name="")]) -> None:
    """Run the paper's protocol on a scene and print its row beside the paper's.

    Every setting of the stages is an option here too: `skyanchor update --help-all` names them. With the weights of
    the paper's networks, its own anchors are --anchors.route paper anchors.paper.matcher:mast3r
    anchors.paper.descriptor:any-loc.
    """
    raise AssertionError("dataset_runs parses it, with the settings of the stages")


# --- what the options say -----------------------------------------------------------------------------------------


def _make(
    path: Path,
    images: Path | None,
    out: Folder,
    wanted: PaperScene,
    patterns: tuple[str | None, str | None, str | None],
    least_height: float | None,
    metres_per_unit: float,
    segments: str | None,
) -> None:
    from skyanchor.evaluation.split_model import SplitConfig, split_model

    known = (wanted.choice.aerial, wanted.choice.ground, wanted.choice.drop)
    given = [held if text is None else _words(text) for text, held in zip(patterns, known, strict=True)]
    choice = replace(wanted.choice, aerial=given[0], ground=given[1], drop=given[2])
    config = SplitConfig(choice, wanted.submap, 6, metres_per_unit, least_height, _segments(segments))
    protocol = split_model(path, images, out, wanted.title, config, wanted.row)
    _said(out, protocol)
    frames = sum(walk.frames for walk in protocol.walks)
    if (protocol.aerial, frames) != (wanted.aerial, wanted.ground):
        print(f"The paper has {wanted.aerial} aerial and {wanted.ground} street images of {wanted.title}.")


def _said(out: Path, protocol: Protocol) -> None:
    frames = " + ".join(str(walk.frames) for walk in protocol.walks)
    print(f"{out}: {protocol.aerial} aerial photos, {frames} street frames, {protocol.dropped} images left out.")
    print(f"Run it: skyanchor dataset run {out} --out RUNS")


def _words(text: str | None) -> tuple[str, ...]:
    return tuple(word.strip() for word in (text or "").split(",") if word.strip())


def _segments(text: str | None) -> tuple[tuple[str, str], ...]:
    ends = [tuple(word.split(":")) for word in _words(text)]
    if any(len(pair) != 2 for pair in ends):
        raise SkyAnchorError(f"--segments {text}: give FIRST:LAST of every walk, with commas between them")
    return tuple((pair[0], pair[1]) for pair in ends)
