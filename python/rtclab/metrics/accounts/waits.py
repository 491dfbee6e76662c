"""The account of waits: where each picture was between the camera and the screen, and where sound was.

The stages of a picture add up to its delay. The packet that completed the picture tells the way: its time in
the pacer, in queues, on wires and at servers. If it was sent again, the stage ``repair`` begins when the lost
one would have come. The stages of sound are means, which add up to the metric ``sound_delay``.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from rtclab.metrics.accounts.packets import packets_in_order
from rtclab.metrics.audio import (
    AUDIO_CLOCK,
    output_ms,
    packet_length_ms,
    sound_delay,
    way_of_sound_ms,
)
from rtclab.metrics.delay import arrived_in_window
from rtclab.metrics.packets import NEVER, were_recorded
from rtclab.metrics.series import NO_SAMPLES, Array, IntegerArray, before_end, counters_of_kind
from rtclab.trace import NS_PER_MS, NS_PER_S, Trace

STAGES: dict[str, str] = {
    "camera": "from the camera until the encoder began",
    "encoder": "in the encoder",
    "pacer": "from the encoder until the packet left that completed the picture",
    "queues": "in the queues of the route",
    "wires": "on the wires of the route: serialisation, propagation and jitter",
    "server": "at the servers of the route",
    "repair": "from when a lost packet would have come until it was replaced",
    "jitter_buffer": "in the jitter buffer",
    "lip_sync": "held back until the sound of the same person",
    "decoder": "in the decoder",
    "display": "from the page to the screen",
}
"""The stages of a picture in order, and what each is."""
SOUND_STAGES: dict[str, str] = {
    "microphone": "until a packet's sound was recorded: the length of a packet",
    "encoder": "until the packet left",
    "queues": "in the queues of the route",
    "wires": "on the wires of the route: serialisation, propagation and jitter",
    "server": "at the servers of the route",
    "jitter_buffer": "in the jitter buffer",
    "loudspeaker": "from the jitter buffer to the loudspeaker",
}
"""The stages of sound in order, and what each is."""

SCHEMA = pl.Schema(
    {"flow": pl.String(), "captured_ns": pl.Int64(), "rendered_ns": pl.Int64()}
    | {f"{stage}_ns": pl.Int64() for stage in STAGES}
)
_PICTURE = ("flow", "ssrc", "rtp_timestamp")
WRAP = 2**32
"""RTP timestamps wrap around."""


def waits_table(trace: Trace) -> pl.DataFrame:
    """A row for each picture that was shown in the trace's window, with the ns that it spent in each stage.

    The stages add up to the time from ``captured_ns`` to ``rendered_ns``. Pictures whose packets or capture
    time are not known are left out. Live, the time before the first packet and the time behind the jitter
    buffer are divided by the means that the browsers report each second.
    """
    return pl.concat([SCHEMA.to_frame(), *(waits_of(trace, flow) for flow in trace.flows)])


def waits_of(trace: Trace, flow: str) -> pl.DataFrame:
    """The rows of :func:`waits_table` of one flow."""
    return trace.cached_in_window(_waits, flow)


def _waits(trace: Trace, flow: str) -> pl.DataFrame:
    if not were_recorded(trace):
        return SCHEMA.to_frame()
    frames = trace.rows_of_flow("frames", flow).lazy().filter(before_end(trace, "rendered_ns"))
    frames = frames.drop_nulls(["captured_ns", "received_ns", "rendered_ns"])
    ways = _ways(packets_in_order(trace.whole, flow))
    joined = frames.join(ways, on=_PICTURE, maintain_order="left")
    known = joined.drop_nulls("first_sent_ns").sort("rendered_ns").collect()
    if known.is_empty():
        return SCHEMA.to_frame()
    of_second = [pl.Series(name, values) for name, values in _of_second(trace, flow, known).items()]
    stages = known.lazy().with_columns(of_second)
    stages = stages.with_columns(*_until_sent(_is_composed(trace, flow)), *_on_the_way())
    stages = stages.with_columns(_in_receiver()).select(list(SCHEMA))
    return stages.drop_nulls().cast(dict(SCHEMA)).collect()  # type: ignore[arg-type]


def _ways(packets: pl.DataFrame) -> pl.LazyFrame:
    """By picture, when its first packet left, and the way of the packet that completed it.

    A packet that was lost after the last one that came is taken to have gone the way of the fastest packet.
    """
    sent_ns, came = pl.col("sent_ns"), pl.col("delivered_ns").is_not_null()
    media = packets.lazy().filter(kind="video").sort("delivered_ns", "sent_ns", nulls_last=False)
    pictures = media.group_by(_PICTURE).agg(
        first_sent_ns=sent_ns.min(),
        last_delivered_ns=pl.col("delivered_ns").last(),
        last_sent_ns=pl.when(came).then(sent_ns).last(),
        queued_ns=pl.col("queued_ns").last().fill_null(0),
        held_ns=pl.col("held_ns").last().fill_null(0),
        lost_sent_ns=pl.when(~came).then(sent_ns).max(),
    )
    return pictures.join(media.select(way_ns=(pl.col("delivered_ns") - sent_ns).min()), how="cross")


def _until_sent(is_composed: bool) -> list[pl.Expr]:
    """The stages until the first packet of a picture left; ``first_wait_ns`` is its wait for the pacer.

    A picture that a server composes was on its way to the server before the encoder began.
    """
    before = pl.col("first_sent_ns") - pl.col("captured_ns")
    encoder = pl.coalesce(
        pl.col("encoded_ns") - pl.col("encode_begin_ns"), pl.min_horizontal("mean_encode_ns", before)
    )
    wait = pl.coalesce(
        pl.col("first_sent_ns") - pl.col("encoded_ns"), pl.min_horizontal("mean_send_ns", before - encoder)
    )
    rest, none = before - encoder - wait, pl.lit(0)
    return [
        (none if is_composed else rest).alias("camera_ns"),
        (rest if is_composed else none).alias("composed_ns"),
        encoder.alias("encoder_ns"),
        wait.alias("first_wait_ns"),
    ]


def _on_the_way() -> list[pl.Expr]:
    """The stages from the first packet of a picture until it was complete, and what the last ones are of."""
    is_repaired = pl.col("lost_sent_ns").is_not_null() & (
        pl.col("received_ns") > pl.col("last_delivered_ns")
    ).fill_null(True)
    repaired = pl.when(is_repaired)
    sent = repaired.then("lost_sent_ns").otherwise("last_sent_ns")
    due = repaired.then(pl.col("lost_sent_ns") + pl.col("way_ns")).otherwise("last_delivered_ns")
    queues = repaired.then(0).otherwise("queued_ns")
    held = repaired.then(0).otherwise("held_ns")
    complete = repaired.then("received_ns").otherwise("last_delivered_ns")
    return [
        (sent - pl.col("first_sent_ns")).alias("spread_ns"),
        queues.alias("queues_ns"),
        held.alias("held_ns"),
        (due - sent - queues - held).alias("wires_ns"),
        (complete - due).alias("repair_ns"),
        (pl.col("rendered_ns") - complete).alias("rest_ns"),
        *map(pl.col, ("decode_ns", "display_ns", "mean_decode_ns", "mean_sync_ns")),
    ]


def _in_receiver() -> list[pl.Expr]:
    """All stages that are sums or remainders of those before."""
    display = pl.min_horizontal(pl.col("display_ns").fill_null(0), "rest_ns")
    decoder = pl.min_horizontal(pl.coalesce("decode_ns", "mean_decode_ns"), pl.col("rest_ns") - display)
    held_back = pl.col("rest_ns") - display - decoder
    sync = pl.min_horizontal("mean_sync_ns", held_back)
    return [
        (pl.col("first_wait_ns") + pl.col("spread_ns")).alias("pacer_ns"),
        (pl.col("composed_ns") + pl.col("held_ns")).alias("server_ns"),
        (held_back - sync).alias("jitter_buffer_ns"),
        sync.alias("lip_sync_ns"),
        decoder.alias("decoder_ns"),
        display.alias("display_ns"),
    ]


def _of_second(trace: Trace, flow: str, frames: pl.DataFrame) -> dict[str, IntegerArray]:
    """The means that browsers reported about the second in which each picture was taken or shown, in ns.

    They are 0 where the trace has the time of each picture.
    """
    taken, shown = frames["captured_ns"].to_numpy(), frames["rendered_ns"].to_numpy()
    at_sender, at_receiver = ("outbound_rtp", _sent_by(trace, flow)), ("inbound_rtp", flow)
    target, network = (
        _means_ns(trace, *at_receiver, f"jitterBuffer{which}Delay", "jitterBufferEmittedCount", shown)
        for which in ("Target", "Minimum")
    )
    means = dict.fromkeys(("mean_encode_ns", "mean_send_ns", "mean_decode_ns"), np.zeros_like(taken))
    if frames["encoded_ns"].null_count():
        means["mean_encode_ns"] = _means_ns(trace, *at_sender, "totalEncodeTime", "framesEncoded", taken)
        means["mean_send_ns"] = _means_ns(trace, *at_sender, "totalPacketSendDelay", "packetsSent", taken)
    if frames["decode_ns"].null_count():
        means["mean_decode_ns"] = _means_ns(trace, *at_receiver, "totalDecodeTime", "framesDecoded", shown)
    return means | {"mean_sync_ns": (target - network).clip(min=0)}


def _sent_by(trace: Trace, flow: str) -> str:
    """The flow over which a flow's sender sends its media, which is another one if a server forwards them."""
    flows = trace.manifest.flows
    if not flows[flow].forwarded:
        return flow
    reported = trace.cached(counters_of_kind, "outbound_rtp", "video", "packetsSent")
    of_sender = (one for one in reported if one in flows and flows[one].sender == flows[flow].sender)
    return next((one for one in of_sender if not flows[one].forwarded), flow)


