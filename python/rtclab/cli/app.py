"""The commands. Each imports what it needs when it runs, so that ``rtclab --help`` is quick."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from rtclab.errors import BadInput

app = typer.Typer(
    name="rtclab",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    help="A laboratory for real-time calls: one scenario, simulated or live, one trace.",
    epilog="Example: rtclab run first-call",
)


def complete_scenario(incomplete: str) -> list[str]:
    """Shipped scenarios; the shell completes files by itself."""
    from rtclab.scenario import shipped

    return [name for name in shipped() if name.startswith(incomplete)]


def complete_run(incomplete: str) -> list[str]:
    """Runs and sweeps below the usual directory."""
    names = [path.name for path in RUNS.iterdir()] if RUNS.is_dir() else []
    return sorted(name for name in ["latest", *names] if name.startswith(incomplete))


def complete_metric(incomplete: str) -> list[str]:
    """Names of metrics."""
    from rtclab.metrics import METRICS

    return [name for name in METRICS if name.startswith(incomplete)]


ScenarioName = Annotated[
    str,
    typer.Argument(
        metavar="SCENARIO",
        help="A name from `rtclab list`, or a TOML file.",
        autocompletion=complete_scenario,
    ),
]
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
Out = Annotated[Path, typer.Option("--out", metavar="DIR", help="Directory of runs.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]
AsCsv = Annotated[bool, typer.Option("--csv", help="Print CSV, for a spreadsheet.")]
Every = Annotated[bool, typer.Option("--all", help="Print every metric, with deviations.")]
Metrics = Annotated[
    list[str] | None,
    typer.Option(
        "--metric",
        metavar="NAME",
        help="Print this metric only; may be repeated. `rtclab metrics` lists them.",
        autocompletion=complete_metric,
    ),
]
From = Annotated[
    str | None, typer.Option("--from", metavar="TIME", help="Measure from this time on, such as 10s.")
]
To = Annotated[str | None, typer.Option("--to", metavar="TIME", help="Measure up to this time.")]
RUNS = Path("runs")


def version(wanted: bool) -> None:
    """Prints the version and ends."""
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
    """A laboratory for real-time calls: one scenario, simulated or live, one trace."""


@app.command("list", epilog="Example: rtclab list --json")
def list_scenarios(as_json: AsJson = False) -> None:
    """List the scenarios that come with rtclab."""
    from rtclab.cli import tables
    from rtclab.lab import list_scenarios

    scenarios = list_scenarios()
    if as_json:
        tables.print_json(scenarios.to_dicts())
    else:
        tables.show_scenarios(scenarios)


@app.command("metrics", epilog="Example: rtclab metrics --json")
def list_metrics(as_json: AsJson = False) -> None:
    """List the metrics with unit, definition and source."""
    from rtclab.cli import tables
    from rtclab.lab import list_metrics

    metrics = list_metrics()
    if as_json:
        tables.print_json(metrics.to_dicts())
    else:
        tables.show_definitions(metrics)


@app.command(epilog="Example: rtclab show first-call --set 'link.up.capacity=2 Mbit/s'")
def show(scenario: ScenarioName, changes: Set = None, as_json: AsJson = False) -> None:
    """Show a scenario with all defaults filled in: participants, paths and flows."""
    from rtclab.cli import tables
    from rtclab.scenario import Scenario

    loaded = Scenario.load(scenario, changes or [])
    if as_json:
        flows = [flow.as_dict() for flow in loaded.flows()]
        tables.print_json(loaded.model_dump(mode="json") | {"flows": flows, "network": loaded.network()})
    else:
        tables.show_scenario(loaded)


@app.command(epilog="Example: rtclab run first-call --backend live --duration 20s --repeats 1")
def run(
    scenario: Annotated[
        str | None,
        typer.Argument(
            metavar="SCENARIO",
            help="A name from `rtclab list`, or a TOML file.",
            autocompletion=complete_scenario,
        ),
    ] = None,
    backend: Annotated[
        Literal["sim", "live"] | None,
        typer.Option(help="Virtual time, or real browsers; sim if neither this nor --resume is given."),
    ] = None,
    changes: Set = None,
    duration: Annotated[str | None, typer.Option(metavar="TIME", help="Length of the call: 20s.")] = None,
    repeats: Annotated[
        int | None, typer.Option("--repeats", "--repeat", min=1, help="Number of repeats.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, help="Seed from which each repeat derives its own.")
    ] = None,
    record: Annotated[
        Literal["packets", "seconds"] | None, typer.Option(help="Keep every packet, or sums per second.")
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Repeats to run at the same time; by default one per core.")
    ] = None,
    resume: Annotated[
        str | None,
        typer.Option(
            metavar="RUN",
            help="Continue a run: only repeats that have not finished.",
            autocompletion=complete_run,
        ),
    ] = None,
    capture: Annotated[
        bool,
        typer.Option(
            "--capture",
            help="Write capture.pcapng and capture.sdp beside each simulated trace. For short runs: a minute "
            "of first-call takes 3 MB, all in memory until the end. Live calls always leave a capture.",
        ),
    ] = False,
    out: Out = RUNS,
    no_report: Annotated[bool, typer.Option("--no-report", help="Write no HTML report.")] = False,
    every: Every = False,
    as_json: AsJson = False,
) -> None:
    """Run a scenario, print the metrics to look at first and write its report.

    Ends with 1 if a repeat failed; what finished is kept.
    """
    from rtclab.cli.running import Output, run_and_report

    status = run_and_report(
        Output(report=not no_report, every_metric=every, as_json=as_json),
        scenario=scenario,
        backend=backend,
        duration=duration,
        repeats=repeats,
        seed=seed,
        record=record,
        changes=changes or (),
        jobs=jobs,
        capture=capture,
        out=out,
        resume=resume,
    )
    raise typer.Exit(status)


@app.command(
    epilog="Example: rtclab sweep first-call --vary 'link.up.capacity=0.2..5 Mbit/s x8 log' "
    "--vary 'link.up.loss=0 %,2 %' --repeats 10"
)
def sweep(
    scenario: Annotated[
        str | None,
        typer.Argument(
            metavar="SCENARIO",
            help="A name from `rtclab list`, or a TOML file.",
            autocompletion=complete_scenario,
        ),
    ] = None,
    vary: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FIELD=VALUES",
            help="A field and its values, as a list 'A,B,C' or a range 'FROM..TO UNIT xN', with `log` at its "
            "end for a logarithmic one. Several fields are combined.",
        ),
    ] = None,
    backend: Annotated[
        Literal["sim", "live"] | None,
        typer.Option(help="Virtual time, or real browsers; sim if neither this nor --resume is given."),
    ] = None,
    changes: Set = None,
    duration: Annotated[str | None, typer.Option(metavar="TIME", help="Length of the call: 20s.")] = None,
    repeats: Annotated[int | None, typer.Option(min=1, help="Number of repeats of each combination.")] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, help="Seed from which each repeat derives its own.")
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Repeats to run at the same time; by default one per core.")
    ] = None,
    resume: Annotated[
        str | None,
        typer.Option(
            metavar="SWEEP",
            help="Continue a sweep: only repeats that have not finished.",
            autocompletion=complete_run,
        ),
    ] = None,
    out: Out = RUNS,
    no_report: Annotated[bool, typer.Option("--no-report", help="Write no HTML report.")] = False,
    as_json: AsJson = False,
) -> None:
    """Run a scenario with every combination of values of some fields; one table and one page.

    Simulated repeats are measured in memory; live ones are kept as runs below the sweep. Ends with 1 if a
    repeat failed; what finished is kept.
    """
    from rtclab.cli.sweeping import Output, sweep_and_report

    status = sweep_and_report(
        Output(report=not no_report, as_json=as_json),
        vary or [],
        jobs,
        backend,
        scenario=scenario,
        duration=duration,
        repeats=repeats,
        seed=seed,
        changes=changes or (),
        out=out,
        resume=resume,
    )
    raise typer.Exit(status)


@app.command(epilog="Example: rtclab measure latest --from 10s --metric rtt")
def measure(
    name: RunName,
    begin: From = None,
    end: To = None,
    metrics: Metrics = None,
    every: Every = False,
    out: Out = RUNS,
    as_csv: AsCsv = False,
    as_json: AsJson = False,
) -> None:
    """Measure a run from its traces: mean, deviation and 95 % interval over repeats.

    Without --from, --to and --metric the result is also written into the run, as metrics.json.
    """
    from rtclab.cli.measuring import Shown, measure_and_show

    measure_and_show(name, out, begin, end, metrics or [], Shown(every, as_csv, as_json))


@app.command(epilog="Example: rtclab report first-call-sim-1 --svg plots")
def report(
    name: RunName,
    svg: Annotated[Path | None, typer.Option(metavar="DIR", help="Also write each plot as an SVG.")] = None,
    png: Annotated[Path | None, typer.Option(metavar="DIR", help="Also write each plot as a PNG.")] = None,
    out: Out = RUNS,
    as_json: AsJson = False,
) -> None:
    """Write the report of a run: one HTML page, and pictures of its plots on request."""
    from rtclab.cli import tables
    from rtclab.progress import busy
    from rtclab.report import write_plots, write_report
    from rtclab.trace import Run

    run = Run.open(name, out=out)
    with busy("drawing the report"):
        written = write_report(run)
        for directory, suffix in ((svg, ".svg"), (png, ".png")):
            if directory is not None:
                write_plots(run, directory, suffix)
    if as_json:
        tables.print_json({"report": str(written)})
    else:
        print(written)


@app.command(epilog="Example: rtclab compare first-call-sim-1 first-call-live-1")
def compare(
    a: RunName,
    b: RunName,
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="HTML page to write.")] = None,
    begin: From = None,
    end: To = None,
    metrics: Metrics = None,
    every: Every = False,
    out: Out = RUNS,
    as_csv: AsCsv = False,
    as_json: AsJson = False,
) -> None:
    """Compare the metrics of two runs: differences and confidence intervals."""
    from rtclab.cli.measuring import Shown, compare_and_show

    compare_and_show((a, b), out, begin, end, metrics or [], html, Shown(every, as_csv, as_json))


@app.command(
    "link",
    epilog="Example: rtclab link --up 'capacity 1 Mbit/s, delay 25 ms, queue 300 ms' "
    "--server 'iperf3 -s' -- sh -c 'iperf3 -c $RTCLAB_SERVER'",
    # What follows the command's name is the command's.
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
        Path | None, typer.Option(metavar="FILE", help="Write every packet of both ends, as pcapng.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of jitter and loss.")] = 1,
    as_json: Annotated[
        bool,
        typer.Option(
            "--json", help="Print the summary as JSON; what the command prints goes to standard error."
        ),
    ] = False,
) -> None:
    """Run a command behind an emulated link; no root needed.

    PATH is a list such as 'capacity 1 Mbit/s, delay 25 ms, queue 300 ms, jitter 2 ms, loss 1 %'. A value
    may be a table as in a scenario: 'loss {p = 0.01, r = 0.3}', 'capacity {trace = "mobile.mahimahi"}'.
    The command finds the addresses of the two sides in RTCLAB_CLIENT (its own) and RTCLAB_SERVER.
    Ends with the status of the command.
    """
    from rtclab.backend.live.link import summary_text
    from rtclab.cli import tables
    from rtclab.lab import link

    result = link(command, up=up, down=down, server=server, pcap=pcap, seed=seed, output_to_stderr=as_json)
    if as_json:
        tables.print_json(result)
    elif "directions" in result:
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
        str | None, typer.Option(metavar="INTERFACE", help="Watch an interface instead, until Ctrl-C.")
    ] = None,
    duration: Annotated[
        str | None, typer.Option(metavar="TIME", help="With --live: stop after this time (10s).")
    ] = None,
    sdp: Annotated[
        Path | None, typer.Option(metavar="FILE", help="SDP with the codecs and header extensions.")
    ] = None,
    max_streams: Annotated[int, typer.Option(min=1, help="Maximum number of streams tracked.")] = 10_000,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Plot rates, and delays between two: .html or .svg.")
    ] = None,
    parquet: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write all tables, with every packet and second.")
    ] = None,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print the table of streams as CSV.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show the streams in a capture: rate, loss, jitter. With two captures, also the delay between them.

    Two captures show the same streams, the first near the sender and the second near the receiver.
    """
    from rtclab.cli.monitor import MonitorRequest, run_monitor

    run_monitor(
        MonitorRequest(captures or [], live, duration, sdp, max_streams, as_json, as_csv, parquet, plot)
    )


