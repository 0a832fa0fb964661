"""The `skyanchor` command, and `python -m skyanchor.cli`."""

import os
import signal
import sys


def run() -> int:
    """The command's exit code; Ctrl-C ends it without a word while it is still being loaded.

    SIGTERM waits meanwhile. Threads that numpy starts with its import keep that for ever, so that none of them takes a
    signal that is held back in this one later, when pycolmap is imported and would answer it with a stack.
    """
    open_closed_streams()
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    from skyanchor.cli.main import main

    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    return main()


def open_closed_streams() -> None:
    """Input, output and errors lead nowhere where they were closed: the next file opened would be taken for them."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # it takes the lowest number that is free
    sys.stdin = sys.stdin or os.fdopen(0, "r", closefd=False)
    sys.stdout = sys.stdout or os.fdopen(1, "w", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", closefd=False)


if __name__ == "__main__":
    sys.exit(run())
