"""The command ``rtclab``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import NoReturn

from rtclab.cli.app import app
from rtclab.errors import RtclabError, is_disk_full

EXIT_BROKEN_PIPE = 141  # 128 + SIGPIPE, which a shell reports when the reader of a pipe has exited


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Runs a command line and exits with its status: 0 done, 1 a run failed, 2 bad input, 130 Ctrl-C."""
    try:
        app(arguments)
    except RtclabError as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_status)
    except BrokenPipeError:
        # The reader of the output has exited. Without this, Python would complain when it flushes at exit.
        sys.stdout = None
        sys.exit(EXIT_BROKEN_PIPE)
    except OSError as error:
        if error.filename is None and not is_disk_full(error):
            raise
        # For example a file without write permission. If there is no name, it was standard output.
        print(f"{error.filename or 'standard output'}: {error.strerror}", file=sys.stderr)
        sys.exit(1)
    sys.exit(0)
