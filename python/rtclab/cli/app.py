"""The commands. Each imports what it needs when it runs, so that ``rtclab --help`` is fast."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from rtclab.cli.commands import Commands, as_commands
from rtclab.errors import BadInput

app = typer.Typer(
    cls=Commands,
    name="rtclab",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    help="A laboratory for real-time calls: scenarios run simulated or live, and both leave the same trace.",
    epilog="Example: rtclab run first-call",
)


def complete_scenario(incomplete: str) -> list[str]:
    """Completes names of shipped scenarios; the shell itself completes files."""
    from rtclab.scenario import shipped

    return [name for name in shipped() if name.startswith(incomplete)]


def complete_run(incomplete: str) -> list[str]:
    """Completes names of runs in the default directory."""
    files = [*RUNS.glob("*/results.sqlite"), *RUNS.glob("*/*/results.sqlite")]
    names = [file.parent.relative_to(RUNS).as_posix() for file in files]
    return sorted(name for name in ["latest", *names] if name.startswith(incomplete))


def complete_scenario_or_run(incomplete: str) -> list[str]:
    """Completes names of shipped scenarios and of runs in the default directory."""
    return [*complete_scenario(incomplete), *complete_run(incomplete)]


def complete_metric(incomplete: str) -> list[str]:
    """Completes names of metrics."""
    from rtclab.metrics import METRICS

    return [name for name in METRICS if name.startswith(incomplete)]


def complete_control(incomplete: str) -> list[str]:
    """Completes names of congestion controls."""
    from rtclab._native import CONGESTION_CONTROLS

    return [name for name in CONGESTION_CONTROLS if name.startswith(incomplete)]


def _quiet(what: str) -> Any:
    return typer.Option("--quiet", "-q", help=f"Print only {what}.")


_SCENARIO = typer.Argument(
    metavar="SCENARIO", help="A name from `rtclab list`, or a TOML file.", autocompletion=complete_scenario
)
ScenarioName = Annotated[str, _SCENARIO]
OptionalScenario = Annotated[str | None, _SCENARIO]
Backend = Annotated[
    Literal["sim", "live"] | None,
    typer.Option(
        help="Simulate (sim) or use real browsers (live); default: sim, or the backend of the resumed run."
    ),
]
Duration = Annotated[str | None, typer.Option(metavar="TIME", help="Duration of the run, such as 20s.")]
Seed = Annotated[int | None, typer.Option(min=0, help="Seed from which the seed of each repeat is derived.")]
Repeats = Annotated[
    int | None,
    typer.Option(
        "--repeats",
        min=1,
        help="Number of repeats, of a sweep for each combination; default: the scenario's own.",
    ),
]
Jobs = Annotated[
    int | None, typer.Option(min=1, help="Number of repeats to run in parallel; by default one per core.")
]
NoReport = Annotated[bool, typer.Option("--no-report", help="Write no HTML report.")]
RunName = Annotated[
    str,
    typer.Argument(
        metavar="RUN",
        help="A name below --out (first-call-sim-1), a path, or `latest`.",
        autocompletion=complete_run,
    ),
]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="FIELD=VALUE", help="Change a field: 'link.up.capacity=2 Mbit/s'."),
]
Control = Annotated[
    str | None,
    typer.Option(
        metavar="NAME[,OPTION=VALUE…]",
        help="Congestion control of everybody: a name from `rtclab list --controls`, or FILE.py:CLASS.",
    ),
]
Out = Annotated[Path, typer.Option("--out", metavar="DIR", help="Directory of runs.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]
Quiet = Annotated[bool, _quiet("the path of the results, and what fails")]
AsCsv = Annotated[bool, typer.Option("--csv", help="Print CSV, for a spreadsheet.")]
AllMetrics = Annotated[bool, typer.Option("--all", help="Print all metrics, with standard deviations.")]
Metrics = Annotated[
    list[str] | None,
    typer.Option(
        "--metric",
        metavar="NAME",
        help="Only this metric; may be given several times. `rtclab metrics` lists all metrics.",
        autocompletion=complete_metric,
    ),
]
From = Annotated[
    str | None, typer.Option("--from", metavar="TIME", help="Measure from this time on, such as 10s.")
]
To = Annotated[str | None, typer.Option("--to", metavar="TIME", help="Measure up to this time.")]
Flows = Annotated[
    list[str] | None,
    typer.Option(
        "--flow",
        metavar="FLOW",
        help="Only this flow, such as alice->bob; `*` stands for any text: '*->erin'. May be given several "
        "times. By default flows that carry feedback alone are left out.",
    ),
]
Limits = Annotated[
    list[str] | None,
    typer.Option(
        "--assert",
        metavar="LIMIT",
        help="A limit for the mean over the repeats of each condition, such as 'rtt_p95 < 150 ms' or "
        "'frame_rate of alice->bob >= 25 frame/s'; may be given several times.",
    ),
]
Page = Annotated[Path | None, typer.Option(metavar="FILE", help="Also write a page, as HTML.")]
PlotFile = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Also write a plot; the name ends in .html, .svg, .png or .pdf."),
]
Sdp = Annotated[
    Path | None, typer.Option(metavar="FILE", help="SDP that describes the codecs of a captured call.")
]
Where = Annotated[
    list[str] | None,
    typer.Option(
        "--where",
        metavar="FIELD=VALUE",
        help="Only the conditions of a sweep with this value; may be given several times.",
    ),
]
Resume = Annotated[
    str | None,
    typer.Option(
        metavar="RUN",
        help="Continue a run or sweep: run only the repeats that have not finished.",
        autocompletion=complete_run,
    ),
]
Renew = Annotated[
    bool,
    typer.Option("--renew", help="With --resume: run repeats again that another build of rtclab simulated."),
]
WatchPort = Annotated[
    int | None, typer.Option(min=0, max=65535, help="Port of the page on 127.0.0.1; by default a free one.")
]
Trust = Annotated[
    bool,
    typer.Option(
        "--trust",
        help="Run what files from outside of the current project name: congestion controls in Python and, "
        "live, programs (commands of servers, scripts, arguments of browsers), files as pages, your network. "
        "The current project is your repository around the current directory, or else that directory; in a "
        "repository that you cloned, everything is trusted.",
    ),
]
RUNS = Path("runs")
MOST_IMPORTED_FLOWS = 6
"""Further flows of an import are only counted."""


def version(wanted: bool) -> None:
    """Prints the version and exits."""
    if wanted:
        import rtclab

        print(rtclab.__version__)
        raise typer.Exit


@app.callback()
def options(
    show_version: Annotated[
        bool, typer.Option("--version", callback=version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Handles the options of ``rtclab`` itself."""


