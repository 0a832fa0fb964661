"""What the stages share: the user's data, and digests of what it is made of."""

from __future__ import annotations

import json
from dataclasses import dataclass

from skyanchor.feedforward import AnyLocal, FreeFolder
from skyanchor.run.folder import RunFolder
from skyanchor.scaffold import colmap_files
from skyanchor.storage import codec, files
from skyanchor.types import Scaffold, Sequence


@dataclass(frozen=True, eq=False)
class Survey:
    """The user's data, read and checked."""

    scaffold: Scaffold
    sequence: Sequence

    @property
    def names(self) -> tuple[str, ...]:
        """Frame names in order."""
        return tuple(frame.name for frame in self.sequence.frames)


def aerial_digests(run: RunFolder, scaffold: Scaffold) -> dict[str, str]:
    """Of the model's files, photos and masks."""
    model = scaffold.model_path or scaffold.root
    return {
        "model": run.digest({p.name: p for p in model.glob("*.*") if p.stem in colmap_files.FILES}),
        "photos": run.digest({view.name: view.path for view in scaffold.views}),
        "masks": run.digest({view.name: view.mask_path for view in scaffold.views if view.mask_path is not None}),
    }


def ground_digests(run: RunFolder, survey: Survey) -> dict[str, str]:
    """Of the frames and their masks."""
    frames = survey.sequence.frames
    return {
        "frames": run.digest({frame.name: frame.path for frame in frames}),
        "masks": run.digest({frame.name: frame.mask_path for frame in frames if frame.mask_path is not None}),
    }


def free_digests(run: RunFolder, choice: AnyLocal) -> dict[str, str]:
    """Digest of a folder made elsewhere, where shapes come from one."""
    if not isinstance(choice, FreeFolder):
        return {}
    choice.check()
    found = [path for path in sorted(choice.folder.rglob("*")) if path.is_file()]
    return {"free": run.digest({path.relative_to(choice.folder).as_posix(): path for path in found})}


def value_digest(value: object) -> str:
    """Of a value's JSON form."""
    return files.digest(json.dumps(codec.to_json(value)).encode())
