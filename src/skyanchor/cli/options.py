"""Words that several verbs share. Nothing heavy is imported here."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

import tyro

RunPath: TypeAlias = Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