@app.command("list", epilog="Example: rtclab list examples")
def list_scenarios(
    folders: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[FOLDER …]", help="Only the scenarios of these folders, such as a paper's conditions."
        ),
    ] = None,
    controls: Annotated[
        bool, typer.Option("--controls", help="List the congestion controls of the simulator instead.")
    ] = False,
    as_csv: AsCsv = False,
    as_json: AsJson = False,
) -> None:
    """List the scenarios that come with rtclab, or the congestion controls with their options.

    The conditions of published papers are only counted, unless you name their folder. --json and --csv list
    everything.
    """
    from rtclab.cli.listing import list_scenarios

    list_scenarios(folders or [], controls=controls, as_csv=as_csv, as_json=as_json)


@app.command("metrics", epilog="Example: rtclab metrics rtt")
def list_metrics(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME …]", help="Only these metrics.", autocompletion=complete_metric),
    ] = None,
    as_csv: AsCsv = False,
    as_json: AsJson = False,
) -> None:
    """List the metrics with unit, definition and source."""
    from rtclab.cli import tables
    from rtclab.cli.running import chosen
    from rtclab.experiment import check_names
    from rtclab.lab import list_metrics

    check_names(names or ())
    metrics = chosen(list_metrics(), names or ())
    if not tables.print_rows(metrics, as_csv=as_csv, as_json=as_json):
        tables.show_definitions(metrics)


@app.command(epilog="Example: rtclab show first-call --set 'link.up.capacity=2 Mbit/s'")
def show(
    scenario: Annotated[
        str,
        typer.Argument(
            metavar="SCENARIO|RUN",
            help="A name from `rtclab list` or a TOML file; a name from `rtclab runs`, a path, or `latest`.",
            autocompletion=complete_scenario_or_run,
        ),
    ],
    changes: Set = None,
    out: Out = RUNS,
    as_json: AsJson = False,
) -> None:
    """Show a scenario with all defaults filled in, or how a run was made.

    Of a scenario: participants, paths and flows. Of a run: its scenario, backend, versions and machine, its
    outcomes, and what happened to it.
    """
    from rtclab.cli import keeping, tables
    from rtclab.experiment import find_store
    from rtclab.scenario import Scenario, shipped

    run = find_store(scenario, out)
    if run is not None and scenario not in shipped() and not Path(scenario).is_file():
        if changes:
            raise BadInput(f"--set changes a scenario, and `{scenario}` is a run")
        keeping.show_run(run, as_json=as_json)
        return
    if run is not None:
        print(f"there is a run `{scenario}`, too: `rtclab show {run.resolve()}` shows it", file=sys.stderr)
    loaded = Scenario.load(scenario, changes or [])
    if as_json:
        flows = [flow.as_dict() for flow in loaded.flows()]
        tables.print_json(loaded.model_dump(mode="json") | {"flows": flows, "network": loaded.network()})
    else:
        tables.show_scenario(loaded)


@app.command(epilog="Example: rtclab run first-call --backend live --duration 20s --repeats 1")
def run(
    scenario: OptionalScenario = None,
    backend: Backend = None,
    changes: Set = None,
    control: Control = None,
    duration: Duration = None,
    repeats: Repeats = None,
    seed: Seed = None,
    record: Annotated[
        Literal["packets", "seconds"] | None, typer.Option(help="Record every packet, or sums per second.")
    ] = None,
    jobs: Jobs = None,
    begin: From = None,
    end: To = None,
    flows: Flows = None,
    resume: Resume = None,
    renew: Renew = False,
    trust: Trust = False,
    capture: Annotated[
        bool,
        typer.Option(
            "--capture",
            help="Write capture.pcapng and capture.sdp next to each simulated trace. For short runs: a "
            "minute of first-call takes 3 MB, kept in memory until the end. Live calls always write one.",
        ),
    ] = False,
    limits: Limits = None,
    watched: Annotated[
        bool,
        typer.Option("--watch", help="Serve a page that shows what happens, and keep it as watch.html."),
    ] = False,
    watch_port: WatchPort = None,
    invite: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=ADDRESS",
            help="Let a browser on the network, such as a phone's, take the seat of a participant of a live "
            "call. ADDRESS is one IPv4 address of this machine, such as 192.168.1.5 or 192.168.1.5:8443. May "
            "be given several times. Runs one repeat, unless --repeats says otherwise.",
        ),
    ] = None,
    invite_wait: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="With --invite: how long to wait until all seats are taken; by default 5 min.",
        ),
    ] = None,
    out: Out = RUNS,
    no_report: NoReport = False,
    all_metrics: AllMetrics = False,
    quiet: Quiet = False,
    as_csv: AsCsv = False,
    as_json: AsJson = False,
) -> None:
    """Run a scenario, print the most important metrics and write a report.

    The exit status is 1 if a repeat failed or a limit does not hold; finished repeats are kept.
    """
    from rtclab.cli import running
    from rtclab.lab import run

    if watch_port is not None and not watched:
        raise BadInput("--watch-port: expected --watch with it")
    wanted_changes = running.changes_of(changes, control)
    seats = running.pairs("--invite", invite or (), "NAME=ADDRESS")
    shorthands = (f"duration={duration}",) if duration else ()
    changed = [*wanted_changes, *shorthands]
    wanted = running.limits_of(limits or (), flows or (), scenario, changed, resume, out)
    status = running.run_and_report(
        lambda: run(
            scenario,
            backend=backend,
            duration=duration,
            repeats=repeats,
            seed=seed,
            record=record,
            set=wanted_changes,
            begin=begin,
            end=end,
            jobs=jobs,
            capture=capture,
            out=out,
            resume=resume,
            renew=renew,
            watch=watch_port or 0 if watched else None,
            invite=seats,
            invite_wait=invite_wait,
            trust=trust,
        ),
        limits=wanted,
        report=not no_report,
        all_metrics=all_metrics,
        flows=flows,
        quiet=quiet,
        as_csv=as_csv,
        as_json=as_json,
    )
    raise typer.Exit(status)


