"""What each end of a call sent: video and audio, as far as its packets and reports tell."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import polars as pl

from rtclab.estimate.findings import Grade, Parameters, rate_text
from rtclab.trace import BITS_PER_BYTE, NS_PER_S, Trace

OVERHEAD_BYTES = 62
"""Bytes of a packet outside the payload: IPv4, UDP, RTP with the usual extensions, and the tag of SRTP."""
USUAL_SIZE = (640, 480)
USUAL_BITRATES = ((640 * 480, 1_700_000), (1280 * 720, 2_500_000))
"""Maximum bitrates of Chromium by number of pixels, up to which they apply."""
LARGEST_BITRATE = 5_000_000
FRAME_RATES = (5, 7.5, 10, 12, 15, 20, 24, 25, 30, 50, 60)
LARGEST_FRAME_RATE = 240
"""Reports of more are no frame rates."""
AUDIO_CLOCK = 48_000
STEADY = 0.06
"""A rate that is within this share of the usual maximum for :data:`STEADY_S` is limited by it."""
STEADY_S = 8
TOP, PLATEAU = 0.99, 0.3
"""An encoder whose target is within 1 % of its highest in this share of the reports is at its maximum: an
estimate that the path limits varies more.
"""
SIMULATED = "vp8"
MOST_CHANGES = 4
"""Changes of the codec that are named."""


def media_of(trace: Trace, flow: str) -> Parameters:
    """What the sender of a flow sends: its tables ``video`` and ``audio`` in a scenario."""
    media = Parameters(trace.manifest.flows[flow].sender)
    packets = trace.table("packets") if "packets" in trace.tables else None
    rtp = None if packets is None else packets.filter(pl.col("flow") == flow, pl.col("protocol") == "rtp")
    reports = [trace.table(name).filter(pl.col("flow") == flow) for name in ("outbound_rtp", "inbound_rtp")]
    sent = reports[0] if not reports[0].is_empty() else reports[1]
    kinds = set(sent["kind"].unique())
    if rtp is not None:
        kinds |= set(rtp["kind"].drop_nulls().unique())
    if "video" in kinds:
        media.values["video"] = _video(media, sent.filter(kind="video"), rtp)
    if "audio" in kinds:
        media.values["audio"] = _audio(media, sent.filter(kind="audio"), rtp)
    return media


def _video(media: Parameters, sent: pl.DataFrame, rtp: pl.DataFrame | None) -> dict[str, Any]:
    size = _size(media, sent)
    rate = _frame_rate(sent, rtp)
    if rate:
        media.add("frame rate", rate)
    else:
        media.add("frame rate", 30.0, grade="assumed", note="the source does not tell")
    rates = _payload_rates(sent, rtp)
    picture = size["width"] * size["height"]
    usual = next((most for pixels, most in USUAL_BITRATES if picture <= pixels), LARGEST_BITRATE)
    top = float(np.quantile(rates, 0.95)) if rates.size else 0.0
    # A call that its path limits is rarely steady.
    grade: Grade = "measured"
    most, steady = usual, rates[np.abs(rates / usual - 1) < STEADY]
    if plateau := _plateau(sent):
        most, note = plateau, "the target of the encoder stays at it"
    elif steady.size >= max(STEADY_S, rates.size // 3):
        note = "the rate stays at the usual maximum of browsers"
    elif top > 1.1 * usual:
        most = round(top / 1e4) * 10_000
        note, grade = "the highest rate of the call", "at least"
    else:
        note, grade = f"the usual maximum of browsers; the call came to {rate_text(top)}", "assumed"
    media.add("max bitrate", most / 1000, grade=grade, note=note)
    codecs = _codecs(sent)
    if codecs not in ("", SIMULATED):
        alone = f"simulated calls have {SIMULATED} alone, and so has the scenario"
        media.unknown("codec", f"the call used {codecs}; {alone}")
    return {**size, "frame_rate": rate or 30, "max_bitrate": rate_text(most)}


def _plateau(sent: pl.DataFrame) -> int | None:
    """The highest target of the encoder of one stream, if it stays at it; None if no source says."""
    if "targetBitrate" not in sent.columns or sent["ssrc"].n_unique() > 1:
        return None
    wanted = sent["targetBitrate"].drop_nulls().to_numpy()
    if wanted.size < STEADY_S:
        return None
    highest = float(wanted.max())
    return round(highest) if highest and np.mean(wanted >= TOP * highest) >= PLATEAU else None


def _size(media: Parameters, sent: pl.DataFrame) -> dict[str, int]:
    """Adds width and height of the largest picture.

    If the source tells only one of them, the usual shape of a picture gives the other.
    """
    usual_width, usual_height = USUAL_SIZE
    width, height = (_largest(sent[name]) for name in ("frameWidth", "frameHeight"))
    size = (
        width or (height and 2 * round(height * usual_width / usual_height / 2)) or usual_width,
        height or (width and 2 * round(width * usual_height / usual_width / 2)) or usual_height,
    )
    for name, known, value in zip(("width", "height"), (width, height), size, strict=True):
        grade: Grade = "assumed" if known is None else "measured"
        note = "the source does not tell it" if known is None else "the largest that was sent"
        media.add(f"video {name}", value, grade=grade, note=note)
    return {"width": size[0], "height": size[1]}


def _largest(pixels: pl.Series) -> int | None:
    largest = pixels.max()
    return largest if isinstance(largest, int) and largest > 0 else None


def _codecs(sent: pl.DataFrame) -> str:
    """The codecs of a call, with the times of changes: ``vp9, from 40 s on av1``. Empty if nobody says."""
    if "mimeType" not in sent.columns:
        return ""
    codec = pl.col("mimeType").str.split("/").list.last().str.to_lowercase()
    named = sent.drop_nulls("mimeType").sort("at_ns").select("at_ns", "ssrc", codec=codec)
    before = pl.col("codec").shift().over("ssrc")
    changes = named.filter(before.is_null() | (before != pl.col("codec")))
    first = changes.filter(before.is_null())["codec"].unique(maintain_order=True)
    later = changes.filter(before.is_not_null()).unique(["at_ns", "codec"], maintain_order=True)
    told = [
        f"from {at_ns / NS_PER_S:.0f} s on {name}" for at_ns, name in later.select("at_ns", "codec").rows()
    ]
    return ", ".join([" and ".join(first), *told[:MOST_CHANGES]])


def _frame_rate(sent: pl.DataFrame, rtp: pl.DataFrame | None) -> float | None:
    """The frame rate of the camera: the usual rate that is nearest to the highest of the call."""
    reported = sent["framesPerSecond"].drop_nulls()
    rates = reported.filter(reported.is_between(0, LARGEST_FRAME_RATE)).to_numpy()
    if not rates.size:
        rates = _counted_frame_rates(sent)
    if not rates.size and rtp is not None:
        video = rtp.filter(pl.col("kind") == "video").drop_nulls("rtp_timestamp")
        frames = video.unique(["ssrc", "rtp_timestamp"], keep="first").group_by(pl.col("sent_ns") // NS_PER_S)
        rates = frames.len()["len"].cast(pl.Float64).to_numpy()
    if not rates.size:
        return None
    highest = float(np.quantile(rates, 0.9))
    nearest = min(FRAME_RATES, key=lambda rate: abs(rate - highest))
    return float(nearest) if abs(nearest - highest) <= 0.1 * nearest + 0.5 else round(highest, 1)


def _counted_frame_rates(sent: pl.DataFrame) -> Any:
    """Frames per second between consecutive reports of each stream, from its counter of frames."""
    column = "framesEncoded" if "framesEncoded" in sent.columns else "framesDecoded"
    took_s = pl.col("at_ns").diff().over("ssrc") / NS_PER_S
    rate = pl.col(column).diff().over("ssrc") / took_s
    counted = sent.drop_nulls(column).sort("at_ns").select(rate=rate).to_series()
    return counted.filter(counted.is_between(0, LARGEST_FRAME_RATE)).to_numpy()


def _payload_rates(sent: pl.DataFrame, rtp: pl.DataFrame | None) -> Any:
    """Payload of the video in bit/s, in each second."""
    if rtp is not None and not rtp.is_empty():
        video = rtp.filter(pl.col("kind") == "video")
        bits = (pl.col("size_bytes") - OVERHEAD_BYTES).clip(0).sum() * BITS_PER_BYTE
        seconds = video.group_by(pl.col("sent_ns") // NS_PER_S).agg(bits=bits).sort("sent_ns")
        return seconds["bits"].cast(pl.Float64).to_numpy()[1:-1]
    column = "bytesSent" if "bytesSent" in sent.columns else "bytesReceived"
    total = sent.group_by("at_ns").agg(pl.col(column).sum()).sort("at_ns")
    took_s = total["at_ns"].diff().drop_nulls().to_numpy() / NS_PER_S
    rates = BITS_PER_BYTE * total[column].diff().drop_nulls().to_numpy() / np.maximum(took_s, 1e-3)
    return rates[(took_s > 0) & (rates >= 0)]


def _audio(media: Parameters, sent: pl.DataFrame, rtp: pl.DataFrame | None) -> dict[str, Any]:
    bitrate: float | None = None
    frame_ms = 20.0
    speech = None if rtp is None else rtp.filter(pl.col("kind") == "audio").drop_nulls("rtp_timestamp")
    if speech is not None and speech.height > 10:
        of_stream = speech.sort("ssrc", "seq", maintain_order=True)
        steps = of_stream.select(pl.col("rtp_timestamp").diff().over("ssrc")).to_series().drop_nulls()
        positive = steps.filter(steps > 0)
        if len(positive):
            frame_ms = float(min(max(cast(float, positive.median()) * 1000 / AUDIO_CLOCK, 2.5), 120))
        payload = cast(float, speech["size_bytes"].median()) - OVERHEAD_BYTES
        bitrate = BITS_PER_BYTE * payload / frame_ms * 1000
    elif sent.height > 2:
        rates = _payload_rates(sent, None)
        bitrate = float(np.median(rates)) if rates.size else None
    if bitrate is not None:
        bitrate = max(round(bitrate / 2000) * 2000, 6000)
    media.add("audio bitrate", (bitrate or 32_000) / 1000, grade="measured" if bitrate else "assumed")
    return {"bitrate": rate_text(bitrate or 32_000), "frame": f"{frame_ms:g} ms"}
