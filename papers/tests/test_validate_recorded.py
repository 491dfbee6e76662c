"""Calls over recorded networks: what the scenarios have, and what is said without the files."""

from __future__ import annotations

import hashlib
import io
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from rtclab.errors import BadInput
from rtclab.scenario.path import CapacityTrace
from rtclab_papers.commands.validating import compare
from rtclab_papers.validate import recorded


def files(folder: Path, network: recorded.Network, up: str, down: str) -> recorded.Network:
    """A network in Mahimahi's format, whose files have the given texts."""
    for file, text in ((network.up, up), (network.down, down)):
        (folder / file).write_text(text)
    return replace(network, sha256=tuple(hashlib.sha256(text.encode()).hexdigest() for text in (up, down)))


def test_alice_has_the_recordings_in_their_directions_and_bob_a_good_link(tmp_path: Path) -> None:
    network = files(tmp_path, recorded.NETWORKS[0], "10\n20\n", "5\n5\n10\n")
    scenario = recorded.condition(network, tmp_path).scenario
    up, down = scenario.link_of("alice").up, scenario.link_of("alice").down
    assert isinstance(up.capacity, CapacityTrace)
    assert isinstance(down.capacity, CapacityTrace)
    assert (up.capacity.opportunities_ms, down.capacity.opportunities_ms) == ([10, 20], [5, 5, 10])
    assert str(up.queue) == str(down.queue) == "150 kB"
    assert not isinstance(scenario.link_of("bob").up.capacity, CapacityTrace)
    assert [flow.name for flow in scenario.flows()] == ["alice->bob", "bob->alice"]


def test_the_scenario_is_the_same_without_the_files(tmp_path: Path) -> None:
    network = files(tmp_path, recorded.NETWORKS[0], "10\n20\n", "5\n")
    scenario = recorded.condition(network, tmp_path).scenario
    for file in tmp_path.iterdir():
        file.unlink()
    assert type(scenario).read(scenario.model_dump(mode="json", by_alias=True), "again") == scenario


def test_only_the_first_minute_of_a_recording_is_used(tmp_path: Path) -> None:
    network = files(tmp_path, recorded.NETWORKS[0], f"1\n{recorded.USED_MS}\n{recorded.USED_MS + 1}\n", "5\n")
    capacity = recorded.condition(network, tmp_path).scenario.link_of("alice").up.capacity
    assert isinstance(capacity, CapacityTrace)
    assert capacity.opportunities_ms == [1, recorded.USED_MS]
    assert recorded.USED_MS > 1000 * recorded.DURATION_S


def test_networks_without_files_are_left_out_with_a_sentence_each(tmp_path: Path) -> None:
    said: list[str] = []
    (tmp_path / recorded.NETWORKS[0].up).write_text("1\n")
    assert recorded.conditions(tmp_path, said.append) == []
    assert len(said) == len(recorded.NETWORKS)
    source = recorded.NETWORKS[0].source
    assert said[0] == (
        f"recorded-att-lte-2016: left out. Put ATT-LTE-driving-2016.down from traces/ of "
        f"github.com/ravinet/mahimahi (commit {source.revision[:12]}, GPL-3.0-or-later) into {tmp_path}."
    )
    assert said[-1].count("5G-production-dataset.zip") == 1


def test_the_command_names_the_missing_files_and_makes_the_page_of_what_is_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "docs" / "twin.md"
    compare("recorded", page, tmp_path, keep_live=True, as_json=False, files=tmp_path)
    told = capsys.readouterr()
    assert told.out == f"{page}\n"
    assert told.err.count("left out. Put ") == len(recorded.NETWORKS)
    assert "## Recorded networks" not in page.read_text()
    assert "## Distribution of the conditions" in page.read_text()


def test_what_is_kept_can_be_shown_without_the_files() -> None:
    shown = recorded.known_conditions()
    assert [one.name for one in shown] == [f"recorded-{network.name}" for network in recorded.NETWORKS]
    assert all(one.scenario.link_of("alice").up.capacity is None for one in shown)


def test_another_file_of_the_same_name_is_refused_with_both_digests(tmp_path: Path) -> None:
    network = recorded.NETWORKS[0]
    for file in (network.up, network.down):
        (tmp_path / file).write_text("1\n")
    with pytest.raises(BadInput) as caught:
        recorded.condition(network, tmp_path)
    assert hashlib.sha256(b"1\n").hexdigest() in str(caught.value)
    assert network.sha256[0] in str(caught.value)


def test_rates_become_opportunities_at_an_even_distance() -> None:
    """12 kbit/s carry 12000 bit, one opportunity, in a second; 24 kbit/s two, at its middle and its end."""
    assert recorded.opportunities_of([12, 24]) == [1000, 1500, 2000]
    assert recorded.opportunities_of([0, 12]) == [2000]


def test_what_is_left_of_a_second_counts_in_the_next_one() -> None:
    """18 kbit/s: 12000 bit have been carried after 666.7 ms, 24000 after 1333.3 and 36000 after 2000."""
    assert recorded.opportunities_of([18, 18]) == [667, 1334, 2000]


def test_the_opportunities_have_the_mean_rate_of_the_table() -> None:
    """1500-byte opportunities lose less than one of 12000 bit over all seconds."""
    rates = [773, 12607, 101, 4999, 307]
    left = 1000 * sum(rates) - 12000 * len(recorded.opportunities_of(rates))
    assert 0 <= left < 12000


TABLE = "Timestamp,DL_bitrate\na,50\na,200\nb,300\nc,2\nd,1\ne,400\n"


def test_a_second_counts_once_and_pauses_are_left_out() -> None:
    assert recorded.rates_kbps(TABLE) == [200, 300, 400]


def test_a_table_in_an_archive_gives_both_directions(tmp_path: Path) -> None:
    network = recorded.NETWORKS[-1]
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr(network.member, TABLE)
    (tmp_path / network.up).write_bytes(packed.getvalue())
    digest = hashlib.sha256(packed.getvalue()).hexdigest()
    link = recorded.condition(replace(network, sha256=(digest, digest)), tmp_path).scenario.link_of("alice")
    assert link.up.capacity == link.down.capacity
    assert isinstance(link.up.capacity, CapacityTrace)
    # 900 kbit in all.
    assert len(link.up.capacity.opportunities_ms) == 75
