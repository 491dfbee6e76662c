"""The commands ``rtclab reproduce`` and ``rtclab validate``. They import what they need when they run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from rtclab.cli import Group, as_commands
from rtclab.errors import BadInput

reproduce_app = typer.Typer(add_completion=False)
"""``rtclab reproduce``."""

RUNS = Path("runs")
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]


def say(text: str) -> None:
    """Prints a line on standard error, for whoever waits."""
    typer.echo(text, err=True)


def complete_paper(incomplete: str) -> list[str]:
    """Completes names of papers."""
    from rtclab_papers.reproduce import EVERY_PAPER, NAMES

    return [name for name in (*NAMES, EVERY_PAPER) if name.startswith(incomplete)]


@reproduce_app.command(epilog="Example: rtclab reproduce singh2013 --repeats 3")
def reproduce(
    papers: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="PAPER …", help="Names from --papers, or `all`.", autocompletion=complete_paper
        ),
    ] = None,
    list_papers: Annotated[bool, typer.Option("--papers", help="List the papers and exit.")] = False,
    backend_name: Annotated[
        Literal["sim", "live"],
        typer.Option(
            "--backend",
            help="sim: all conditions of the papers, simulated. live: chosen conditions with real browsers, "
            "and simulated beside them.",
        ),
    ] = "sim",
    repeats: Annotated[
        int | None,
        typer.Option(
            min=1, help="Repeats of each scenario, instead of its own number; with live: live repeats."
        ),
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Number of processes that simulate; by default one per core. Live calls run one at a time.",
        ),
    ] = None,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Directory of runs.")] = RUNS,
    docs: Annotated[
        Path | None,
        typer.Option(
            "--page",
            metavar="FILE",
            help="Also write a page for the documentation. With live: the page, by default below --out; "
            "its rows are in data/ beside it.",
        ),
    ] = None,
    keep_live: Annotated[
        bool, typer.Option("--keep-live", help="With live: make no calls, use the existing live runs.")
    ] = False,
    page_only: Annotated[
        bool, typer.Option("--page-only", help="With live: run nothing, make the page from its rows.")
    ] = False,
    retry_failed: Annotated[
        bool,
        typer.Option(
            "--retry-failed", help="With live: run calls again that failed or that another rtclab recorded."
        ),
    ] = False,
    every_reading: Annotated[
        bool,
        typer.Option(
            "--every-reading", help="Simulated: also run alternative interpretations of ambiguous passages."
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Run the conditions of published papers and compare our results with theirs.

    Finished repeats are kept below --out. They run again only if the scenario or rtclab has changed; live
    ones only if the scenario has.
    The exit status is 1 if a repeat failed.
    """
    from rtclab_papers.commands import reproducing

    if list_papers:
        reproducing.show_papers(as_json=as_json)
        return
    if not papers:
        raise BadInput("no paper given", hint="`rtclab reproduce --papers` lists them; `all` runs all")
    if backend_name == "live":
        if every_reading:
            raise BadInput("--every-reading is for --backend sim; live calls are of chosen conditions")
        status = reproducing.run_today(
            papers,
            out,
            docs,
            repeats=repeats,
            jobs=jobs,
            run_live=not (keep_live or page_only),
            simulate=not page_only,
            retry_failed=retry_failed,
            as_json=as_json,
        )
    elif keep_live or page_only or retry_failed:
        raise BadInput("--keep-live, --page-only and --retry-failed need --backend live")
    else:
        status = reproducing.run_and_compare(
            papers, out, docs, repeats=repeats, jobs=jobs, every_reading=every_reading, as_json=as_json
        )
    raise typer.Exit(status)


# The comparisons of rtclab validate, which was one command with an option for each of them.
NEW_FORMS = {
    "--tcp": "tcp",
    "--random": "random NUMBER",
    "--seed": "random NUMBER --seed SEED",
    "--half": "random NUMBER --half odd",
    "--again": "again SEED …",
    "--recorded": "recorded DIR",
    "--meetings": "meetings",
    "--kinds": "kinds",
    "--marks": "marks",
    "--l4s": "l4s",
    "--arena": "arena",
    "--from-calls": "from-calls both",
    "--repeats": "scenarios --repeats NUMBER",
    "--page": "COMPARISON --page FILE",
    "--out": "COMPARISON --out DIR",
    "--keep-live": "COMPARISON --keep-live",
    "--json": "COMPARISON --json",
}
"""By option of the earlier command, what to write now after ``rtclab validate``."""


class Comparisons(Group):
    """The group of commands, which names the new form of the options that it had as one command."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Refuses options before the name of a comparison."""
        option = args[0].partition("=")[0] if args else ""
        if option in NEW_FORMS:
            raise BadInput(
                f"{option}: each comparison is a command of its own",
                hint=f"write `rtclab validate {NEW_FORMS[option]}`",
            )
        return super().parse_args(ctx, args)


validate_app = typer.Typer(
    cls=Comparisons,
    add_completion=False,
    no_args_is_help=True,
    help="Compare simulated calls with live ones, and write a page. A comparison is a command.",
    epilog="Example: rtclab validate random 100 --seed 1",
)
"""``rtclab validate``."""

Page = Annotated[
    Path | None,
    typer.Option(
        "--page",
        metavar="FILE",
        help="The page; its rows are in data/ beside it. By default below --out, in validate/.",
    ),
]
Out = Annotated[Path, typer.Option("--out", metavar="DIR", help="Directory of runs.")]
KeepLive = Annotated[
    bool,
    typer.Option(
        "--keep-live", help="Make no calls: use the kept ones, and leave out conditions without one."
    ),
]


