"""The native module: conversions only; what they mean is said in the Rust documentation."""

from typing import Any

CONGESTION_CONTROLS: list[str]
"""Names that ``congestion_control.name`` may have in the simulator."""

def simulate(config: str) -> dict[str, dict[str, Any]]:
    """Runs one repeat in virtual time, without the GIL.

    Takes what ``Scenario.native`` returns, as JSON. Returns table -> column -> array of int64 or
    float64, or for texts (array of uint16 codes, list of texts), 65535 for null.

    Raises:
        ValueError: the JSON does not describe a scenario.
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
        ``protocols``, ``drop_causes``), ``lateness`` (real minus logical departure) and ``counters``.

        Raises:
            OSError: the capture file or a device failed during the run.
        """
