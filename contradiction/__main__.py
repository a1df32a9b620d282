"""The entry point of the command ``cdconv`` and of ``python -m contradiction``."""

import sys

from contradiction.errors import INTERRUPTED


def main() -> None:
    """Runs the command line; Ctrl-C, at any moment, is one line on stderr and exit code 130."""
    try:
        # Imported here, so that Ctrl-C during the import is caught too.
        from contradiction.cli import main as run

        run()
    except KeyboardInterrupt:
        sys.stderr.write("cdconv: interrupted\n")
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    main()
