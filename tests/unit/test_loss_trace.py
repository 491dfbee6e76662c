"""Recorded loss: which packets a trace loses, and what is wrong with a file."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scenario_text import error, scenario

from rtclab.backend.sim import SimBackend
from rtclab.errors import FieldError
from rtclab.experiment import Experiment
from rtclab.lab import sweep
from rtclab.scenario import PathSpec, Scenario
from rtclab.scenario.layers import SHIPPED
from rtclab.scenario.loss_trace import MAX_PACKETS, LossTrace, loss_text, parse_loss, read_loss_trace

EXAMPLE = SHIPPED / "examples" / "bursts.loss"


def packets_of(runs: list[int]) -> str:
    return "".join(str(index % 2) * count for index, count in enumerate(runs))


@pytest.mark.parametrize(
    ("text", "packets"),
    [
        ("0010", "0010"),
        ("1", "1"),
        ("0x3 1x2", "00011"),
        ("01x3", "0111"),
        ("0\n1\r\n 0\t1", "0101"),
        ("# 111\n0 # 1x9\n#", "0"),
        ("1x007", "1111111"),
        ("0x2 00 0x1 1", "000001"),
    ],
)
def test_a_trace_has_one_digit_per_packet_or_a_count(text: str, packets: str) -> None:
    assert packets_of(parse_loss(text, "a.loss")) == packets


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0x", "line 1 of `a.loss`, character 2: expected `0` for a received packet or `1` for a lost one, "),
        ("00\n 12\n", "line 2 of `a.loss`, character 3: "),
        ("0x0", "line 1 of `a.loss`, character 2: "),
        ("0 x3", "line 1 of `a.loss`, character 3: "),
        ("0x3x4", "line 1 of `a.loss`, character 4: "),
        ("0x-1", "line 1 of `a.loss`, character 2: "),
        ("0٣", "line 1 of `a.loss`, character 2: "),
        ("lost", "line 1 of `a.loss`, character 1: "),
        ("", "no packets in `a.loss`; expected at least one `0` or `1`"),
        ("# only a comment", "no packets in `a.loss`; "),
        ("0x9999999\n00", "line 2 of `a.loss`: more than 10000000 packets in the trace"),
        ("0x" + "9" * 5000, "line 1 of `a.loss`: more than 10000000 packets in the trace"),
    ],
)
def test_a_broken_trace_is_refused_with_its_line_and_character(
    tmp_path: Path, text: str, message: str
) -> None:
    (tmp_path / "a.loss").write_text(text)
    told = error(tmp_path, '[link]\nup = { loss = { trace = "a.loss" } }')
    assert told.startswith(f"my.toml: link.up.loss.trace: {message}")


def test_a_character_that_means_nothing_is_shown() -> None:
    with pytest.raises(FieldError, match=re.escape("as in `1x12`, or `#` and a comment; got `2 0`")):
        parse_loss("0 2 0", "a.loss")


def test_a_missing_or_binary_trace_is_refused(tmp_path: Path) -> None:
    link = '[link]\nup = { loss = { trace = "a.loss" } }'
    assert "link.up.loss.trace: cannot read `a.loss`: No such file" in error(tmp_path, link)
    (tmp_path / "a.loss").write_bytes(b"\xff\x00")
    assert "link.up.loss.trace: cannot read `a.loss`: not a text file" in error(tmp_path, link)


def test_the_longest_trace_is_read() -> None:
    assert parse_loss("01" * (MAX_PACKETS // 2000) + f"0x{MAX_PACKETS - MAX_PACKETS // 1000}", "a.loss")


@given(st.text("01x23 #\n\r\t٣a", max_size=40))
def test_a_text_is_read_as_a_reader_of_single_characters_reads_it_or_refused(text: str) -> None:
    bare = re.sub(r"#[^\n]*", "", text)
    # One digit and perhaps a count at a time, with nothing else between them.
    tokens = re.findall(r"([01])(?:x([0-9]+))?|(\S)", bare, re.ASCII)
    counts = [int(count or 1) for _, count, _ in tokens]
    if any(wrong for *_, wrong in tokens) or 0 in counts or sum(counts) > MAX_PACKETS:
        with pytest.raises(FieldError):
            parse_loss(text, "a.loss")
    else:
        expected = "".join(digit * count for (digit, *_), count in zip(tokens, counts, strict=True))
        if len(expected) < 10_000:
            assert packets_of(parse_loss(text, "a.loss")) == expected


@given(st.lists(st.booleans(), min_size=1, max_size=200))
def test_the_text_of_a_trace_is_read_as_the_same_packets(lost: list[bool]) -> None:
    packets = "".join(str(int(one)) for one in lost)
    runs = parse_loss(packets, "a.loss")
    assert packets_of(runs) == packets
    assert all(runs[1:])
    assert parse_loss(loss_text(runs), "a.loss") == runs


def test_the_shipped_trace_is_the_chain_that_its_comment_describes() -> None:
    draw, bad, packets = random.Random(1), False, ""
    for _ in range(10_000):
        packets += str(int(draw.random() >= (0.2 if bad else 0.998)))
        bad ^= draw.random() < (0.25 if bad else 0.01)
    assert packets_of(parse_loss(read_loss_trace(EXAMPLE), "bursts.loss")) == packets
    # As the scenario's comment says.
    bursts = re.findall("1+", packets)
    assert round(packets.count("1") / 100, 1) == 3.9
    assert round(packets.count("1") / len(bursts), 1) == 2.6


def test_a_trace_reaches_the_native_side_and_needs_no_file_afterwards(tmp_path: Path) -> None:
    (tmp_path / "a.loss").write_text("1x2\n0x9 1\n")
    loaded = scenario(
        tmp_path,
        """
        [link]
        up = { loss = { trace = "a.loss" } }
        down = { loss = { trace = "a.loss", start = "beginning" }, loss_position = "queue" }
        """,
    )
    (tmp_path / "a.loss").unlink()
    again = Scenario.model_validate_json(loaded.model_dump_json())
    assert again == loaded
    up, down = (path.native("path") for path in (again.link.up, again.link.down))
    assert up["loss_trace"] == {"runs": [0, 2, 9, 1], "start": "random"}
    assert down["loss_trace"] == {"runs": [0, 2, 9, 1], "start": "beginning"}
    assert (up["loss"], up["loss_steps"], down["loss_position"]) == (None, [], "queue")


def test_a_trace_on_the_command_line_is_in_the_current_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "b.loss").write_text("00001")
    expected = LossTrace(trace="b.loss", start="beginning", packets="0x4 1")
    text = 'delay 5 ms, loss {trace = "b.loss", start = "beginning"}'
    assert PathSpec.parse(text).loss == expected
    # A change of the file alone forgets what was in the file that was named before.
    changed = Scenario.load("examples/loss-trace", ["link.up.loss.trace=b.loss"]).link.up.loss
    assert isinstance(changed, LossTrace)
    assert changed.packets == "0x4 1"
    whole = Scenario.load("examples/loss-trace")
    given = sweep(whole, {"link.up.loss.start": ["beginning"]}, duration="1 s", repeats=1, out=tmp_path)
    assert (given.finished, given.planned) == (1, 1)
    other = sweep(whole, {"link.up.loss.trace": ["b.loss"]}, duration="10 s", repeats=1, out=tmp_path)
    lost = other.summary().filter(metric="packet_loss", flow="alice->bob")["mean"].item()
    assert lost == pytest.approx(20, abs=2)


def test_workers_of_a_sweep_do_not_need_the_traces_of_the_caller(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    trace = tmp_path / "tenth.loss"
    trace.write_text("0x9 1")
    vary: dict[str, Any] = {"link.up.loss": [{"trace": "tenth.loss"}, "10 %"]}
    planned = Experiment("first-call", vary=vary, repeats=1)
    trace.unlink()
    recorded = planned.conditions.scenario(0).link.up.loss
    assert isinstance(recorded, LossTrace)
    assert recorded.packets == "0x9 1"
    trace.write_text("0x9 1")
    grid = sweep("first-call", vary, repeats=1, duration="10 s", out=tmp_path)
    lost = grid.summary().filter(metric="packet_loss", flow="alice->bob")["mean"].to_list()
    # A tenth of every ten packets, and a tenth of them on average.
    assert lost[0] == pytest.approx(10, abs=1)
    assert 5 < lost[1] < 15


def packets(name: str, seed: int, *changes: str) -> pl.DataFrame:
    """Packets that alice sent, in the order in which her uplink took them."""
    loaded = Scenario.load(name, ["duration=8 s", *changes])
    table = SimBackend().simulate(loaded, seed=seed, repeat=0).table("packets")
    return table.filter(pl.col("flow") == "alice->bob").sort("sent_ns", maintain_order=True)


def test_repeats_lose_other_packets_unless_the_trace_starts_at_its_beginning() -> None:
    def lost(seed: int, start: str) -> list[int]:
        table = packets("examples/loss-trace", seed, f"link.up.loss.start={start}")
        return table.with_row_index().filter(pl.col("dropped_ns").is_not_null())["index"].to_list()[:8]

    assert lost(1, "random") == lost(1, "random") != lost(2, "random")
    assert lost(1, "beginning") == lost(2, "beginning")


def test_a_trace_without_losses_is_a_path_without_loss_bit_for_bit(tmp_path: Path) -> None:
    (tmp_path / "none.loss").write_text("0x777")
    trace = f'link.up.loss={{trace = "{tmp_path / "none.loss"}"}}'
    assert packets("first-call", 3, trace).equals(packets("first-call", 3))
