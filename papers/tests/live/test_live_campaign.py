"""A campaign of papers' conditions with real browsers: what is kept of a repeat."""

from __future__ import annotations

from pathlib import Path

import pytest
from parts import CALL

from rtclab.experiment import MAX_TRIES, Results
from rtclab_papers.campaigns import RowFile
from rtclab_papers.reproduce.then_and_now.campaigns import LIVE, live_campaign
from rtclab_papers.reproduce.then_and_now.conditions import read_plan
from rtclab_papers.reproduce.then_and_now.numbers import CampaignNumbers
from rtclab_papers.reproduce.then_and_now.page import NOT_RUN, number_of
from rtclab_papers.reproduce.then_and_now.row_values import BROWSER, ENCODER

pytestmark = [pytest.mark.live, pytest.mark.needs(*CALL)]

CONDITIONS = """
duration = "6 s"
repeats = 1
simulated_repeats = 1
then_repeats = 1
metrics = []

[[tables.iqbal]]
title = "Figure 5"
values = [
  { row = "1 M", column = "Rate", scenario = "iqbal/bandwidth-1mbit-dynamic-alpha", metric = "rate_kbps" },
]
"""


def test_a_live_repeat_is_measured_kept_and_not_run_again(tmp_path: Path) -> None:
    (tmp_path / "conditions.toml").write_text(CONDITIONS)
    plan = read_plan(["iqbal"], tmp_path / "conditions.toml")
    rows = RowFile(tmp_path / "rows.csv")
    live = live_campaign(plan, rows, tmp_path / "runs")
    tally = live.run()
    assert sum(tally.outcomes.values()) == 1
    assert not tally.failed
    (record,) = rows.read().values()
    assert record.outcome == "finished" or (record.attempt == MAX_TRIES and record.reason)
    assert 30 < record.number("rate_kbps", "alice->bob") < 1500
    assert 0 < record.number("setup_time", "alice->bob") < 6000
    assert record.number("cpu", "alice") > 1
    assert record.number("memory", "bob") > 50
    assert "alice" in record.texts(ENCODER)
    assert "Chrom" in record.texts(BROWSER)[""]
    line = plan.sections[0].lines[0]
    assert not number_of(line, CampaignNumbers(plan, rows.read()), LIVE).startswith(NOT_RUN)
    assert live.todo() == {}
    before = rows.path.read_bytes()
    rows.path.unlink()
    assert live.run().outcomes == tally.outcomes
    assert rows.path.read_bytes() == before
    (trace,) = Results(live.folder).traces
    assert trace.manifest.repeat == 0
