"""The `skyanchor` command, and `python -m skyanchor.cli`."""

import signal
import sys


def run() -> int:
    """The command's exit code; Ctrl-C ends it without a word while it is still being loaded.

    SIGTERM waits meanwhile. Threads that numpy starts with its import keep that for ever, so that none of them takes a
    signal that is held back in this one later, when pycolmap is imported and would answer it with a stack.
    """
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    from skyanchor.cli.main import main

    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    return main()


if __name__ == "__main__":
    sys.exit(run())
