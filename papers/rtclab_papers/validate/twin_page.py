"""The page that compares simulated and live calls in random conditions, and its plots."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from rtclab.arenas import random_calls
from rtclab.metrics import METRICS
from rtclab_papers.csv_files import beside, read_table, schema_of
from rtclab_papers.markdown import bullets, folded, table, write_page
from rtclab_papers.validate import again, kinds, meetings, recorded
from rtclab_papers.validate.conditions import GROUPS
from rtclab_papers.validate.outcome_files import read_chances
from rtclab_papers.validate.outcomes import (
    SIMULATED_REPEATS,
    ConditionOutcome,
    ErrorByChance,
    ErrorsByChance,
    ValuePair,
    counted,
)
from rtclab_papers.validate.scores import (
    CLOSE,
    COLUMNS,
    NO_CHANCES,
    MetricScore,
    by_group,
    condition_table,
    errors_of,
    goal_words,
    luck_words,
    median_of,
    metric_words,
    of_group,
    pairs_of,
    percent,
    result_words,
    score,
    score_tables,
    scores_of,
    share,
)
from rtclab_papers.validate.twin import stored
from rtclab_papers.validate.twin_plots import SCATTERED, against_chance, drawings

HELD_OUT = "151-200"
"""The group whose figures are compared with the goals, and with chance."""
RESULT = "held-out"
"""The name of the figure that shows the result."""
SHOWN = (
    "receiving_rate",
    "rtt",
    "queuing_delay_p95",
    "frame_rate",
    "freeze_count_w3c",
    "jitter_buffer_delay",
    "audio_concealed",
    "tcp_throughput",
)
"""The metrics whose errors are shown for each further condition, where one of them knows the metric."""
REASONS = schema_of("name text, reason text")
"""The columns of the reasons for the worst conditions, by the name of the condition."""
WORST = 10
FROZEN = {"freeze_count_w3c": ("freezes", ""), "freeze_duration_w3c": ("time frozen", " s")}
"""The metrics of freezes, with their names and units in the figures."""
UNTIL_DTLS = ("setup_signalling", "setup_ice", "setup_dtls")
"""The stages from joining to the end of DTLS."""
FREEZES_APART = 1.0
"""Freezes, or seconds of freeze, that may differ."""
FREEZES_RATIO = 0.3
"""Share of the live value by which freezes may differ."""
LADDER_STEP = math.sqrt(3 / 4)
"""Half a step of libwebrtc's resolutions, whose neighbouring heights are 3/4 or 2/3 of each other."""


def write_twin(page: Path, outcomes: Sequence[ConditionOutcome], rows: Path) -> None:
    """Writes the page, and its plots beside it.

    Args:
        page: the Markdown file. Text below its line ``NOTES`` is kept.
        outcomes: the conditions.
        rows: the file of their rows. Beside it may be ``NAME-reasons.csv``, with columns ``name`` and
            ``reason``, written by hand, and the rows ``NAME-repeats.csv`` (conditions that were run again),
            ``NAME-kinds.csv`` (kinds of calls), ``NAME-recorded.csv`` (recorded networks) and
            ``NAME-meetings.csv``.
    """
    known, lucky = _held_out(outcomes, rows)
    result = [one for one in (against_chance(known, lucky, RESULT),) if one]
    drawn = [*result, *drawings(outcomes, GROUPS), *again.drawings(beside(rows, "repeats"))]
    write_page(page, _page(page.stem, outcomes, rows), drawn)


def _held_out(
    outcomes: Sequence[ConditionOutcome], rows: Path
) -> tuple[list[MetricScore], dict[str, ErrorByChance]]:
    """The scores of the conditions that are held out, and their errors by chance."""
    return scores_of(by_group(outcomes, [HELD_OUT]).get(HELD_OUT, [])), of_group(read_chances(rows), HELD_OUT)


