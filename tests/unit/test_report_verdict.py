"""The verdict in one sentence, from metrics made by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from synthetic_run import call_tables, write_run

from rtclab.metrics import measure_run
from rtclab.report.verdict import Findings, findings, verdict

THERE, BACK = "alice->bob", "bob->alice"


def means(**of_metrics: float | list[float]) -> dict[tuple[str, str], float]:
    """Means of metrics there and back; of the whole run for a single number."""
    found = {}
    for metric, values in of_metrics.items():
        if isinstance(values, list):
            found |= {(metric, flow): value for flow, value in zip((THERE, BACK), values, strict=False)}
        else:
            found[metric, ""] = values
    return found


CALL = Findings(
    means(
        receiving_rate=[820.4, 851.2],
        utilisation=[82.04, 85.12],
        rtt=[127.8, 128.3],
        one_way_delay=[64, 64],
        packet_loss=[0, 0.01],
        freeze_duration=[0.2, 0.8],
        setup_time=[880, 920],
        call_failures=0,
    ),
    media=[THERE, BACK],
    lengths_s={THERE: 120.0, BACK: 60.0},
    capacity="1 Mbit/s",
    repeats=5,
)


def changed(found: Findings = CALL, **of_metrics: float | list[float] | None) -> Findings:
    """The same call with other means; None takes a metric away."""
    known = {key: mean for key, mean in found.means.items() if key[0] not in of_metrics}
    given = {name: values for name, values in of_metrics.items() if values is not None}
    return replace(found, means=known | means(**given))


def test_a_call_is_judged_by_share_delay_freezes_and_set_up() -> None:
    # 0.2 s in two minutes are 0.1 s a minute.
    assert verdict(CALL) == (
        "Both directions used 82 to 85 % of 1 Mbit/s at 128 ms round trip; "
        "pictures froze 0.1 to 0.8 s a minute; set-up took 0.9 s."
    )


def test_a_capacity_that_changes_or_differs_is_not_given_as_a_number() -> None:
    assert "used 82 to 85 % of the capacity at" in verdict(replace(CALL, capacity=""))


def test_without_a_limit_the_rate_is_told() -> None:
    assert verdict(changed(utilisation=None)).startswith(
        "Both directions received 820 to 851 kbit/s at 128 ms"
    )


def test_a_rate_over_a_thousand_is_told_in_mbit() -> None:
    told = verdict(changed(utilisation=None, receiving_rate=[950.0, 2345.0]))
    assert told.startswith("Both directions received 950 kbit/s to 2.35 Mbit/s")


def test_of_media_that_pass_a_server_the_one_way_delay_is_told() -> None:
    assert "at 64 ms one-way delay" in verdict(changed(rtt=None))


def test_loss_is_told_where_there_is_some() -> None:
    assert "; 0.5 to 12 % of packets were lost;" in verdict(changed(packet_loss=[0.52, 12.3]))
    assert "lost" not in verdict(CALL)


def test_pictures_that_never_froze_are_praised_and_those_of_one_side_are_bounded() -> None:
    assert "; no picture froze;" in verdict(changed(freeze_duration=[0, 0]))
    assert "; pictures froze up to 3.0 s a minute;" in verdict(changed(freeze_duration=[0, 3.0]))


def test_a_call_of_audio_alone_says_nothing_of_pictures() -> None:
    assert "picture" not in verdict(changed(freeze_duration=None))


def test_failures_come_first() -> None:
    failed = replace(changed(call_failures=40.0), failed=2)
    assert verdict(failed).startswith("2 of 5 repeats failed; both directions used")
    assert verdict(changed(call_failures=10.0)).startswith("10 % of calls failed; both directions")


def test_where_no_repeat_finished_the_reason_is_told() -> None:
    assert verdict(Findings({}, repeats=2, failed=2, reason="no Chromium")) == (
        "No repeat finished (no Chromium)."
    )


def test_one_flow_is_named_and_many_are_counted() -> None:
    assert verdict(replace(CALL, media=[THERE])).startswith("The flow alice → bob used 82 % of 1 Mbit/s")
    flows = [f"p{number}->q" for number in range(50)]
    many = {("utilisation", flow): 2.0 for flow in flows}
    found = Findings(many, media=flows, capacity="100 Mbit/s")
    assert verdict(found) == "Each of the 50 flows used 2.0 % of 100 Mbit/s."


def test_tcp_is_told_beside_a_call_and_alone() -> None:
    tcp = {("receiving_rate", "up.1"): 300.0, ("receiving_rate", "up.2"): 100.0}
    beside = replace(CALL, means={**CALL.means, **tcp}, tcp=["up.1", "up.2"])
    assert verdict(beside).endswith("; TCP beside the call received 400 kbit/s.")
    alone = Findings({("receiving_rate", "up"): 400.0, ("utilisation", "up"): 40.0}, tcp=["up"])
    assert verdict(alone) == "The TCP flow up used 40 % of the capacity."


def test_nothing_measured_is_said() -> None:
    assert verdict(Findings({})) == "Nothing was measured."


def test_findings_know_media_capacity_and_failures_of_a_run(tmp_path: Path) -> None:
    run = write_run(tmp_path, [call_tables(1), {}], failed={1: "died\n  hint: look"})
    measured = measure_run(run).drop_nulls("mean").select("metric", "flow", "mean")
    found = findings(run, {(metric, flow): mean for metric, flow, mean in measured.iter_rows()})
    assert (found.media, found.tcp) == ([THERE, BACK], [])
    assert (found.repeats, found.failed, found.reason) == (2, 1, "died")
    assert found.capacity == ""  # it falls to 900 kbit/s halfway
    assert found.lengths_s[THERE] == 60