@app.command(
    epilog="Example: rtclab sweep first-call --vary 'link.up.capacity=0.2..1 Mbit/s x8 log' "
    "--vary 'link.up.loss=0 %,2 %' --repeats 10"
)
def sweep(
    scenario: OptionalScenario = None,
    vary: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FIELD=VALUES",
            help="A field and its values: a list 'A,B,C', or a range 'FROM..TO UNIT xN'; add 'log' for a "
            "logarithmic range. May be given several times; all combinations are run. Fields that get the "
            "same value are joined: 'link.up.delay+link.down.delay=10 ms,50 ms'.",
        ),
    ] = None,
    backend: Backend = None,
    changes: Set = None,
    control: Control = None,
    duration: Duration = None,
    repeats: Repeats = None,
    seed: Seed = None,
    jobs: Jobs = None,
    metrics: Metrics = None,
    flows: Flows = None,
    begin: From = None,
    end: To = None,
    limits: Limits = None,
    traces: Annotated[
        bool,
        typer.Option(
            "--traces",
            help="Keep the trace of each simulated repeat, so that other times can be measured later.",
        ),
    ] = False,
    resume: Resume = None,
    renew: Renew = False,
    trust: Trust = False,
    out: Out = RUNS,
    no_report: NoReport = False,
    quiet: Quiet = False,
    as_csv: AsCsv = False,
    as_json: AsJson = False,
) -> None:
    """Run a scenario with every combination of some values; write one table and one report.

    Simulated repeats are measured in memory and leave no traces. Live repeats leave theirs in the directory
    of the sweep, below conditions/. Finished repeats are always kept. The exit status is 1 if a repeat failed
    or a limit does not hold in a condition.
    """
    from rtclab.cli import running
    from rtclab.experiment import check_names, open_store
    from rtclab.lab import run

    check_names(metrics or [])
    wanted_changes = running.changes_of(changes, control)
    shorthands = (f"duration={duration}",) if duration else ()
    wanted = running.limits_of(limits or (), (), scenario, [*wanted_changes, *shorthands], resume, out)
    resumed = backend or (open_store(resume, out).about.backend if resume else "sim")
    start = partial(
        run,
        scenario,
        vary=running.pairs("--vary", vary or (), "FIELD=VALUES") if vary or not resume else None,
        backend=backend,
        duration=duration,
        repeats=repeats,
        seed=seed,
        set=wanted_changes,
        metrics=metrics,
        begin=begin,
        end=end,
        traces=traces or None,
        out=out,
        resume=resume,
        renew=renew,
        trust=trust,
    )
    status = running.run_and_report(
        lambda: running.sweep_in_processes(start, jobs, simulated=resumed == "sim" and not traces),
        limits=wanted,
        report=not no_report,
        metrics=metrics or (),
        flows=flows,
        quiet=quiet,
        as_csv=as_csv,
        as_json=as_json,
    )
    raise typer.Exit(status)


@app.command(epilog="Example: rtclab gate suite.toml --junit gate.xml --markdown gate.md")
def gate(
    suite: Annotated[
        Path, typer.Argument(metavar="SUITE", help="TOML file with scenarios, limits and comparisons.")
    ],
    update_baseline: Annotated[
        bool,
        typer.Option(
            "--update-baseline",
            help="Write a new baseline instead of comparing with the old one, unless a limit is broken.",
        ),
    ] = False,
    reason: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="Why there is a new baseline, which is kept in its file."),
    ] = None,
    junit: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write JUnit XML, which hosted CIs display.")
    ] = None,
    markdown: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write Markdown, for a comment on a pull request."),
    ] = None,
    page: Page = None,
    begin: From = None,
    end: To = None,
    jobs: Jobs = None,
    trust: Trust = False,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Directory of live runs.")] = RUNS,
    quiet: Annotated[bool, _quiet("the verdict, and what fails")] = False,
    as_csv: AsCsv = False,
    as_json: AsJson = False,
) -> None:
    """Run the scenarios of a suite; check their limits, and whether a metric is worse than in the baseline.

    The exit status is 1 if a check fails, because a limit does not hold, a metric is worse by more than its
    margin and by more than chance, or something was not measured.
    """
    from rtclab.cli import tables
    from rtclab.cli.gating import show_result
    from rtclab.cli.running import EXIT_FAILED
    from rtclab.gates import gate
    from rtclab.trace import write_text

    if update_baseline != (reason is not None):
        raise BadInput(
            "--update-baseline and --reason: expected both or neither",
            hint="for example --update-baseline --reason 'frames are paced'",
        )
    result = gate(suite, begin=begin, end=end, update_baseline=reason, jobs=jobs, out=out, trust=trust)
    for file, text in ((junit, result.junit), (markdown, result.markdown)):
        if file is not None:
            file.parent.mkdir(parents=True, exist_ok=True)
            write_text(file, text())
    if page is not None:
        result.report(page)
    if as_json:
        tables.print_json(result.as_dict())
    elif not tables.print_rows(result.table(), as_csv=as_csv):
        show_result(result, quiet=quiet)
    raise typer.Exit(0 if result.passed else EXIT_FAILED)


