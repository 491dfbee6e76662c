"""What is said of the differences between runs: which decide, by how much, and whether they are chance."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import nan
from typing import Any, Self

import polars as pl

from rtclab.experiment.comparison import MARGIN_PERCENT
from rtclab.metrics import METRICS
from rtclab.metrics.registry import essentials
from rtclab.phrases import MOST_REPEATS, count, name_for_commands, names_in_words
from rtclab.report.answer import Answer, Figure, NextStep
from rtclab.report.differences import scenario_differences
from rtclab.report.verdict import LEAST_FREEZE_S, LEAST_LOSS_PERCENT
from rtclab.report.words import IMPORTED, MISSING, flow_in_words, number
from rtclab.trace import Run

Cell = Mapping[str, Any]
"""A row of the table of differences; see :meth:`rtclab.experiment.Differences.table`."""

DIFFERS = ("differs", "constant difference")
NONE_SEEN, TOO_FEW = "no difference seen", "too few repeats to tell"
KINDS = (
    ("receiving_rate", "utilisation", "stats_receiving_rate", "stats_sending_rate"),
    ("rtt", "queuing_delay_p95", "delay_variation_p95"),
    ("freeze_duration", "freeze_count"),
)
"""Metrics that move together: of each kind, a sentence names the one that differs most."""
NEGLIGIBLE = {"%": LEAST_LOSS_PERCENT, "s/min": LEAST_FREEZE_S}
"""By unit, differences that are not named in a sentence if they are smaller; they would read 0.0."""
MOST_NAMED = 3
"""Maximum number of differences, and of changed fields, in a sentence."""
SEEN = ("freeze_duration", "receiving_rate", "picture_delay")
"""The metrics that are figures of a comparison of two whether they differ or not."""
MOST_FIGURES = 5
MOST_LETTERS = 40
"""Longer values of fields are not in a sentence."""
SEVERAL_TIMES_PERCENT = 100
"""From this increase on, a value is said to be several times as high."""
USUAL_REPEATS = 5
"""The number of repeats that is proposed if there are too few for any test: a scenario's default."""


def inequality(cell: Cell) -> float:
    """How unequal both means are: 0 if they are equal, 0.5 if one is twice the other, 1 if one is 0."""
    largest = max(abs(cell["base"]), abs(cell["new"]))
    return min(abs(cell["difference"]) / largest, 1.0) if largest else 0.0


def by_size(cells: Sequence[Cell]) -> list[Cell]:
    """The known differences, those of the most unequal means first; equal ones in the order of the table."""
    return sorted((cell for cell in cells if cell["difference"] is not None), key=lambda it: -inequality(it))


def essential_first(cells: Sequence[Cell]) -> list[Cell]:
    """The known differences by size: of the hypothesis, of essential metrics, and then all others."""
    chosen = essential_of(cells)
    return sorted(by_size(cells), key=lambda it: (not it["hypothesis"], it["metric"] not in chosen))


def essential_of(cells: Sequence[Cell]) -> Collection[str]:
    """The metrics to look at first, of those that differences are known of."""
    return essentials({cell["metric"] for cell in cells if cell["difference"] is not None})


def name_of(metric: str) -> str:
    """The name of a metric within a sentence: ``queuing delay p95``, ``RTT``."""
    label = METRICS[metric].label
    if label.startswith("Limited by"):
        return f"time l{label[1:]}"
    return label if label[1:2].isupper() else label[0].lower() + label[1:]


def place_of(cell: Cell) -> str:
    """The flow and the condition of a difference, in words; empty for the only condition of the whole run."""
    return ", ".join(filter(None, [flow_in_words(cell["flow"]), cell["condition"]]))


def change_of(cell: Cell) -> str:
    """Both means, their unit, and whether the new one is better: ``796.6 → 401.9 kbit/s, worse``."""
    unit = f" {cell['unit']}" if cell["unit"] else ""
    like = cell["base"] or cell["new"]
    means = f"{number(cell['base'], like)} → {number(cell['new'], like)}{unit}"
    return ", ".join(filter(None, [means, better_or_worse(cell)]))


def better_or_worse(cell: Cell) -> str:
    """Whether the new mean is better or worse; empty if they are equal, or the metric has no better end."""
    if not cell["difference"] or not cell["better"]:
        return ""
    return "better" if (cell["difference"] > 0) == (cell["better"] == "higher") else "worse"