def _means_ns(
    trace: Trace, table: str, flow: str, part: str, whole: str, at_ns: IntegerArray
) -> IntegerArray:
    """At each time, the growth of a counter in s over that of another one, of video; 0 if not known."""
    sums, counts = (
        trace.cached(counters_of_kind, table, "video", column).get(flow, NO_SAMPLES)
        for column in (part, whole)
    )
    if not sums.at_s.size or sums.at_s.size != counts.at_s.size:
        return np.zeros(at_ns.size, np.int64)
    grown, of = np.diff(sums.values, prepend=0.0), np.diff(counts.values, prepend=0.0)
    means: Array = np.divide(grown, of, out=np.zeros(of.size), where=of > 0)
    index = np.searchsorted(sums.at_s, at_ns / NS_PER_S).clip(max=means.size - 1)
    means_ns: IntegerArray = np.rint(means[index] * NS_PER_S).astype(np.int64)
    return means_ns


def _is_composed(trace: Trace, flow: str) -> bool:
    """Whether the flow's sender is a server, which composes what it sends of pictures that came to it."""
    about = trace.manifest.flows[flow]
    if about.call is None or about.call >= len(trace.manifest.calls):
        return False
    return about.sender not in trace.manifest.calls[about.call].participants


def mean_waits_ms(trace: Trace, flow: str) -> dict[str, float]:
    """The mean time in ms of a flow's pictures in each stage; empty if none is known."""
    rows = waits_of(trace, flow)
    if rows.is_empty():
        return {}
    return {stage: float(rows[f"{stage}_ns"].to_numpy().mean()) / NS_PER_MS for stage in STAGES}