@app.command(epilog="Example: rtclab arena goog-cc scream nada,kappa=0.4 --suite rfc8867 --repeats 10")
def arena(
    controls: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[CONTROL]...",
            help="Congestion controls, such as goog-cc or nada,kappa=0.4; by default all that come with "
            "rtclab, without the historical ones.",
            autocompletion=complete_control,
        ),
    ] = None,
    suite: Annotated[
        str,
        typer.Option(
            metavar="NAME|FILE",
            help="access, rfc8867, rfc8869, random, or a TOML file with cases of your own.",
        ),
    ] = "access",
    backend: Annotated[
        Literal["sim", "live"], typer.Option(help="Simulate (sim) or use real browsers (live).")
    ] = "sim",
    repeats: Annotated[
        int | None,
        typer.Option(
            min=1, help="Number of repeats of each case with each control; by default 10 simulated, 3 live."
        ),
    ] = None,
    jobs: Jobs = None,
    begin: From = None,
    end: To = None,
    out: Out = RUNS,
    traces: Annotated[
        bool,
        typer.Option(
            "--traces", help="Keep the trace of the first repeat of each case, and link it on the page."
        ),
    ] = False,
    trust: Trust = False,
    quiet: Annotated[bool, _quiet("the path of the page")] = False,
    as_csv: AsCsv = False,
    as_json: AsJson = False,
) -> None:
    """Run congestion controls in the same cases with the same seeds, and write a page that compares them.

    The results are the run arena-SUITE below --out, and what has finished there does not run again: the same
    command continues an arena that was stopped, and a further control runs alone. The exit status is 1 if a
    control failed somewhere; the page says where and why, and has all other results.
    """
    from rtclab.cli.arenas import arena_and_show

    raise typer.Exit(
        arena_and_show(
            controls=controls or [],
            suite=suite,
            backend=backend,
            repeats=repeats,
            jobs=jobs,
            begin=begin,
            end=end,
            out=out,
            traces=traces,
            trust=trust,
            quiet=quiet,
            as_csv=as_csv,
            as_json=as_json,
        )
    )


@app.command(epilog="Example: rtclab measure latest --from 10s --metric rtt")
def measure(
    name: RunName,
    begin: From = None,
    end: To = None,
    metrics: Metrics = None,
    by: Annotated[
        list[str] | None,
        typer.Option(
            "--by",
            metavar="FIELD",
            help="Of a sweep: a row for each value of this field, averaged over fields that are not named.",
        ),
    ] = None,
    where: Where = None,
    flows: Flows = None,
    limits: Limits = None,
    all_metrics: AllMetrics = False,
    out: Out = RUNS,
    quiet: Annotated[bool, _quiet("the limits that are broken")] = False,
    as_csv: AsCsv = False,
    as_json: AsJson = False,
) -> None:
    """Measure a run or a sweep: mean, standard deviation and 95 % confidence interval over repeats.

    --from and --to need traces, which simulated sweeps keep with --traces. The exit status is 1 if a limit
    does not hold.
    """
    from rtclab.cli import running, tables
    from rtclab.gates.checks import checks_table
    from rtclab.gates.limits import parse_options
    from rtclab.progress import busy

    wanted = parse_options(limits or (), "--assert", None)
    results = running.chosen_results(name, out, begin, end, where)
    with busy("measuring"):
        measured = results.summary(metrics=metrics or None, by=by or None)
        for limit in wanted:
            results.rows_of_flows(measured, limit.flow)  # refuses a flow that there is not
        checks = running.checks_of(wanted, results)
    tables.print_incomplete(results)
    rows = results.rows_of_flows(measured, flows)
    about: dict[str, object] = {"run": str(results.path), "window": results.window}
    if checks:
        about["limits"] = checks_table(checks).to_dicts()
    if tables.print_rows(rows, as_csv=as_csv, as_json=as_json, **about) or quiet:
        if not as_json:
            running.print_broken(checks, results, sys.stderr)
    else:
        running.show_summary(
            results, measured, metrics=metrics or (), flows=flows, by=by or (), all_metrics=all_metrics
        )
        running.print_checks(checks, results)
    raise typer.Exit(running.EXIT_FAILED if any(check.fails for check in checks) else 0)


@app.command(epilog="Example: rtclab why latest 'alice->bob' --from 10s")
def why(
    name: RunName = "latest",
    flow: Annotated[
        list[str] | None,
        typer.Argument(metavar="[FLOW …]", help="Only these flows; `*` stands for any text: '*->erin'."),
    ] = None,
    begin: From = None,
    end: To = None,
    where: Where = None,
    full: Annotated[
        bool, typer.Option("--all", help="Print the accounts behind the sentences, too.")
    ] = False,
    out: Out = RUNS,
    as_csv: AsCsv = False,
    as_json: AsJson = False,
) -> None:
    """Say why a call went as it did: what limited each flow, what its freezes were, where pictures waited.

    Of a sweep, --where chooses one condition, whose traces must have been kept.
    """
    from rtclab.cli import running, tables
    from rtclab.progress import busy

    results = running.chosen_results(name, out, begin, end, where)
    with busy("looking for reasons"):
        found = results.why(flow or None)
    tables.print_incomplete(results)
    if as_json:
        accounts = found.table().to_dicts()
        about = {"run": str(results.path), "window": results.window, "sentences": found.sentences}
        tables.print_json(about | {"accounts": accounts})
    elif not tables.print_rows(found.table(), as_csv=as_csv):
        tables.show_why(found, full=full)


