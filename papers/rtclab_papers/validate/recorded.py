"""Calls over cellular networks that people recorded: the conditions, and the files that they need.

The files are not part of rtclab, because their licences differ from its own. The table names the repository,
revision and digest of each; whoever has them in one directory can run the conditions.
"""

from __future__ import annotations

import csv
import hashlib
import io
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from rtclab.arenas import random_calls
from rtclab.errors import BadInput
from rtclab.scenario import BYTES_PER_OPPORTUNITY, Scenario, read_mahimahi
from rtclab_papers.markdown import folded, table
from rtclab_papers.validate.conditions import CallCondition

GROUP = "recorded"
GROUPS = {GROUP: GROUP}
"""The group of these conditions, and its heading in tables."""

Way = Literal["up", "down"]
"""A direction of the phone's link."""
DURATION_S = 45
USED_MS = 60_000
"""The begin of a recording that is used; it repeats afterwards. It is longer than a call."""
DELAY_MS = 20
"""One-way delay of the cellular link, the usual ``mm-delay 20`` of experiments with Mahimahi."""
QUEUE = "150 kB"
"""Queue of the cellular link in each direction: 100 full packets, 1.2 s at 1 Mbit/s."""
OTHER_LINK = {way: {"capacity": "20 Mbit/s", "delay": "5 ms", "queue": "100 ms"} for way in get_args(Way)}
"""The link of the other participant."""


@dataclass(frozen=True)
class Source:
    """A public repository with recordings.

    Attributes:
        repository: owner and name on GitHub.
        revision: the commit whose files are used.
        licence: its licence.
        folder: where the files are in it.
    """

    repository: str
    revision: str
    licence: str
    folder: str


MAHIMAHI = Source(
    "ravinet/mahimahi", "ae477d437615b972217498ba52be07db17a15618", "GPL-3.0-or-later", "traces"
)
"""Traces of Winstein, Sivaraman and Balakrishnan, NSDI 2013, and later ones, made with their Saturator."""
IRELAND = Source("uccmisl/5Gdataset", "306d92eba81cb4f1195d8b8eba625666a02a10ec", "GPL-3.0", ".")
"""Downloads of a moving phone, Raca, Leahy, Sreenan and Quinlan, MMSys 2020: a rate per second."""


@dataclass(frozen=True)
class Network:
    """A recorded network, in both directions of the phone.

    Attributes:
        name: name of the condition.
        words: what was recorded.
        source: the repository that has its files.
        up: the name of the file with the uplink, there and in the directory of the files.
        down: the name of the file with the downlink.
        sha256: the digests of both files.
        member: the table of rates in a ZIP archive; empty if the files are in Mahimahi's format.
    """

    name: str
    words: str
    source: Source
    up: str
    down: str
    sha256: tuple[str, str]
    member: str = ""

    @property
    def files(self) -> list[str]:
        """The names of the files, each once."""
        return list(dict.fromkeys((self.up, self.down)))


def _mahimahi(name: str, words: str, stem: str, up: str, down: str) -> Network:
    """A network of the first repository, whose two files have these digests."""
    return Network(name, words, MAHIMAHI, f"{stem}.up", f"{stem}.down", (up, down))


_IRELAND_ZIP = "5G-production-dataset.zip"
_IRELAND_SHA256 = "abc729d696b5e0ba34a9c6ed35a851f2868d2b5071be5efb8a49691c23bb1a9b"

NETWORKS = (
    _mahimahi(
        "att-lte-2016",
        "AT&T, LTE, driving, 2016",
        "ATT-LTE-driving-2016",
        "ebb3d53674b77be4ed920ad91c4513a496e04e30da839e2ca8a627cb7269071e",
        "24a40538340de991e0a6595aefc381b11a3da0446176e69b51750707a57b0344",
    ),
    _mahimahi(
        "tmobile-lte",
        "T-Mobile, LTE",
        "TMobile-LTE-short",
        "1c0d1bf5417b07597724fd64afe676af3c1f337a4ccdde90106bf96b1bcf18b2",
        "4f33dce8dd811b5702272af64aaf64d3913719919abd776edf1e0f7c0965da43",
    ),
    _mahimahi(
        "verizon-lte",
        "Verizon, LTE",
        "Verizon-LTE-short",
        "f6cd9049f58d70f12545772a3482ded085b6d50f06a2f4ff4afcfb6fe7976dcc",
        "c918436fbd6246af134c76585d9395881fdd27203c59a8902b9a7c675b8a8e3e",
    ),
    _mahimahi(
        "tmobile-umts",
        "T-Mobile, UMTS (3G), driving",
        "TMobile-UMTS-driving",
        "f2dc7c8e57f4cf525fefaff2d68c18a9118fd1382ce9c240b1d324a2a60f8a65",
        "c97a74e7e6cf593d93b59f73db614bc6186bef510531636ad9961a3b9fc18024",
    ),
    Network(
        "ireland-5g",
        "an Irish operator, 5G, a drive of 2020, the same recording in both directions",
        IRELAND,
        _IRELAND_ZIP,
        _IRELAND_ZIP,
        (_IRELAND_SHA256, _IRELAND_SHA256),
        "5G-production-dataset/Download/Driving/B_2020.02.27_17.30.15.csv",
    ),
)
"""The recorded networks. They were chosen for their operators and generations, before any call over them."""

PAUSE_KBPS = 100
"""A second with a smaller rate is a pause between two files of a download, and no property of the network.

The tables of ``uccmisl/5Gdataset`` have two such seconds after every file, in static and in moving phones.
"""


