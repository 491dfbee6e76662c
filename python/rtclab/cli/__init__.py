"""The command ``rtclab``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import NoReturn

from rtclab.cli.app import app
from rtclab.errors import RtclabError, is_disk_full

EXIT_BROKEN_PIPE = 141  # 128 + SIGPIPE, as a shell reports a reader that went away


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Runs a command line and exits: 0 done, 1 a run failed, 2 bad input, 130 Ctrl-C."""
    try:
        app(arguments)
    except RtclabError as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_status)
    except BrokenPipeError:
        # Nobody reads the output any more; keep Python from complaining when it flushes at exit.
        sys.stdout = None
        sys.exit(EXIT_BROKEN_PIPE)
    except OSError as error:
        if error.filename is None and not is_disk_full(error):
            raise
        # A directory that cannot be made, a file that may not be written; without a name it was the output.
        print(f"{error.filename or 'standard output'}: {error.strerror}", file=sys.stderr)
        sys.exit(1)
    sys.exit(0)