def in_percent(cell: Cell) -> tuple[float, float, float] | None:
    """The difference and the ends of its interval in % of the base; None if the base is 0 or unknown.

    The ends are NaN if there is no interval. They reach no further than the new mean can: a rate falls by
    100 % at most.
    """
    base, difference = cell["base"], cell["difference"]
    if not base or difference is None:
        return None
    least, most = METRICS[cell["metric"]].compared_bounds
    ends = [
        nan if end is None else min(max(base + end, least), most) - base
        for end in (cell["difference_low"], cell["difference_high"])
    ]
    value, low, high = (100 * end / abs(base) for end in (difference, *ends))
    return value, low, high


def phrase(cell: Cell) -> str:
    """A difference as a sentence: ``the receiving rate is 49.5 % lower (796.6 → 401.9 kbit/s, worse)``."""
    name, percent = name_of(cell["metric"]), cell["difference_percent"]
    upward = cell["difference"] > 0
    several = name.endswith("s") and not name.endswith("ss")
    verb = "are" if several else "is"
    if not cell["difference"]:
        how = f"{verb} the same"
    elif cell["unit"] == "%":
        how = f"{verb} {number(abs(cell['difference']))} points {'higher' if upward else 'lower'}"
    elif not cell["base"] or not cell["new"]:
        how = ("rise" if several else "rises") if upward else ("fall" if several else "falls")
    elif percent >= SEVERAL_TIMES_PERCENT:
        how = f"{verb} {cell['new'] / cell['base']:.1f} times as high"
    else:
        how = f"{verb} {_percent(abs(percent))} % {'higher' if upward else 'lower'}"
    return f"the {name} {how} ({change_of(cell)})"


def _percent(value: float) -> str:
    """A share of the base in %, without decimals from 10 % on."""
    return number(value, 1000 if abs(value) >= 10 else 100)


def placed(cell: Cell) -> str:
    """A difference as a sentence, with its flow and condition before it."""
    where = place_of(cell)
    return f"{where}: {phrase(cell)}" if where else phrase(cell)


def p_in_words(cells: Sequence[Cell]) -> str:
    """The largest p-value of some differences: ``p = 0.002``; empty if none was tested."""
    known = [cell["p"] for cell in cells if cell["p"] is not None]
    if not known:
        return ""
    return "p < 0.0001" if max(known) < 0.0001 else f"p = {max(known):.2g}"


def important(cells: Sequence[Cell], chosen: Collection[str]) -> list[Cell]:
    """The differences to name first: those of a hypothesis, then the largest of the chosen metrics.

    Of each kind of metrics and each flow there is one, unless a hypothesis names them.
    """
    known = [cell for cell in by_size(cells) if cell["hypothesis"] or not _negligible(cell)]
    stated = [cell for cell in known if cell["hypothesis"]]
    first = {_kind(cell): cell for cell in stated}
    for cell in known:
        if cell["metric"] in chosen:
            first.setdefault(_kind(cell), cell)
    others = [cell for cell in first.values() if not cell["hypothesis"]]
    return [*stated, *others] or known


def _kind(cell: Cell) -> tuple[str, ...]:
    """What a difference is about: its side, condition and flow, and the kind of its metric."""
    kind = next((of[0] for of in KINDS if cell["metric"] in of), cell["metric"])
    return cell["label"], cell["condition"], cell["flow"], kind


def _negligible(cell: Cell) -> bool:
    return abs(cell["difference"]) < NEGLIGIBLE.get(cell["unit"], 0.0) or not cell["difference"]