@app.command(epilog="Example: rtclab remedy access/bufferbloat --for picture_delay")
def remedy(
    call: Annotated[
        str,
        typer.Argument(
            metavar="RUN|SCENARIO",
            help="A name from `rtclab runs`, a path, or `latest`; a name from `rtclab list` or a TOML file.",
            autocompletion=complete_scenario_or_run,
        ),
    ] = "latest",
    goal: Annotated[
        str,
        typer.Option(
            "--for", metavar="METRIC", help="Metric that ranks the changes.", autocompletion=complete_metric
        ),
    ] = "freeze_duration",
    begin: From = None,
    end: To = None,
    flows: Flows = None,
    changes: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="TOML file with changes of your own: tables of fields, by name."),
    ] = None,
    repeats: Annotated[int, typer.Option(min=2, help="Number of simulated calls of each change.")] = 20,
    jobs: Jobs = None,
    trust: Trust = False,
    out: Out = RUNS,
    as_csv: AsCsv = False,
    as_json: AsJson = False,
) -> None:
    """Simulate a call with one thing changed at a time, and rank the changes by what they do.

    A live run is simulated with the scenario that it was made with. The scenario of an import is estimated
    first, as by `rtclab scenario from`. The exit status is 1 if the simulation does not show the metric as
    the call has it, so that nothing is ranked.
    """
    from rtclab.cli import tables
    from rtclab.remedy import remedies

    found = remedies(
        call,
        goal=goal,
        begin=begin,
        end=end,
        flows=flows,
        own=changes,
        repeats=repeats,
        jobs=jobs,
        trust=trust,
        out=out,
    )
    if as_json:
        about = {"goal": goal, "repeats": repeats, "window": found.window, "trust": found.trust.to_dicts()}
        answer = {"sentence": found.sentence, "refusal": found.refusal, "other_goals": found.other_goals}
        tables.print_json(about | answer | {"changes": found.table().to_dicts()})
    elif not tables.print_rows(found.table(), as_csv=as_csv):
        tables.show_remedies(found)
    if found.refusal is not None and not found.cannot_improve:
        raise typer.Exit(1)


@app.command(epilog="Example: rtclab export latest values.parquet --metric rtt")
def export(
    name: RunName,
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="[FILE]",
            help="File to write; its name ends in .csv or .parquet. By default, CSV is printed.",
        ),
    ] = None,
    begin: From = None,
    end: To = None,
    metrics: Metrics = None,
    where: Where = None,
    flows: Flows = None,
    out: Out = RUNS,
    as_json: AsJson = False,
) -> None:
    """Write the value of every metric in every repeat, one row each, for other programs.

    A row has the condition and its varied fields, the repeat with its seed and status, and the metric with
    flow, unit and value.
    """
    from rtclab.cli import running, tables
    from rtclab.progress import busy

    if file is not None and as_json:
        raise BadInput("--json: expected no FILE, or no --json")
    results = running.chosen_results(name, out, begin, end, where)
    with busy("measuring"):
        if file is not None:
            results.export(file, metrics=metrics, flows=flows)
        else:
            rows = results.values_of_repeats(metrics=metrics, flows=flows)
    tables.print_incomplete(results)
    if file is not None:
        print(file)
    elif as_json:
        values = rows.to_dicts()
        tables.print_json({"run": str(results.path), "window": results.window, "values": values})
    else:
        tables.print_rows(rows, as_csv=True)


@app.command(epilog="Example: rtclab report first-call-sim-1 --plots figures --format pdf")
def report(
    name: RunName,
    plots: Annotated[Path | None, typer.Option(metavar="DIR", help="Also write each plot as a file.")] = None,
    suffix: Annotated[
        Literal["svg", "png", "pdf", "html"] | None,
        typer.Option("--format", help="Format of the files of --plots; by default svg."),
    ] = None,
    metrics: Metrics = None,
    x: Annotated[
        str | None, typer.Option("--x", metavar="FIELD", help="Of a sweep: the field along the axis.")
    ] = None,
    by: Annotated[
        str | None,
        typer.Option("--by", metavar="FIELD", help="Of a sweep: a line for each value of this field."),
    ] = None,
    average: Annotated[
        list[str] | None,
        typer.Option("--average", metavar="FIELD", help="Of a sweep: average over the values of this field."),
    ] = None,
    where: Where = None,
    flows: Flows = None,
    begin: From = None,
    end: To = None,
    out: Out = RUNS,
    as_json: AsJson = False,
) -> None:
    """Write the report of a run or a sweep, an HTML page; on request also its plots as images.

    The page of a part of the time has a name of its own, such as report-from-10s.html.
    """
    from rtclab.cli import running, tables
    from rtclab.experiment import check_names
    from rtclab.progress import busy
    from rtclab.report import SweepView, run_plots, sweep_plots, write_report, write_sweep_report

    if suffix is not None and plots is None:
        raise BadInput("--format: expected --plots with it")
    check_names(metrics or ())
    results = running.chosen_results(name, out, begin, end, where)
    chosen = SweepView(metrics=tuple(metrics or ()), x=x, by=by, flow=flows, average=tuple(average or ()))
    with busy("drawing the report"):
        summary = results.summary()
        for sentence in results.without_value(metrics or (), summary):
            print(f"{results.name}: {sentence}", file=sys.stderr)
        alone = results.drawn_over_time
        if alone and chosen != SweepView(flow=flows):
            raise BadInput(
                f"{results.name} has one condition; --flow chooses what is drawn, and the other options are "
                "for sweeps"
            )
        if alone:
            page = write_report(
                results.run, summary, results.path / f"report{results.page_suffix}.html", flows
            )
        else:
            page = write_sweep_report(results, summary, chosen)
        files = []
        if plots is not None:
            drawings = (
                run_plots(results.run, flows, results.why(flows).accounts)
                if alone
                else sweep_plots(results, summary, chosen)
            )
            files = [plot.save(plots / f"{plot.name}.{suffix or 'svg'}") for plot in drawings]
    tables.print_incomplete(results)
    if as_json:
        tables.print_json({"run": str(results.path), "page": str(page), "plots": [*map(str, files)]})
    else:
        print(page)


@app.command(epilog="Example: rtclab watch latest")
def watch(name: RunName = "latest", port: WatchPort = None, out: Out = RUNS) -> None:
    """Serve a page that shows what happens in a run, until Ctrl-C. Another process may be running it."""
    from rtclab.cli.running import EXIT_INTERRUPTED
    from rtclab.lab import watch

    try:
        watch(name, out=out, port=port or 0)
    except KeyboardInterrupt:
        raise typer.Exit(EXIT_INTERRUPTED) from None


@app.command("runs", epilog="Example: rtclab runs --out runs")
def list_runs(out: Out = RUNS, as_csv: AsCsv = False, as_json: AsJson = False) -> None:
    """List the runs, sweeps, imports and arenas below --out, the newest last."""
    from rtclab.cli import tables
    from rtclab.cli.keeping import print_runs
    from rtclab.lab import list_runs

    runs = list_runs(out)
    if not tables.print_rows(runs, as_csv=as_csv, as_json=as_json):
        print_runs(runs, out)