def _page(stem: str, outcomes: Sequence[ConditionOutcome], rows: Path) -> Iterator[str]:
    yield from _result(stem, outcomes, rows)
    yield from introduction()
    if outcomes:
        lucky = {key: one for key, one in read_chances(rows).items() if key[0] == HELD_OUT}
        yield from errors(outcomes, GROUPS, goals=HELD_OUT, chances=lucky)
        yield from _figures(outcomes)
        yield from plots(stem, outcomes, GROUPS)
        yield from _worst(outcomes, dict(read_table(beside(rows, "reasons"), REASONS).iter_rows()))
    yield from again.section([one.condition for one in outcomes], beside(rows, "repeats"), stem)
    yield from _failures(outcomes)
    for chosen in (kinds, recorded, meetings):
        file = beside(rows, chosen.GROUP)
        if found := stored(chosen.known_conditions(), file):
            yield from section(chosen.introduction(), found, chosen.GROUPS, read_chances(file))
    yield from distribution(random_calls.DISTRIBUTION)


def _result(stem: str, outcomes: Sequence[ConditionOutcome], rows: Path) -> Iterator[str]:
    """The page above its sections: the question, the result in sentences, and the figure that shows it."""
    yield "# The twin: random conditions, simulated against live"
    known, lucky = _held_out(outcomes, rows)
    count = len(by_group(outcomes, [HELD_OUT]).get(HELD_OUT, ()))
    if not count:
        yield "How well does a simulation predict a live call in a network that is drawn at random?"
        return
    where = f"{count} conditions to which no model was fitted ({GROUPS[HELD_OUT]})"
    yield "\n".join(
        [
            "How well does a simulation predict a live call in a network that is drawn at random?",
            *result_words(known, where),
            *([luck_words(known, lucky)] if lucky else []),
        ]
    )
    if lucky:
        yield f"![{luck_words(known, lucky)}]({stem}-{RESULT}.svg)".replace("\n", " ")
        yield """\
A bar is a median error of the simulation against live calls. A dot is the error that live calls
would have by chance, with the smallest and the largest: a model without any fault reaches it."""


def distribution(properties: Sequence[tuple[str, str]]) -> Iterator[str]:
    """The section on the distribution of random conditions: each property, and its distribution."""
    yield "## Distribution of the conditions"
    yield folded(f"{len(properties)} properties", table(["property", "distribution"], properties))


def introduction() -> Iterator[str]:
    """The section on how the calls were made and compared."""
    yield "## How it was measured"
    yield "Each live call here has a twin, which is simulated in the same condition."
    count, duration_s = SIMULATED_REPEATS, random_calls.DURATION_S
    level = 100 * (count - 1) / (count + 1)
    yield f"""\
Made by `rtclab validate random`. Each condition is a call of two people, drawn from the
distribution below, run once with two real Chromiums for {duration_s} s and simulated
{count} times. Values are over the whole call, per direction. A further simulated call lies
between the smallest and the largest of {count} with a probability of {level:g} %, whatever the
distribution."""
    yield "There are four sets of conditions:"
    yield """\
- **Seeds 151 to 200** are held out: the models were frozen before they were compared, once.
- **Seeds 101 to 150** were held out until they were first compared. The models have changed
  since, so they are not any more.
- **Odd seeds of 1 to 100**: the models were improved on these.
- **Even seeds of 1 to 100** were the first that were held out."""


def errors(
    outcomes: Sequence[ConditionOutcome],
    groups: Mapping[str, str],
    *,
    goals: str = "",
    chances: ErrorsByChance = NO_CHANCES,
) -> Iterator[str]:
    """The section with the tables of all metrics, of any conditions.

    Args:
        outcomes: the conditions.
        groups: what names each group in a sentence.
        goals: name of the group that is compared with the goals, if any.
        chances: the errors by chance that are shown.
    """
    yield "## Errors and coverage"
    if aimed := by_group(outcomes, [goals]).get(goals):
        yield goal_words(aimed, groups[goals], chances=of_group(chances, goals))
    yield folded("How to read the tables", COLUMNS)
    yield from score_tables(outcomes, groups, goals=goals, chances=chances)
    yield folded("Which metrics are compared", *metric_words(outcomes, groups))


