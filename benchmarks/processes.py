"""A command in a process of its own, with the seconds, CPU seconds and memory that it took."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from pathlib import Path

from skyanchor.evaluation.peer_tables import Cost
from skyanchor.run.memory import tree_bytes


class FailedError(Exception):
    """A command that ended badly, with what it took until then."""

    def __init__(self, code: int, log: Path, cost: Cost) -> None:
        super().__init__(f"ended with {code}, see {log}")
        self.cost = cost


def timed(
    command: list[str], log: Path, environment: dict[str, str] | None = None, most_s: float | None = None
) -> Cost:
    """What a command took; FailedError where it fails or goes on for longer than `most_s`."""
    before, start, peak, ended = os.times(), time.monotonic(), [0], threading.Event()
    with log.open("w") as out:
        child = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, env=environment)

        def watch() -> None:
            while not ended.wait(0.5):
                peak[0] = max(peak[0], tree_bytes(child.pid))

        watching = threading.Thread(target=watch)
        watching.start()
        try:
            code = child.wait(most_s)
        except subprocess.TimeoutExpired:
            child.kill()
            code = child.wait()
        ended.set()
        watching.join()
    after = os.times()
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    cost = Cost(time.monotonic() - start, cpu, peak[0])
    if code != 0:
        raise FailedError(code, log, cost)
    return cost
