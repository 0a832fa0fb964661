"""The files that results are made of, as they were when they were looked at first, and which have changed since."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from skyanchor.errors import InputError
from skyanchor.storage.digest_cache import DigestCache, Found
from skyanchor.storage.digests import joint_digest


@dataclass
class KnownFiles:
    """Files by the digests of inputs in recipes; folders of stages that stand on each other share them."""

    _found: dict[str, dict[Path, Found]] = field(default_factory=dict)

    def remember(self, digest: str, found: Mapping[Path, Found]) -> None:
        """Keep the files of a joint digest; one that is known already stays as it was found first."""
        held = self._found.setdefault(digest, {})
        for path, one in found.items():
            held.setdefault(path, one)

    def changed(self, digests: Iterable[str] | None = None) -> Path | None:
        """A file behind the digests, any without them, that holds something else by now; None when none does.

        A look at size and clocks for each; contents are read where those differ. InputError where the only ones that
        are not what they were cannot be read.
        """
        missing: InputError | None = None
        asked = self._found if digests is None else digests
        for path, one in dict.fromkeys(pair for value in asked for pair in self._found.get(value, {}).items()):
            try:
                if not one.is_still(path):
                    return path
            except InputError as error:
                missing = missing or error
        if missing is not None:
            raise missing
        return None


@dataclass
class Digests:
    """Digests of inputs, and whose files they are."""

    cache: DigestCache
    known: KnownFiles = field(default_factory=KnownFiles)

    def digest(self, inputs: Mapping[str, Path]) -> str:
        """One digest of the contents of named files, which are known by it from then on."""
        found = self.cache.look(inputs)
        value = joint_digest({name: one.digest for name, one in found.items()})
        self.known.remember(value, {inputs[name]: one for name, one in found.items()})
        return value
