"""Events reach a plain stream, a terminal and the log file."""

from __future__ import annotations

import io
import logging
import re
from pathlib import Path

from skyanchor.events import Event, Note, Progress, StageFinished, StageSkipped, StageStarted
from skyanchor.report.progress import Pace, Standing, display, every, log_file

EVENTS: list[Event] = [
    StageStarted("2-anchors", "localise 3 groups"),
    *[Progress("2-anchors", "groups", done, 100, {"inliers": done * 1.5}) for done in range(101)],
    Note("2-anchors", "group 2 was refused", warning=True),
    StageFinished("2-anchors", 12.34, {"registered": 24}),
    StageSkipped("3-trajectory"),
]


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_plain_lines_are_few_and_complete() -> None:
    stream = io.StringIO()
    with display(stream) as listen:
        for event in EVENTS:
            listen(event)
    lines = stream.getvalue().splitlines()
    assert lines[0] == "2-anchors: localise 3 groups" and lines[1] == "2-anchors: groups 0/100  inliers 0"
    assert lines[11] == "2-anchors: groups 100/100  inliers 150"
    assert lines[12:] == [
        "2-anchors: warning: group 2 was refused",
        "2-anchors: done in 12.3 s  registered 24",
        "3-trajectory: already there, made the same way",
    ]


def test_a_terminal_gets_bars() -> None:
    stream = _Terminal()
    with display(stream) as listen:
        for event in EVENTS:
            listen(event)
    assert "100/100" in stream.getvalue() and "\x1b[" in stream.getvalue()
    assert "group 2 was refused" in stream.getvalue()


def test_the_log_file_has_every_event_and_log_messages(tmp_path: Path) -> None:
    stream = io.StringIO()
    (tmp_path / "run").mkdir()
    for _ in range(2):
        with log_file(tmp_path / "run") as log, display(stream) as show:
            for event in EVENTS:
                every(log, show)(event)
            logging.getLogger("skyanchor.stereo").warning("few sources")
    lines = (tmp_path / "run/log.txt").read_text().splitlines()
    assert len(lines) == 2 * (len(EVENTS) + 1)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ  few sources", lines[-1])
    assert len(logging.getLogger("skyanchor").handlers) == 0


def test_standing_tells_where_the_work_was_stopped() -> None:
    standing = Standing()
    assert standing.sentence() == "Stopped at once"
    standing(StageStarted("2-anchors", "localise 3 groups"))
    assert standing.sentence() == "Stopped in stage 2"
    standing(Progress("2-anchors", "groups", 8, 26))
    standing(Note("anchors", "group 2 was refused"))
    assert standing.sentence() == "Stopped in stage 2, 8 of 26 done"
    standing(StageFinished("2-anchors", 12.3))
    standing(StageStarted("3-trajectory", "poses"))
    assert standing.sentence() == "Stopped in stage 3"


def test_the_time_left_follows_the_rate_so_far() -> None:
    seconds = iter([0.0, 2.0, 20.0, 40.0, 41.0, 42.0, 62.0])
    pace = Pace(lambda: next(seconds))
    # two photos were there when it went on: 3 more in 20 s leave 15 for 100 s
    said = [pace.left(Progress("1-scaffold", "depth", done, 20)) for done in (2, 3, 5)]
    assert said == ["", "", "  about 1 min 40 s left"]
    assert pace.left(Progress("1-scaffold", "depth", 20, 20)) == ""
    assert pace.left(Progress("1-scaffold", "other", 1, 20)) == ""
    assert pace.left(Progress("1-scaffold", "depth", 0, 20)) == ""
    assert pace.left(Progress("1-scaffold", "depth", 10, 20)) == "  about 20 s left"


def test_a_stage_is_counted_for_people_and_not_in_the_log(tmp_path: Path) -> None:
    for stream in (io.StringIO(), _Terminal()):
        with log_file(tmp_path) as log, display(stream, 3) as show:
            every(log, show)(StageStarted("2-anchors", "localise 3 groups"))
            every(log, show)(StageStarted("town", "building"))
        assert "stage 2 of 3 (2-anchors): localise 3 groups" in stream.getvalue()
        assert "town: building" in stream.getvalue()
    assert "of 3" not in (tmp_path / "log.txt").read_text()
