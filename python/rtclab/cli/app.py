"""The commands. Each imports what it needs when it runs, so that ``rtclab --help`` is fast."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from typer.core import TyperGroup

from rtclab.errors import BadInput

EXIT_BROKEN_PIPE = 141
"""128 + SIGPIPE, which a shell reports when the reader of a pipe has exited."""


class Commands(TyperGroup):
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
        "--repeat",
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
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print only the path of the run.")]
AsCsv = Annotated[bool, typer.Option("--csv", help="Print CSV, for a spreadsheet.")]
AllMetrics = Annotated[bool, typer.Option("--all", help="Print all metrics, with standard deviations.")]
Metrics = Annotated[
    list[str] | None,
    typer.Option(
        "--metric",
        metavar="NAME",
        help="Print only this metric; may be given several times. `rtclab metrics` lists all metrics.",
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
PLOT_HELP = "the name ends in .html, .svg, .png or .pdf."
Where = Annotated[
    list[str] | None,
    typer.Option(
        "--where",
        metavar="FIELD=VALUE",
        help="Only the conditions of a sweep with this value, as it was given.",
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
    every: Annotated[
        bool, typer.Option("--all", help="Also list each condition of the published papers.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """List the scenarios that come with rtclab, or the congestion controls with their options.

    The conditions of published papers are only counted, unless you ask for them. --json lists everything.
    """
    from rtclab.cli.listing import list_controls, list_scenarios

    if controls:
        if folders or every:
            raise BadInput("--controls takes neither folders nor --all")
        list_controls(as_json=as_json)
    else:
        list_scenarios(folders or [], every=every, as_json=as_json)


@app.command("metrics", epilog="Example: rtclab metrics rtt")
def list_metrics(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME …]", help="Only these metrics.", autocompletion=complete_metric),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the metrics with unit, definition and source."""
    from rtclab.cli import tables
    from rtclab.cli.running import chosen
    from rtclab.experiment import check_names
    from rtclab.lab import list_metrics

    check_names(names or [])
    metrics = chosen(list_metrics(), names or [])
    if as_json:
        tables.print_json(metrics.to_dicts())
    else:
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
    limits: Annotated[
        list[str] | None,
        typer.Option(
            "--assert",
            metavar="LIMIT",
            help="A limit for the mean over the repeats, such as 'rtt_p95 < 150 ms' or "
            "'frame_rate of alice->bob >= 25 frame/s'; may be given several times.",
        ),
    ] = None,
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
    as_json: AsJson = False,
) -> None:
    """Run a scenario, print the most important metrics and write a report.

    The exit status is 1 if a repeat failed or a limit does not hold; finished repeats are kept.
    """
    from rtclab.cli.running import RunOutput, changes_of, limits_of, run_and_report, seats_of
    from rtclab.lab import run

    if watch_port is not None and not watched:
        raise BadInput("--watch-port: expected --watch with it")
    wanted_changes = changes_of(changes, control)
    seats = seats_of(invite or ())
    shorthands = (f"duration={duration}",) if duration else ()
    wanted = limits_of(limits or (), flows or (), scenario, [*wanted_changes, *shorthands], resume, out)
    status = run_and_report(
        RunOutput(not no_report, all_metrics, as_json, quiet=quiet, flows=flows),
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
        wanted,
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
    as_json: AsJson = False,
) -> None:
    """Run a scenario with every combination of some values; write one table and one report.

    Simulated repeats are measured in memory and leave no traces. Live repeats leave theirs in the directory
    of the sweep, below conditions/. Finished repeats are always kept. The exit status is 1 if a repeat
    failed.
    """
    from rtclab.cli import running
    from rtclab.experiment import check_names, open_store
    from rtclab.lab import sweep

    check_names(metrics or [])
    wanted_changes = running.changes_of(changes, control)
    resumed = backend or (open_store(resume, out).about.backend if resume else "sim")
    start = partial(
        sweep,
        scenario,
        running.fields_of(vary or []),
        backend=backend,
        duration=duration,
        repeats=repeats,
        seed=seed,
        set=wanted_changes,
        metrics=metrics,
        begin=begin,
        end=end,
        traces=traces,
        out=out,
        resume=resume,
        renew=renew,
        trust=trust,
    )
    status = running.run_and_report(
        running.RunOutput(not no_report, as_json=as_json, metrics=metrics or (), quiet=quiet, flows=flows),
        lambda: running.sweep_in_processes(start, jobs, simulated=resumed == "sim" and not traces),
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
    page: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a page with every check.")] = None,
    begin: From = None,
    end: To = None,
    jobs: Jobs = None,
    trust: Trust = False,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Directory of live runs.")] = RUNS,
    as_json: AsJson = False,
) -> None:
    """Run the scenarios of a suite; check their limits, and whether a metric is worse than in the baseline.

    The exit status is 1 if a check fails, because a limit does not hold, a metric is worse by more than its
    margin and by more than chance, or something was not measured.
    """
    from rtclab.cli.gating import Files, gate_and_show

    if update_baseline != (reason is not None):
        raise BadInput(
            "--update-baseline and --reason: expected both or neither",
            hint="for example --update-baseline --reason 'frames are paced'",
        )
    files = Files(junit, markdown, page)
    raise typer.Exit(gate_and_show(suite, files, reason, begin, end, jobs, out, as_json=as_json, trust=trust))


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
    into: Annotated[
        Path | None,
        typer.Option(
            "--into",
            "--out",
            metavar="DIR",
            help="Directory of the arena; what has finished there does not run again. By default "
            "runs/arena-SUITE.",
        ),
    ] = None,
    weights: Annotated[
        str | None,
        typer.Option(
            metavar="FILE|NAME=NUMBER,...",
            help="Add a score with these weights, such as rate_attained=1,queuing_delay_p95=2.",
        ),
    ] = None,
    traces: Annotated[
        bool,
        typer.Option(
            "--traces", help="Keep the trace of the first repeat of each case, and link it on the page."
        ),
    ] = False,
    trust: Trust = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only the path of the page.")] = False,
) -> None:
    """Run congestion controls in the same cases with the same seeds, and write a page that compares them.

    The same command continues an arena that was stopped, and a further control runs alone. The exit status is
    1 if a control failed somewhere; the page says where and why, and has all other results.
    """
    from rtclab.cli.arenas import arena_and_show

    raise typer.Exit(
        arena_and_show(
            controls or [],
            suite=suite,
            backend=backend,
            repeats=repeats,
            jobs=jobs,
            into=into,
            weights=weights,
            traces=traces,
            trust=trust,
            quiet=quiet,
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
    all_metrics: AllMetrics = False,
    out: Out = RUNS,
    as_csv: AsCsv = False,
    as_json: AsJson = False,
) -> None:
    """Measure a run or a sweep: mean, standard deviation and 95 % confidence interval over repeats.

    --from and --to need traces, which simulated sweeps keep with --traces.
    """
    from rtclab.cli.measuring import TableOutput, measure_and_show

    output = TableOutput(all_metrics, as_csv, as_json)
    measure_and_show(name, out, begin, end, metrics or [], by or [], where or [], flows, output)


@app.command(epilog="Example: rtclab report first-call-sim-1 --plots figures --format pdf")
def report(
    name: RunName,
    plots: Annotated[Path | None, typer.Option(metavar="DIR", help="Also write each plot as a file.")] = None,
    suffix: Annotated[
        Literal["svg", "png", "pdf", "html"] | None,
        typer.Option("--format", help="Format of the files of --plots; by default svg."),
    ] = None,
    metrics: Annotated[
        list[str] | None,
        typer.Option(
            "--metric",
            metavar="NAME",
            help="Of a sweep: draw only this metric; may be given several times.",
            autocompletion=complete_metric,
        ),
    ] = None,
    x: Annotated[
        str | None, typer.Option("--x", metavar="FIELD", help="Of a sweep: the field along the axis.")
    ] = None,
    lines: Annotated[
        str | None,
        typer.Option("--lines", metavar="FIELD", help="Of a sweep: a line for each value of this field."),
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
    from rtclab.cli.measuring import Drawn, report_and_show

    if suffix is not None and plots is None:
        raise BadInput("--format: expected --plots with it")
    drawn = Drawn(metrics or [], x, lines, flows, average or [], where or [], begin, end)
    report_and_show(name, out, plots, suffix or "svg", drawn, as_json=as_json)


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
    from rtclab.cli.keeping import list_and_show

    list_and_show(out, as_csv=as_csv, as_json=as_json)


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
    from rtclab.cli.keeping import delete_runs

    delete_runs(names, out, yes=yes)


@app.command(epilog="Example: rtclab compare first-call-sim-1 first-call-sim-2 --label before --label after")
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
    page: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write a page with plots of all, as HTML.")
    ] = None,
    begin: From = None,
    end: To = None,
    unpaired: Annotated[
        bool, typer.Option("--unpaired", help="Do not pair simulated repeats with the same seeds.")
    ] = False,
    metrics: Metrics = None,
    flows: Flows = None,
    all_metrics: AllMetrics = False,
    out: Out = RUNS,
    as_csv: AsCsv = False,
    as_json: AsJson = False,
) -> None:
    """Compare runs with the first: scenario changes, differences of the metrics, significance.

    Sweeps are compared in the conditions that they share; no traces are needed. Chance is corrected for the
    number of all compared conditions, metrics and flows. --metric and --flow name the ones that a question
    is about, chosen before looking at the values.
    """
    from rtclab.cli.measuring import CompareRequest, TableOutput, compare_and_show

    compare_and_show(
        CompareRequest(runs, by, labels, out, begin, end, not unpaired, metrics, flows, page),
        TableOutput(all_metrics, as_csv, as_json),
    )


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
    sdp: Annotated[
        Path | None, typer.Option(metavar="FILE", help="SDP that describes the codecs of a captured call.")
    ] = None,
    corrected: Annotated[
        bool,
        typer.Option(
            "--corrected", help="Subtract the estimated difference of the clocks of two captures from delays."
        ),
    ] = False,
    out: Out = RUNS,
    as_json: AsJson = False,
) -> None:
    """Make a run of captures or of logs of a call that rtclab did not run, to measure and to report.

    Captures are pcap or pcapng, from tcpdump or Wireshark. Logs are RTC event logs of Chromium, dumps of
    chrome://webrtc-internals and files of rtcstats, also with gzip. The content of a file tells what it is.
    """
    from rtclab.cli.importing import ImportRequest, import_and_show

    import_and_show(ImportRequest(files, names, sdp, corrected, out, as_json))


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
    sdp: Annotated[
        Path | None, typer.Option(metavar="FILE", help="SDP that describes the codecs of a captured call.")
    ] = None,
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
    begin: Annotated[
        str | None,
        typer.Option("--from", metavar="TIME", help="Take the call from this time on, such as 10s."),
    ] = None,
    end: Annotated[
        str | None, typer.Option("--to", metavar="TIME", help="Take the call up to this time.")
    ] = None,
    scenario: Annotated[
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
    from rtclab.cli.estimating import EstimateRequest, estimate_and_show

    if no_report and (page is not None or simulations is not None):
        raise BadInput("--no-report: the page is not written; expected neither --page nor --simulations")
    count = simulations or 10
    request = EstimateRequest(
        calls, flow, names, sdp, same_clock, repeat, begin, end, scenario, page, count, out, as_json
    )
    estimate_and_show(request, report=not no_report)


@app.command(epilog="Example: rtclab replay event-log-alice-bob.log --control goog-cc --plot replay.html")
def replay(
    recordings: Annotated[
        list[Path],
        typer.Argument(metavar="LOG …", help="RTC event logs of Chromium; with --estimator, captures."),
    ],
    controllers: Annotated[
        list[str] | None,
        typer.Option(
            "--control",
            "--controller",
            metavar="NAME[,OPTION=VALUE…]",
            help="A control from `rtclab list --controls`, or FILE.py:CLASS; may be given several times.",
        ),
    ] = None,
    estimators: Annotated[
        list[str] | None,
        typer.Option(
            "--estimator",
            metavar="NAME[,OPTION=VALUE…]",
            help="A control that estimates at the receiver, such as gcc-2016; may be given several times.",
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
    plot: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help=f"Plot the rates; {PLOT_HELP}"),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Replay recorded packets into congestion controls, and compare their targets with the browser's.

    A log's packets and feedback go to a control, at the times of the log; if it estimates at the receiver,
    that half gets the arrivals in the feedback. A capture's packets go to an estimator at the receiver alone.
    """
    from rtclab.cli.replaying import ReplayRequest, replay_and_show

    rates = (start, least, most)
    replay_and_show(ReplayRequest(recordings, controllers or [], estimators or [], rates, plot, as_json))


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
    from rtclab.cli import tables
    from rtclab.lab import link

    result = link(command, up=up, down=down, server=server, pcap=pcap, seed=seed, output_to_stderr=as_json)
    if as_json:
        tables.print_json(result)
    elif "directions" in result:
        from rtclab.backend.live.link import summary_text

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
    sdp: Annotated[
        Path | None, typer.Option(metavar="FILE", help="SDP that describes codecs and header extensions.")
    ] = None,
    max_streams: Annotated[int, typer.Option(min=1, help="Maximum number of streams tracked.")] = 10_000,
    plot: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help=f"Plot rates and, with two captures, delays; {PLOT_HELP}"),
    ] = None,
    parquet: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write all tables as Parquet, including every packet and second."),
    ] = None,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print the table of streams as CSV.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show the streams in a capture: rate, loss and jitter. With two captures, also the delay between them.

    Two captures must have the same streams, the first near the sender and the second near the receiver.
    """
    from rtclab.cli.monitor import MonitorRequest, run_monitor

    run_monitor(
        MonitorRequest(captures or [], live, duration, sdp, max_streams, as_json, as_csv, parquet, plot)
    )


@app.command("doctor", epilog="Example: rtclab doctor --json")
def show_checks(as_json: AsJson = False) -> None:
    """Check what this machine can do, and say how to install what is missing."""
    from rtclab.cli import tables
    from rtclab.machine import doctor
    from rtclab.progress import busy

    with busy("checking this machine"):
        checks = doctor()
    if as_json:
        tables.print_json([vars(check) for check in checks])
    else:
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