@dataclass(frozen=True)
class Compared:
    """The differences of some sides from the first, and what is said of them.

    Attributes:
        labels: a name for each side; the first is the baseline.
        runs: a run of each side; of several conditions, of the first that all have.
        cells: the rows of the table of differences.
        sources: the paths of the compared runs or sweeps.
        command: the command that runs a source, ``run`` or ``sweep``.
        by: the varied field by whose values the conditions of one sweep are compared, if it is one.
    """

    labels: Sequence[str]
    runs: Sequence[Run]
    cells: Sequence[Cell]
    sources: Sequence[str]
    command: str = "run"
    by: str | None = None

    @classmethod
    def of_runs(cls, runs: Mapping[str, Run], compared: pl.DataFrame) -> Self:
        """What is said of runs, given by their labels; ``compared`` is the table of their differences."""
        of_sides = list(runs.values())
        return cls([*runs], of_sides, compared.to_dicts(), [name_for_commands(run.path) for run in of_sides])

    @property
    def others(self) -> Sequence[str]:
        """The labels beyond the first."""
        return self.labels[1:]

    @property
    def _essential(self) -> Collection[str]:
        return essential_of(self.cells)

    @property
    def over(self) -> str:
        """The number of tests that are corrected together."""
        tests = sum(not cell["hypothesis"] and cell["p"] is not None for cell in self.cells)
        return f"Holm over {count(tests, 'comparison')}"

    def answer(self, moved: Mapping[str, str]) -> Answer:
        """The first screen. ``moved`` has by label a sentence on the cause that moved."""
        if len(self.others) > 1:
            return Answer(self.summary(), steps=self._steps(), figures=self._figures())
        (only,) = self.others
        sentence, word = self.sentence(only), self._outcome(only)
        how = f"{word}: {sentence[:1].lower()}{sentence[1:]}" if word else sentence
        return Answer(how, why=moved.get(only, ""), steps=self._steps(), figures=self._figures())

    def _outcome(self, label: str) -> str:
        """``Better``, ``Worse`` or ``Mixed`` by the essential metrics that differ; empty if none does."""
        differing = [cell for cell in self._differing(label) if cell["metric"] in self._essential]
        found = {better_or_worse(cell) for cell in important(differing, self._essential)} - {""}
        return "Mixed" if len(found) > 1 else "".join(found).capitalize()

    def sentence(self, label: str) -> str:
        """What changed in a side, by how much it differs from the first, and whether that may be chance."""
        known = [cell for cell in self.cells if cell["label"] == label and cell["difference"] is not None]
        changed = self._changed(label)
        if not any(cell["flow"] for cell in known):
            changed = f"{changed}, no flow can be compared: {self._why_nothing(label)}."
            failing = [cell for cell in known if cell["verdict"] in DIFFERS]
            more = f" {_sentence(self._of_others(failing, False))}" if failing else ""
            return changed + more
        stated = [cell for cell in known if cell["hypothesis"]]
        others = [cell for cell in known if not cell["hypothesis"]]
        # The test of shares, such as failed calls, takes one repeat.
        if all(cell["p"] is None and cell["verdict"] not in DIFFERS for cell in known if cell["flow"]):
            return f"{changed}, {self._untested(known)}"
        found = [self._of_stated(stated)] if stated else []
        found += [self._of_others(others, bool(stated))] if others else []
        return f"{changed}, {' '.join(found)}"

    def sentences(self) -> dict[str, str]:
        """By label, what is said of each side beyond the first, and the counts of its differences."""
        return {
            label: " ".join(filter(None, [self.sentence(label), self.counts(label)])) for label in self.others
        }

    def summary(self) -> str:
        """How many of several sides differ from the first."""
        differing = [label for label in self.others if self._differing(label)]
        many = f"{len(differing)} of {len(self.others)}" if differing else f"None of {len(self.others)}"
        verb = "differs" if len(differing) == 1 or not differing else "differ"
        return f"{many} {verb} from {self.labels[0]} by more than chance ({self.over})."

    def _differing(self, label: str) -> list[Cell]:
        return [cell for cell in self.cells if cell["label"] == label and cell["verdict"] in DIFFERS]

    def _changed(self, label: str) -> str:
        """What differs between the scenario of a side and of the first, as the beginning of a sentence."""
        fields = scenario_differences([self.runs[0], self._run(label)])
        if not fields:
            return "With the same scenario"
        base, new = (str(run.scenario.get("name") or run.name) for run in (self.runs[0], self._run(label)))
        if base != new and len(fields) > MOST_NAMED:
            return f"With {new} instead of {base} ({count(len(fields), 'field')} of the scenario differ)"
        short = [one for one in fields if all(len(text) <= MOST_LETTERS for text in one[1])][:MOST_NAMED]
        named = [_changed_field(field, *values) for field, values in short]
        more = len(fields) - len(short)
        named += [f"{count(more, 'other field' if named else 'field')} changed"] if more else []
        return f"With {names_in_words(named, len(named))}"

    def _why_nothing(self, label: str) -> str:
        """Why a side cannot be compared with the first."""
        for name, run in ((self.labels[0], self.runs[0]), (label, self._run(label))):
            if not run.finished:
                reason = next((one.reason.partition("\n")[0] for one in run.repeats if one.reason), "")
                return f"no repeat of {name} finished{f' ({reason})' if reason else ''}"
        return "they share no flow with a value"

    def _untested(self, cells: Sequence[Cell]) -> str:
        """What is said of differences of one repeat."""
        large = [cell for cell in cells if inequality(cell) > MARGIN_PERCENT / 100]
        named = _in_one_flow(important(large, self._essential))
        seen = f"{named}; " if named else f"no important metric differs by more than {MARGIN_PERCENT} %; "
        return f"{seen}whether that is more than chance takes two repeats of each or more."

    def _of_stated(self, cells: Sequence[Cell]) -> str:
        """What is said of the hypothesis."""
        tests = sum(cell["hypothesis"] and cell["p"] is not None for cell in self.cells)
        over = f"Holm over {tests} that were stated" if tests > 1 else "tested alone"
        parts = []
        for differs in (True, False):
            found = [cell for cell in by_size(cells) if (cell["verdict"] in DIFFERS) == differs]
            chance = "is more than chance" if differs else "may be chance"
            p = p_in_words(found[:MOST_NAMED])
            if found:
                told = f" ({', '.join(filter(None, [p, over]))})"
                parts.append(f"{_by_flow(found)}; that was stated beforehand and {chance}{told}.")
        return " ".join([parts[0], *map(_sentence, parts[1:])])

    def _of_others(self, cells: Sequence[Cell], after_stated: bool) -> str:
        """What is said of the largest of the differences that are no hypothesis."""
        differing = [cell for cell in cells if cell["verdict"] in DIFFERS]
        # With several sides, their summary says over how many comparisons.
        over = self.over if len(self.others) == 1 else ""
        if not differing:
            told = f" ({over})" if over else ""
            return f"{'No other' if after_stated else 'no'} difference is more than chance{told}."
        about = {_kind(cell) for cell in self.cells if cell["hypothesis"]}
        named = _chosen_flow(
            [cell for cell in important(differing, self._essential) if _kind(cell) not in about]
        )
        if not named:
            return (
                f"{count(len(differing), 'other difference')} of less important metrics is more than chance."
            )
        p = p_in_words(named)
        told = ", ".join(filter(None, [p, over]))
        chance = f"that is more than chance ({told})" if p else "it is the same in every repeat"
        said = _in_one_flow(named)
        return f"{_sentence(said) if after_stated else said}; {chance}."

    def counts(self, label: str) -> str:
        """How many differences of a side are more than chance, or none, or unknown; empty without any."""
        known = [cell for cell in self.cells if cell["label"] == label and cell["verdict"] is not None]
        numbers = [sum(cell["verdict"] in of for cell in known) for of in (DIFFERS, (NONE_SEEN,), (TOO_FEW,))]
        repeats = count(self._repeats(label), "repeat")
        told = ("beyond chance", f"without a difference above {MARGIN_PERCENT} %", f"unclear with {repeats}")
        parts = [f"{number} {what}" for number, what in zip(numbers, told, strict=True) if number]
        return f"Of {count(len(known), 'comparison')}: {names_in_words(parts, 3)}." if known else ""

    def _run(self, label: str) -> Run:
        return self.runs[self.labels.index(label)]

    def _repeats(self, label: str) -> int:
        return min(self.runs[0].finished, self._run(label).finished)

    def _figures(self) -> list[Figure]:
        """The differences that decide: of the hypothesis, and the largest of essential metrics."""
        differs = any(cell["verdict"] in DIFFERS for cell in self.cells)
        found = important(
            [cell for cell in self.cells if cell["hypothesis"] or cell["verdict"] in DIFFERS or not differs],
            self._essential,
        )
        several = len(self.others) > 1
        if found and not several:
            # What people see is told, too, where it is not known to differ.
            known = {(cell["metric"], cell["flow"], cell["condition"]): cell for cell in self.cells}
            place = found[0]["flow"], found[0]["condition"]
            seen = [known.get((metric, *place)) for metric in SEEN]
            found += [cell for cell in seen if cell and cell["difference"] is not None and cell not in found]
        return [_figure(cell, cell["label"] if several else "") for cell in found[:MOST_FIGURES]]

    def _steps(self) -> list[NextStep]:
        """How to find out why runs differ or failed, and what would settle what is open."""
        gone = [run for run in self.runs if not run.finished]
        if gone and self.command == "run":
            return [NextStep(f"why no repeat of {gone[0].name} finished:", _command("show", gone[0]))]
        found = []
        differing = {cell["label"] for cell in self.cells if cell["verdict"] in DIFFERS}
        if self.command == "run" and len(differing) == 1 and all(run.traces for run in self.runs):
            after = self.runs[self.labels.index(differing.pop())]
            found.append(NextStep("what limited its flows:", _command("why", after)))
        sources = [_quoted(one) for one in dict.fromkeys(self.sources)]
        undecided = self._undecided()
        if undecided is not None and not any(run.backend in IMPORTED for run in self.runs):
            what, repeats = undecided
            resumed = [f"rtclab {self.command} --resume {one} --repeats {repeats}" for one in sources]
            found.append(NextStep(f"{what}:", " && ".join(resumed)))
        unclear = important(
            [cell for cell in self.cells if cell["verdict"] == TOO_FEW and cell["p"]], self._essential
        )
        if unclear and not found[1:] and not any(cell["hypothesis"] for cell in self.cells):
            by = f" --by {shlex.quote(self.by)}" if self.by else ""
            metric = unclear[0]["metric"]
            found.append(
                NextStep(
                    "what was expected before the runs may be tested alone:",
                    f"rtclab compare {' '.join(sources)}{by} --hypothesis {metric}",
                )
            )
        return found

    def _undecided(self) -> tuple[str, int] | None:
        """What more repeats would tell, and how many; None if nothing important is open."""
        fewest = min(run.finished for run in self.runs)
        if fewest < 2:
            return "a test takes two repeats or more", USUAL_REPEATS
        open_ones = [
            cell
            for cell in important(
                [cell for cell in self.cells if cell["verdict"] == TOO_FEW], self._essential
            )
            if cell["repeats_needed"] is not None and cell["repeats_needed"] <= MOST_REPEATS
        ]
        stated = [cell for cell in open_ones if cell["hypothesis"]]
        if not open_ones:
            return None
        cell = min(stated or open_ones, key=lambda it: it["repeats_needed"])
        where = f" of {place_of(cell)}" if place_of(cell) else ""
        needed = max(cell["repeats_needed"], fewest + 1)
        return f"{needed} repeats would tell whether the {name_of(cell['metric'])}{where} differs", needed


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def _command(verb: str, run: Run) -> str:
    return f"rtclab {verb} {_quoted(name_for_commands(run.path))}"