def section(
    introduction: Iterable[str],
    outcomes: Sequence[ConditionOutcome],
    groups: Mapping[str, str],
    chances: ErrorsByChance = NO_CHANCES,
) -> Iterator[str]:
    """A section on further conditions: its introduction, all metrics, and a row for each condition.

    Args:
        introduction: what stands above the results, with the heading.
        outcomes: the conditions.
        groups: what names each group of conditions in a sentence.
        chances: the errors by chance.
    """
    counting = counted(outcomes)
    yield from introduction
    for name, own in by_group(counting, groups).items():
        known, lucky = scores_of(own), of_group(chances, name)
        where = f"{len(own)} conditions ({groups[name]})"
        yield "\n".join([*result_words(known, where), *([luck_words(known, lucky)] if lucky else [])])
    yield from score_tables(counting, groups, chances=chances)
    for one in outcomes:
        if one.live.disturbed:
            too_many = "counted all the same, since more than one in six were disturbed"
            yield (
                f"The machine disturbed the call of {one.condition.name} at each of {one.live.tries}\n"
                f"tries, the last time: {one.live.disturbed}. "
                f"It is {too_many if one in counting else 'left out of the table'}."
            )
    yield folded("Median errors over the flows of each condition", condition_table(outcomes, SHOWN))


def plots(stem: str, outcomes: Sequence[ConditionOutcome], groups: Mapping[str, str]) -> Iterator[str]:
    """The section with the plots that ``twin_plots.drawings`` gives, whose names begin with ``stem``."""
    known = {pair.metric for pair in pairs_of(outcomes)}
    if not known:
        return
    yield "## Simulated against live"
    yield """\
Each dot is one direction of a condition. Its bar reaches from the smallest to the largest
simulated value. On the line, both values are equal."""
    first, *others = (
        f"![{_errors_in_words(name, outcomes, groups)}]({stem}-{name}.svg)"
        for name in SCATTERED
        if name in known
    )
    yield first
    words = "Share of the values of seven metrics whose error is at most so large"
    yield folded(f"{len(others) + 1} more figures", *others, f"![{words}]({stem}-errors.svg)")


def _errors_in_words(metric: str, outcomes: Sequence[ConditionOutcome], groups: Mapping[str, str]) -> str:
    """What the scatter of a metric shows: its median error and its coverage in each group."""
    scores = {groups[name]: score(metric, own) for name, own in by_group(outcomes, groups).items()}
    told = [
        f"median error {percent(one.error)} and coverage {percent(one.coverage)} in {words}"
        for words, one in scores.items()
        if one.values
    ]
    return f"{METRICS[metric].label}, simulated against live: {'; '.join(told)}"


def _figures(outcomes: Sequence[ConditionOutcome]) -> Iterator[str]:
    yield "## More figures"
    columns = {GROUPS[name]: dict(figures(own)) for name, own in by_group(outcomes, GROUPS).items()}
    labels = next(iter(columns.values()))
    rows = [[label, *(column[label] for column in columns.values())] for label in labels]
    yield folded(f"{len(rows)} figures of each set of conditions", table(["figure", *columns], rows))