@app.command(epilog="Example: rtclab reproduce singh2013 --repeats 3")
def reproduce(
    papers: Annotated[
        list[str] | None,
        typer.Argument(metavar="PAPER …", help="Names from --papers, or `all`."),
    ] = None,
    list_papers: Annotated[bool, typer.Option("--papers", help="List the papers and exit.")] = False,
    repeats: Annotated[
        int | None, typer.Option(min=1, help="Repeats of each scenario, instead of its own number.")
    ] = None,
    jobs: Annotated[int | None, typer.Option(min=1, help="Processes; by default one per core.")] = None,
    out: Out = RUNS,
    docs: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write a page for the documentation.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run the conditions of published papers and put our results beside theirs.

    Finished repeats are kept below --out. They run again only if the scenario or rtclab changed.
    Ends with 1 if a repeat failed.
    """
    from rtclab.cli.reproducing import ReproduceRequest, run_and_compare, show_papers

    if list_papers:
        show_papers(as_json=as_json)
        return
    if not papers:
        raise BadInput("no paper was named", hint="`rtclab reproduce --papers` shows them; or `all`")
    raise typer.Exit(run_and_compare(ReproduceRequest(papers, repeats, jobs, out, docs, as_json)))


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
def schema() -> None:
    """Print the JSON Schema of scenarios, for editors that complete and check TOML."""
    from rtclab.cli import tables
    from rtclab.scenario import Scenario

    tables.print_json(Scenario.json_schema())


@app.command(epilog="Example: rtclab validate --out docs/sim-vs-live.md")
def validate(
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="By default docs/sim-vs-live.md or docs/tcp-vs-kernel.md."),
    ] = None,
    runs: Annotated[Path, typer.Option(metavar="DIR", help="Directory of runs.")] = RUNS,
    repeats: Annotated[
        int | None, typer.Option(min=1, help="Repeats of each scenario, instead of its own number.")
    ] = None,
    keep_live: Annotated[
        bool, typer.Option("--keep-live", help="Use the newest live runs in DIR instead of new ones.")
    ] = False,
    tcp: Annotated[
        bool, typer.Option("--tcp", help="Compare the simulator's TCP with the kernel's instead.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Run the four comparison scenarios simulated and live, and write how far apart they are."""
    if tcp and (repeats is not None or keep_live):
        raise BadInput("--tcp makes no calls, so it takes neither --repeats nor --keep-live")
    from rtclab.cli.validating import validate_and_show

    validate_and_show(out, runs, repeats, keep_live=keep_live, tcp=tcp, as_json=as_json)
