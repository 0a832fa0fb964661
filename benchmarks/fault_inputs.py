"""What people bring that cannot be: models, photos, splats, areas, options, run folders: family `inputs`.

Each is refused in a line before any depth is measured, and nothing that was there is changed or gone; what only was
remembered (digests, timings) is made again. The command runs in a copy of this process, which has imported it before:
a case takes the time of its own work.
"""

from __future__ import annotations

import json
import random
import shutil
import socket
import struct
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

import numpy as np
from fault_frame import MEASURING, Bench, Case, Ended, contents, differences, nothing_left, told

Change: TypeAlias = Callable[[Path], object]
"""What is done to a scene: aerial/sparse as text, aerial/images, ground/images."""
Words: TypeAlias = tuple[str, ...]
STATES = tuple(f".state/{name}.json" for name in ("cuts", "settings", "inputs", "commands", "sequence"))
REMEMBERED = ("inputs.json", "commands.json", "settings.json", "sequence.json")
DEEP = '{"type": ' + "[" * 100_000


def brought(change: Change, *needed: str, more: Words = (), verb: str = "update") -> Callable[[Bench], str]:
    """A run of the changed scene is refused at once; FOLDER in `more` is the folder of the case."""

    def work(bench: Bench) -> str:
        scene = bench.own_scene()
        _as_text(scene / "aerial/sparse")
        change(scene)
        before = contents(bench.folder)
        out = bench.folder / "out"
        words = (verb, *bench.update_words(out, "--workers", "1", scene=scene)[1:])
        filled = tuple(word.replace("FOLDER", str(bench.folder)) for word in more)
        answer = bench.ask(*_without(words, filled), *filled)
        after = contents(bench.folder)
        changed = [name for name, data in before.items() if after.get(name) != data]
        return (
            _too_late(answer, out)
            or told(answer, *needed)
            or (f"{changed[0]} was changed" if changed else "")
            or nothing_left(bench.folder)
        )

    return work


def asked(*more: str, needed: str = "") -> Callable[[Bench], str]:
    """A run of the scene as it is, with words that cannot be, is refused at once."""
    return brought(lambda scene: None, needed, more=more)


def goes_on(change: Change, said: str) -> Callable[[Bench], str]:
    """A run of the changed scene says what it leaves out, and measures depth."""

    def work(bench: Bench) -> str:
        scene = bench.own_scene()
        _as_text(scene / "aerial/sparse")
        change(scene)
        answer = bench.ask(*bench.update_words(bench.folder / "out", scene=scene))
        if MEASURING not in answer.err:
            return f"it does not go on: {answer.last[-150:]}"
        return "" if said in answer.err else f"no {said!r} in what it says"

    return work


def called_with(*words: str, needed: str = "") -> Callable[[Bench], str]:
    """A verb that is refused in a line; RUN is a copy of a whole run, FOLDER the folder of the case."""

    def work(bench: Bench) -> str:
        filled = [word.replace("FOLDER", str(bench.folder)) for word in words]
        if any("RUN" in word for word in words):
            run = shutil.copytree(bench.whole_run(), bench.folder / "run", symlinks=True)
            filled = [word.replace("RUN", str(run)) for word in filled]
        return told(bench.ask(*filled), needed)

    return work


def _without(words: Words, more: Words) -> Words:
    """The words without the options that are given anew."""
    given = {word for word in more if word.startswith("--")}
    pairs = zip(words[1::2], words[2::2], strict=True)
    return (words[0], *(word for name, value in pairs if name not in given for word in (name, value)))


def _too_late(answer: Ended, out: Path) -> str:
    """Empty when no depth was measured before the refusal."""
    late = MEASURING in answer.err or any(out.glob("1-scaffold/depth/**/measured/*.npz"))
    return "it goes on, and measures depth" if late else ""


def _as_text(sparse: Path) -> None:
    import pycolmap

    pycolmap.Reconstruction(str(sparse)).write_text(str(sparse))
    for path in sparse.glob("*.bin"):
        path.unlink()
    for name in ("frames.txt", "rigs.txt"):
        (sparse / name).unlink(missing_ok=True)