def figures(outcomes: Sequence[ConditionOutcome]) -> Iterator[tuple[str, str]]:
    """The figures of a group besides the table: a label and a text each."""
    yield "conditions", str(len(outcomes))
    yield "live calls measured", _measured(outcomes)
    for words, loses in (("without loss on the wire", False), ("with loss on the wire", True)):
        own = [one for one in outcomes if one.condition.loses is loses]
        apart = errors_of(pairs_of(own, "receiving_rate"))
        within = percent(share([error <= CLOSE for error in apart]))
        label = f"rate {words}, median error; within {100 * CLOSE:g} %"
        yield label, f"{percent(median_of(apart))}; {within}"
    heights = [
        LADDER_STEP * pair.live < pair.expected.middle < pair.live / LADDER_STEP
        for pair in pairs_of(outcomes, "frame_height")
    ]
    yield "same step of resolution", percent(share(heights))
    for name, (label, unit) in FROZEN.items():
        some = [pair for pair in pairs_of(outcomes, name) if pair.live > 0]
        apart = [abs(pair.expected.middle - pair.live) for pair in some]
        good = [
            difference <= max(FREEZES_APART, FREEZES_RATIO * pair.live)
            for difference, pair in zip(apart, some, strict=True)
        ]
        label = f"{label} where live had any"
        yield f"{label}, median difference", f"{median_of(apart):.1f}{unit}" if some else "–"
        yield f"{label}, within 1{unit} or 30 %", percent(share(good))
        yield f"{label}, coverage", percent(share([pair.covered for pair in some]))
    stages: dict[tuple[str, str], list[ValuePair]] = {}
    for pair in pairs_of(outcomes, *UNTIL_DTLS):
        stages.setdefault((pair.condition, pair.flow), []).append(pair)
    known = [
        abs(sum(pair.expected.middle for pair in own) / live - 1)
        for own in stages.values()
        if len(own) == len(UNTIL_DTLS) and (live := sum(pair.live for pair in own)) > 0
    ]
    yield "set-up until DTLS, median error", percent(median_of(known))
    yield "values that only one side knows", str(sum(map(known_on_one_side, outcomes)))
    one_side = sum(one.connects_on_one_side_only for one in outcomes)
    yield "calls that connect on one side only", f"{one_side} of {len(outcomes)}"
    yield "disturbed by the machine three times", str(sum(bool(one.live.disturbed) for one in outcomes))


def known_on_one_side(outcome: ConditionOutcome) -> int:
    """Number of values that only the live call has, or that it lacks and most simulated calls have.

    Only metrics that each side has for some flow count: calls of an older rtclab lack newer ones.
    """
    live, simulated = outcome.live.values, outcome.simulated.values
    measured = {metric for metric, _ in live} & {metric for metric, _ in simulated}
    usual = {key for key, one in simulated.items() if 2 * one.known > outcome.simulated.calls}
    return sum(
        metric in measured and ((metric, flow) in live) != ((metric, flow) in simulated)
        for metric, flow in {*live, *usual}
    )


def _measured(outcomes: Sequence[ConditionOutcome]) -> str:
    """The first and the last day of the live calls, and the oldest schema of their traces."""
    days = sorted({one.live.measured for one in outcomes if one.live.measured})
    schemas = sorted({one.live.schema for one in outcomes if one.live.schema is not None})
    if not days:
        return "–"
    span = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
    return f"{span}, trace schema {' and '.join(map(str, schemas))}" if schemas else span


def _worst(outcomes: Sequence[ConditionOutcome], reasons: dict[str, str]) -> Iterator[str]:
    yield f"## The {WORST} largest errors of the rate"
    words = {one.condition.name: one.condition.words for one in outcomes}
    rates = [pair for pair in pairs_of(outcomes, "receiving_rate") if pair.live > 0]
    worst = sorted(rates, key=lambda pair: -abs(pair.error))[:WORST]
    rows = []
    for pair in worst:
        found, reason = pair.expected, reasons.get(pair.condition)
        about = f"{words[pair.condition]}. **{reason}**" if reason else words[pair.condition]
        simulated = f"{found.middle:.0f} [{found.low:.0f},\u00a0{found.high:.0f}]"
        flow = pair.flow.replace("->", " → ")
        rows.append([pair.condition, about, flow, f"{pair.live:.0f}", simulated, f"{pair.error:+.0%}"])
    covered = sum(pair.covered for pair in worst)
    yield f"{covered} of these {len(worst)} live values lie in the simulated interval."
    condition = "condition, and the reason if it is known"
    heads = ["seed", condition, "direction", "live, kbit/s", "simulated", "error"]
    yield folded(
        f"The {len(worst)} conditions",
        "The simulated value is the median, with the interval in brackets.",
        table(heads, rows, "lllr"),
    )


def _failures(outcomes: Sequence[ConditionOutcome]) -> Iterator[str]:
    told = [
        f"{one.condition.name}: {one.condition.words}. "
        f"Connects {'live' if one.live.connected else 'simulated'}; "
        f"{one.simulated.connected} of {one.simulated.calls} simulated calls connect."
        for one in outcomes
        if one.connects_on_one_side_only
    ]
    if told:
        yield "## Calls that connect on one side only"
    yield from bullets(told)
