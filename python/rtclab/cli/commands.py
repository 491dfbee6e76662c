"""What all commands share: their group, outputs that exclude each other, and options of earlier versions."""

from __future__ import annotations

import sys
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from rtclab.errors import BadInput

EXIT_BROKEN_PIPE = 141
"""128 + SIGPIPE, which a shell reports when the reader of a pipe has exited."""

EXCLUSIVE = (("quiet", "as_json"), ("quiet", "as_csv"), ("quiet", "all_metrics"), ("as_json", "as_csv"))
"""Pairs of parameters that exclude each other."""

_BY = "--by FIELD draws a line for each value of a field"
_FOLDERS = "`rtclab list FOLDER` lists a folder, such as a paper's; `rtclab list --json` lists everything"
_KIND = "--control NAME; the file tells whether a log or a capture is replayed"
OLD_OPTIONS = {
    ("run", "--repeat"): "--repeats NUMBER",
    ("sweep", "--repeat"): "--repeats NUMBER",
    ("arena", "--into"): "--out DIR, the directory of all runs; the arena is the run arena-SUITE there",
    ("arena", "--weights"): "scores with weights are gone; multiply the columns of arena.csv by your own",
    ("list", "--all"): _FOLDERS,
    ("report", "--lines"): _BY,
    ("replay", "--controller"): _KIND,
    ("replay", "--estimator"): _KIND,
    ("from", "--scenario"): "--toml FILE",
}
"""Options of earlier versions by the name of their command, and what to write now."""


def _without_types(parameters: list[Any]) -> list[Any]:
    """The parameters; the help shows no `<bool>` for flags, and no type after the name of an argument."""
    for parameter in parameters:
        if parameter.param_type_name == "argument" or getattr(parameter, "is_flag", False):
            parameter.display_type_rich = lambda ctx: ""
    return parameters


class Command(TyperCommand):
    """A command that refuses options of earlier versions, and outputs that exclude each other."""

    def get_params(self, ctx: Any) -> list[Any]:
        """The parameters of the command."""
        return _without_types(super().get_params(ctx))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Reads the arguments.

        Raises:
            BadInput: there is an option of an earlier version.
        """
        for word in args:
            option = word.partition("=")[0]
            if hint := OLD_OPTIONS.get((str(self.name), option)):
                raise BadInput(f"{option}: an option of an earlier version", hint=hint)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Runs the command.

        Raises:
            BadInput: two outputs that exclude each other were asked for.
        """
        names = {parameter.name: parameter.opts[0] for parameter in self.params}
        for pair in EXCLUSIVE:
            if all(ctx.params.get(name) for name in pair):
                raise BadInput(f"{names[pair[0]]} and {names[pair[1]]}: expected one of them")
        return super().invoke(ctx)


class Group(TyperGroup):
    """A group of commands, in whose help flags have no type."""

    def get_params(self, ctx: Any) -> list[Any]:
        """The options of the group."""
        return _without_types(super().get_params(ctx))


def as_commands(*apps: typer.Typer) -> None:
    """Makes every command of some applications a :class:`Command`."""
    for app in apps:
        for command in app.registered_commands:
            command.cls = Command


class Commands(Group):
    """The group of all commands: rtclab's own, and commands that other distributions add.

    Typer's own group exits with 1 when the reader of the output has exited.
    """

    def list_commands(self, ctx: Any) -> list[str]:
        """The names of all commands, rtclab's own first."""
        from rtclab import plugins

        own = super().list_commands(ctx)
        return [*own, *(name for name in plugins.command_names() if name not in own)]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of this name; rtclab's own come first. None if there is no such command."""
        from rtclab import plugins

        return super().get_command(ctx, cmd_name) or plugins.command(cmd_name)

    def invoke(self, ctx: Any) -> Any:
        """Runs a command; if nobody reads its output any more, the exit status is ``EXIT_BROKEN_PIPE``."""
        try:
            try:
                return super().invoke(ctx)
            finally:
                sys.stdout.flush()
        except BrokenPipeError:
            # Otherwise Python would complain when it flushes at exit.
            sys.stdout = None
            raise typer.Exit(EXIT_BROKEN_PIPE) from None
