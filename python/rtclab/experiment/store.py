"""The store of an experiment: one SQLite file with conditions, outcomes, values and events.

The file is ``results.sqlite`` in the experiment's directory; the traces lie beside it. A repeat is added with
all its values in one transaction, so that the file is consistent however its process ends. SQLite is in the
standard library, locks, and can be read without rtclab.

A repeat is keyed by condition, number, digest of the scenario and build of rtclab. So an update makes old
repeats old and not wrong, and to resume is to run the keys that are missing.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple, Self

import polars as pl
from pydantic import TypeAdapter, ValidationError

from rtclab.errors import BadInput, DiskFull, OtherSchema, RtclabError, ScenarioError, TraceError
from rtclab.experiment.conditions import Conditions, Listed, Settings, digest_of, from_json, table_of
from rtclab.experiment.draws import drawn
from rtclab.fingerprint import code_digest
from rtclab.metrics import METRICS
from rtclab.scenario import Scenario
from rtclab.scenario.trust import CALLER, ReadFrom
from rtclab.trace import (
    MANIFEST,
    Machine,
    OpenWindow,
    Repeat,
    Run,
    subdirectories,
)

STORE_FILE = "results.sqlite"
SCHEMA = 3
"""Version of the store. Every change of its tables increases it."""
BUSY_S = 30.0
"""How long to wait for another process that is writing."""
CHUNK = 20_000
"""Rows that are read at once."""
DAMAGED = "it is damaged; traces beside it are not"

TABLES = """
CREATE TABLE about (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE conditions (
  condition INTEGER PRIMARY KEY, label TEXT NOT NULL UNIQUE, digest TEXT NOT NULL{fields});
CREATE TABLE outcomes (
  outcome INTEGER PRIMARY KEY, condition INTEGER NOT NULL, repeat INTEGER NOT NULL, seed INTEGER NOT NULL,
  status TEXT NOT NULL, reason TEXT NOT NULL, note TEXT NOT NULL, attempt INTEGER NOT NULL,
  disturbed TEXT NOT NULL, digest TEXT NOT NULL, code TEXT NOT NULL, definitions TEXT NOT NULL,
  UNIQUE (condition, repeat, digest, code));
CREATE TABLE metrics (metric INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, unit TEXT NOT NULL);
CREATE TABLE flows (flow INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE numbers (
  outcome INTEGER NOT NULL, metric INTEGER NOT NULL, flow INTEGER NOT NULL, value REAL NOT NULL,
  deviation REAL, PRIMARY KEY (outcome, metric, flow)) WITHOUT ROWID;
CREATE TABLE files (
  outcome INTEGER NOT NULL, file TEXT NOT NULL, digest TEXT NOT NULL,
  PRIMARY KEY (outcome, file)) WITHOUT ROWID;
CREATE TABLE events (event INTEGER PRIMARY KEY, at TEXT NOT NULL, what TEXT NOT NULL);
CREATE VIEW latest AS SELECT o.*, max(outcome) FROM outcomes o JOIN conditions c USING (condition)
  WHERE o.digest = c.digest GROUP BY o.condition, o.repeat;
CREATE VIEW results AS
  SELECT c.label AS condition{names}, o.repeat, o.seed, m.name AS metric, m.unit, f.name AS flow, n.value
  FROM latest o JOIN conditions c USING (condition) JOIN numbers n USING (outcome)
  JOIN metrics m USING (metric) JOIN flows f USING (flow);
"""
"""The tables, and views for other programs: ``results`` has a row for every value of the latest repeats."""


def build() -> str:
    """Identifies the code that simulates and measures."""
    return code_digest()[:12]


class Number(NamedTuple):
    """A value of a metric in a repeat, and the standard deviation of its one-second samples, if any."""

    metric: str
    flow: str
    value: float
    deviation: float | None = None


@dataclass(frozen=True)
class Result:
    """The outcome of a repeat of a condition, and its values."""

    condition: int
    outcome: Repeat
    numbers: Sequence[Number] = ()
    definitions: str = ""
    """Identifies the definitions that measured it. Other definitions measure it again, if its trace was kept;
    it is empty if it was not measured."""
    files: Mapping[str, str] = field(default_factory=dict)
    """The digest of each file that a congestion control of the user's own read, by its path."""


@dataclass(frozen=True, kw_only=True)
class About:
    """What holds for all repeats of an experiment.

    Attributes:
        name: begin of the directory's name.
        backend: name of the backend.
        repeats: number of repeats of each condition.
        metrics: names of the metrics that are measured.
        window: the window to which values are limited; None for whole repeats.
        traces: whether a trace of each repeat is kept.
        capture: whether a capture is written beside each simulated trace.
        versions: versions of rtclab and of what it used when the experiment began.
        machine: the computer that began it.
        created: when it began, in ISO 8601.
        measure: the function that measures repeats as ``module:name``; empty for rtclab's metrics.
        grows: whether conditions may be added, so that each has a directory of its own.
    """

    name: str
    backend: str
    repeats: int
    metrics: tuple[str, ...] = ()
    window: OpenWindow | None = None
    traces: bool = True
    capture: bool = False
    versions: Mapping[str, str] = field(default_factory=dict)
    machine: Machine | None = None
    created: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    measure: str = ""
    grows: bool = False

    def repeats_of(self, settings: Settings) -> Sequence[int]:
        """The numbers of the planned repeats of a condition with these settings."""
        return range(self.repeats) if settings.repeats is None else settings.repeats

    def measures_of(self, settings: Settings) -> tuple[str, ...]:
        """The names of what is measured in a condition with these settings."""
        return self.metrics if settings.measures is None else settings.measures

    def as_json(self) -> dict[str, Any]:
        """The fields as JSON values."""
        known: dict[str, Any] = _ABOUT.dump_python(self, mode="json")
        return known


_ABOUT = TypeAdapter(About)


class Store:
    """The results of an experiment in a directory."""

    def __init__(self, path: Path, *, trust: bool = False) -> None:
        """Opens the store in a directory.

        Opening and reading run nothing, whoever made the store. To run its scenarios, a store from outside of
        the current project needs ``trust``.

        Raises:
            TraceError: the directory has no results, or they cannot be read.
            OtherSchema: another version of rtclab wrote them.
        """
        self.path = path
        self.file = path / STORE_FILE
        self._read_from = ReadFrom.of([path], trust=trust)
        if not self.file.is_file():
            raise TraceError(f"{path} has no results: it has no {STORE_FILE}")
        with self._reading() as database:
            texts = dict(database.execute("SELECT key, value FROM about").fetchall())
        self._check_schema(str(texts.get("schema")))
        self._read(texts)

    def _read(self, texts: Mapping[str, str]) -> None:
        """Reads what holds for all repeats, and the conditions, from the values of the table ``about``."""
        with self._reading() as database:
            digests = database.execute("SELECT digest FROM conditions ORDER BY condition").fetchall()
        self.digests = [digest for (digest,) in digests]
        try:
            self.about = _ABOUT.validate_json(texts["about"])
            self.conditions: Conditions = from_json(json.loads(texts["conditions"]), self._read_from)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            first = error.errors()[0] if isinstance(error, ValidationError) else None
            what = repr(error) if first is None else " ".join([*map(str, first["loc"]), first["msg"]])
            raise TraceError(f"{self.file}: cannot be read: {what}", hint=DAMAGED) from None

    def _check_schema(self, number: str) -> None:
        if number == str(SCHEMA):
            return
        newer = number.isdecimal() and int(number) > SCHEMA
        raise OtherSchema(
            f"{self.file}: written by {'a newer' if newer else 'another'} rtclab, with schema {number}; "
            f"this one reads schema {SCHEMA}",
            hint="update rtclab" if newer else "run the experiment again",
        )

    @classmethod
    def create(cls, path: Path, about: About, conditions: Conditions) -> Self:
        """Writes a new store into an existing directory.

        Raises:
            DiskFull: no space is left. Nothing is left behind.
        """
        temporary = path / f".{STORE_FILE}"
        temporary.unlink(missing_ok=True)
        try:
            with _errors(path / STORE_FILE), closing(sqlite3.connect(temporary)) as database, database:
                # Nobody reads the file before it is complete, so nothing has to be rolled back.
                database.execute("PRAGMA journal_mode = OFF")
                _write_conditions(database, conditions)
                rows = {"schema": SCHEMA, "about": about.as_json(), "conditions": conditions.as_json()}
                database.executemany(
                    "INSERT INTO about VALUES (?, ?)",
                    [(key, json.dumps(value)) for key, value in rows.items()],
                )
            temporary.rename(path / STORE_FILE)
        finally:
            temporary.unlink(missing_ok=True)
        made = cls(path)
        made.allow()
        return made

    def allow(self) -> None:
        """Allows what the scenarios do, because this process made them, or has asked the user."""
        self._read_from = CALLER
        self.conditions = replace(self.conditions, read_from=CALLER)

    @property
    def name(self) -> str:
        """Name of the directory, such as ``first-call-sim-3``."""
        return self.path.resolve().name

    def plan(self, repeats: int) -> None:
        """Records how many repeats each condition should have."""
        if repeats == self.about.repeats:
            return
        about = replace(self.about, repeats=repeats)
        with self._writing() as database:
            text = json.dumps(about.as_json())
            database.execute("UPDATE about SET value = ? WHERE key = 'about'", [text])
        self.about = about

    def extend(self, conditions: Listed) -> None:
        """Adds conditions. One whose label is known replaces the scenario; earlier outcomes are kept."""
        with self._writing() as database:
            (known,) = database.execute("SELECT value FROM about WHERE key = 'conditions'").fetchone()
            had = from_json(json.loads(known))
            assert isinstance(had, Listed)
            merged = had.with_more(conditions)
            _insert_conditions(database, merged, [merged.number(label) for label in conditions.scenarios])
            text = json.dumps(merged.as_json())
            database.execute("UPDATE about SET value = ? WHERE key = 'conditions'", [text])
            texts = dict(database.execute("SELECT key, value FROM about").fetchall())
        self._read(texts)

    def repeats_of(self, condition: int) -> Sequence[int]:
        """The numbers of the planned repeats of a condition."""
        return self.about.repeats_of(self.conditions.settings(condition))

    @property
    def plans(self) -> dict[int, Sequence[int]]:
        """The numbers of the planned repeats by the number of their condition."""
        return {number: self.repeats_of(number) for number in range(len(self.conditions))}

    @property
    def planned(self) -> int:
        """Number of planned repeats of all conditions."""
        return sum(map(len, self.plans.values()))

    def measures_of(self, condition: int) -> tuple[str, ...]:
        """The names of what is measured in a condition."""
        return self.about.measures_of(self.conditions.settings(condition))

    def keeps_trace(self, condition: int, repeat: int) -> bool:
        """Whether the trace of a repeat is kept."""
        first = self.conditions.settings(condition).traces
        return self.about.traces if first is None else repeat < first

    def lacks_trace(self, condition: int, repeat: int) -> bool:
        """Whether the trace of a repeat should be kept and is not there."""
        place = self.repeat_path(condition, repeat)
        return self.keeps_trace(condition, repeat) and not (place / MANIFEST).is_file()

    def scenario_of(self, condition: int, repeat: int) -> Scenario:
        """The scenario of a repeat, with what is drawn for it."""
        draws = self.conditions.settings(condition).draws
        return drawn(self.conditions.scenario(condition), draws, repeat)

    def add(self, results: Iterable[Result], *, code: str, changed: bool = True) -> None:
        """Adds repeats with their values in one transaction; earlier ones of the same key are replaced.

        Args:
            results: the repeats.
            code: identifies the build of rtclab that ran them.
            changed: whether this makes the results newer. Measuring old repeats again does not.

        Raises:
            DiskFull: no space is left. What was there is unchanged.
            BadInput: another process locks the file for long, or it cannot be written.
        """
        with self._writing(changed=changed) as database:
            _insert(database, self.digests, results, code)

    def note(self, what: str) -> None:
        """Adds an event, with the time: who ran what, what was interrupted or tried again."""
        with self._writing() as database:
            now = datetime.now(UTC).isoformat(timespec="seconds")
            database.execute("INSERT INTO events (at, what) VALUES (?, ?)", [now, what])

    def events(self) -> list[tuple[str, str]]:
        """What happened to the experiment: the time in ISO 8601, and a sentence."""
        with self._reading() as database:
            return list(database.execute("SELECT at, what FROM events ORDER BY event"))

    def outcomes(self) -> pl.DataFrame:
        """The latest outcome of each repeat, whichever build of rtclab ran it, from the view ``latest``.

        Columns: ``outcome`` (its number), ``condition`` (number), ``repeat``, ``seed``, ``status``,
        ``reason``, ``note``, ``attempt``, ``disturbed``, ``code`` and ``definitions``.
        """
        columns = {
            **dict.fromkeys(("outcome", "condition", "repeat", "seed"), pl.Int64()),
            **dict.fromkeys(("status", "reason", "note"), pl.String()),
            "attempt": pl.Int64(),
            **dict.fromkeys(("disturbed", "code", "definitions"), pl.String()),
        }
        with self._reading() as database:
            rows = database.execute(
                f"SELECT {', '.join(columns)} FROM latest ORDER BY condition, repeat"
            ).fetchall()
        return pl.DataFrame(rows, schema=columns, orient="row")

    def files(self) -> dict[int, dict[str, str]]:
        """By the number of an outcome, the digest of each file that its controls read, by its path."""
        found: dict[int, dict[str, str]] = {}
        with self._reading() as database:
            for outcome, file, digest in database.execute("SELECT outcome, file, digest FROM files"):
                found.setdefault(outcome, {})[file] = digest
        return found

    def forget(self, outcomes: Iterable[int]) -> None:
        """Removes outcomes with their values."""
        numbers = [(number,) for number in outcomes]
        with self._writing() as database:
            for table in ("numbers", "files", "outcomes"):
                database.executemany(f"DELETE FROM {table} WHERE outcome = ?", numbers)

    def statuses(self) -> dict[str, int]:
        """The number of repeats with each status, such as ``finished``."""
        with self._reading() as database:
            return dict(database.execute("SELECT status, count(*) FROM latest GROUP BY status"))

    def run(self, condition: int = 0) -> Run:
        """The repeats of one condition, with their outcomes and traces."""
        return self.runs([condition])[0]

    def runs(self, conditions: Sequence[int]) -> list[Run]:
        """The repeats of each of some conditions, with their outcomes and traces."""
        repeats: dict[int, list[Repeat]] = {number: [] for number in conditions}
        for row in self.outcomes().iter_rows(named=True):
            if row["condition"] in repeats:
                repeats[row["condition"]].append(repeat_of(row))
        alone = len(self.conditions) == 1
        return [
            Run(
                path=self.repeat_path(condition, 0).parent,
                name=self.name if alone else f"{self.name}, {self.conditions.label(condition)}",
                backend=self.about.backend,
                scenario=self.conditions.data(condition) | {"repeats": len(self.repeats_of(condition))},
                repeats=of_condition,
                planned=len(self.repeats_of(condition)),
                versions=self.about.versions,
                machine=self.about.machine,
                traced=[
                    repeat for repeat in self.repeats_of(condition) if self.keeps_trace(condition, repeat)
                ],
            )
            for condition, of_condition in repeats.items()
        ]

    def repeat_path(self, condition: int, repeat: int) -> Path:
        """The directory of the trace of a repeat."""
        alone = len(self.conditions) == 1 and not self.about.grows
        place = self.path if alone else self.path / "conditions" / f"{condition:06}"
        return place / f"repeat-{repeat}"

    def measured(self) -> list[str]:
        """The names of what has been measured in any repeat."""
        with self._reading() as database:
            return [name for (name,) in database.execute("SELECT name FROM metrics ORDER BY metric")]

    def numbers(self, outcomes: Sequence[int], metrics: Sequence[str] | None = None) -> pl.DataFrame:
        """The values of some outcomes, by outcome, metric and flow.

        Columns: ``outcome``, ``metric``, ``flow``, ``value`` and ``deviation``; see :class:`Number`. Names
        are of type Enum, because there may be millions of rows.
        """
        with self._reading() as database:
            names = {
                key: dict(database.execute(f"SELECT {key}, name FROM {key}s ORDER BY {key}"))
                for key in ("metric", "flow")
            }
            chosen = pl.Series(outcomes, dtype=pl.Int64).unique()
            query = "SELECT * FROM numbers WHERE outcome BETWEEN ? AND ?"
            if metrics is not None:
                wanted = (str(number) for number, name in names["metric"].items() if name in metrics)
                query += f" AND metric IN ({', '.join(wanted)})"
            cursor = database.execute(f"{query} ORDER BY outcome", [chosen.min(), chosen.max()])
            parts = [NUMBERS.to_frame()]
            while rows := cursor.fetchmany(CHUNK):
                part = pl.DataFrame(rows, schema=NUMBERS, orient="row")
                parts.append(part.filter(pl.col("outcome").is_in(chosen.implode())))
        return pl.concat(parts).with_columns(
            pl.col(key).replace_strict(known, return_dtype=pl.Enum(list(known.values())))
            for key, known in names.items()
        )

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        # A reader rolls back a transaction that a killed process has half written, so it opens the file for
        # writing. SQLite opens a read-only file for reading all the same.
        uri = f"{self.file.resolve().as_uri()}?mode=rw"
        with _errors(self.file), closing(sqlite3.connect(uri, timeout=BUSY_S, uri=True)) as database:
            yield database

    @contextmanager
    def _writing(self, *, changed: bool = True) -> Iterator[sqlite3.Connection]:
        """Writes in one transaction. Unless the results have changed, the file stays as old as it was."""
        with self._reading() as database:
            before = self.file.stat()
            with database:
                # Without the last fsync, a power cut may lose the latest commit, but the file stays
                # consistent.
                database.execute("PRAGMA synchronous = NORMAL")
                # A transaction that first reads and then writes would fail if another process wrote in
                # between.
                database.execute("BEGIN IMMEDIATE")
                yield database
        if not changed:
            os.utime(self.file, ns=(before.st_atime_ns, before.st_mtime_ns))


NUMBERS = pl.Schema(
    {
        "outcome": pl.Int64(),
        **dict.fromkeys(("metric", "flow"), pl.Int32()),
        **dict.fromkeys(("value", "deviation"), pl.Float64()),
    }
)


class _Names(dict[str, int]):
    """The numbers of the names in a table; a new name is added to the table."""

    def __init__(self, database: sqlite3.Connection, table: str, key: str) -> None:
        super().__init__(database.execute(f"SELECT name, {key} FROM {table}"))
        self._database, self._table = database, table

    def __missing__(self, name: str) -> int:
        insert, values = f"INSERT INTO {self._table} (name) VALUES (?)", [name]
        if self._table == "metrics":
            unit = METRICS[name].unit if name in METRICS else ""
            insert, values = "INSERT INTO metrics (name, unit) VALUES (?, ?)", [name, unit]
        self[name] = number = self._database.execute(insert, values).lastrowid or 0
        return number


def repeat_of(row: Mapping[str, Any]) -> Repeat:
    """The outcome of a repeat from a row of :meth:`Store.outcomes`."""
    names = ("repeat", "seed", "status", "reason", "note", "attempt", "disturbed")
    return Repeat(**{name: row[name] for name in names})


def _insert(
    database: sqlite3.Connection,
    digests: Sequence[str],
    results: Iterable[Result],
    code: str,
) -> None:
    of_metric, of_flow = _Names(database, "metrics", "metric"), _Names(database, "flows", "flow")
    for result in results:
        one = result.outcome
        key = (result.condition, one.repeat, digests[result.condition], code)
        for table in ("numbers", "files"):
            database.execute(
                f"DELETE FROM {table} WHERE outcome IN (SELECT outcome FROM outcomes WHERE condition = ? "
                "AND repeat = ? AND digest = ? AND code = ?)",
                key,
            )
        number = database.execute(
            "INSERT OR REPLACE INTO outcomes (condition, repeat, digest, code, seed, status, reason, "
            "note, attempt, disturbed, definitions) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                *key,
                one.seed,
                one.status,
                one.reason.strip(),
                one.note,
                one.attempt,
                one.disturbed,
                result.definitions,
            ),
        ).lastrowid
        database.executemany(
            "INSERT INTO numbers VALUES (?, ?, ?, ?, ?)",
            [
                (number, of_metric[one.metric], of_flow[one.flow], one.value, one.deviation)
                for one in result.numbers
            ],
        )
        rows = [(number, file, digest) for file, digest in result.files.items()]
        database.executemany("INSERT INTO files VALUES (?, ?, ?)", rows)


def _write_conditions(database: sqlite3.Connection, conditions: Conditions) -> None:
    """Makes the tables, and fills in the conditions."""
    table = table_of(conditions).drop("number")
    columns = [name for name in table.columns if name != "condition"]
    types = {name: "REAL" if table[name].dtype == pl.Float64 else "TEXT" for name in columns}
    quoted = {name: '"' + name.replace('"', '""') + '"' for name in columns}
    database.executescript(
        "BEGIN;"  # one transaction instead of one for each table
        + TABLES.format(
            fields="".join(f", {quoted[name]} {types[name]}" for name in columns),
            names="".join(f", c.{quoted[name]}" for name in columns),
        )
    )
    _insert_conditions(database, conditions, range(len(conditions)))


def _insert_conditions(database: sqlite3.Connection, conditions: Conditions, numbers: Sequence[int]) -> None:
    """Adds the conditions with some numbers, or replaces their digests."""
    known = table_of(conditions).rows()
    rows = [(*known[number][:2], _digest(conditions, number), *known[number][2:]) for number in numbers]
    marks = ", ".join("?" * len(rows[0]))
    database.executemany(
        f"INSERT INTO conditions VALUES ({marks}) "
        "ON CONFLICT (condition) DO UPDATE SET digest = excluded.digest",
        rows,
    )


def _digest(conditions: Conditions, number: int) -> str:
    try:
        digest = digest_of(conditions.scenario(number))
        draws = [draw.model_dump() for draw in conditions.settings(number).draws]
        return f"{digest}-{digest_of({'draws': draws})}" if draws else digest
    except ScenarioError:  # an imported call, or a scenario of an earlier rtclab
        return digest_of(conditions.data(number))


@contextmanager
def _errors(file: Path) -> Iterator[None]:
    """Says what is wrong with a store in a sentence."""
    try:
        yield
    except (sqlite3.IntegrityError, sqlite3.ProgrammingError):  # faults of the caller
        raise
    except sqlite3.DatabaseError as error:
        raise _in_words(file, error) from error


def _in_words(file: Path, error: sqlite3.DatabaseError) -> RtclabError:
    match getattr(error, "sqlite_errorname", "").split("_")[1:]:
        case ["FULL", *_] | ["IOERR", "WRITE" | "FSYNC" | "TRUNCATE", *_]:
            return DiskFull(file)
        case ["BUSY" | "LOCKED", *_]:
            return BadInput(
                f"{file}: another process has been writing for {BUSY_S:g} s", hint="wait until it has ended"
            )
        case ["CANTOPEN", *_] if not file.exists():
            return TraceError(f"{file.parent} has no results any more: its {STORE_FILE} was deleted or moved")
        case ["READONLY" | "CANTOPEN" | "PERM", *_]:
            return BadInput(
                f"{file}: cannot be written: {error}", hint="copy the directory to a writable place"
            )
        case ["ERROR"]:
            return TraceError(f"{file}: not a store of rtclab: {error}")
    return TraceError(f"{file}: cannot be read: {error}", hint=DAMAGED)


def open_store(name_or_path: str | Path, out: Path, *, trust: bool = False) -> Store:
    """Opens results by their path or by their name below ``out``; ``latest`` are the newest.

    ``trust`` is as for :class:`Store`.

    Raises:
        TraceError: there are no such results.
    """
    path = find_store(name_or_path, out)
    if path is not None:
        return Store(path, trust=trust)
    import difflib

    text = str(name_or_path)
    if Path(name_or_path).is_file():
        raise TraceError(
            f"{text} is a file; expected a run, which is a directory with {STORE_FILE}",
            hint=f"`rtclab import {text}` makes a run of a capture or a log",
        )
    near = difflib.get_close_matches(text, [name_below(path, out) for path in stores(out)], n=1)
    raise TraceError(
        f"no run `{text}`: it is neither a directory with {STORE_FILE} nor the name of a run in {out}/",
        hint=f"did you mean `{near[0]}`?" if near else "make one with `rtclab run first-call`",
    )


def name_below(path: Path, out: Path) -> str:
    """The name below ``out`` of a directory of results there, such as ``first-call-sim-1``."""
    return path.relative_to(out).as_posix()


def find_store(name_or_path: str | Path, out: Path) -> Path | None:
    """The directory of results with a path or a name as in :func:`open_store`; None if there is none."""
    for path in (Path(name_or_path), out / name_or_path):
        if _is_store(path):
            return path
    known = stores(out)
    return known[-1] if str(name_or_path) == "latest" and known else None


def stores(out: Path) -> list[Path]:
    """The directories of results in a directory or one level below it, the oldest first."""
    found = [path for path in subdirectories(out) if _is_store(path)]
    for path in subdirectories(out):
        if path not in found:
            found += filter(_is_store, subdirectories(path))
    return sorted(found, key=lambda path: (path / STORE_FILE).stat().st_mtime_ns)


def _is_store(path: Path) -> bool:
    return (path / STORE_FILE).is_file()