def _as_binary(sparse: Path) -> None:
    import pycolmap

    pycolmap.Reconstruction(str(sparse)).write_binary(str(sparse))
    for path in (*sparse.glob("*.txt"), sparse / "frames.bin", sparse / "rigs.bin"):
        path.unlink(missing_ok=True)


# --- aerial models --------------------------------------------------------------------------------------------------


def word(file: str, place: int, value: str, line: int = 0) -> Change:
    """One word of a line of the model's text, comments not counted; of images.txt every other line is one."""

    def change(scene: Path) -> None:
        path = scene / "aerial/sparse" / file
        lines = path.read_text().splitlines()
        rows = [k for k, text in enumerate(lines) if not text.startswith("#")]
        row = rows[2 * line if file == "images.txt" else line]
        words = lines[row].split()
        words[place] = value
        lines[row] = " ".join(words)
        path.write_text("\n".join(lines) + "\n")

    return change


def same_word(file: str, place: int) -> Change:
    """The second line has a word of the first one."""

    def change(scene: Path) -> None:
        rows = [text for text in (scene / "aerial/sparse" / file).read_text().splitlines() if text[:1] != "#"]
        word(file, place, rows[0].split()[place], line=1)(scene)

    return change


def doubled_camera(scene: Path) -> None:
    """The line of a camera twice."""
    path = scene / "aerial/sparse/cameras.txt"
    path.write_text(path.read_text() + path.read_text().splitlines()[-1] + "\n")


def binary(file: str, spoil: Callable[[bytes], bytes]) -> Change:
    """A binary model with one file spoiled."""

    def change(scene: Path) -> None:
        sparse = scene / "aerial/sparse"
        _as_binary(sparse)
        (sparse / file).write_bytes(spoil((sparse / file).read_bytes()))

    return change


def _noise(data: bytes) -> bytes:
    return random.Random(len(data)).randbytes(len(data))


def _many(data: bytes) -> bytes:
    return struct.pack("<Q", 1 << 60) + data[8:]


