"""The command ``rtclab``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import NoReturn

from rtclab.cli.app import EXIT_BROKEN_PIPE, app
from rtclab.errors import RtclabError, is_disk_full


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Runs a command line and exits with its status: 0 done, 1 a run failed, 2 bad input, 130 Ctrl-C."""
    try:
        app(arguments)
    except RtclabError as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_status)
    except BrokenPipeError:
        # The reader has exited, and there was no command. Otherwise Python would complain when it flushes.
        sys.stdout = None
        sys.exit(EXIT_BROKEN_PIPE)
    except OSError as error:
        if error.filename is None and not is_disk_full(error):
            raise
        # For example a file without write permission. If there is no name, it was standard output.
        print(f"{error.filename or 'standard output'}: {error.strerror}", file=sys.stderr)
        sys.exit(1)
    sys.exit(0)