def mean_sound_waits_ms(trace: Trace, flow: str) -> dict[str, float]:
    """The mean time in ms of a flow's sound in each stage; empty if it is not known.

    The stages add up to the metric ``sound_delay``. Live, the time in the encoder is not known and 0.
    """
    total_ms, way_ms = sound_delay(trace, flow), way_of_sound_ms(trace, flow)
    if not were_recorded(trace) or np.isnan(total_ms + way_ms):
        return {}
    arrived = arrived_in_window(trace, flow)
    sound = arrived.chosen(arrived.of_kinds("audio"))
    queued_ms, held_ms = (
        float(np.where(waited == NEVER, 0, waited).mean()) / NS_PER_MS
        for waited in (sound.queued_ns, sound.held_ns)
    )
    known = {
        "microphone": packet_length_ms(trace, flow),
        "encoder": _encoder_ms(trace, flow),
        "queues": queued_ms,
        "wires": way_ms - queued_ms - held_ms,
        "server": held_ms,
        "loudspeaker": output_ms(trace, flow),
    }
    known["jitter_buffer"] = total_ms - sum(known.values())
    return {stage: known[stage] for stage in SOUND_STAGES}


def _encoder_ms(trace: Trace, flow: str) -> float:
    """Mean time in ms from the end of a packet's sound until it left, beyond the shortest; 0 in live calls.

    Their delay of sound does not contain it.
    """
    if trace.manifest.backend != "sim":
        return 0.0
    rows = packets_in_order(trace.whole, flow).filter(pl.col("kind") == "audio").sort("ssrc", "sent_ns")
    ticks = rows["rtp_timestamp"].to_numpy()
    steps = (np.diff(ticks, prepend=ticks[:1]) + WRAP // 2) % WRAP - WRAP // 2
    recorded_ns = np.cumsum(steps) * NS_PER_S // AUDIO_CLOCK
    late_ns = rows["sent_ns"].to_numpy() - recorded_ns
    return float((late_ns - late_ns.min()).mean()) / NS_PER_MS if late_ns.size else 0.0