def _half(data: bytes) -> bytes:
    return data[: len(data) // 2]


def cut_text(file: str) -> Change:
    """The text of a file up to the middle of a word."""

    def change(scene: Path) -> None:
        path = scene / "aerial/sparse" / file
        text = path.read_text()
        path.write_text(text[: text.rindex(" ", 0, len(text) // 2) + 3])

    return change


def without(name: str) -> Change:
    """A file or folder of the scene is not there."""

    def change(scene: Path) -> None:
        path = scene / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()

    return change


def holding(name: str, data: bytes | str) -> Change:
    """A file of the scene holds something else."""

    def change(scene: Path) -> None:
        path = scene / name
        if path.is_dir():
            shutil.rmtree(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data.encode() if isinstance(data, str) else data)

    return change


def few_photos(count: int) -> Change:
    """Only so many aerial photos, all they show and nothing else."""

    def change(scene: Path) -> None:
        path = scene / "aerial/sparse/images.txt"
        path.write_text("\n".join([text for text in path.read_text().splitlines() if text[:1] != "#"][: 2 * count]))
        (scene / "aerial/sparse/points3D.txt").write_text("")

    return change


def one_place(scene: Path) -> None:
    """All aerial photos from one spot."""
    path = scene / "aerial/sparse/images.txt"
    rows = [text for text in path.read_text().splitlines() if text[:1] != "#"]
    first = rows[0].split()[1:8]
    rows[::2] = [" ".join([text.split()[0], *first, *text.split()[8:]]) for text in rows[::2]]
    path.write_text("\n".join(rows) + "\n")


AERIAL_PHOTO, STREET_PHOTO = "aerial/images/a003.png", "ground/images/g003.png"


def bomb() -> bytes:
    """A small PNG that says it has 400 megapixels."""
    head = b"IHDR" + struct.pack(">IIBBBBB", 20000, 20000, 8, 2, 0, 0, 0)
    body = b"IDAT" + zlib.compress(b"\0" * 1000)
    chunks = [struct.pack(">I", len(part) - 4) + part + struct.pack(">I", zlib.crc32(part)) for part in (head, body)]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def spoiled(name: str, spoil: Callable[[bytes], bytes]) -> Change:
    """A file of the scene after a change of its bytes."""

    def change(scene: Path) -> None:
        (scene / name).write_bytes(spoil((scene / name).read_bytes()))

    return change


def other_size(scene: Path) -> None:
    """An aerial photo of half the pixels that its camera has."""
    from PIL import Image

    with Image.open(scene / AERIAL_PHOTO) as image:
        small = image.resize((image.width // 2, image.height // 2))
    small.save(scene / AERIAL_PHOTO)


def floating(scene: Path) -> None:
    """A TIFF of floating point numbers, which one library reads and another does not."""
    from PIL import Image

    with Image.open(scene / AERIAL_PHOTO) as image:
        image.convert("F").save(scene / AERIAL_PHOTO, "TIFF")


def turned(scene: Path) -> None:
    """A street photo whose EXIF says that it is to be turned."""
    from PIL import Image

    with Image.open(scene / STREET_PHOTO) as image:
        exif = image.getexif()
        exif[0x0112] = 6
        image.save(scene / STREET_PHOTO, "PNG", exif=exif)


def a_folder(name: str) -> Change:
    """A folder where a file is looked for."""

    def change(scene: Path) -> None:
        (scene / name).unlink(missing_ok=True)
        (scene / name).mkdir()

    return change


ONE = "scene/ground/images/g003.png"


def _nothing(scene: Path) -> None:
    """The scene as it is."""


def _heic(scene: Path) -> None:
    (scene / STREET_PHOTO).rename((scene / STREET_PHOTO).with_suffix(".HEIC"))


def _copies(scene: Path) -> None:
    for path in (scene / "ground/images").iterdir():
        path.write_bytes((scene / STREET_PHOTO).read_bytes())


def _black(scene: Path) -> None:
    from PIL import Image

    for k, path in enumerate((scene / "ground/images").iterdir()):
        Image.new("RGB", (320, 180), (k, k, k)).save(path)


def _ending(suffix: str) -> Change:
    """Aerial photos whose names end otherwise."""

    def change(scene: Path) -> None:
        for path in list((scene / "aerial/images").iterdir()):
            path.rename(path.with_suffix(f".{suffix}"))

    return change


def _below(scene: Path) -> None:
    """Aerial photos one folder deeper."""
    photos = list((scene / "aerial/images").iterdir())
    (scene / "aerial/images/flight").mkdir()
    for path in photos:
        path.rename(path.parent / "flight" / path.name)


def _scaled(factor: float) -> Change:
    """A model in other units."""

    def change(scene: Path) -> None:
        import pycolmap

        sparse = scene / "aerial/sparse"
        model = pycolmap.Reconstruction(str(sparse))
        model.transform(pycolmap.Sim3d(factor, pycolmap.Rotation3d(), np.zeros(3)))
        model.write_text(str(sparse))
        for name in ("frames.txt", "rigs.txt"):
            (sparse / name).unlink(missing_ok=True)

    return change


def first_photos(count: int) -> Change:
    """Only so many street photos."""

    def change(scene: Path) -> None:
        for path in sorted((scene / "ground/images").iterdir())[count:]:
            path.unlink()

    return change


def models() -> Iterator[Case]:
    """Aerial models that cannot be."""
    for value in ("0", "-280", "1e300", "nan", "inf", "1e-9", "abc"):
        yield Case(f"a camera with a focal length of {value}", brought(word("cameras.txt", 4, value), "cameras.txt"))
    for place, value in ((2, "0"), (3, "-5"), (2, "99999999999"), (1, "BANANA"), (0, "-1"), (0, "x")):
        yield Case(f"cameras.txt, word {place} is {value}", brought(word("cameras.txt", place, value)))
    yield Case("a camera twice", brought(doubled_camera, "twice"))
    for file, place, what in (
        ("images.txt", 0, "image id"),
        ("images.txt", 9, "name"),
        ("points3D.txt", 0, "point id"),
    ):
        yield Case(f"an {what} twice", brought(same_word(file, place), "twice"))
    for place, value in (
        (1, "nan"),
        (1, "1e300"),
        (5, "nan"),
        (6, "inf"),
        (7, "1e300"),
        (8, "99"),
        (0, "-3"),
        (0, "x"),
    ):
        yield Case(f"images.txt, word {place} is {value}", brought(word("images.txt", place, value)))
    yield Case("a quaternion of zeros", brought(_zeros))
    for name in (
        "/etc/hostname",
        "../../ground/images/g003.png",
        "a/../../../x.png",
        ".",
        "..",
        "9" * 5000,
    ):
        yield Case(f"an aerial photo named {name[:30]}", brought(word("images.txt", 9, name, line=3)))
    yield Case("a point at abc", brought(word("points3D.txt", 1, "abc")))
    for value in ("nan", "inf", "1e300"):
        yield Case(f"a point at {value}", goes_on(word("points3D.txt", 1, value), "left out"))
    for file in ("cameras", "images", "points3D"):
        yield Case(f"{file}.txt cut in a word", brought(cut_text(f"{file}.txt")))
        for spoil, what in ((_half, "cut"), (_noise, "noise"), (_many, "of 2^60 entries"), (lambda _: b"", "empty")):
            yield Case(f"{file}.bin {what}", brought(binary(f"{file}.bin", spoil)))
        yield Case(f"no {file}.txt", brought(without(f"aerial/sparse/{file}.txt")))
    for name in ("aerial", "aerial/sparse", "aerial/images", "ground", "ground/images"):
        yield Case(f"no {name}", brought(without(name)))
        yield Case(f"{name} is a file", brought(holding(name, "hello")))
    for count in (1, 2, 4):
        yield Case(f"{count} aerial photos", brought(few_photos(count)))
    yield Case("all aerial photos from one spot", brought(one_place))


def _zeros(scene: Path) -> None:
    for place in (1, 2, 3, 4):
        word("images.txt", place, "0")(scene)


def photos() -> Iterator[Case]:
    """Photos, videos and what lies beside the model."""
    for name, whose in ((AERIAL_PHOTO, "an aerial photo"), (STREET_PHOTO, "a street photo")):
        yield Case(f"{whose} that is text", brought(holding(name, "hello"), Path(name).name))
        yield Case(f"{whose} that is empty", brought(holding(name, ""), Path(name).name))
        yield Case(f"{whose} that is cut", brought(spoiled(name, lambda data: data[:60]), Path(name).name))
        yield Case(f"{whose} that says 400 megapixels", brought(holding(name, bomb()), Path(name).name))
    yield Case("an aerial photo that is a folder", brought(a_folder(AERIAL_PHOTO), "a003.png"))
    yield Case("an aerial photo that is not there", brought(without(AERIAL_PHOTO), "a003.png"))
    yield Case("an aerial photo of another size", brought(other_size, "a003.png"))
    yield Case("an aerial photo of floating numbers", brought(floating, "a003.png"))
    yield Case("a street photo that is turned and others that are not", brought(turned, "ground/images/g003.png"))
    yield Case("a street photo of a kind that is not read", brought(_heic, "g003.HEIC"))
    yield Case("one street photo for a video", brought(_nothing, "one photo", more=("--ground", f"FOLDER/{ONE}")))
    yield Case("street photos that are copies of one", brought(_copies, "copies of it"))
    yield Case("street photos of one colour", brought(_black, "one colour"))
    for what, suffix in (("another letter case", "PNG"), ("another ending", "tif")):
        yield Case(f"aerial photos by {what}", brought(_ending(suffix), f"a000.{suffix} is there"))
    yield Case("aerial photos in a folder below", brought(_below, "give --images"))
    for factor in (1e-3, 1e4):
        yield Case(f"a model {factor:g} times as large", brought(_scaled(factor), "not metres"))
    yield Case("--out is the walk", brought(_nothing, "holds the street photos", more=("--out", "FOLDER/scene/ground")))
    for count in (0, 1, 2):
        yield Case(f"{count} street photos", brought(first_photos(count)))
    for data, what in ((b"hello", "text"), (b"", "empty"), (b"\0\0\0\x18ftypmp42" + b"\0" * 2000, "a head alone")):
        yield Case(
            f"a video that is {what}", brought(holding("../walk.mp4", data), more=("--ground", "FOLDER/walk.mp4"))
        )
    names = {"latitude of 500": {"enu_origin": [500, 11, 0]}, "up of zeros": {"up": [0, 0, 0]}, "a list": [1, 2]}
    for what, said in names.items():
        text = json.dumps(said)
        yield Case(f"georef.json, {what}", brought(holding("aerial/georef.json", text), "georef.json"))
    for text, what in (
        (DEEP, "nested deeply"),
        ("", "empty"),
        ("\0", "a zero byte"),
        ('{"offset": 5}', "offset of one number"),
    ):
        yield Case(f"georef.json, {what}", brought(holding("aerial/georef.json", text), "georef.json"))


# --- options --------------------------------------------------------------------------------------------------------


def options() -> Iterator[Case]:
    """Words of the command that cannot be."""
    for text in (
        "f=0",
        "f=-5",
        "f=1e-9",
        "f=1e300",
        "f=nan",
        "PINHOLE,1,2",
        "BANANA,1,2,3",
        "",
        "PINHOLE,230,230,1e300,90",
    ):
        yield Case(f"--camera {text!r}", asked("--camera", text, needed="camera"))
    for text in (
        "nan,0,5",
        "inf,0,5",
        "0,0,-5",
        "0,0,0",
        "0,0,nan",
        "1,2",
        "a,b,c",
        "1e9,1e9,10",
        "500,500,20",
        "1e308,0,5",
    ):
        yield Case(f"--near {text}", asked(f"--near={text}", needed="near"))
    areas = {
        "not there": None, "empty": "", "nested deeply": DEEP, "text": "hello", "a zero byte": "\0\0",
        "without rings": '{"type": "Polygon", "coordinates": []}', "far away": "900,900\n950,900\n950,950\n",
        "two corners": "0,0\n5,5\n",
        "in degrees": '{"type": "Polygon", "coordinates": [[[11,48],[11.1,48],[11,48.1]]]}',
    }  # fmt: skip
    for what, text in areas.items():
        change: Change = (lambda _: None) if text is None else holding("../area.geojson", text)
        yield Case(f"--within a file that is {what}", brought(change, more=("--within", "FOLDER/area.geojson")))
    for words in (
        ("--workers", "-1"), ("--workers", "100000"), ("--geometry.stereo.width", "0"),
        ("--geometry.stereo.width", "-5"), ("--sequence.video.motion", "-1"), ("--sequence.cut.group-size", "0"),
        ("--sequence.video.frames-per-second", "nan"), ("--anchors.verdict.sure-odds", "nan"),
        ("--anchors.verdict.height", "5", "0.3"), ("--anchors.refine.width", "0"),
        ("--scaffold.orientation.up", "0", "0", "0"), ("--scaffold.orientation.ground-height", "nan"),
        ("--trajectory.adjust.final-iterations", "-5"), ("--engine", "banana"), ("--crs", "EPSG:99999"),
        ("--crs", "abc"), ("--anchors.prior.gps-radius", "inf"), ("--sequence.cut.submap-length", "-3"),
        ("--nera", "1,2,3"), ("--workers", "1.5"), ("--geometry.stereo.widht", "9"), ("--onto", "a", "--onto", "b"),
        ("--redo", "yes"), ("anchors.refine.matcher:sfit",), ("--preset", "best"),
    ):  # fmt: skip
        yield Case(" ".join(words), asked(*words))
    for words in (
        ("--scaffold.orientation.up", "0", "0", "-1"), ("--scaffold.orientation.ground-height", "5000"),
    ):  # fmt: skip
        yield Case(" ".join(words), asked(*words, needed="below the ground"))
    for name in ("--scaffold", "--ground", "--images", "--splats", "--onto"):
        yield Case(f"{name} that is not there", asked(name, "FOLDER/nothing"))
        yield Case(f"{name} that is a pipe", brought(_pipe, more=(name, "FOLDER/pipe")))
    yield Case("--onto a folder that is no run", asked("--onto", "FOLDER/scene"))
    for where in ("nothing", "scene/ground/images", "scene/ground/images/g000.png"):
        yield Case(f"--anchors.local.depth {where}", asked("--anchors.local.depth", f"FOLDER/{where}", needed="depth"))
    yield Case("--ground is the flight", asked("--ground", "FOLDER/scene/aerial", needed="photos of the aerial model"))


def _pipe(scene: Path) -> None:
    import os

    os.mkfifo(scene.parent / "pipe")


# --- splats ---------------------------------------------------------------------------------------------------------

PROPERTIES = [
    *("x", "y", "z", "nx", "ny", "nz", "f_dc_0", "f_dc_1", "f_dc_2", "opacity"),
    *("scale_0", "scale_1", "scale_2", "rot_0", "rot_1", "rot_2", "rot_3"),
]


def ply(
    rows: np.ndarray, head: str = "", count: int | None = None, names: list[str] = PROPERTIES, ascii_: bool = False
) -> bytes:
    """A .ply of Gaussians (N, 17)."""
    form = "ascii" if ascii_ else "binary_little_endian"
    said = "".join(f"property float {name}\n" for name in names)
    text = f"ply\nformat {form} 1.0\n{head}element vertex {len(rows) if count is None else count}\n{said}end_header\n"
    body = "\n".join(" ".join(map(str, row)) for row in rows).encode() if ascii_ else rows.astype("<f4").tobytes()
    return text.encode() + body


def splats() -> Iterator[Case]:
    """Gaussians that cannot be, told before anything is trained."""
    rows = np.random.default_rng(0).normal(size=(50, 17))
    none, nan = rows.copy(), rows.copy()
    none[:], nan[:, 0] = np.nan, np.nan
    chunk = "element chunk 1\nproperty float min_x\n"
    files = {
        "an ASCII one": ply(rows, ascii_=True), "cut": ply(rows)[:-30], "longer than it says": ply(rows) + b"\0" * 30,
        "empty": b"", "text": b"hello\n", "a head alone": ply(rows)[:200], "without Gaussians": ply(rows[:0]),
        "compressed by SuperSplat": ply(rows, chunk), "with x twice": ply(rows, names=["x", "x", *PROPERTIES[2:]]),
        "of 10^20 Gaussians": ply(rows, count=10**20), "of -5 Gaussians": ply(rows, count=-5),
        "all nan": ply(none), "nan in every place": ply(nan),
        "without opacity": ply(rows, names=[*PROPERTIES[:9], "a", *PROPERTIES[10:]]),
    }  # fmt: skip
    for what, data in files.items():
        yield Case(f"splats, {what}", brought(holding("../s.ply", data), "s.ply", more=("--splats", "FOLDER/s.ply")))
    yield Case("splats, a .pt with code in it", brought(_with_code, "s.pt", more=("--splats", "FOLDER/s.pt")))
    yield Case("splats, a .pt of other shapes", brought(_other_shapes, "s.pt", more=("--splats", "FOLDER/s.pt")))
    yield Case(
        "splats, a .pt that is text", brought(holding("../s.pt", "hello"), "s.pt", more=("--splats", "FOLDER/s.pt"))
    )


def _with_code(scene: Path) -> None:
    import torch

    torch.save({"splats": Path("x"), "made": print}, scene.parent / "s.pt")


def _other_shapes(scene: Path) -> None:
    import torch

    torch.save({"splats": {"means": torch.ones(5, 2), "quats": torch.ones(4)}}, scene.parent / "s.pt")


# --- run folders ----------------------------------------------------------------------------------------------------


def forgotten(name: str, text: str) -> Callable[[Bench], str]:
    """A file of what was remembered is spoiled: the finished run stands as it was."""

    def work(bench: Bench) -> str:
        run = shutil.copytree(bench.whole_run(), bench.folder / "run", symlinks=True)
        path = run / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        answer = bench.ask(*bench.update_words(run))
        if answer.code:
            return f"exit code {answer.code}: {answer.last[-150:]}"
        return differences(run, bench.whole_run())

    return work


def spoiled_run(name: str, text: str, *words: str) -> Callable[[Bench], str]:
    """A result of a run is spoiled: the verb says so in a line."""

    def work(bench: Bench) -> str:
        run = shutil.copytree(bench.whole_run(), bench.folder / "run", symlinks=True)
        (run / name).write_text(text)
        return told(bench.ask(*(word.replace("RUN", str(run)) for word in words)), Path(name).name)

    return work


def victim(bench: Bench) -> str:
    """A recipe that names a folder beside the run, and --redo with another setting: that folder stays."""
    run = shutil.copytree(bench.whole_run(), bench.folder / "run", symlinks=True)
    beside = bench.folder / "victim/thesis.txt"
    beside.parent.mkdir()
    beside.write_text("mine")
    for recipe in run.rglob("recipe.json"):
        said = json.loads(recipe.read_text())
        recipe.write_text(json.dumps(said | {"stage": "../victim"}))
    answer = bench.ask(*bench.update_words(run, "--workers", "1", "--redo", "--geometry.stereo.width", "200"))
    return ("" if beside.is_file() else "the folder beside the run is gone") or told(answer)


def refused_before(*more: str) -> Callable[[Bench], str]:
    """A finished run is called with words that cannot be: the call after it, without them, finds nothing to do."""

    def work(bench: Bench) -> str:
        run = shutil.copytree(bench.whole_run(), bench.folder / "run", symlinks=True)
        told_before = contents(run / ".state")
        filled = tuple(word.replace("RUN", str(run)).replace("FOLDER", str(bench.folder)) for word in more)
        answer = bench.ask("update", "--out", str(run), "--preset", "cpu", "--workers", "1", *filled)
        stays = [name for name in REMEMBERED if contents(run / ".state").get(name) != told_before.get(name)]
        problem = told(answer) or (f".state/{stays[0]} is another" if stays else "") or _too_late(answer, run)
        again = bench.ask(*bench.update_words(run))
        return problem or ("" if again.code == 0 else f"and then: {again.last[-150:]}")

    return work


def other_frames(bench: Bench) -> str:
    """A run of a video is called with another one: its frames stay."""
    import cv2

    videos = [bench.folder / name for name in ("first.avi", "other.avi")]
    photos = [cv2.imread(str(path)) for path in sorted((bench.scene / "ground/images").iterdir())]
    for path, pictures in zip(videos, (photos, photos[::-1]), strict=True):
        writer = cv2.VideoWriter(str(path), cv2.VideoWriter_fourcc(*"MJPG"), 30.0, (320, 180))
        for picture in pictures:
            writer.write(np.asarray(picture))
        writer.release()
    run, every = bench.folder / "run", ("--sequence.video.frames-per-second", "30", "--workers", "1")
    words = bench.update_words(run, *every)
    calls = [["anchors", "--scaffold", str(bench.whole_run()), "--ground", str(video), *words[5:]] for video in videos]
    first = bench.ask(*calls[0])
    frames = contents(run / "frames")
    problem = f"exit code {first.code}" if first.code else told(bench.ask(*calls[1]), "other street photos")
    return problem or ("" if contents(run / "frames") == frames else "its frames are others")


def listening(bench: Bench) -> str:
    """The viewer listens on this machine alone."""
    run = bench.whole_run()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    process = bench.start("view", str(run), "--port", str(port))
    try:
        for _ in range(600):
            lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
            held = [words[1] for words in lines if words[1].endswith(f":{port:04X}") and words[3] == "0A"]
            if held:
                return "" if held == [f"0100007F:{port:04X}"] else f"it listens at {held}"
            time.sleep(0.1)
        return "it never listened"
    finally:
        process.kill()
        process.communicate()


def compared(name: str, data: bytes | str, *more: str) -> Callable[[Bench], str]:
    """A file that `evaluate` compares with is spoiled: one line names it."""

    def work(bench: Bench) -> str:
        scene = bench.own_scene()
        path = bench.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data.encode() if isinstance(data, str) else data)
        filled = tuple(word.replace("FOLDER", str(bench.folder)) for word in more)
        given = () if "--model" in more else (str(bench.whole_run()),)
        return told(bench.ask("evaluate", *given, "--truth", str(scene / "ground/truth"), *filled), path.name)

    return work


def truths() -> Iterator[Case]:
    """What runs are compared with."""
    for data, what in ((b"", "empty"), (b"\xff" * 80, "of other bytes")):
        yield Case(f"evaluate, images.bin {what}", compared("scene/ground/truth/images.bin", data))
    words = ("--model", "FOLDER/walk.tum", "--scaffold", "FOLDER/scene/aerial")
    for line, what in (
        (b"0 0 0 0 0 0 0 0", "of zeros"), (b"0 nan 0 0 0 0 0 1", "at nan"), (b"0 0 0 0 0 0 0 1e999", "without end"),
        (b"\xff\xfe", "that is no text"), (b"0 1 2", "that is too short"), (b"", "that is empty"),
        (b"0 0 0 0 0 0 0 1\n0 0 0 0 0 0 0 1", "twice"),
    ):  # fmt: skip
        yield Case(f"evaluate, a pose {what}", compared("walk.tum", line, *words))
    yield Case("evaluate, a second without end", compared("walk.tum", "1e999 0 0 0 0 0 0 1", *words, "--fps", "30"))


def runs() -> Iterator[Case]:
    """Run folders that others wrote to, and verbs that are given something else."""
    yield Case("a recipe that names a folder beside the run", victim)
    for words in (
        ("--onto", "RUN"), ("--onto", "FOLDER/june"), ("--images", "FOLDER/x"), ("--splats", "FOLDER/x.ply"),
        ("--ground", "FOLDER/x"), ("--scaffold", "FOLDER/x"), ("--geometry.stereo.width", "200"),
    ):  # fmt: skip
        yield Case(f"a finished run called with {' '.join(words)}", refused_before(*words))
    yield Case("a finished run called with another video", other_frames)
    yield Case("ablate --only ,", called_with("ablate", "RUN", "--truth", "FOLDER", "--only", ",", needed="nothing"))
    yield Case("view --host 256.1.1.1", called_with("view", "RUN", "--host", "256.1.1.1", needed="listen"))
    yield Case("mesh without a GPU", called_with("mesh", "RUN", "--way", "surfels", needed="gpu"))
    yield Case("the viewer listens on this machine alone", listening)
    for name in (".state/digests.json", "timings.json", "memory.json", *STATES):
        for text, what in (("", "empty"), ("[" * 100_000, "nested deeply"), ('{"a": 1}', "of another kind")):
            yield Case(f"{name} is {what}", forgotten(name, text))
    for text, what in (
        ("", "empty"),
        ("{", "cut"),
        ("[]", "a list"),
        (DEEP, "nested deeply"),
        ('{"groups": 5}', "another"),
    ):
        yield Case(f"report, anchors.json {what}", spoiled_run("2-anchors/anchors.json", text, "report", "RUN"))
    for verb in ("report", "view", "mesh", "changes"):
        yield Case(f"{verb} of nothing", called_with(verb, "FOLDER/nothing"))
    yield Case("ablate of nothing", called_with("ablate", "FOLDER/nothing", "--truth", "FOLDER/nothing"))
    yield Case("merge of nothing", called_with("merge", "FOLDER/nothing", "--out", "FOLDER/merged"))
    yield Case("evaluate without truth", called_with("evaluate", "RUN", "--truth", "FOLDER/nothing", needed="nothing"))
    yield Case("evaluate with a file for truth", called_with("evaluate", "RUN", "--truth", "RUN/report.html"))
    yield Case("report with a file for truth", called_with("report", "RUN", "--truth", "RUN/timings.json"))
    yield Case("patch list of a page", called_with("patch", "list", "RUN/report.html", needed="report.html"))
    yield Case("patch export of a page", called_with("patch", "export", "RUN/report.html", "--out", "FOLDER/x.ply"))
    yield Case("town with a seed of -1", called_with("town", "FOLDER/town", "--preset", "mini", "--seed", "-1"))
    yield Case("town on a day that is none", called_with("town", "FOLDER/town", "--weather", "world.snow=7"))
    yield Case("town where something is", called_with("town", "RUN", "--preset", "mini"))
    yield Case("prepare of nothing", called_with("prepare", "FOLDER/nothing", "--out", "FOLDER/x"))
    yield Case("walk check of nothing", called_with("walk", "check", "FOLDER/nothing"))
    yield Case("scaffold check of nothing", called_with("scaffold", "check", "FOLDER/nothing"))


CASES = (*models(), *photos(), *options(), *splats(), *truths(), *runs())
