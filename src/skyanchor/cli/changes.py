"""`skyanchor changes`: what is another way in the street than it was."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from skyanchor.cli.options import Processes, RunPath, unless_said
from skyanchor.cli.tables import print_table


def changes(
    run: RunPath,
    /,
    since: Annotated[tuple[Path, ...], unless_said("RUN1 RUN2 ...")] = (),
    workers: Processes = 0,
    redo: bool = False,
    json: bool = False,
) -> None:
    """Find what appeared, vanished or got another look, in RUN/6-changes: a list, a map, pictures of before and after.

    Args:
        run: Run folder whose trajectory is finished.
        since: Earlier runs on the same aerial model, the newest first; without them those of `update --onto`.
        workers: Worker processes; 0 takes one per core as memory allows.
        redo: Replace changes that were found with other settings or since other runs.
        json: Print JSON instead of a table.
    """
    from skyanchor.cli.runs import opened
    from skyanchor.run.executor import executor_of
    from skyanchor.run.records import CHANGES_FILE, ChangesRecord
    from skyanchor.run.results import open_run
    from skyanchor.stages import changes as stage
    from skyanchor.storage import codec

    held = open_run(run)
    earlier = [open_run(path) for path in since or reversed(held.inputs.onto)]
    with opened(run, redo) as folder:
        made = stage.run(folder, held, earlier, stage.StreetChangesConfig(), executor_of(workers))
    record = made.load(CHANGES_FILE, ChangesRecord)
    if json:
        print(codec.dumps(record), end="")
        return
    rows = [
        [
            str(row.number), row.how.value, " x ".join(f"{side:.1f}" for side in row.size),
            ", ".join(f"{value:.1f}" for value in row.centre), f"{row.confidence:.2f}",
            f"{row.views_before}, {row.views_after}",
        ]
        for row in record.changes
    ]  # fmt: skip
    if rows:
        print_table("changes", ["", "kind", "size m", "at, your coordinates", "confidence", "views"], rows)
    print(f"{stage.said(record)}. Pictures of before and after: {made.path('')}" if rows else stage.said(record))
