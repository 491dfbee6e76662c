"""The command ``rtclab``, and what commands of other distributions need to look like it.

Names other than ``main`` are imported on first use, so that the command line starts quickly.
"""

from __future__ import annotations

import atexit
import gc
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, NoReturn

from rtclab.errors import RtclabError, is_disk_full
from rtclab.terminal import shown

if TYPE_CHECKING:
    from rtclab.cli.commands import Group, as_commands
    from rtclab.cli.running import EXIT_FAILED, EXIT_INTERRUPTED
    from rtclab.cli.tables import new_table, print_json, print_table, right
    from rtclab.phrases import count

__all__ = [
    "EXIT_FAILED",
    "EXIT_INTERRUPTED",
    "Group",
    "as_commands",
    "count",
    "main",
    "new_table",
    "print_json",
    "print_table",
    "right",
]

_HOME = {
    **dict.fromkeys(("Group", "as_commands"), "rtclab.cli.commands"),
    **dict.fromkeys(("EXIT_FAILED", "EXIT_INTERRUPTED"), "rtclab.cli.running"),
}
"""The modules of the public names that are not in ``tables``."""
COLLECT_AFTER = 250_000
"""Python looks for cyclic garbage when there are this many new objects: more than a short run makes."""


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Runs a command line and exits with its status: 0 done, 1 a run failed, 2 bad input, 130 Ctrl-C."""
    # By default, Python would look for cyclic garbage dozens of times while modules are imported.
    gc.set_threshold(COLLECT_AFTER)
    # At its end, it would look for garbage among all objects, though the system takes back all memory.
    atexit.register(gc.freeze)
    with shown():
        _run(arguments)


def _run(arguments: Sequence[str] | None) -> NoReturn:
    from rtclab.cli.app import app
    from rtclab.cli.commands import EXIT_BROKEN_PIPE

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
        full = is_disk_full(error)
        what = error.strerror if full else f"cannot be read or written: {error.strerror}"
        print(f"{error.filename or 'standard output'}: {what}", file=sys.stderr)
        sys.exit(1 if full else 2)
    sys.exit(0)


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = _HOME.get(name, "rtclab.cli.tables")
    return getattr(import_module(module), name)
