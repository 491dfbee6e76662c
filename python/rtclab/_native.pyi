"""The native module. It only converts values; the Rust documentation explains them."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

VERSION: str
"""The version of rtclab whose crates it was built from."""

CONGESTION_CONTROLS: list[str]
"""Valid values of ``congestion_control.name`` in the simulator."""

CONGESTION_CONTROL_SUMMARIES: list[tuple[str, str]]
"""Algorithm, and what it is in a line."""

CONGESTION_CONTROL_OPTIONS: list[tuple[str, str, str, float, float]]
"""Algorithm, option, meaning, smallest and largest value of every option."""

Controls = list[tuple[str, str, Callable[[Bounds], Any]]]
"""Controls that are Python classes: name, stack profile, and what makes an instance."""

def simulate(config: str, threads: int = 1, controls: Controls | None = None) -> dict[str, dict[str, Any]]:
    """Runs one repeat in virtual time. The number of threads does not change the result.

    It releases the GIL, unless controls are given.

    ``config`` is the result of ``Scenario.native`` as JSON. Returns table -> column -> values. Values are an
    array of int64 or float64 or, for text, an array of uint32 codes (4294967295 for null) and the list of
    texts.

    Raises:
        ValueError: the JSON does not describe a scenario.
    """

def simulate_captured(
    config: str, controls: Controls | None = None
) -> tuple[dict[str, dict[str, Any]], bytes, str]:
    """Runs one repeat like ``simulate`` and captures every packet at the port of every node that it passes.

    Returns the tables of ``simulate``, a pcapng file (times are nanoseconds since the run began) and the
    session descriptions of the calls in it.

    Raises:
        ValueError: the JSON does not describe a scenario.
    """

class Simulation:
    """A run in virtual time that is stepped. Whatever the steps, it ends with the same bytes as ``simulate``.

    Raises:
        ValueError: the JSON does not describe a scenario.
    """

    def __init__(self, config: str, controls: Controls | None = None) -> None: ...
    def now(self) -> int:
        """Up to when it has run, in nanoseconds."""

    def advance(self, until_ns: int) -> None:
        """Runs up to a time. It releases the GIL, unless the run has controls that are Python classes.

        Raises:
            ValueError: the time has passed or is after the end, or a congestion control fails.
        """

    def set_path(self, config: str) -> None:
        """Replaces a path, as in the configuration of ``simulate``, from now on.

        Raises:
            ValueError: there is no such path, or a field breaks a rule.
        """

    def tables(self) -> dict[str, dict[str, Any]]:
        """The tables so far, as ``simulate`` returns them."""

def parquet(columns: list[tuple[str, str, bool, Any]]) -> bytes:
    """The content of a Parquet file, made without the GIL.

    ``columns`` has for each column its name, its type (``int``, ``flag``, ``float`` or ``text``), whether it
    may have nulls, and its values as ``simulate`` returns them, or None for a column of nulls.

    Raises:
        TypeError: values have another type.
        ValueError: columns have different lengths, or a code has no text.
    """

def student_t_quantile(share: float, degrees_of_freedom: float) -> float:
    """The value below which Student's t lies with probability ``share`` (0..1).

    Raises:
        ValueError: ``share`` is outside 0..1, or ``degrees_of_freedom`` is not positive.
    """

def student_t_p(t: float, degrees_of_freedom: float) -> float:
    """The probability that Student's t is at least as far from 0 as ``t``, on either side.

    Raises:
        ValueError: ``t`` is NaN, or ``degrees_of_freedom`` is not positive.
    """

class Emulator:
    """A network emulated in real time between interfaces of the calling thread's network namespace.

    ``config_json`` is the native network (``nodes``, ``paths``, ``routes``) with ``seed``, ``ports``
    (``node``, ``interface``, ``mac``, ``address``), and optionally ``pcap`` (capture file to write),
    ``snaplen`` (bytes of each frame to capture) and ``packet_log`` (keep a row for every packet; memory has
    the newest, and a file without a name beside the capture the others).

    Raises:
        ValueError: the JSON does not describe an emulator.
    """

    def __init__(self, config_json: str) -> None: ...
    def start(self) -> None:
        """Opens the ports and starts to forward packets. Time zero is now.

        Raises:
            OSError: an interface or the capture file cannot be opened.
        """

    def now_ns(self) -> int:
        """Nanoseconds since the start, on the clock used in the table of packets."""

    def set_path(self, path_json: str) -> None:
        """Replaces the path of the same name with immediate effect."""

    def is_running(self) -> bool:
        """Whether packets are being forwarded. If not, ``failure`` in the result of ``stop`` says why."""

    def stop(self) -> dict[str, Any]:
        """Stops the emulator. Packets in flight are not delivered.

        Returns ``packets`` (column -> array, -1 for null, one row per packet; None unless the configuration
        has ``packet_log``), ``names`` (the meaning of the
        codes in ``from``, ``to``, ``drop_path``, ``mark_path``, ``protocol``, ``drop_cause``, ``ecn`` and
        ``mark_cause``: ``nodes``, ``paths``, ``protocols``, ``drop_causes``, ``ecn``, ``mark_causes``),
        ``traffic``, ``lateness`` (real minus logical departure), ``counters``,
        ``epoch_ns`` (time zero on the clock of the capture file, in ns since 1970), ``port_failures`` and
        ``failure``. ``port_failures`` lists when a port could not be read although the others went on, oldest
        first: ``interface``, ``at_ns`` and ``reason``. ``failure`` is the exception that ended the emulator
        or its capture file, or that kept ``packets`` from being read again; None if there was none.
        Everything else then is what happened before.

        ``traffic`` lists what became of the packets ``from`` one node ``to`` another, all together and, in
        ``protocols``, of each protocol that occurred. ``packets`` is the number that went in. It is the sum
        of ``delivered``, of those dropped by each cause (``queue``, ``loss``, ``aqm``) and of those
        ``on_the_way`` at the end, which waited, were being sent or travelled. ``ecn_capable`` is the number
        of delivered packets that went in ECN-capable, ``marked`` of those that arrived with a mark, and
        ``marks`` has these by cause. ``bytes`` and ``delivered_bytes`` are IP total lengths.
        ``delivered_bps`` counts from the first packet's entry to the last arrival; ``delay_p50_ms`` and
        ``delay_p95_ms`` count from the entry of a packet to its arrival. All three are None if nothing
        arrived, the rate also if no time passed. UDP is ``rtp`` only if its SSRC has two sequence numbers
        that follow each other, and ``rtcp`` only if there is RTP; else it is ``other``.

        Percentiles of delays and lateness are too large by at most 1 us or 0.2 %, whichever is more.

        Raises:
            RuntimeError: the emulator is not running, or it ended by an internal error.
        """

def monitor(
    path: str,
    *,
    sdp: str | None = None,
    packets: bool = False,
    seconds: bool = False,
    max_streams: int = 10_000,
    on_progress: Callable[[int], object] | None = None,
) -> dict[str, dict[str, Any]]:
    """Analyses a capture (pcap or pcapng; ``-`` for standard input), without the GIL.

    ``sdp`` is the text of one or more session descriptions: codecs, repair streams, extension ids.
    ``on_progress`` is called from time to time with the number of bytes read; an exception from it ends
    the reading.

    Returns table -> column -> values, like ``simulate``. Times are ns since 1970. Columns ``…_origin`` hold
    ``sdp`` (or RFC 3551) or ``inferred``. If a stream is seen at several places (relay legs, interfaces),
    ``leg_of`` is the number of the one seen first.

    - ``streams``: stream, flow, leg_of?, interface, direction? (``inbound``, ``outbound``), source,
      destination, relay? (``channel 0x4000``, ``indication``), peer?, ssrc, payload_type (the most
      frequent), payload_types, codec?, kind? (``video``, ``audio``, ``rtx``, ``fec``), kind_origin?,
      clock_rate?, clock_rate_origin?, first_ns, last_ns, packets, bytes (IP total length), payload_bytes,
      not_ect, ect0, ect1, ce (packets by ECN codepoint), rate_mean_bps?, rate_sd_bps? (over whole
      seconds), expected, lost (numbers never seen), duplicates, reordered, restarts, jitter_ms?,
      jitter_mean_ms?, jitter_max_ms? (RFC 3550), markers, frames (timestamp changes), frames_per_second?,
      abs_send_time_id?, abs_send_time_origin?, transport_seq_id?, transport_seq_origin?,
      delay_above_min_mean_ms?, delay_above_min_max_ms? (by abs-send-time, this capture alone)
    - ``flows``: flow, interface, direction?, transport (``udp``, ``tcp``), source, destination, first_ns,
      last_ns, packets, bytes, not_ect, ect0, ect1, ce, stun, dtls, rtp, rtcp, other, relayed (of these,
      in TURN framing), fragments, streams, stun_rtt_count, stun_rtt_min_ms?, stun_rtt_mean_ms?,
      stun_rtt_max_ms?
    - ``rtcp``: flow, ssrc (sender), type (``SR``, ``TWCC``, …), packets, encrypted, bytes (of datagrams that
      begin with it), items (report blocks, or packets covered by feedback), lost (of these), remb_bps?
    - ``reports``: flow, reporter_ssrc, ssrc, reports, packets_lost (cumulative, float for its sign),
      fraction_lost_mean, fraction_lost_max, jitter_ms?, rtt_count, rtt_min_ms?, rtt_mean_ms?, rtt_max_ms?
      (from the point of capture to the receiver and back)
    - ``notes``: note, count? (packets skipped, limits reached, faults of the file)
    - ``seconds`` on request: at_ns, stream, packets, bytes, lost (cumulative), jitter_ms?
    - ``packets`` on request (130 bytes of memory each): at_ns, interface, direction?, flow, source,
      destination, size_bytes (IP total length), ecn (``not-ect``, ``ect0``, ``ect1``, ``ce``), protocol
      (``rtp``, ``rtcp``, ``stun``, ``dtls``, ``other``), relayed (0, 1), stream?, kind?, ssrc?,
      payload_type?, seq?, seq_extended? (wraps counted from 1), rtp_timestamp?, marker?, transport_seq?,
      abs_send_time? (24 bits), relative_delay_ms? (relative to the stream's first packet)

    Raises:
        OSError: the file cannot be read.
        ValueError: the file is not a capture.
    """

def monitor_compare(
    path_a: str,
    path_b: str | None = None,
    *,
    sdp: str | None = None,
    packets: bool = False,
    max_streams: int = 10_000,
    on_progress: Callable[[int], object] | None = None,
) -> dict[str, dict[str, Any]]:
    """Follows packets from one point to another, without the GIL. Options as for ``monitor``.

    Without ``path_b`` the points are the two directions of one capture, which must record directions as the
    emulator's does. A is ``inbound``, B is ``outbound``, and both have the same clock.

    Both captures are read twice, so neither can be standard input; ``on_progress`` counts both passes.
    Delays are differences between the captures' clocks and can be negative. In ``corrected_…`` the estimate
    of the table ``clock`` is subtracted. A stream is sent at the point that it passes first.

    - ``streams``: stream, ssrc, payload_type, kind?, kind_origin?, codec?, clock_rate?, source_a,
      destination_a, source_b, destination_b, direction (``a->b``, ``b->a``), packets_a, packets_b, bytes_a,
      bytes_b, rate_mean_a_bps?, rate_sd_a_bps?, rate_mean_b_bps?, rate_sd_b_bps?, jitter_a_ms?,
      jitter_b_ms?, matched, lost (sent, not delivered), added (delivered, not sent: duplicated in between),
      outside (seen while the other capture was not running), first_ns,
      one_way_delay_{mean,sd,min,p50,p95,p99,max}_ms?,
      corrected_one_way_delay_{mean,sd,min,p50,p95,p99,max}_ms?
    - ``delay_histogram``: stream, one_way_delay_ms (lower edge of a bin of 0.1 ms), packets
    - ``clock``: one row, an estimate: method (``same clock``, ``both directions``, ``one direction``,
      ``none``), at_ns (A's time), offset_ms? (B's clock less A's at that time), offset_error_ms? (maximum
      error: half of the smallest round-trip time), drift_ppm? (positive if B's clock is faster)
    - ``notes``: note, count?
    - ``packets`` on request: stream, kind?, ssrc, payload_type, seq, rtp_timestamp, marker, size_bytes,
      sent_ns?, delivered_ns? (null where not seen, each on its own clock), one_way_delay_ms?

    Raises:
        OSError: a file cannot be read.
        ValueError: a file is not a capture.
    """

def event_log(content: bytes) -> tuple[dict[str, dict[str, Any]], dict[str, int]]:
    """Reads the bytes of a Chromium RTC event log (version 2), without the GIL.

    Returns table -> column -> values like ``simulate``, and the number of each fault (what was cut off,
    damaged or unknown) by its name. Null is -2^63 in arrays of int64. ``at_ms`` is CLOCK_MONOTONIC of the
    browser's machine. All tables are present, in order of time; columns marked ``?`` may be null.

    - ``begin``: at_ms, version, utc_ms (wall clock at the same time); ``end``: at_ms
    - ``incoming_rtp``, ``outgoing_rtp``: at_ms, marker, payload_type, seq, rtp_timestamp, ssrc,
      payload_bytes, header_bytes, padding_bytes, transport_seq?, transmission_offset?, abs_send_time?,
      video_rotation?, audio_level?, voice_activity?, frame_start_end?, template_id?, frame_number?,
      rtx_original_seq?
    - ``target``: at_ms, target_bps, fraction_lost (of 256), packets; ``delay_based``: at_ms, rate_bps,
      detector_state (``normal``, ``underuse``, ``overuse``)
    - ``probe_created``: at_ms, probe, rate_bps, min_packets, min_bytes; ``probe_success``: at_ms, probe,
      rate_bps; ``probe_failure``: at_ms, probe, reason; ``alr``: at_ms, in_alr
    - ``scream``: at_ms, ref_window_bytes, target_kbps, smoothed_rtt_ms, queue_delay_ms,
      l4s_marked_permille, in_flight_bytes; ``remote_estimate``: at_ms, lower_kbps?, upper_kbps?
    - ``candidate_pair_config``: at_ms, change, pair, local_candidate, relay_protocol, network, local_family,
      remote_candidate, remote_family, protocol; ``candidate_pair_event``: at_ms, event, pair, transaction
    - ``dtls_state``: at_ms, state; ``dtls_writable``: at_ms, writable; ``route_change``: at_ms, connected,
      overhead_bytes (per packet, beside RTP)
    - ``audio_playout``: at_ms, remote_ssrc; ``neteq_minimum_delay``: at_ms, remote_ssrc, delay_ms;
      ``audio_adaptation``: at_ms, rate_bps?, frame_ms?, uplink_loss?, fec?, dtx?, channels?;
      ``frame_decoded``: at_ms, ssrc, render_time_ms, width, height, codec, qp
    - ``audio_receive_config``, ``audio_send_config``, ``video_receive_config``, ``video_send_config``: at_ms,
      SSRCs, and the id of each header extension?
    - ``rtcp``: at_ms, sent (0, 1), type, ssrc?, media_ssrc?, rate_bps? (REMB)
    - ``transport_feedback``: at_ms, sent, ssrc, feedback_count, transport_seq, arrival_ticks? (0.25 ms, on
      the receiver's clock; null if lost); ``congestion_feedback`` (RFC 8888): at_ms, sent, ssrc,
      report_timestamp, media_ssrc, seq, arrival_offset_ns?, ecn?
    - ``report_blocks``: at_ms, sent, ssrc, media_ssrc, fraction_lost, packets_lost, highest_seq, jitter,
      last_sender_report, delay_since_last_sender_report; ``sender_reports``: at_ms, sent, ssrc, ntp,
      rtp_timestamp, packets, payload_bytes

    Raises:
        ValueError: the bytes are not such a log; the message names other versions.
    """

def replay_log(
    content: bytes,
    sent_ms: Any,
    name: str,
    options: dict[str, float],
    bounds: tuple[int, int, int, int],
    controls: Controls | None = None,
) -> tuple[dict[str, dict[str, Any]], int]:
    """Feeds the packets and feedback of an RTC event log to a congestion control, without the GIL.

    ``sent_ms`` is an array of int64: when the packet of each row of ``outgoing_rtp`` left the socket, in ms
    of the log's clock, rounded down; -2**63 where unknown. If it is empty, abs-send-time counts. ``bounds``
    are start, smallest and largest rate of video, and the rate of audio, in bit/s. Returns tables like
    ``simulate``, and the time of the log in ms at which their ``at_ns`` is 0: ``target`` (at_ns, target_bps),
    ``values`` (at_ns, name, value), ``probes`` (at_ns, rate_bps, and the browser's ``cluster`` that stood for
    it), and ``remb`` (at_ns, rate_bps) of the control's receiving half, if it has one.

    Raises:
        ValueError: the log or the congestion control is invalid.
    """

def replay_arrivals(
    packets: dict[str, Any],
    rtt_ns: int | None,
    name: str,
    options: dict[str, float],
    bounds: tuple[int, int, int, int],
    controls: Controls | None = None,
) -> dict[str, dict[str, Any]]:
    """Feeds packets, in order of arrival, to the receiver half of a congestion control.

    ``packets`` are arrays of int64 with the columns ``at_ns``, ``ssrc``, ``seq``, ``audio``, ``size_bytes``,
    ``payload_bytes``, ``rtp_timestamp``, ``abs_send_time`` and ``transport_seq``; -1 stands for none. Returns
    the tables ``remb`` (at_ns, rate_bps) and ``values``.

    Raises:
        ValueError: a column is missing, or the congestion control is invalid or has no such half.
    """

class LiveMonitor:
    """Monitors an interface of the calling thread's network namespace. It needs to open packet sockets.

    Raises:
        OSError: the interface does not exist, or the permission for packet sockets is missing.
    """

    def __init__(
        self,
        interface: str,
        *,
        sdp: str | None = None,
        packets: bool = False,
        seconds: bool = False,
        max_streams: int = 10_000,
    ) -> None: ...
    def poll(self, timeout_s: float = 1.0) -> dict[str, dict[str, Any]]:
        """Monitors for ``timeout_s`` and returns the current tables of ``monitor``; only new packets."""

def control_calls() -> int:
    """How often methods of controls that are Python classes were called in this process."""

def end_when_stuck(limit_s: int) -> None:
    """Aborts this process when a method of such a control takes longer, even if it cannot be interrupted."""

# The classes that controls in Python are given document themselves: `help(rtclab.control.Feedback)`.

class Bounds:
    """Bounds on the rate, set by the encoders, in bit/s."""

    start: float
    min: float
    max: float
    audio: float
    has_video: bool
    def __init__(
        self,
        *,
        start: float = 300e3,
        min: float = 30e3,
        max: float = 2.5e6,
        audio: float = 0.0,
        has_video: bool = True,
    ) -> None: ...

class ReportedPacket:
    """What the far end reports about a packet."""

    number: int
    sent: float
    received: float | None
    size: int
    kind: str
    ecn: str | None
    probe: int | None
    lost_before: bool

class Feedback:
    """Feedback on packets (transport-wide feedback or RFC 8888). What is not known is None."""

    received_rate: float | None
    delay: float | None
    min_delay: float | None
    base_delay: float | None
    queuing_delay: float | None
    loss: float | None
    marked: float | None
    rtt: float | None
    in_flight: int
    min_rate: float
    max_rate: float
    packets: list[ReportedPacket]
    columns: dict[str, Any]

class Report:
    """A receiver report (RFC 3550, section 6.4.1) or a REMB. What it does not tell is None."""

    loss: float | None
    rtt: float | None
    remb: float | None

class SentPacket:
    """A packet that left."""

    number: int
    size: int
    kind: str
    probe: int | None
    in_flight: int

class Sender:
    """State of the sender."""

    queued: int
    in_flight: int
    media_rate: float
    application_limited: bool

class ReceivedPacket:
    """A packet that arrived, as its receiver sees it."""

    sent: float | None
    received: float
    size: int
    payload: int
    audio: bool
    ssrc: int
    sequence: int
    timestamp: int
    ecn: str

class Probe:
    """A burst at a given rate, in bit/s, which measures capacity."""

    def __init__(self, rate: float, *, packets: int = 5, duration: float = 0.015) -> None: ...

class Decision:
    """What the sender does until the next decision."""

    target: float
    def __init__(
        self,
        target: float,
        *,
        window: float | None = None,
        pacing_rate: float | None = None,
        pacing_burst: float | None = None,
        padding_rate: float | None = None,
        drop_ratio: float = 0.0,
        ecn: str = "not_ect",
        probes: list[Probe] = ...,
    ) -> None: ...

ENVIRONMENT_CONTROL: str
"""Name of the congestion control of the senders that ``Environments`` decides for."""

ENVIRONMENT_OUTCOME: list[str]
"""The columns of the outcomes of ``Environments``."""

ENVIRONMENT_FULL: list[str]
"""The columns of the observation ``full``."""

_Stepped = tuple[NDArray[np.float32], NDArray[np.float64], NDArray[np.bool_], NDArray[np.float64]]

class Environments:
    """Many calls, in each of which one sender's rate is decided every 60 ms, stepped on several threads.

    A step returns observations and rewards of all calls, which of them are over, and outcomes. The number of
    threads does not change them. Without a ``reward`` the rewards are 0.

    Raises:
        ValueError: there is no such observation or reward.
    """

    def __init__(self, count: int, observed: str, reward: str | None, threads: int) -> None: ...
    def begin(self, calls: list[tuple[int, str, str]]) -> None:
        """Begins some calls anew, without the GIL.

        Each has its index, its configuration as for ``simulate``, and the flow of its sender.

        Raises:
            ValueError: a configuration cannot be run, or the sender sends no media.
        """

    def step(self, rates: NDArray[np.float64], active: NDArray[np.bool_]) -> _Stepped:
        """Decides on the rates in bit/s of the active calls, and runs these to their next decisions.

        It runs without the GIL.

        Raises:
            ValueError: a run fails, or a call has not begun or is over.
        """

    def look(self) -> _Stepped:
        """What the last step returned."""

    def tables(self, call: int) -> dict[str, dict[str, Any]]:
        """The tables of a call so far, as ``simulate`` returns them.

        Raises:
            ValueError: it has not begun.
        """

class ArrivalFeatures:
    """The features of arriving packets that learned congestion controls see."""

    def __init__(self) -> None: ...
    def push(self, sent_ns: int, received_ns: int, size: int, kind: str, lost_before: int) -> None:
        """Adds a packet; ``lost_before`` packets were missing in front of it.

        Raises:
            ValueError: there is no such kind.
        """

    def bwe2024(self, now_ns: int) -> NDArray[np.float32]:
        """The 150 features of the bandwidth estimation challenge of 2024."""