def _compare(
    name: str, page: Path | None, out: Path, *, keep_live: bool = False, as_json: bool, **options: Any
) -> None:
    from rtclab_papers.commands.validating import compare

    compare(name, page, out, keep_live=keep_live, as_json=as_json, **options)


@validate_app.command(epilog="Example: rtclab validate scenarios --repeats 3")
def scenarios(
    repeats: Annotated[
        int | None, typer.Option(min=1, help="Repeats of each scenario, instead of its own number.")
    ] = None,
    page: Page = None,
    out: Out = RUNS,
    keep_live: KeepLive = False,
    as_json: AsJson = False,
) -> None:
    """Compare the four scenarios of sim-vs-live."""
    _compare("scenarios", page, out, keep_live=keep_live, as_json=as_json, repeats=repeats)


@validate_app.command(epilog="Example: rtclab validate random 100 --seed 1")
def random(
    number: Annotated[int, typer.Argument(min=1, metavar="NUMBER", help="Number of conditions.")],
    seed: Annotated[
        int, typer.Option(min=0, help="Seed of the first condition; the others have the next ones.")
    ] = 1,
    half: Annotated[
        Literal["odd", "even", "both"],
        typer.Option(help="Only conditions with odd seeds, or only those with even seeds."),
    ] = "both",
    page: Page = None,
    out: Out = RUNS,
    keep_live: KeepLive = False,
    as_json: AsJson = False,
) -> None:
    """Compare random conditions of two people."""
    remainders = {"odd": (1,), "even": (0,), "both": (0, 1)}[half]
    seeds = [one for one in range(seed, seed + number) if one % 2 in remainders]
    _compare("random", page, out, keep_live=keep_live, as_json=as_json, seeds=seeds)


@validate_app.command(epilog="Example: rtclab validate again 41 70")
def again(
    seeds: Annotated[list[int], typer.Argument(min=0, metavar="SEED …", help="Seeds of conditions.")],
    page: Page = None,
    out: Out = RUNS,
    keep_live: KeepLive = False,
    as_json: AsJson = False,
) -> None:
    """Run random conditions ten times live and 39 times simulated, and compare the distributions."""
    _compare("again", page, out, keep_live=keep_live, as_json=as_json, seeds=seeds)


@validate_app.command(epilog="Example: rtclab validate recorded recordings")
def recorded(
    files: Annotated[Path, typer.Argument(metavar="DIR", help="Directory of the recorded networks' files.")],
    page: Page = None,
    out: Out = RUNS,
    keep_live: KeepLive = False,
    as_json: AsJson = False,
) -> None:
    """Compare calls over recorded cellular networks."""
    _compare("recorded", page, out, keep_live=keep_live, as_json=as_json, files=files)


@validate_app.command(epilog="Example: rtclab validate tcp --page docs/tcp-vs-kernel.md")
def tcp(page: Page = None, as_json: AsJson = False) -> None:
    """Compare the simulator's TCP with the kernel's."""
    _compare("tcp", page, RUNS, as_json=as_json)


@validate_app.command("from-calls", epilog="Example: rtclab validate from-calls held-out")
def from_calls(
    which: Annotated[
        Literal["tuned-on", "held-out", "both"],
        typer.Argument(help="The paths that estimates were tuned on, those that were held out, or both."),
    ],
    page: Page = None,
    as_json: AsJson = False,
) -> None:
    """Estimate random paths from simulated calls, and print how far they are off."""
    _compare("from-calls", page, RUNS, as_json=as_json, which=which)


@validate_app.command(epilog="Example: rtclab validate why --half open")
def why(
    seeds: Annotated[
        list[int] | None,
        typer.Argument(min=1, max=60, metavar="SEED …", help="Seeds of calls, instead of --half."),
    ] = None,
    half: Annotated[
        Literal["open", "held-out"],
        typer.Option(help="The seeds that reasons may be improved on, or those that are held out."),
    ] = "open",
    live: Annotated[
        bool,
        typer.Option("--live", help="Run live calls: of the held-out seeds two of each way."),
    ] = False,
    page: Page = None,
    out: Out = RUNS,
    keep_live: KeepLive = False,
    as_json: AsJson = False,
) -> None:
    """Make calls bad in one known way, and say whether reasons and remedies find it."""
    options = {"seeds": seeds, "half": half.replace("-", " "), "live": live}
    _compare("why", page, out, keep_live=keep_live, as_json=as_json, **options)


@validate_app.command("field-reports", epilog="Example: rtclab validate field-reports robot")
def field_reports(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[REPORT …]", help="Only these reports; by default all.")
    ] = None,
    page: Page = None,
    as_json: AsJson = False,
) -> None:
    """Simulate what people reported in public threads: the reasons, and what would help."""
    _compare("field-reports", page, RUNS, as_json=as_json, names=names or [])


def _add(name: str, words: str) -> None:
    """Adds the command of a comparison without options of its own."""

    def command(
        page: Page = None, out: Out = RUNS, keep_live: KeepLive = False, as_json: AsJson = False
    ) -> None:
        _compare(name, page, out, keep_live=keep_live, as_json=as_json)

    validate_app.command(name, help=words, epilog=f"Example: rtclab validate {name} --keep-live")(command)


for _name, _words in {
    "meetings": "Compare meetings of three and four people.",
    "kinds": "Compare 30 random kinds of calls: one way, sound alone, over a relay, beside TCP, and with "
    "other pictures, queues and reordering.",
    "marks": "Compare SCReAM and goog-cc behind queues that mark and drop early.",
    "l4s": "Say what L4S buys a video call, with goog-cc and SCReAM.",
    "arena": "Compare all built-in congestion controls simulated, and goog-cc and SCReAM live.",
}.items():
    _add(_name, _words)
as_commands(reproduce_app, validate_app)
