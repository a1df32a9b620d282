"""The entry point of the command ``cdconv`` and of ``python -m contradiction``."""

import os
import signal
import sys
from types import FrameType

from contradiction.errors import INTERRUPTED

MESSAGE = "cdconv: interrupted\n"


def main() -> None:
    """Runs the command line; Ctrl-C at any moment prints one line to stderr and exits with code 130."""
    # A process that ignores Ctrl-C, for instance behind nohup, keeps ignoring it.
    can_be_interrupted = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    try:
        if can_be_interrupted:  # a library that is being imported may take the exception for a missing library
            signal.signal(signal.SIGINT, _stop)
        from contradiction.cli import main as run

        if can_be_interrupted:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        run()
    except KeyboardInterrupt:
        sys.stderr.write(MESSAGE)
        sys.exit(INTERRUPTED)


def _stop(number: int, frame: FrameType | None) -> None:
    """Ends the process at once; before the command begins, there is nothing to clean up."""
    os.write(2, MESSAGE.encode())
    os._exit(INTERRUPTED)


if __name__ == "__main__":
    main()
