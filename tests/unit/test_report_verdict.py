"""The verdict, a sentence about a run, from handmade metrics."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from synthetic_run import call_tables, frame, write_run

from rtclab.experiment import summary_of_run
from rtclab.report.verdict import Findings, findings, verdict

THERE, BACK = "alice->bob", "bob->alice"


def means(**of_metrics: float | list[float]) -> dict[tuple[str, str], float]:
    """Means by metric and flow: a list has one for each direction, a number is for the whole run."""
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
        freeze_duration=[0.6, 0.8],
        setup_time=[880, 920],
        call_failures=0,
    ),
    media=[THERE, BACK],
    receivers={THERE: "bob", BACK: "alice"},
    capacity="1 Mbit/s",
    repeats=5,
)


def of_rates(kbps: dict[str, float]) -> Findings:
    """A meeting of which only the receiving rates are known, by flow."""
    return Findings(
        {("receiving_rate", flow): rate for flow, rate in kbps.items()},
        media=list(kbps),
        receivers={flow: flow.partition("->")[2] for flow in kbps},
        senders={flow: flow.partition("->")[0] for flow in kbps},
    )


def changed(found: Findings = CALL, **of_metrics: float | list[float] | None) -> Findings:
    """The same call with other means; None removes a metric."""
    known = {key: mean for key, mean in found.means.items() if key[0] not in of_metrics}
    given = {name: values for name, values in of_metrics.items() if values is not None}
    return replace(found, means=known | means(**given))


def test_the_verdict_on_a_call_has_utilisation_delay_freezes_and_set_up_time() -> None:
    assert verdict(CALL) == (
        "Both directions used 82 to 85 % of 1 Mbit/s with a round-trip time of 128 ms; "
        "video froze for 0.6 to 0.8 s per minute; set-up took 0.9 s."
    )


def test_a_capacity_that_changes_is_not_given_as_a_number() -> None:
    assert "used 82 to 85 % of the capacity with" in verdict(replace(CALL, capacity=""))


def test_if_capacities_differ_between_flows_the_verdict_has_the_receiving_rates() -> None:
    assert verdict(replace(CALL, capacity="", capacities_differ=True)).startswith(
        "Both directions received 820 to 851 kbit/s, 82 to 85 % of the route's capacity, "
        "with a round-trip time of 128 ms;"
    )


def test_on_an_unlimited_network_the_verdict_has_the_receiving_rate() -> None:
    assert verdict(changed(utilisation=None)).startswith(
        "Both directions received 820 to 851 kbit/s with a round-trip time of 128 ms"
    )


def test_a_rate_over_1000_kbit_is_given_in_mbit() -> None:
    sentence = verdict(changed(utilisation=None, receiving_rate=[950.0, 1234.0]))
    assert sentence.startswith("Both directions received 950 kbit/s to 1.23 Mbit/s")


def test_values_that_differ_by_half_have_the_names_of_their_directions() -> None:
    sentence = verdict(changed(utilisation=None, receiving_rate=[119.0, 1880.0]))
    assert sentence.startswith(
        "Both directions received 119 kbit/s (alice → bob) and 1.88 Mbit/s (bob → alice) with a"
    )
    alike = verdict(changed(utilisation=None, receiving_rate=[1000.0, 1500.0]))
    assert "received 1 to 1.5 Mbit/s with" in alike
    assert "(alice → bob)" in verdict(changed(utilisation=None, receiving_rate=[1000.0, 1501.0]))


def test_of_many_flows_the_smallest_and_the_largest_value_are_named() -> None:
    rates = {"alice->bob": 400.0, "bob->carol": 300.0, "carol->alice": 1200.0}
    found = of_rates(rates | {"alice->carol": 1200.0, "bob->alice": 1200.0})
    assert verdict(found) == (
        "Each of the 5 flows received 300 kbit/s (bob → carol) to 1.2 Mbit/s (carol → alice)."
    )


@pytest.mark.parametrize(
    ("kbps", "sentence"),
    [
        (
            {"a->c": 400, "b->c": 600, "c->a": 1900, "b->a": 1300, "a->b": 1200, "c->b": 1400},
            "C receives 400 to 600 kbit/s, the others 1.2 to 1.9 Mbit/s",
        ),
        (
            {"a->c": 400, "b->c": 400, "c->a": 900, "b->a": 900, "a->b": 400, "c->b": 420},
            "C and b receive 400 to 420 kbit/s, the others 900 kbit/s",
        ),
        (
            {"a->c": 400, "b->c": 1200, "c->a": 1200, "b->a": 1200, "a->b": 410, "c->b": 1200},
            "A is received at 400 to 410 kbit/s, the others at 1.2 Mbit/s",
        ),
        # Only one flow is slow, so nobody is.
        (
            {"a->c": 400, "b->c": 1200, "c->a": 1200, "b->a": 1200, "a->b": 1200, "c->b": 1200},
            "Each of the 6 flows received 400 kbit/s (a → c) to 1.2 Mbit/s (b → c)",
        ),
    ],
)
def test_the_verdict_on_a_meeting_names_who_has_much_lower_rates(
    kbps: dict[str, float], sentence: str
) -> None:
    assert verdict(of_rates(kbps)) == f"{sentence}."


def test_the_verdict_on_a_meeting_names_to_whom_packets_take_much_longer() -> None:
    delays = {"a->c": 200.0, "b->c": 210.0, "c->a": 60.0, "b->a": 60.0, "a->b": 70.0, "c->b": 60.0}
    found = of_rates(dict.fromkeys(delays, 900.0))
    late = {**found.means, **{("one_way_delay", flow): ms for flow, ms in delays.items()}}
    assert verdict(replace(found, means=late)) == (
        "Each of the 6 flows received 900 kbit/s; packets to c take 200 to 210 ms, to the others 60 to 70 ms."
    )
    even = {**found.means, **{("one_way_delay", flow): 60.0 for flow in delays}}
    assert verdict(replace(found, means=even)) == (
        "Each of the 6 flows received 900 kbit/s with a one-way delay of 60 ms."
    )


def test_without_a_round_trip_time_the_verdict_has_the_one_way_delay() -> None:
    assert "with a one-way delay of 64 ms" in verdict(changed(rtt=None))


def test_only_noticeable_loss_is_mentioned() -> None:
    assert "; 10 to 12 % of packets were lost;" in verdict(changed(packet_loss=[10.1, 12.3]))
    assert "; 0.5 % (alice → bob) and 12 % (bob → alice) of packets were lost;" in verdict(
        changed(packet_loss=[0.52, 12.3])
    )
    assert "lost" not in verdict(CALL)


def test_video_freezes_in_one_direction_are_given_with_its_name() -> None:
    assert "; no video freezes;" in verdict(changed(freeze_duration=[0, 0]))
    assert "; video froze for 3.0 s (bob → alice) per minute;" in verdict(changed(freeze_duration=[0, 3.0]))


@pytest.mark.parametrize(
    ("seconds_seen_by", "sentence"),
    [
        ((0, 0, 10, 8), "p2 and p3 see freezes of up to 10 s per minute, the others none"),
        ((0.3, 0, 10, 0), "p2 sees freezes of up to 10 s per minute, the others up to 0.3 s"),
        ((4, 3, 3.5, 3), "video froze for 3.0 to 4.0 s per minute"),
        ((0, 0, 0.04, 0), "no video freezes"),
    ],
)
def test_of_many_flows_the_verdict_names_the_receivers_who_see_freezes(
    seconds_seen_by: tuple[float, ...], sentence: str
) -> None:
    people = [f"p{number}" for number in range(4)]
    receivers = {f"{a}->{b}": b for a in people for b in people if a != b}
    means = {("freeze_duration", flow): seconds_seen_by[int(b[1])] for flow, b in receivers.items()}
    found = Findings(means, media=list(receivers), receivers=receivers)
    assert verdict(found).lower() == f"{sentence}."


def test_of_many_flows_the_verdict_names_the_receivers_that_packets_did_not_reach() -> None:
    lost = {"a->b": 0.0, "b->a": 0.01, "a->c": 12.0, "b->c": 9.0, "c->a": 0.0, "c->b": 0.0}
    found = Findings(
        {("packet_loss", flow): value for flow, value in lost.items()},
        media=list(lost),
        receivers={flow: flow[-1] for flow in lost},
    )
    assert verdict(found) == "Up to 12 % of packets to c were lost, to the others none."


def test_if_every_receiver_sees_freezes_on_one_of_its_flows_all_are_meant() -> None:
    seconds = {"a->b": 6.0, "a->c": 5.0, "b->c": 0.0, "c->b": 0.0}
    receivers = {flow: flow[-1] for flow in seconds}
    means = {("freeze_duration", flow): value for flow, value in seconds.items()}
    found = Findings(means, media=list(seconds), receivers=receivers)
    assert verdict(found) == "All receivers see freezes of up to 6.0 s per minute."


def test_the_verdict_on_an_audio_call_does_not_mention_video() -> None:
    assert "video" not in verdict(changed(freeze_duration=None))


def test_the_verdict_begins_with_failures() -> None:
    failed = replace(changed(call_failures=40.0), failed=2)
    assert verdict(failed).startswith("2 of 5 repeats failed; both directions used")
    assert verdict(changed(call_failures=10.0)).startswith("10 % of calls failed; both directions")


def test_if_no_repeat_finished_the_verdict_is_the_reason() -> None:
    assert verdict(Findings({}, repeats=2, failed=2, reason="no Chromium")) == (
        "No repeat finished (no Chromium)."
    )


def test_a_single_flow_is_named_and_many_are_counted() -> None:
    assert verdict(replace(CALL, media=[THERE])).startswith("The flow alice → bob used 82 % of 1 Mbit/s")
    flows = [f"p{number}->q" for number in range(50)]
    values = {"utilisation": 2.0, "receiving_rate": 2000.0}
    many = {(metric, flow): value for flow in flows for metric, value in values.items()}
    ends = {flow: flow.partition("->") for flow in flows}
    found = Findings(
        many,
        media=flows,
        receivers={flow: receiver for flow, (_, _, receiver) in ends.items()},
        senders={flow: sender for flow, (sender, _, _) in ends.items()},
        capacity="100 Mbit/s",
    )
    assert verdict(found) == "Each of the 50 flows used 2.0 % of 100 Mbit/s."


def test_tcp_has_its_total_rate_beside_a_call_and_its_utilisation_without_one() -> None:
    tcp = {("receiving_rate", "up.1"): 300.0, ("receiving_rate", "up.2"): 100.0}
    beside = replace(CALL, means={**CALL.means, **tcp}, tcp=["up.1", "up.2"])
    assert verdict(beside).endswith("; TCP cross traffic received 400 kbit/s.")
    alone = Findings({("receiving_rate", "up"): 400.0, ("utilisation", "up"): 40.0}, tcp=["up"])
    assert verdict(alone) == "The TCP flow up used 40 % of the capacity."


def test_rates_of_tcp_flows_that_did_not_run_at_the_same_time_are_not_added() -> None:
    tcp = {("receiving_rate", "up.1"): 300.0, ("receiving_rate", "up.2"): 400.0}
    found = replace(CALL, means={**CALL.means, **tcp}, tcp=["up.1", "up.2"], tcp_together=False)
    assert verdict(found).endswith("; both TCP flows received 300 to 400 kbit/s.")


def test_a_log_without_packets_has_the_rates_of_getstats_each_with_its_end() -> None:
    known = {
        ("stats_receiving_rate", BACK): 240.0,
        ("stats_sending_rate", THERE): 440.0,
        ("rtt", THERE): 80.0,
    }
    assert verdict(Findings(known, media=[THERE, BACK])) == (
        "The flow bob → alice received 240 kbit/s of RTP with a round-trip time of 80 ms; "
        "the flow alice → bob sent 440 kbit/s of RTP."
    )


def test_a_run_of_flows_without_media_has_their_rates() -> None:
    assert verdict(Findings({("receiving_rate", "probe"): 1000.0}, others=["probe"])) == (
        "The flow probe received 1 Mbit/s."
    )


def test_a_run_without_metrics_has_a_verdict_too() -> None:
    assert verdict(Findings({})) == "Nothing was measured."


def test_findings_have_the_media_flows_and_the_failures_of_a_run(tmp_path: Path) -> None:
    run = write_run(tmp_path, [call_tables(1), {}], failed={1: "died\n  hint: look"})
    measured = summary_of_run(run).drop_nulls("mean").select("metric", "flow", "mean")
    found = findings(run, {(metric, flow): mean for metric, flow, mean in measured.iter_rows()})
    assert (found.media, found.tcp) == ([THERE, BACK], [])
    assert (found.repeats, found.failed, found.reason) == (2, 1, "died")
    assert found.capacity == ""  # it falls to 900 kbit/s halfway
    assert not found.capacities_differ
    assert found.receivers == {THERE: "bob", BACK: "alice"}


@pytest.mark.parametrize(("bob_up_kbps", "differ"), [(500, True), (1000, False)])
def test_the_narrowest_paths_of_the_routes_decide_whether_capacities_differ(
    tmp_path: Path, bob_up_kbps: int, differ: bool
) -> None:
    tables = call_tables(1)
    kbps = {"alice.up": 1000, "bob.down": 2000, "bob.up": bob_up_kbps, "alice.down": 2000}
    rows = [{"path": path, "capacity_bps": 1000.0 * rate} for path, rate in kbps.items()]
    run = write_run(tmp_path, [tables | {"paths": frame("paths", rows)}])
    measured = summary_of_run(run).drop_nulls("mean").select("metric", "flow", "mean")
    found = findings(run, {(metric, flow): mean for metric, flow, mean in measured.iter_rows()})
    assert (found.capacities_differ, found.capacity) == (differ, "" if differ else "1 Mbit/s")


def seen(**counts: dict[str, int]) -> str:
    """The verdict on four repeats of a meeting of three, of which these repeats are bad."""
    flows = [f"{a}->{b}" for a in ("ann", "ben", "cat") for b in ("ann", "ben", "cat") if a != b]
    meeting = of_rates(dict.fromkeys(flows, 500.0))
    return verdict(replace(meeting, repeats=4, watched=frozenset(flows), **counts))  # type: ignore[arg-type]


def test_the_first_words_are_about_who_saw_or_met_nobody() -> None:
    to_cat = {"ann->cat": 4, "ben->cat": 4}
    assert seen(unseen=to_cat).startswith("Cat saw no picture of ann and ben; ")
    assert seen(unseen={"ann->cat": 3}).startswith("Cat saw no picture of ann in 3 of 4 repeats; ")
    assert seen(unseen=to_cat | {"ben->cat": 1}).startswith(
        "Cat saw no picture of ann and ben in 1 to 4 of 4 repeats; "
    )
    assert seen(unseen={"ann->cat": 4, "cat->ben": 4}).startswith(
        "Cat and ben saw no picture of some others; "
    )
    assert seen(apart=to_cat).startswith("Cat never connected to ann and ben; ")
    assert seen(apart={"ann->cat": 2}, unseen={"ben->cat": 4}).startswith(
        "Cat never connected to ann in 2 of 4 repeats; cat saw no picture of ben; "
    )


def test_fewer_pictures_than_one_a_second_are_said_even_if_none_is_frozen() -> None:
    means = {("frame_rate", "ann->ben"): 0.4, ("frame_rate", "ben->ann"): 30.0}
    meeting = of_rates({"ann->ben": 500.0, "ben->ann": 500.0})
    slow = replace(meeting, means=meeting.means | means, watched=frozenset(meeting.media))
    assert verdict(slow).startswith("Ben saw fewer than 1 picture a second of ann; ")
    assert "picture" not in verdict(replace(slow, watched=frozenset()))
