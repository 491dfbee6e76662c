"""The native module: conversions only; what they mean is said in the Rust documentation."""

from collections.abc import Callable
from typing import Any

CONGESTION_CONTROLS: list[str]
"""Names that ``congestion_control.name`` may have in the simulator."""

CONGESTION_CONTROL_OPTIONS: list[tuple[str, str, str, float, float]]
"""Algorithm, option, meaning, smallest and largest value of every option."""

def simulate(config: str) -> dict[str, dict[str, Any]]:
    """Runs one repeat in virtual time, without the GIL.

    Takes what ``Scenario.native`` returns, as JSON. Returns table -> column -> array of int64 or
    float64, or for texts (array of uint32 codes, list of texts), 4294967295 for null.

    Raises:
        ValueError: the JSON does not describe a scenario.
    """

def simulate_captured(config: str) -> tuple[dict[str, dict[str, Any]], bytes, str]:
    """Runs one repeat as ``simulate`` does, and keeps every packet at the port of every node that it passes.

    Returns the tables of ``simulate``, a pcapng file (times are nanoseconds since the run began) and the
    session descriptions that go with it.

    Raises:
        ValueError: the JSON does not describe a scenario.
    """

def student_t_quantile(share: float, degrees_of_freedom: float) -> float:
    """The value below which Student's t lies with probability ``share`` (0..1).

    Raises:
        ValueError: ``share`` is outside 0..1, or ``degrees_of_freedom`` is not positive.
    """

