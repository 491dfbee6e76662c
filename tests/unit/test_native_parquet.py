"""Files of tables that are made of native columns: Polars reads what the simulator recorded."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtclab import _native
from rtclab.backend.sim import NativeMismatch, NativeTable, SimBackend
from rtclab.scenario import Scenario
from rtclab.trace import SCHEMAS, Trace

NO_TEXT = np.iinfo(np.uint32).max


def read(columns: list[tuple[str, str, bool, Any]]) -> pl.DataFrame:
    return pl.read_parquet(io.BytesIO(_native.parquet(columns)))


integers = st.one_of(st.integers(-3, 3), st.integers(-(2**63), 2**63 - 1))
floats = st.one_of(st.sampled_from([0.0, -0.0, 1.5, float("inf")]), st.floats(allow_nan=False))


@given(
    rows=st.lists(
        st.tuples(
            st.tuples(integers, st.none() | integers.filter(lambda value: value != -1)),
            st.tuples(floats, st.none() | floats),
            st.tuples(st.integers(0, 2), st.none() | st.integers(0, 2)),
            st.none() | st.booleans(),
        ),
        max_size=600,
    ),
    texts=st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=3, max_size=3),
)
def test_columns_read_back_with_their_nulls(rows: list[Any], texts: list[str]) -> None:
    flat = [(*integer, *number, *text, flag) for integer, number, text, flag in rows]
    columns = [list(values) for values in zip(*flat, strict=True)] or [[] for _ in range(7)]
    always, maybe, float_, maybe_float, text, maybe_text, flag = columns

    def array(values: list[Any], null: float, dtype: type) -> Any:
        return np.array([null if value is None else value for value in values], dtype)

    made = read(
        [
            ("integer", "int", False, array(always, -1, np.int64)),
            ("maybe", "int", True, array(maybe, -1, np.int64)),
            ("float", "float", False, array(float_, np.nan, np.float64)),
            ("maybe_float", "float", True, array(maybe_float, np.nan, np.float64)),
            ("text", "text", False, (array(text, NO_TEXT, np.uint32), texts)),
            ("maybe_text", "text", True, (array(maybe_text, NO_TEXT, np.uint32), texts)),
            ("flag", "flag", True, array(flag, -1, np.int64)),
            ("nothing", "text", True, None),
        ]
    )
    assert made.schema == {
        "integer": pl.Int64,
        "maybe": pl.Int64,
        "float": pl.Float64,
        "maybe_float": pl.Float64,
        "text": pl.String,
        "maybe_text": pl.String,
        "flag": pl.Boolean,
        "nothing": pl.String,
    }
    named = [None if code is None else texts[code] for code in maybe_text]
    expected = (always, maybe, float_, maybe_float, [texts[code] for code in text], named, flag)
    assert [made[name].to_list() for name in made.columns[:-1]] == list(expected)
    assert made["nothing"].null_count() == len(rows)


def test_a_column_that_may_not_be_null_keeps_minus_one_and_nan() -> None:
    made = read(
        [
            ("integer", "int", False, np.array([-1, 7])),
            ("float", "float", False, np.array([np.nan, -1.0])),
        ]
    )
    assert made.rows()[1] == (7, -1.0)
    assert made["integer"][0] == -1
    assert made["float"].is_nan().to_list() == [True, False]


def test_a_long_table_has_several_groups_of_rows() -> None:
    rows = 2**18 + 5
    integers, codes = np.arange(rows) * 7919 % 10007, np.arange(rows, dtype=np.uint32) % 3
    file = _native.parquet(
        [
            ("integer", "int", True, np.where(integers % 11, integers, -1)),
            ("text", "text", False, (codes, ["a", "b", "c"])),
        ]
    )
    assert pl.scan_parquet(io.BytesIO(file)).select(pl.len()).collect().item() == rows
    made = pl.read_parquet(io.BytesIO(file))
    assert made["integer"].equals(pl.Series([value if value % 11 else None for value in integers.tolist()]))
    assert made["text"].equals(pl.Series(["a", "b", "c"] * (rows // 3 + 1))[:rows])


@pytest.mark.parametrize(
    ("column", "said"),
    [
        (np.array([1, 2, 3]), "`participant`: 2 values in 3 rows"),
        (np.array([0.5, 1.0]), "`at_ns`, int: "),
        ((np.array([0, 0], np.uint32), ["now"]), "`at_ns`, int: "),
    ],
)
def test_columns_that_do_not_fit_are_named_with_their_table(column: Any, said: str) -> None:
    texts = (np.array([0, 0], np.uint32), ["alice"])
    columns = {"participant": texts, "flow": texts, "event": texts, "detail": texts, "at_ns": column}
    with pytest.raises(NativeMismatch, match="`events`") as refused:
        NativeTable("events", columns).parquet()
    assert said in str(refused.value)


SCENARIOS = {
    "first-call": ["record=packets"],
    "tcp-vs-kernel": ["record=packets"],
    "examples/burst-loss": ["record=packets"],
    "examples/sfu": ["record=seconds"],
    "examples/mixing-mcu": ["record=packets"],
    "examples/mobile-trace": ["record=seconds"],
}


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_files_of_a_simulated_trace_have_what_was_recorded(name: str, tmp_path: Path) -> None:
    scenario = Scenario.load(name, [*SCENARIOS[name], "duration=8 s"])
    simulated = SimBackend().simulate(scenario, seed=3, repeat=0)
    simulated.save(tmp_path)
    for table in simulated.tables:
        file = pl.read_parquet(tmp_path / f"{table}.parquet")
        assert file.schema == SCHEMAS[table]
        assert file.equals(simulated.table(table)), table


def test_a_trace_whose_tables_were_read_is_saved_as_one_whose_were_not(tmp_path: Path) -> None:
    scenario = Scenario.load("first-call", ["duration=5 s"])
    simulated = SimBackend().simulate(scenario, seed=1, repeat=0)
    simulated.save(tmp_path / "before")
    frames = {table: simulated.table(table) for table in simulated.tables}
    simulated.save(tmp_path / "after")
    for table, frame in frames.items():
        assert Trace(tmp_path / "before").table(table).equals(frame)
        assert Trace(tmp_path / "after").table(table).equals(frame)


def test_a_repeat_is_written_without_data_frames(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = Scenario.load("first-call", ["duration=2 s"])
    made: list[str] = []
    frame = NativeTable.frame
    monkeypatch.setattr(NativeTable, "frame", lambda table: made.append(table.name) or frame(table))
    written = SimBackend().run(scenario, seed=1, repeat=0, out=tmp_path / "t")
    assert made == []
    # What is read of a trace that was just written comes from memory; `packets` is large and does not stay.
    (tmp_path / "t" / "frames.parquet").unlink()
    assert written.table("frames").height > 0
    assert written.table("packets").height > 0
    assert made == ["frames"]
