"""The `skyanchor` command, and `python -m skyanchor.cli`."""

import signal
import sys


def run() -> int:
    """The command's exit code; Ctrl-C ends it without a word while it is still being loaded."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    from skyanchor.cli.main import main

    return main()


if __name__ == "__main__":
    sys.exit(run())