def conditions(folder: Path, say: Callable[[str], None]) -> list[CallCondition]:
    """The conditions whose files are there.

    Args:
        folder: the directory of the files.
        say: called with a sentence for each network that is left out.

    Raises:
        BadInput: a file is not the one that was used.
    """
    found = []
    for network in NETWORKS:
        lacking = [file for file in network.files if not (folder / file).is_file()]
        if lacking:
            source = network.source
            origin = f"{source.folder}/ of " if source.folder != "." else ""
            say(
                f"recorded-{network.name}: left out. Put {' and '.join(lacking)} from {origin}github.com/"
                f"{source.repository} (commit {source.revision[:12]}, {source.licence}) into {folder}."
            )
        else:
            found.append(condition(network, folder))
    return found


def known_conditions() -> list[CallCondition]:
    """The conditions, without capacity on their links: to show what is kept of them, not to run them."""
    return [condition(network, None) for network in NETWORKS]


def condition(network: Network, folder: Path | None) -> CallCondition:
    """The condition of a network: alice's phone is in it, bob has a good link.

    Without a folder the phone's link has no capacity.

    Raises:
        BadInput: a file is not the one that was used.
        OSError: a file cannot be read.
    """
    name = f"recorded-{network.name}"
    paths: dict[Way, dict[str, Any]] = {way: {"delay": f"{DELAY_MS} ms"} for way in get_args(Way)}
    if folder is not None:
        # The recordings are in the scenario, so that its run needs no file.
        for way, path in paths.items():
            times = opportunities(network, way, folder)
            path |= {"capacity": {"trace": getattr(network, way), "opportunities_ms": times}, "queue": QUEUE}
    data: dict[str, Any] = {
        "name": name,
        "title": f"Recorded network: {network.words}",
        "source": f"github.com/{network.source.repository}",
        "duration": f"{DURATION_S} s",
        "participants": {
            "alice": {"link": paths},
            "bob": {"link": OTHER_LINK},
        },
        "video": random_calls.camera(640, 480),
        "audio": {"bitrate": "32 kbit/s"},
    }
    return CallCondition(name, network.words, Scenario.read(data, name), GROUP)


def opportunities(network: Network, way: Way, folder: Path) -> list[int]:
    """The times in ms at which 1500 bytes may be sent, in the part of the recording that is used.

    Raises:
        BadInput: the file is not the one that was used.
        OSError: the file cannot be read.
    """
    place: Path = folder / getattr(network, way)
    content = place.read_bytes()
    digest, expected = hashlib.sha256(content).hexdigest(), network.sha256[way == "down"]
    if digest != expected:
        raise BadInput(
            f"{place} is not the file that was used: its SHA-256 is {digest}, expected {expected} "
            f"(github.com/{network.source.repository}, commit {network.source.revision[:12]})"
        )
    if network.member:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            times = opportunities_of(rates_kbps(archive.read(network.member).decode()))
    else:
        times = read_mahimahi(place)
    return [time for time in times if time <= USED_MS]


def rates_kbps(table: str) -> list[int]:
    """The rate of each second of a download, from a table of G-NetTrack Pro, without pauses.

    Seconds can have several rows; the last one counts. A second without a row is left out.
    """
    rows = csv.DictReader(io.StringIO(table))
    by_second = {row["Timestamp"]: int(row["DL_bitrate"]) for row in rows}
    return [rate for rate in by_second.values() if rate >= PAUSE_KBPS]


def opportunities_of(seconds_kbps: list[int]) -> list[int]:
    """The opportunities of a rate per second, in Mahimahi's sense, evenly spaced within each second.

    The n-th one is in the millisecond in which n times 1500 bytes have been carried.
    """
    bits_each = 8 * BYTES_PER_OPPORTUNITY
    times: list[int] = []
    carried = 0
    for second, rate_kbps in enumerate(seconds_kbps):
        # A kbit/s is a bit/ms.
        until = carried + 1000 * rate_kbps
        for number in range(carried // bits_each + 1, until // bits_each + 1):
            times.append(1000 * second + -(-(number * bits_each - carried) // rate_kbps))
        carried = until
    return times


def introduction() -> Iterator[str]:
    """The section of the page above the figures."""
    yield "## Recorded networks"
    yield f"""\
Networks that people recorded, one direction after the other or both at once, as the times at
which a packet of 1500 bytes could be sent (Mahimahi's format). Alice's phone is in the network,
with {DELAY_MS} ms each way and a queue of {QUEUE} in each direction; bob has 20 Mbit/s. The
first minute of each recording is used. Calls of {DURATION_S} s, 640x480, VP8, with audio."""
    rows = []
    for network in NETWORKS:
        source = network.source
        files = ", ".join(f"`{file}`" for file in network.files)
        member = f": `{network.member.rpartition('/')[2]}`" if network.member else ""
        commit = f"{source.repository}, {source.revision[:12]}"
        rows.append((f"recorded-{network.name}", network.words, files + member, commit, source.licence))
    heads = ["condition", "network", "files", "repository, commit", "licence"]
    yield folded(f"The {len(rows)} networks, and where their recordings are", table(heads, rows))
    yield f"""\
The files are not part of rtclab. `rtclab validate recorded DIR` runs the conditions whose files
are in a directory. The 5G table has a rate per second of a download. Seconds below
{PAUSE_KBPS} kbit/s, between two files, are left out; the others become opportunities at an even
distance. The uplink was not loaded, so both directions have the rate of the downlink."""