class Emulator:
    """A network in real time between interfaces of the calling thread's network namespace.

    Takes as JSON the native network (``nodes``, ``paths``, ``routes``) with ``seed``, ``ports`` (``node``,
    ``interface``, ``mac``, ``address``), and optionally ``pcap`` (file to write) and ``snaplen`` (bytes kept
    of each frame there).

    Raises:
        ValueError: the JSON does not describe an emulator.
    """

    def __init__(self, config_json: str) -> None: ...
    def start(self) -> None:
        """Opens the ports and starts to carry packets; time zero is now.

        Raises:
            OSError: an interface or the capture file cannot be opened.
        """

    def now_ns(self) -> int:
        """Nanoseconds since the start, on the clock of the packet table."""

    def set_path(self, path_json: str) -> None:
        """Replaces the path of the same name from now on."""

    def is_running(self) -> bool:
        """Whether packets are being carried; once False, ``stop`` raises the reason."""

    def stop(self) -> dict[str, Any]:
        """Ends the emulator; packets on their way stay undelivered.

        Returns ``packets`` (column -> array, -1 for null, one row per packet), ``names`` (what the codes in
        ``from``, ``to``, ``drop_path``, ``protocol`` and ``drop_cause`` stand for: ``nodes``, ``paths``,
        ``protocols``, ``drop_causes``), ``lateness`` (real minus logical departure), ``counters``,
        and ``epoch_ns`` (time zero on the clock of the capture file, since 1970).

        Raises:
            OSError: the capture file or a device failed during the run.
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
    """Watches a capture (pcap or pcapng; ``-`` for standard input), without the GIL.

    ``sdp`` is the text of one or more session descriptions: codecs, repair streams, extension ids.
    ``on_progress`` hears now and then how many bytes have been read; what it raises ends the reading.

    Returns table -> column -> values as ``simulate`` does; times are ns since 1970. An ``…_origin`` is
    ``sdp`` (or RFC 3551) or ``inferred``. The same stream at another place of the capture (relay leg,
    interface) has the number of the one seen first in ``leg_of``.

    - ``streams``: stream, flow, leg_of?, interface, direction? (``inbound``, ``outbound``), source,
      destination, relay? (``channel 0x4000``, ``indication``), peer?, ssrc, payload_type (the most
      frequent), payload_types, codec?, kind? (``video``, ``audio``, ``rtx``, ``fec``), kind_origin?,
      clock_rate?, clock_rate_origin?, first_ns, last_ns, packets, bytes (IP total length), payload_bytes,
      rate_mean_bps?, rate_sd_bps? (over whole seconds), expected, lost (numbers never seen), duplicates,
      reordered, restarts, jitter_ms?, jitter_mean_ms?, jitter_max_ms? (RFC 3550), markers, frames (timestamp
      changes), frames_per_second?, abs_send_time_id?, abs_send_time_origin?, transport_seq_id?,
      transport_seq_origin?, delay_above_min_mean_ms?, delay_above_min_max_ms? (by abs-send-time, this
      capture alone)
    - ``flows``: flow, interface, direction?, transport (``udp``, ``tcp``), source, destination, first_ns,
      last_ns, packets, bytes, stun, dtls, rtp, rtcp, other, relayed (of these, in TURN framing), fragments,
      streams, stun_rtt_count, stun_rtt_min_ms?, stun_rtt_mean_ms?, stun_rtt_max_ms?
    - ``rtcp``: flow, ssrc (sender), type (``SR``, ``TWCC``, …), packets, encrypted, bytes (of datagrams that
      begin with it), items (report blocks, or packets that feedback speaks of), lost (of these), remb_bps?
    - ``reports``: flow, reporter_ssrc, ssrc, reports, packets_lost (cumulative, float for its sign),
      fraction_lost_mean, fraction_lost_max, jitter_ms?, rtt_count, rtt_min_ms?, rtt_mean_ms?, rtt_max_ms?
      (from the point of capture to the receiver and back)
    - ``notes``: note, count? (what was skipped, limits reached, faults of the file)
    - ``seconds`` if asked for: at_ns, stream, packets, bytes, lost (cumulative), jitter_ms?
    - ``packets`` if asked for (130 bytes of memory each): at_ns, interface, direction?, flow, source,
      destination, size_bytes (IP total length), protocol (``rtp``, ``rtcp``, ``stun``, ``dtls``, ``other``),
      relayed (0, 1), stream?, kind?, ssrc?, payload_type?, seq?, seq_extended? (wraps counted from 1),
      rtp_timestamp?, marker?, transport_seq?, abs_send_time? (24 bits), relative_delay_ms? (against the
      stream's first)

    Raises:
        OSError: the file cannot be read.
        ValueError: it is no capture.
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
    """Follows packets from one point to another, without the GIL; options as for ``monitor``.

    Without ``path_b`` the points are the two directions of one capture that tells them apart (that of the
    emulator does): A is ``inbound``, B is ``outbound``, and the clock is the same.

    Both captures are read twice, so neither can be standard input; ``on_progress`` counts all that is read.
    Delays are signed and on the captures' clocks; ``corrected_…`` have the estimate of table ``clock`` taken
    off. Sent is where a stream passes first, by its direction.

    - ``streams``: stream, ssrc, payload_type, kind?, kind_origin?, codec?, clock_rate?, source_a,
      destination_a, source_b, destination_b, direction (``a->b``, ``b->a``), packets_a, packets_b, bytes_a,
      bytes_b, rate_mean_a_bps?, rate_sd_a_bps?, rate_mean_b_bps?, rate_sd_b_bps?, jitter_a_ms?,
      jitter_b_ms?, matched, lost (sent, not delivered), added (delivered, not sent: duplicates made between),
      outside (sent while the other capture did not run), first_ns,
      one_way_delay_{mean,sd,min,p50,p95,p99,max}_ms?,
      corrected_one_way_delay_{mean,sd,min,p50,p95,p99,max}_ms?
    - ``delay_histogram``: stream, one_way_delay_ms (lower edge of a bin of 0.1 ms), packets
    - ``clock``: one row, an estimate: method (``same clock``, ``both directions``, ``one direction``,
      ``none``), at_ns (A's time), offset_ms? (B's clock less A's at that time), offset_error_ms? (half of the
      smallest round-trip time: it is not off by more), drift_ppm? (what B's clock gains)
    - ``notes``: note, count?
    - ``packets`` if asked for: stream, kind?, ssrc, payload_type, seq, rtp_timestamp, marker, size_bytes,
      sent_ns?, delivered_ns? (null where not seen, each on its own clock), one_way_delay_ms?

    Raises:
        OSError: a file cannot be read.
        ValueError: it is no capture.
    """

class LiveMonitor:
    """Watches an interface of the calling thread's network namespace; needs the right to open packet sockets.

    Raises:
        OSError: the interface does not exist, or the right is missing.
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
        """Watches for so long; returns the tables of ``monitor`` as of then, of packets the new ones."""