def _quoted(path: object) -> str:
    return shlex.quote(str(path))


def _changed_field(field: str, base: str, new: str) -> str:
    if MISSING in (base, new):
        return f"{field} {new} added" if base == MISSING else f"{field} {base} taken out"
    return f"{field} {new} instead of {base}"


def _chosen_flow(cells: Sequence[Cell]) -> list[Cell]:
    """The first differences of the flow in which they are largest."""
    flows: dict[tuple[str, str], list[Cell]] = {}
    for cell in cells:
        flows.setdefault((cell["condition"], cell["flow"]), []).append(cell)
    return max(
        (of[:MOST_NAMED] for of in flows.values()), key=lambda of: sum(map(inequality, of)), default=[]
    )


def _in_one_flow(cells: Sequence[Cell]) -> str:
    """The differences of the flow in which they are largest, in words; empty if there is none."""
    chosen = _chosen_flow(cells)
    if not chosen:
        return ""
    where = place_of(chosen[0])
    return f"{where}: " * bool(where) + names_in_words([phrase(cell) for cell in chosen], MOST_NAMED)


def _by_flow(cells: Sequence[Cell]) -> str:
    """The first differences, each with its flow, and how many more there are."""
    return names_in_words([placed(cell) for cell in cells], MOST_NAMED + 1)


def _figure(cell: Cell, label: str) -> Figure:
    percent = in_percent(cell)
    if percent is None or cell["unit"] == "%":
        ends = (cell["difference"], cell["difference_low"], cell["difference_high"])
        value, low, high = (number(end, cell["difference"]) for end in ends)
        unit = "points" if cell["unit"] == "%" else cell["unit"]
    else:
        value, low, high = map(_percent, percent)
        unit = "%"
    sign = "+" if cell["difference"] > 0 else ""
    return Figure(
        ", ".join(filter(None, [METRICS[cell["metric"]].label, place_of(cell), label])),
        sign + value,
        unit,
        "" if MISSING in (low, high) else f"95 %: {low} to {high}",
        ", ".join(filter(None, [change_of(cell), *_standing(cell)])),
    )


def _standing(cell: Cell) -> list[str]:
    """Whether a difference was stated beforehand, and whether it may be chance."""
    stated = ["stated beforehand"] if cell["hypothesis"] else []
    return stated + (["may be chance"] if cell["verdict"] not in DIFFERS and cell["difference"] else [])
