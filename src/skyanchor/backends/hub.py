"""Folders of torch.hub that a user may have: where they lie, and how to get one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from skyanchor.backends.weights import torch_cache
from skyanchor.errors import BackendError


@dataclass(frozen=True)
class HubFolder:
    """A torch.hub repository, whose code runs in this process."""

    name: str
    """A path, or the folder's name in torch's hub cache."""

    @property
    def label(self) -> str:
        """What it is, and what it is called."""
        return f"torch.hub folder {self.name}"

    @property
    def command(self) -> str:
        """What to type to get it."""
        address = self.name.removesuffix("_main").replace("_", "/", 1)
        return f"git clone https://github.com/{address} {torch_cache() / self.name}"

    def place(self) -> str | None:
        """Where it lies; None where it is nowhere."""
        folders = (Path(self.name), torch_cache() / self.name)
        return next((str(folder) for folder in folders if (folder / "hubconf.py").is_file()), None)

    def found(self) -> Path:
        """Where it lies; BackendError with the command that gets it when it is nowhere."""
        place = self.place()
        if place is not None:
            return Path(place)
        raise BackendError(f"There is no torch.hub folder {self.name} here. Get it: {self.command}")
