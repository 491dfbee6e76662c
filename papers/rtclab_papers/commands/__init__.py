"""The commands ``rtclab reproduce`` and ``rtclab validate``. They import what they need when they run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from rtclab.errors import BadInput

reproduce_app = typer.Typer()
"""``rtclab reproduce``."""
validate_app = typer.Typer()
"""``rtclab validate``."""

RUNS = Path("runs")
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]


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
    from rtclab_papers.commands.reproducing import ReproduceRequest, run_and_compare, show_papers

    if list_papers:
        show_papers(as_json=as_json)
        return
    if not papers:
        raise BadInput("no paper given", hint="`rtclab reproduce --papers` lists them; `all` runs all")
    if backend_name == "live":
        from rtclab_papers.commands.reproducing_today import TodayRequest, run_today

        if every_reading:
            raise BadInput("--every-reading is for --backend sim; live calls are of chosen conditions")
        live = not (keep_live or page_only)
        request = TodayRequest(papers, repeats, jobs, out, docs, live, not page_only, retry_failed, as_json)
        raise typer.Exit(run_today(request))
    if keep_live or page_only or retry_failed:
        raise BadInput("--keep-live, --page-only and --retry-failed need --backend live")
    raise typer.Exit(
        run_and_compare(ReproduceRequest(papers, repeats, jobs, out, docs, as_json, every_reading))
    )


@validate_app.command(epilog="Example: rtclab validate --random 100 --seed 1")
def validate(
    page: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="By default in docs/: sim-vs-live.md, tcp-vs-kernel.md, twin.md, marks.md, l4s.md or "
            "arena.md.",
        ),
    ] = None,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Directory of runs.")] = RUNS,
    repeats: Annotated[
        int | None, typer.Option(min=1, help="Repeats of each scenario, instead of its own number.")
    ] = None,
    keep_live: Annotated[
        bool, typer.Option("--keep-live", help="Use the newest live runs of the same scenarios in DIR.")
    ] = False,
    tcp: Annotated[
        bool, typer.Option("--tcp", help="Compare the simulator's TCP with the kernel's instead.")
    ] = False,
    random: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Compare N random conditions of two people instead."),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(
            min=0, help="With --random: the seed of the first condition, by default 1; the others follow."
        ),
    ] = None,
    half: Annotated[
        Literal["odd", "even", "both"] | None,
        typer.Option(help="With --random: only conditions with odd seeds, or only those with even seeds."),
    ] = None,
    again: Annotated[
        list[int] | None,
        typer.Option(
            min=0,
            metavar="SEED",
            help="Run the random condition with this seed ten times live and 39 times simulated, and compare "
            "the distributions. May be given several times.",
        ),
    ] = None,
    recorded: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Compare calls over recorded cellular networks whose files are in DIR instead.",
        ),
    ] = None,
    meetings: Annotated[
        bool,
        typer.Option("--meetings", help="Compare meetings of three and four people instead."),
    ] = False,
    kinds: Annotated[
        bool,
        typer.Option(
            "--kinds",
            help="Compare 30 random kinds of calls instead: one way, sound alone, over a relay, beside TCP, "
            "and with other pictures, queues and reordering.",
        ),
    ] = False,
    marks: Annotated[
        bool,
        typer.Option(
            "--marks", help="Compare SCReAM and goog-cc behind queues that mark and drop early instead."
        ),
    ] = False,
    l4s: Annotated[
        bool,
        typer.Option("--l4s", help="Say what L4S buys a video call, with goog-cc and SCReAM, instead."),
    ] = False,
    arena: Annotated[
        bool,
        typer.Option(
            "--arena",
            help="Compare all built-in congestion controls simulated, and goog-cc and SCReAM live, instead.",
        ),
    ] = False,
    from_calls: Annotated[
        Literal["tuned-on", "held-out", "both"] | None,
        typer.Option(
            "--from-calls",
            help="Estimate random paths from simulated calls instead: those that estimates were tuned on, "
            "those that were held out, or both.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run the four comparison scenarios simulated and live, and write a page that compares the results."""
    chosen = {
        "--tcp": tcp,
        "--random": random is not None,
        "--again": bool(again),
        "--recorded, --meetings or --kinds": recorded is not None or meetings or kinds,
        "--marks": marks,
        "--l4s": l4s,
        "--arena": arena,
        "--from-calls": from_calls is not None,
    }
    what = [option for option, given in chosen.items() if given]
    if len(what) > 1:
        raise BadInput(f"{' and '.join(what)} are different comparisons; expected one of them")
    if random is None and (seed is not None or half is not None):
        raise BadInput(f"--{'half' if seed is None else 'seed'}: expected --random with it")
    if what and repeats is not None:
        raise BadInput(f"{what[0]} has its own number of repeats, so it does not take --repeats")
    if keep_live and (tcp or from_calls is not None):
        raise BadInput(f"{what[0]} makes no calls, so it does not take --keep-live")
    from rtclab_papers.commands import validating

    if from_calls is not None:
        validating.validate_from_calls_and_show(page, from_calls, as_json=as_json)
    elif again:
        validating.validate_again_and_show(page, out, again, keep_live=keep_live, as_json=as_json)
    elif marks:
        validating.validate_marks_and_show(page, out, keep_live=keep_live, as_json=as_json)
    elif arena:
        validating.validate_arena_and_show(page, out, keep_live=keep_live, as_json=as_json)
    elif l4s:
        validating.validate_l4s_and_show(page, out, keep_live=keep_live, as_json=as_json)
    elif recorded is not None or meetings or kinds:
        validating.validate_chosen_and_show(
            page, out, recorded, meet=meetings, draw_kinds=kinds, keep_live=keep_live, as_json=as_json
        )
    elif random is not None:
        first = 1 if seed is None else seed
        remainders = {"odd": (1,), "even": (0,)}.get(half or "both", (0, 1))
        seeds = [one for one in range(first, first + random) if one % 2 in remainders]
        validating.validate_random_and_show(page, out, seeds, keep_live=keep_live, as_json=as_json)
    else:
        validating.validate_and_show(page, out, repeats, keep_live=keep_live, tcp=tcp, as_json=as_json)