@app.command(epilog="Example: rtclab delete first-call-sim-1 first-call-sim-2 --yes")
def delete(
    names: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN …", help="A name below --out, a path, or `latest`.", autocompletion=complete_run
        ),
    ],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    out: Out = RUNS,
) -> None:
    """Delete runs, sweeps, imports or arenas with their traces and reports.

    Asks first on a terminal; elsewhere --yes is needed. A directory without results, and a run that is being
    written, are refused, and then nothing is deleted.
    """
    from rtclab.cli.keeping import ask
    from rtclab.lab import delete

    for path in delete(*names, out=out, confirm=None if yes else ask):
        print(f"deleted {path}")


@app.command(
    epilog="Example: rtclab compare first-call-sim-1 first-call-sim-2 --label before --label after",
)
def compare(
    runs: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN …",
            help="Two runs or sweeps or more: names below --out, paths, or `latest`. The first is the "
            "baseline. With --by one sweep.",
            autocompletion=complete_run,
        ),
    ],
    by: Annotated[
        str | None,
        typer.Option(
            metavar="FIELD",
            help="Compare the conditions of one sweep: each value of this field, such as link.up.loss, with "
            "its first. `condition` compares each condition with the first.",
        ),
    ] = None,
    labels: Annotated[
        list[str] | None,
        typer.Option("--label", metavar="TEXT", help="Name of a run in tables and plots; one for each run."),
    ] = None,
    page: Page = None,
    begin: From = None,
    end: To = None,
    unpaired: Annotated[
        bool, typer.Option("--unpaired", help="Do not pair simulated repeats with the same seeds.")
    ] = False,
    metrics: Metrics = None,
    flows: Flows = None,
    hypothesis: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="A metric that was expected to differ before anybody saw the values: it is tested alone, "
            "and the others among themselves. May be given several times; --flow says in which flow.",
            autocompletion=complete_metric,
        ),
    ] = None,
    all_metrics: AllMetrics = False,
    out: Out = RUNS,
    as_csv: AsCsv = False,
    as_json: AsJson = False,
) -> None:
    """Compare runs with the first: scenario changes, differences of the metrics, significance.

    Sweeps are compared in the conditions that they share; no traces are needed. Significance is corrected for
    the number of all compared conditions, metrics and flows. --hypothesis names a metric that was expected to
    differ before anybody saw the values, which is tested alone.
    """
    import polars as pl

    from rtclab.cli import tables
    from rtclab.cli.running import print_cautions
    from rtclab.comparing import compare
    from rtclab.experiment import check_names
    from rtclab.progress import busy

    named = [*(metrics or ()), *(hypothesis or ())]
    check_names(named)
    compared = compare(
        *runs,
        by=by,
        labels=labels,
        begin=begin,
        end=end,
        paired=not unpaired,
        metrics=metrics,
        flows=flows,
        hypothesis=hypothesis,
        out=out,
    )
    with busy("comparing"):
        table, moved = compared.table(), compared.moved()
        if page is not None:
            compared.report(page)
    for one in compared.runs:
        print_cautions(one.runs[0])
        tables.print_incomplete(one)
    measured = table.with_columns(mean=pl.coalesce("base", "new"))
    for one in {one.path: one for one in compared.runs}.values():
        for sentence in one.without_value(named, measured):
            print(f"{one.name}: {sentence}", file=sys.stderr)
    about = {
        "runs": [str(one.path) for one in compared.runs],
        "window": compared.window,
        "page": page and str(page),
        "sentences": compared.sentences(),
        "moved": {label: one.as_dict() for label, one in moved.items()},
    }
    printed = tables.print_rows(table, as_csv=as_csv, as_json=as_json, **about)
    if printed or (metrics and table.is_empty()):
        return
    every = all_metrics or bool(metrics)
    tables.show_comparison(compared, table, table if every else compared.overview(), moved)
    if not every:
        print(f"all {table['metric'].n_unique()} metrics: --all; what they mean: `rtclab metrics`")
    if page is not None:
        print(f"page: {page}")


