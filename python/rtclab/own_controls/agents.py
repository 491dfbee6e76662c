"""Published agents that estimate bandwidth at the receiver: estimators of AlphaRTC, and ONNX models."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rtclab import _native
from rtclab.control import Bounds, ReceivedPacket, misused
from rtclab.errors import BadInput

VIDEO, AUDIO = 125, 111
"""Payload types of AlphaRTC's example call."""
IP_UDP_BYTES = 28
FEATURES = 150
MS_PER_S, NS_PER_S = 1e3, 1e9


def alphartc(estimator: Any) -> type:
    """The control of a class ``Estimator``, which OpenNetLab/AlphaRTC calls.

    Its ``report_states`` is given every packet that arrives, and ``get_estimated_bandwidth`` is asked for the
    estimate in bit/s every ``interval`` s, by default 0.2 as AlphaRTC's ``bwe_feedback_duration``. Many
    agents were trained with 0.06. The length of padding is not known and given as 0.
    """

    class AlphaRtc:
        def __init__(self, bounds: Bounds, *, interval: float = 0.2) -> None:
            self.interval = interval
            self._estimator = estimator()

        def on_packet(self, packet: ReceivedPacket) -> None:
            sent = packet.sent if packet.sent is not None else packet.received
            self._estimator.report_states(
                {
                    "send_time_ms": int(sent * MS_PER_S),
                    "arrival_time_ms": int(packet.received * MS_PER_S),
                    "payload_type": AUDIO if packet.audio else VIDEO,
                    "sequence_number": packet.sequence,
                    "ssrc": packet.ssrc,
                    "padding_length": 0,
                    "header_length": packet.size - packet.payload - IP_UDP_BYTES,
                    "payload_size": packet.payload,
                }
            )

        def on_timeout(self, now: float) -> float:
            return _rate(self._estimator.get_estimated_bandwidth(), self._estimator.get_estimated_bandwidth)

    return AlphaRtc


def onnx(file: Path, digests: tuple[str, ...]) -> type:
    """The control of a model of the 2024 challenge (microsoft/RL4BandwidthEstimationChallenge, fcf857c).

    Every 60 ms the model is given the 150 features of the packets that arrived and its own states. The first
    number of its output is the estimate in bit/s. ``scale`` names a text file with 150 numbers, beside the
    model, by which features are multiplied. With ``order`` = ``oldest``, the oldest of five windows comes
    first. ``clock_offset`` in s is added to every delay; in the challenge's data the least delay was near
    0.2 s.

    ``digests`` identify the content of the model's files. While they stay, the model is loaded once.

    Raises:
        BadInput: the model cannot be read, or has other inputs or outputs.
    """
    session, width = _session(file, digests)

    class Onnx:
        interval = 0.06

        def __init__(
            self, bounds: Bounds, *, scale: str = "", order: str = "newest", clock_offset: float = 0.0
        ) -> None:
            if order not in ("newest", "oldest"):
                raise BadInput(f"congestion_control.options.order: got `{order}`; expected newest or oldest")
            self._scale = _scale(file.parent / scale) if scale else np.ones(FEATURES, np.float32)
            self._oldest_first = order == "oldest"
            self._offset_ns = round(clock_offset * NS_PER_S)
            self._features = _native.ArrivalFeatures()
            self._last: dict[int, int] = {}
            self._states = {name: np.zeros((1, width), np.float32) for name in STATES}

        def on_packet(self, packet: ReceivedPacket) -> None:
            if packet.sent is None:
                return
            ahead = (packet.sequence - self._last.get(packet.ssrc, packet.sequence - 1)) & 0xFFFF
            if ahead < 0x8000:
                self._last[packet.ssrc] = packet.sequence
            self._features.push(
                round(packet.sent * NS_PER_S),
                round(packet.received * NS_PER_S) + self._offset_ns,
                packet.size,
                "audio" if packet.audio else "video",
                ahead - 1 if 0 < ahead < 0x8000 else 0,
            )

        def on_timeout(self, now: float) -> float:
            features = self._features.bwe2024(round(now * NS_PER_S) + self._offset_ns)
            if self._oldest_first:
                features = features.reshape(-1, 5)[:, ::-1].reshape(FEATURES)
            given = {"obs": (features * self._scale).reshape(1, 1, FEATURES), **self._states}
            output, *states = session.run(["output", *STATES.values()], given)
            self._states = dict(zip(STATES, states, strict=True))
            return _rate(float(output.reshape(-1)[0]), file)

    return Onnx


STATES = {"hidden_states": "state_out", "cell_states": "cell_out"}
"""Inputs of a model that carry its state, and the outputs with their next values."""


@lru_cache(maxsize=8)
def _session(file: Path, digests: tuple[str, ...]) -> tuple[Any, int]:
    """The model in one thread, so that results are the same everywhere, and the width of its states.

    ``digests`` are of the files that it is made of, so that a model with new weights is loaded anew.
    """
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # otherwise it reports to its maker
    try:
        import onnxruntime
    except ImportError:
        raise BadInput(
            f"onnx:{file}: the package onnxruntime is not installed", hint="pip install onnxruntime"
        ) from None
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = settings.inter_op_num_threads = 1
    settings.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(str(file), settings, providers=["CPUExecutionProvider"])
    except Exception as error:
        raise BadInput(f"onnx:{file}: cannot be read as a model: {error}") from None
    shapes = {one.name: one.shape for one in session.get_inputs()}
    outputs = {one.name: one.shape for one in session.get_outputs()}
    missing = [name for name in ("obs", *STATES) if name not in shapes]
    missing += [name for name in ("output", *STATES.values()) if name not in outputs]
    if missing:
        raise BadInput(
            f"onnx:{file}: no {', '.join(f'`{name}`' for name in missing)}; expected the inputs `obs`, "
            "`hidden_states`, `cell_states` and the outputs `output`, `state_out`, `cell_out`"
        )
    if shapes["obs"][-1] != FEATURES:
        raise BadInput(f"onnx:{file}: `obs` has the shape {shapes['obs']}; expected 1 x 1 x {FEATURES}")
    width = shapes["hidden_states"][-1]
    if not isinstance(width, int) or shapes["cell_states"][-1] != width:
        both = f"{shapes['hidden_states']} and {shapes['cell_states']}"
        raise BadInput(f"onnx:{file}: the states have the shapes {both}; expected 1 x N for both")
    return session, width


def _scale(file: Path) -> NDArray[np.float32]:
    try:
        scale = np.loadtxt(file, dtype=np.float32).reshape(-1)
    except (OSError, ValueError) as error:
        raise BadInput(f"congestion_control.options.scale: cannot read {file}: {error}") from None
    if scale.size != FEATURES:
        raise BadInput(
            f"congestion_control.options.scale: {file} has {scale.size} numbers; expected {FEATURES}"
        )
    return scale


def _rate(rate: Any, source: Any) -> float:
    """An estimate, if it is one."""
    try:
        value = float(rate)
    except (TypeError, ValueError):
        value = np.nan
    if not 0 <= value < np.inf:
        wrong = ValueError(f"the estimate is {rate}; expected a number of bit/s, not negative")
        raise BadInput(f"{source}: {wrong}" if isinstance(source, Path) else misused(source, wrong))
    return value
