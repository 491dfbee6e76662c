"""The command line, from its own help."""

from __future__ import annotations

import html
import re
import subprocess
import sys

SUMMARY = re.compile(r"^\*\*Commands\*\*:\n.*?(?=^## )", re.DOTALL | re.MULTILINE)
EXAMPLE = re.compile(r"^Example: (.*)$", re.MULTILINE)


def markdown() -> str:
    """A section per command, as typer writes them."""
    command = [sys.executable, "-m", "typer", "rtclab.cli.app", "utils", "docs", "--name", "rtclab"]
    page = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    page = html.unescape(page.partition("\n")[2])  # without its title
    return EXAMPLE.sub(r"Example:\n\n```console\n$ \1\n```", SUMMARY.sub("", page))