@app.command("import", epilog="Example: rtclab import alice.pcapng bob.pcapng --names alice,bob")
def import_files(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE [FILE]",
            help="A capture (pcap, pcapng) or a log; or two captures, near the sender and near the receiver; "
            "or the event logs of both ends.",
        ),
    ],
    names: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,NAME",
            help="The two ends: alice,bob. In captures, the sender and the receiver of the first RTP packet, "
            "or names by address: 10.0.0.1=alice,10.0.0.2=bob. Of event logs, the participant that wrote the "
            "first log, and the other end.",
        ),
    ] = None,
    sdp: Sdp = None,
    corrected: Annotated[
        bool,
        typer.Option(
            "--corrected", help="Subtract the estimated difference of the clocks of two captures from delays."
        ),
    ] = False,
    out: Out = RUNS,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Make a run of captures or of logs of a call that rtclab did not run, to measure and to report.

    Captures are pcap or pcapng, from tcpdump or Wireshark. Logs are RTC event logs of Chromium, dumps of
    chrome://webrtc-internals and files of rtcstats, also with gzip. The content of a file tells what it is.
    """
    from rtclab.cli import tables
    from rtclab.cli.capture_options import names_of, sdp_text
    from rtclab.lab import import_files
    from rtclab.progress import busy
    from rtclab.trace import NS_PER_S

    of_ends, text = names_of(names), sdp_text(sdp)
    with busy("reading"):
        run = import_files(files, names=of_ends, sdp=text, corrected=corrected, out=out)
    about = run.traces[0].manifest
    notes = [] if about.capture is None else list(about.capture.notes_in_words)
    if as_json:
        tables.print_json(
            {
                "run": str(run.path),
                "participants": list(about.participants),
                "flows": list(about.flows),
                "duration_s": about.duration_ns / NS_PER_S,
                "notes": notes,
            }
        )
        return
    for note in notes:
        print(f"note: {note}", file=sys.stderr)
    if quiet:
        print(run.path)
        return
    flows = [*about.flows]
    more = [f"{len(flows) - MOST_IMPORTED_FLOWS} more flows"] if len(flows) > MOST_IMPORTED_FLOWS else []
    print(f"{run.path}: {run.scenario['duration']}, {', '.join([*flows[:MOST_IMPORTED_FLOWS], *more])}")
    from rtclab.phrases import name_for_commands

    name = name_for_commands(run.path)
    print(f"`rtclab measure {name}` and `rtclab report {name}` show it")


scenario_app = typer.Typer(
    no_args_is_help=True,
    help="Make scenarios.",
    epilog="Example: rtclab scenario from event-log-alice-bob.log",
)
app.add_typer(scenario_app, name="scenario")


@scenario_app.callback()
def scenario() -> None:
    """Make scenarios."""


@scenario_app.command("from", epilog="Example: rtclab scenario from alice.pcapng bob.pcapng --same-clock")
def scenario_from(
    calls: Annotated[
        list[str],
        typer.Argument(
            metavar="CALL [CALL]",
            help="A capture (pcap, pcapng), a log or a run; or two captures, or the event logs of both ends.",
        ),
    ],
    flow: Annotated[
        str | None,
        typer.Option(
            metavar="FLOW",
            help="The flow to take, such as 'alice->bob', with its opposite; if there are several.",
        ),
    ] = None,
    names: Annotated[
        str | None,
        typer.Option(metavar="NAME,NAME", help="The two ends, as for `rtclab import`: alice,bob."),
    ] = None,
    sdp: Sdp = None,
    same_clock: Annotated[
        bool,
        typer.Option(
            "--same-clock",
            help="The machines of two captures had synchronised clocks. By default their difference is "
            "estimated, and only the sum of the delays of both directions is known.",
        ),
    ] = False,
    repeat: Annotated[
        int | None,
        typer.Option(min=0, help="Of a run: number of the repeat; by default the first with a trace."),
    ] = None,
    begin: From = None,
    end: To = None,
    toml: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="TOML file to write; by default from-NAME.toml, here."),
    ] = None,
    page: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Page to write; by default beside the scenario, as .html."),
    ] = None,
    simulations: Annotated[
        int | None,
        typer.Option(min=1, help="Number of simulations that the page shows beside the call; by default 10."),
    ] = None,
    out: Out = RUNS,
    no_report: NoReport = False,
    as_json: AsJson = False,
) -> None:
    """Estimate a scenario from a call: its paths, with how sure each number is, and what was sent.

    Writes a TOML file, which runs simulated or live, and a page that shows the call beside its simulation. If
    the call did not load a path, its capacity is a lower bound, and the scenario has no limit.
    Files that exist are not overwritten. Of a call of more than an hour, --from and --to choose a part.
    """
    from rtclab.cli import tables
    from rtclab.cli.capture_options import names_of, sdp_text
    from rtclab.cli.estimating import files_to_write, show_estimate
    from rtclab.errors import RtclabError
    from rtclab.experiment import find_store
    from rtclab.lab import scenario_from
    from rtclab.progress import busy

    if no_report and (page is not None or simulations is not None):
        raise BadInput("--no-report: the page is not written; expected neither --page nor --simulations")
    scenario, page = files_to_write(
        find_store(calls[0], out) or Path(calls[0]), toml, page, report=not no_report
    )
    of_ends, text = names_of(names), sdp_text(sdp)
    with busy("estimating"):
        made = scenario_from(
            calls[0] if len(calls) == 1 else calls,
            flow=flow,
            names=of_ends,
            sdp=text,
            same_clock=same_clock,
            repeat=repeat,
            begin=begin,
            end=end,
            out=out,
        )
    if page is not None:
        with busy("simulating"):
            made.report(page, simulations or 10, scenario)
    try:
        made.save(scenario)
    except (OSError, RtclabError):
        if page is not None:
            page.unlink()
        raise
    if as_json:
        tables.print_json(
            {"file": str(scenario), "page": None if page is None else str(page), **made.as_dict()}
        )
        return
    show_estimate(made)
    print(f"{scenario}: `rtclab run {scenario}` simulates it")
    if page is not None:
        print(page)


@app.command(epilog="Example: rtclab replay event-log-alice-bob.log --control goog-cc --plot replay.html")
def replay(
    recordings: Annotated[
        list[Path],
        typer.Argument(metavar="FILE …", help="RTC event logs of Chromium, or captures."),
    ],
    controls: Annotated[
        list[str] | None,
        typer.Option(
            "--control",
            metavar="NAME[,OPTION=VALUE…]",
            help="A control from `rtclab list --controls`, or FILE.py:CLASS; may be given several times. For "
            "captures, a control that estimates at the receiver, such as gcc-2016.",
        ),
    ] = None,
    start: Annotated[
        str | None, typer.Option(metavar="RATE", help="Rate at the start; by default 300 kbit/s.")
    ] = None,
    least: Annotated[
        str | None, typer.Option("--min", metavar="RATE", help="Lower bound; by default 30 kbit/s.")
    ] = None,
    most: Annotated[
        str | None,
        typer.Option(
            "--max",
            metavar="RATE",
            help="Maximum bitrate of the video encoder; by default 1.7 Mbit/s.",
        ),
    ] = None,
    plot: PlotFile = None,
    as_json: AsJson = False,
) -> None:
    """Replay recorded packets into congestion controls, and compare their targets with the browser's.

    A log's packets and feedback go to a control, at the times of the log. A control that estimates at the
    receiver gets the arrivals from the feedback. A capture's packets go to a receiver's estimator alone.
    """
    from rtclab.cli import replaying, tables
    from rtclab.lab import replay
    from rtclab.progress import busy
    from rtclab.replays import ArrivalReplay, LogReplay

    if not controls:
        raise BadInput("expected --control", hint="`rtclab list --controls` lists the names")
    with busy("replaying"):
        replays = [
            replay(recording, control, start=start, min=least, max=most)
            for recording in recordings
            for control in controls
        ]
    if plot is not None:
        replaying.write_plots(plot, replays)
    if as_json:
        tables.print_json([one.figures() for one in replays])
        return
    replaying.show_logs([one for one in replays if isinstance(one, LogReplay)])
    replaying.show_captures([one for one in replays if isinstance(one, ArrivalReplay)])
    if plot is not None:
        print(f"plot: {plot}")


@app.command(
    "link",
    epilog="Example: rtclab link --up 'capacity 1 Mbit/s, delay 25 ms, queue 300 ms' "
    "--server 'iperf3 -s' -- sh -c 'iperf3 -c $RTCLAB_SERVER'",
    # Options after the command's name belong to the command.
    context_settings={"allow_interspersed_args": False},
)
def run_link(
    command: Annotated[
        list[str], typer.Argument(metavar="-- COMMAND …", help="Command to run behind the link.")
    ],
    up: Annotated[str, typer.Option(metavar="PATH", help="Path from the command to the far end.")] = "",
    down: Annotated[str, typer.Option(metavar="PATH", help="Path from the far end to the command.")] = "",
    server: Annotated[str, typer.Option(metavar="COMMAND", help="Command to run at the far end.")] = "",
    pcap: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Capture all packets at both ends, as pcapng.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed for jitter and loss.")] = 1,
    as_json: Annotated[
        bool,
        typer.Option(
            "--json", help="Print the summary as JSON; the output of the command goes to standard error."
        ),
    ] = False,
) -> None:
    """Run a command behind an emulated link, without root.

    PATH is a list such as 'capacity 1 Mbit/s, delay 25 ms, queue 300 ms, jitter 2 ms, loss 1 %'. A value
    may be a table as in a scenario: 'loss {p = 0.01, r = 0.3}', 'capacity {trace = mobile.mahimahi}',
    'queue {aqm = dualpi2}'.
    The environment variables RTCLAB_CLIENT and RTCLAB_SERVER have the addresses of the command and of the
    far end. The exit status is the command's.
    """
    from rtclab.linking import link

    result = link(command, up=up, down=down, server=server, pcap=pcap, seed=seed, output_to_stderr=as_json)
    if as_json:
        from rtclab.cli import tables

        tables.print_json(result)
    elif "directions" in result:
        from rtclab.backend.live.lab.link import summary_text

        print(summary_text(result), file=sys.stderr)
    raise typer.Exit(result["status"])


@app.command(
    epilog="Example: rtclab monitor runs/first-call-live-1/repeat-0/capture.pcapng --plot streams.html"
)
def monitor(
    captures: Annotated[
        list[Path] | None,
        typer.Argument(metavar="CAPTURE [CAPTURE]", help="pcap or pcapng; `-` is standard input."),
    ] = None,
    live: Annotated[
        str | None, typer.Option(metavar="INTERFACE", help="Monitor an interface instead, until Ctrl-C.")
    ] = None,
    duration: Annotated[
        str | None, typer.Option(metavar="TIME", help="With --live: stop after this time, such as 10s.")
    ] = None,
    sdp: Sdp = None,
    max_streams: Annotated[int, typer.Option(min=1, help="Maximum number of streams tracked.")] = 10_000,
    plot: PlotFile = None,
    parquet: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write all tables as Parquet, including every packet and second."),
    ] = None,
    as_csv: AsCsv = False,
    as_json: AsJson = False,
) -> None:
    """Show the streams in a capture: rate, loss and jitter. With two captures, also the delay between them.

    Two captures must have the same streams, the first near the sender and the second near the receiver.
    """
    from rtclab.cli import monitor, monitor_tables, tables
    from rtclab.cli.capture_options import sdp_text

    files = captures or ()
    monitor.check_options(files, live, duration, plot)
    source = live or " and ".join(map(str, files))
    is_pair = len(files) == 2
    seen = monitor.tables_of(
        files,
        live,
        duration,
        sdp=sdp_text(sdp),
        packets=parquet is not None or (is_pair and plot is not None),
        seconds=parquet is not None or plot is not None,
        max_streams=max_streams,
    )
    if parquet is not None:
        monitor.write_tables(parquet, seen, source)
    if plot is not None:
        from rtclab.report.captures import write_capture_plots, write_comparison_plots

        (write_comparison_plots if is_pair else write_capture_plots)(plot, source, seen)
    if as_json:
        # Packets and seconds are only written as files.
        printed = seen.keys() - {"packets", "seconds"}
        tables.print_json({name: table.to_dicts() for name, table in seen.items() if name in printed})
    elif not tables.print_rows(seen["streams"], as_csv=as_csv):
        (monitor_tables.show_comparison if is_pair else monitor_tables.show_capture)(seen)
        for what, path in (("tables", parquet), ("plot", plot)):
            if path is not None:
                print(f"{what}: {path}")


@app.command("doctor", epilog="Example: rtclab doctor --json")
def show_checks(as_csv: AsCsv = False, as_json: AsJson = False) -> None:
    """Check what this machine can do, and say how to install what is missing."""
    import polars as pl

    from rtclab.cli import tables
    from rtclab.machine import doctor
    from rtclab.progress import busy

    with busy("checking this machine"):
        checks = doctor()
    if not tables.print_rows(pl.DataFrame([vars(check) for check in checks]), as_csv=as_csv, as_json=as_json):
        tables.show_checks(checks)
    raise typer.Exit(0 if all(check.ok or not check.required for check in checks) else 1)


@app.command(epilog="Example: rtclab schema > scenario.schema.json")
def schema(
    fields: Annotated[
        Literal["scenario", "units", "suite", "arena"] | None,
        typer.Option(
            help="Print a list to read instead: the fields of scenarios, the units of their values, or the "
            "fields of suites of gates or arenas."
        ),
    ] = None,
) -> None:
    """Print the JSON Schema of scenarios, for editors that complete and check TOML, or a list of fields."""
    from rtclab.cli import tables
    from rtclab.scenario import Scenario

    if fields is not None:
        from rtclab.cli.fields import show_fields

        show_fields(fields)
        return
    tables.print_json(Scenario.json_schema())


as_commands(app, scenario_app)
