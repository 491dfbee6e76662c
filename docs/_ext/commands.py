"""The command line, from its own help."""

from __future__ import annotations

from typing import Any

import typer
from markdown import code, paragraphs, table

from rtclab.cli.app import app


def markdown() -> str:
    """A section per command."""
    group: Any = typer.main.get_command(app)
    above = typer.Context(group, info_name="rtclab")
    return "\n\n".join(_section(name, command, above) for name, command in group.commands.items())


def _section(name: str, command: Any, above: typer.Context) -> str:
    context = typer.Context(command, info_name=name, parent=above)
    usage = " ".join(command.collect_usage_pieces(context))
    rows = [
        [_names(parameter, context), _help(parameter)]
        for parameter in command.params
        if not getattr(parameter, "hidden", False)
    ]
    return "\n\n".join(
        filter(
            None,
            [
                f"## rtclab {name}",
                paragraphs(command.help),
                f"```text\nrtclab {name} {usage}\n```",
                table(["argument or option", "meaning"], rows) if rows else "",
                _example(command.epilog),
            ],
        )
    )


def _names(parameter: Any, context: typer.Context) -> str:
    if parameter.param_type_name == "argument":
        return code(parameter.make_metavar(context))
    names = ", ".join(map(code, parameter.opts))
    return names if parameter.is_flag else f"{names} {code(parameter.make_metavar(context))}"


def _help(parameter: Any) -> str:
    text: str = parameter.help or ""
    given = parameter.default not in (None, False, "") and not parameter.required
    return f"{text} Default: {code(parameter.default)}." if given else text


def _example(epilog: str | None) -> str:
    before, _, command = (epilog or "").partition("Example: ")
    return f"{before}\n\n```text\n{command}\n```" if command else before
