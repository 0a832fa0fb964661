"""`skyanchor anchors` with a stage whose first jobs end at once and whose last ones do not, or that fails."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from skyanchor import pipeline
from skyanchor.cli.main import main
from skyanchor.events import ANCHORS, Listener
from skyanchor.pipeline import PipelineConfig
from skyanchor.run.executor import Executor
from skyanchor.run.folder import RunFolder
from skyanchor.run.inputs import Inputs
from skyanchor.run.job import Job

QUICK, SLOW = 3, 4


def job(out: str, seconds: float, listen: Listener) -> None:
    """Write the file after a while."""
    time.sleep(seconds)
    Path(out).write_text("there")


def slow(run: RunFolder, inputs: Inputs, config: PipelineConfig, executor: Executor, upto: str) -> None:
    """Stage 2 with jobs that sleep for a minute."""
    stage = run.stage(ANCHORS, "sleep", {}, {})
    seconds = [0.0] * QUICK + [60.0] * SLOW
    jobs = {f"{k}.txt": Job("slow_stage:job", {"seconds": each}) for k, each in enumerate(seconds)}
    stage.produce("sleep", jobs, executor)


def failing(run: RunFolder, inputs: Inputs, config: PipelineConfig, executor: Executor, upto: str) -> None:
    """A mistake of ours."""
    raise ZeroDivisionError("a mistake\nthe last line of it")


if __name__ == "__main__":
    pipeline.run = {"slow": slow, "failing": failing}[sys.argv[1]]
    sys.exit(main(["anchors", *sys.argv[2:]]))
