"""Participants and servers: media, congestion control, access link and machine."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, ConfigDict, Discriminator, Field, Tag, model_validator

from rtclab.errors import FieldError, FieldErrors
from rtclab.scenario.files import OWN_CONTROL
from rtclab.scenario.merge import DEFAULT_CONTROL, over
from rtclab.scenario.own_control import OwnControl
from rtclab.scenario.own_page import Directory, PageAddress, Port, ScriptFile, Step, absolute, with_directory
from rtclab.scenario.path import PathSpec
from rtclab.scenario.table import Table, check_goes_forward, check_positive
from rtclab.scenario.toml_text import toml_text
from rtclab.scenario.units import Bitrate, Duration, PixelRate, Ratio
from rtclab.scenario.whip import Token, Url

CORE = "core"
"""The node in which servers run, unless the scenario gives them an access link of their own."""
INTERNET = "internet"
"""The node behind which are the hosts outside, in live calls with ``internet = true``."""
Count = Annotated[int, Field(strict=True, ge=1)]
# RFC 6386, section 9.1: 14 bits each in the header of a key frame.
Pixels = Annotated[int, Field(strict=True, ge=1, le=16383)]
# RFC 7587, section 4.2: durations of an Opus packet.
SHORTEST_AUDIO_FRAME, LONGEST_AUDIO_FRAME = Duration(2_500_000), Duration(120_000_000)


MediaFile = Annotated[str, BeforeValidator(absolute)]


def _default_bitrate(usual: str) -> Any:
    """A bitrate field with a default, which is moved between ``min_bitrate`` and ``max_bitrate``."""
    bitrate = Bitrate.parse(usual)

    def within(written: dict[str, Bitrate]) -> Bitrate:
        return min(max(bitrate, written.get("min_bitrate", bitrate)), written["max_bitrate"])

    return Field(default_factory=within, json_schema_extra={"default": usual})


class Video(Table):
    """One camera stream. The encoder follows a target between ``min_bitrate`` and ``max_bitrate``."""

    width: Pixels = 640
    """Width of the camera's picture, in pixels."""
    height: Pixels = 480
    """Height of the camera's picture, in pixels."""
    frame_rate: Annotated[float, Field(strict=True, ge=0.1, le=240)] = 30
    """Frame rate of the camera, in frames per second."""
    camera: Literal["rfc8593", "steady"] = "rfc8593"
    """Intervals between captured frames: ``rfc8593`` varies them as in RFC 8593; with ``steady`` they are
    equal, as when a browser plays a file."""
    codec: Literal["vp8", "vp9", "h264", "av1", "vp8-2013", "vp9-2016", "h264-2016"] = "vp8"
    """Encoder. If the rate is too low, ``vp8`` first lowers the resolution and then the frame rate;
    ``vp8-2013`` keeps the resolution and lowers the frame rate, as in Chrome 27; ``vp9-2016`` does so at
    lower rates and does not return to full resolution; ``h264-2016`` keeps the resolution and skips pictures
    (Jansen et al. 2017, section 5.1). ``vp9``, ``h264`` and ``av1`` are the browser's own encoders, in live
    calls only; the encoders of 2013 and 2016 are simulated only."""
    file: MediaFile | None = None
    """Video file that live calls use as the camera, in any format that FFmpeg reads, relative to the TOML
    file that names it; by default a clip that comes with rtclab. It is cropped and scaled to the size of
    the camera, and played forward and backward in a loop."""
    adapt: Literal["off", "loss"] = "off"
    """Whether the page of a live call changes size and frame rate of the camera itself: ``loss`` lowers them
    when the fraction of lost packets rises and raises them again when it falls, in addition to the browser's
    own adaptation (Abelló Lozano 2013, section 4.2.1). The simulator has no such page."""
    simulcast: Annotated[bool, Field(strict=True)] = False
    """Whether the camera is sent to an SFU in several sizes at once, in live calls only: full, half and a
    quarter of width and height from 960x540 on, full and half from 480x270 on. Of more sizes Chromium would
    not send the largest. So smaller cameras are refused, and so are ``vp9`` and ``av1``, which it sends in
    one size."""
    device: Literal["desktop", "android-2016", "ios-2016"] = "desktop"
    """Device of the sender; the cameras of 2016 deliver at most 640x480 at 30 frames per second."""
    repair: Literal[
        "auto", "rtx", "rtx-and-ulpfec", "nack-2013", "hybrid-2013", "hybrid-2013-fec-always", "none"
    ] = "auto"
    """Repair of lost packets; ``auto`` uses the repair of the stack profile, in live calls the browser's
    default. ``rtx`` leaves out forward error correction on both backends. Both ends of a connection must
    know a repair, and SFUs know no forward error correction."""
    max_bitrate: Bitrate = Bitrate(1_700_000)
    """Highest rate of the encoder."""
    min_bitrate: Annotated[Bitrate, _default_bitrate("30 kbit/s")]
    """Lowest rate of the encoder. The default is lowered to ``max_bitrate`` if that is smaller."""
    start_bitrate: Annotated[Bitrate, _default_bitrate("300 kbit/s")]
    """Rate at the start of the call. The default is adjusted to lie between ``min_bitrate`` and
    ``max_bitrate``."""

    @model_validator(mode="after")
    def _bitrates_in_order(self) -> Self:
        if self.min_bitrate > self.max_bitrate:
            raise FieldError(
                f"`{self.min_bitrate}` is above max_bitrate = `{self.max_bitrate}`", key="min_bitrate"
            )
        if not self.min_bitrate <= self.start_bitrate <= self.max_bitrate:
            raise FieldError(
                f"`{self.start_bitrate}` is not between min_bitrate = `{self.min_bitrate}` "
                f"and max_bitrate = `{self.max_bitrate}`",
                key="start_bitrate",
            )
        return self


class Audio(Table):
    """One audio stream of constant bitrate with one packet per frame, like Opus without DTX."""

    bitrate: Bitrate = Bitrate(32_000)
    """Constant rate of the encoder."""
    frame: Duration = Duration(20_000_000)
    """Length of a frame, 2.5 to 120 ms; each frame is one packet."""
    file: MediaFile | None = None
    """File whose sound live calls use as the microphone, in any format that FFmpeg reads, relative to the
    TOML file that names it; by default the browser's beeps. It is played in a loop."""

    @model_validator(mode="after")
    def _as_long_as_frames_are(self) -> Self:
        if not SHORTEST_AUDIO_FRAME <= self.frame <= LONGEST_AUDIO_FRAME:
            raise FieldError(
                f"`{self.frame}` is not a valid frame length; "
                f"expected {SHORTEST_AUDIO_FRAME} to {LONGEST_AUDIO_FRAME}",
                key="frame",
            )
        return self


def _number_or_switch(value: object) -> float:
    if not isinstance(value, int | float) or not isfinite(value):
        raise FieldError(f"expected a number, or true or false; got `{toml_text(value)}`")
    return float(value)


_OPTIONS_BY_NAME: dict[str, Any] = {
    "if": {"required": ["name"], "properties": {"name": {"pattern": f"^(?:{OWN_CONTROL.pattern})$"}}},
    "else": {"properties": {"options": {"additionalProperties": {"type": ["number", "boolean"]}}}},
}
"""In the JSON Schema: only a control in a file may have options that are no numbers."""


class CongestionControl(Table):
    """The algorithm that sets the sending rate."""

    name: str = DEFAULT_CONTROL
    """Algorithm, in simulated calls; live calls use the browser's own. ``FILE.py:CLASS`` is a Python class of
    your own, ``alphartc:FILE.py`` an estimator written for AlphaRTC, and ``onnx:FILE`` a model of the 2024
    challenge on bandwidth estimation. Files are relative to the TOML file that names them."""
    stack: str | None = None
    """Stack profile, which sets a browser's feedback, RTCP schedule, pacing and repair. By default it is the
    profile from the time of the algorithm."""
    options: dict[str, Any] = {}
    """Options of the algorithm, each a number, true or false. A control of your own may have any values."""
    digest: str = ""
    """Identifies the code of a control of your own. It is set when the scenario is loaded."""

    model_config = ConfigDict(json_schema_extra=_OPTIONS_BY_NAME)

    @model_validator(mode="before")
    @classmethod
    def _with_digest(cls, data: Any) -> Any:
        """Adds the digest of the control's file, unless the table has it already."""
        name = data.get("name") if isinstance(data, dict) else None
        if not isinstance(name, str) or data.get("digest"):
            return data
        own = OwnControl.located(name)
        return data if own is None else data | {"name": own.text, "digest": own.digest}

    @model_validator(mode="after")
    def _options_of_its_kind(self) -> Self:
        wrong = []
        for name, value in self.options.items() if self.own is None else ():
            try:
                self.options[name] = _number_or_switch(value)
            except FieldError as error:
                wrong.append(FieldError(error.message, key=f"options.{name}"))
        if wrong:
            raise FieldErrors(wrong)
        return self

    @property
    def own(self) -> OwnControl | None:
        """The control of the user's own; None if it is one of rtclab's."""
        return OwnControl.parse(self.name, self.options, self.digest)


class Variation(Table):
    """Slow variation of the time that a picture takes, as on a virtual machine that shares its processor."""

    deviation: Ratio
    """Standard deviation relative to the mean time."""
    correlation: Duration
    """Time constant with which a deviation decays."""

    @model_validator(mode="after")
    def _not_zero(self) -> Self:
        check_positive(self, "correlation")
        return self


class Host(Table):
    """The machine of a participant, which works on one picture at a time.

    All cameras of the participant share it. While a picture of a camera is encoded, only the newest one of
    that camera waits; the others are skipped. If encoding takes most of the time between two pictures, a
    simulated browser of 2026 makes its pictures smaller, as real ones do.

    Without this table, the machine keeps up with its cameras, whatever their size and rate.
    """

    encoder_capacity: PixelRate
    """Number of pixels that the machine can encode per second. In live calls the browser's processes get the
    share of one core that encodes this many pixels of VP8."""
    encoder_output: Bitrate | None = None
    """Rate at which the encoder writes bits, after it has worked on the pixels; by default writing takes no
    time. Simulated calls only."""
    decoder_capacity: PixelRate | None = None
    """Number of pixels that the same processor can decode and draw per second; by default decoding takes no
    time. Simulated calls only."""
    variation: Variation | None = None
    """How the time per picture varies; by default it is constant. Simulated calls only."""

    @model_validator(mode="after")
    def _not_zero(self) -> Self:
        check_positive(self, "encoder_capacity", "decoder_capacity", "encoder_output")
        return self


class Browser(Table):
    """The browser of a live call, and how it is started. Simulated calls ignore it."""

    name: Literal["chromium", "firefox", "invited"] = "chromium"
    """Browser of the participant. ``invited`` is a browser on the network, such as a phone's, that opens the
    address which ``rtclab run --invite`` shows."""
    field_trials: str = ""
    """Field trials of WebRTC that the browser is forced to use, such as
    ``WebRTC-JitterEstimatorConfig/nack_limit:4/``; by default the trials of its build."""
    encryption: bool = True
    """Whether media and feedback are encrypted. Without encryption there is no DTLS handshake, packets of
    media are 10 bytes smaller and packets of feedback 14, and captures show what is inside, FEC for example.
    Chromium only, and for both ends of every connection; SFUs have no unencrypted connections."""
    args: list[str] = []
    """Further arguments of the browser's command line. They can make the browser run any program as you, so
    a scenario from elsewhere that has some needs ``--trust``."""

    @model_validator(mode="after")
    def _trials_in_pairs(self) -> Self:
        if self.field_trials and (self.field_trials.count("/") % 2 or not self.field_trials.endswith("/")):
            raise FieldError(
                f"cannot read `{self.field_trials}`; expected `NAME/GROUP/`, repeated", key="field_trials"
            )
        if self.name == "chromium":
            return self
        who = "Firefox" if self.name == "firefox" else "An invited browser"
        if self.field_trials:
            raise FieldError(f"{who} takes no field trials; expected none", key="field_trials")
        if not self.encryption:
            raise FieldError(f"{who} always encrypts media; expected `true`", key="encryption")
        if self.args and self.name == "invited":
            raise FieldError(f"{who} takes no arguments; expected none", key="args")
        return self


class Link(Table):
    """An access link: one path up and one down, or one path (``both``) that both directions share."""

    up: PathSpec = PathSpec()
    """Path from the participant into the network."""
    down: PathSpec = PathSpec()
    """Path from the network to the participant."""
    both: PathSpec | None = None
    """One path that both directions share, instead of ``up`` and ``down``."""

    @model_validator(mode="after")
    def _shared_or_separate(self) -> Self:
        if self.both is not None and (self.up != PathSpec() or self.down != PathSpec()):
            raise FieldError(
                "cannot be combined with up and down",
                key="both",
                hint="keep `both`, or `up` and `down`; two fields are set at once by joining them, "
                "as in `link.up.delay+link.down.delay`",
            )
        return self


class Pause(Table):
    """A time in which a participant's camera and microphone give nothing. The connections stay."""

    start: Duration
    """When the pause begins."""
    end: Duration
    """When pictures and sound are there again."""

    @model_validator(mode="after")
    def _ends_after_it_began(self) -> Self:
        check_goes_forward(self)
        return self


Switchable = Discriminator(lambda value: "<off>" if value is False else "<table>")
Off = Annotated[Literal[False], Tag("<off>")]


class Participant(Table):
    """A participant. Tables and fields that are left out are inherited from the scenario."""

    join: Duration = Duration(0)
    """When the participant joins."""
    leave: Duration | None = None
    """When the participant leaves; by default at the end of the run."""
    pause: Pause | None = None
    """When the participant sends neither pictures nor sound; by default never. Simulated calls only."""
    video: Annotated[Annotated[Video, Tag("<table>")] | Off, Switchable] | None = None
    """Changes to ``[video]`` for this participant, or ``false`` to send no video."""
    audio: Annotated[Annotated[Audio, Tag("<table>")] | Off, Switchable] | None = None
    """Changes to ``[audio]`` for this participant, or ``false`` to send no audio."""
    congestion_control: CongestionControl | None = None
    """Changes to ``[congestion_control]`` for this participant as sender. The options of another control are
    not inherited."""
    link: Link | None = None
    """Changes to ``[link]`` for this participant."""
    host: Host | None = None
    """Changes to ``[host]`` for this participant."""
    browser: Browser | None = None
    """Changes to ``[browser]`` for this participant."""
    nat: Literal["none", "port-restricted", "symmetric", "udp-blocked"] = "none"
    """NAT between the participant and its access link. ``port-restricted`` shows one port to everybody,
    ``symmetric`` another port to each destination; both let in only what comes from an address and port that
    was sent to (RFC 4787, sections 4.1 and 5). ``udp-blocked`` is a firewall that lets out TCP only, so that
    the participant needs a TURN relay, which it reaches over TCP. Cross traffic does not pass the NAT."""
    page: PageAddress | None = None
    """Page of your own that live calls open instead of rtclab's: an address such as ``http://app:3000/``, in
    which nodes have their names, or an HTML file, relative to the TOML file that names it. The page makes its
    own connections, so the participant is in none of the ``calls``. Media settings other than the size of the
    camera do not apply to it. Live calls only."""
    steps: list[Step] = []
    """What to do on the page, one step after another, beginning when it is opened."""
    script: ScriptFile | None = None
    """Script of your own, ``.py`` or ``.js``, that drives the browser once the page is opened, for example
    with Playwright. Its environment variable ``RTCLAB_DEVTOOLS`` is the address of the browser's DevTools.
    It is a program that runs as you. Chromium only."""

    @model_validator(mode="after")
    def _has_a_page(self) -> Self:
        for key in ("steps", "script"):
            if getattr(self, key) and self.page is None:
                raise FieldError("is for participants with a `page` of their own", key=key)
        if self.script is not None and self.browser is not None and self.browser.name == "firefox":
            raise FieldError("drives Chromium only; expected no script with Firefox", key="script")
        return self


_KEYS_OF_SERVERS = {
    "whip": ["whip"],
    "whep": ["whip"],
    "signalling": ["str0m"],
    "token": ["whip", "str0m"],
}


class Server(Table):
    """A TURN relay, an SFU, an MCU or a program of your own. By default its access link has no limit and no
    delay.

    The fields ``video``, ``audio`` and ``host`` are of an MCU that mixes. It composes a picture of all others
    for each participant and encodes it with a congestion control of its own.
    """

    link: Link = Link()
    """Access link of the server; by default it neither limits nor delays anything."""
    kind: Literal["janus", "str0m", "whip"] = "janus"
    """Program that is the SFU in live calls: ``janus`` is the server of that name, which does not estimate
    the bandwidth towards subscribers; ``str0m`` is rtclab's own, which does; ``whip`` is any program that
    speaks WHIP and WHEP at the URLs ``whip`` and ``whep``. TURN relays ignore it."""
    signalling: Literal["websocket", "whip"] = "websocket"
    """How pages set up their connections with a ``str0m`` server: over a WebSocket to ``core``, or by WHIP
    and WHEP to the server itself. Live calls only."""
    whip: Url | None = None
    """URL at which participants publish by WHIP (RFC 9725), such as ``http://sfu:8080/whip/{name}``.
    ``{name}`` becomes the name of the participant who makes the request, and the host may be the name of a
    node. Live calls and kind ``whip`` only."""
    whep: Url | None = None
    """URL at which participants play what others publish by WHEP (draft-ietf-wish-whep), such as
    ``http://sfu:8080/whep/{sender}``. ``{sender}`` becomes the name of the participant who publishes, and
    ``{name}`` the name of the participant who plays. Live calls and kind ``whip`` only."""
    token: Token | None = None
    """Bearer token (RFC 6750) that pages send with their requests by WHIP and WHEP. A ``str0m`` server asks
    all its HTTP clients for it. Live calls and the kinds ``whip`` and ``str0m`` only."""
    video: Annotated[Annotated[Video, Tag("<table>")] | Off, Switchable] | None = None
    """Pictures that it composes, as changes to ``[video]``; ``false`` to mix sound alone. They are composed
    at regular times, ``frame_rate`` per second."""
    audio: Annotated[Annotated[Audio, Tag("<table>")] | Off, Switchable] | None = None
    """Sound that it mixes, as changes to ``[audio]``; ``false`` to compose pictures alone."""
    congestion_control: CongestionControl | None = None
    """Changes to ``[congestion_control]`` for the server as sender. The options of another control are not
    inherited. An SFU without this table forwards at once, whatever its receivers report. With it, a simulated
    SFU estimates the bandwidth towards each receiver, paces what it forwards and probes, as a sender of its
    own media does."""
    host: Host | None = None
    """Machine of the server, which decodes for all and encodes for all; if left out, neither takes time."""
    command: str | None = None
    """Command that starts a server of your own in this node, such as ``npm start``, in live calls. It is
    split like a shell does, but no shell runs it. Its environment has ``RTCLAB_NAME``, ``RTCLAB_ADDRESS``,
    ``RTCLAB_PORT``, ``RTCLAB_CERTIFICATE``, ``RTCLAB_KEY``, and ``RTCLAB_ADDRESS_OF_NODE`` for every node.
    It is a program that runs as you."""
    port: Port | None = None
    """TCP port at which the command listens when it is ready. The run waits for that."""
    directory: Directory | None = None
    """Directory in which the command runs; by default the directory of the TOML file that names it."""

    @model_validator(mode="before")
    @classmethod
    def _with_directory(cls, data: Any) -> Any:
        return with_directory(data)

    @model_validator(mode="after")
    def _command_for_port(self) -> Self:
        for key in ("port", "directory"):
            if getattr(self, key) is not None and self.command is None:
                raise FieldError("is for servers with a `command`", key=key)
        return self

    @model_validator(mode="after")
    def _urls_of_its_kind(self) -> Self:
        wrong = [
            FieldError(
                f"a server of kind `{self.kind}` has no {key}; expected kind {' or '.join(kinds)}", key=key
            )
            for key, kinds in _KEYS_OF_SERVERS.items()
            if getattr(self, key) != type(self).model_fields[key].default and self.kind not in kinds
        ]
        wrong += [
            FieldError(f"a server of kind `whip` needs the URL `{key}`", key=key)
            for key in ("whip", "whep")
            if self.kind == "whip" and getattr(self, key) is None
        ]
        if wrong:
            raise FieldErrors(wrong)
        return self


SENT = ("video", "audio")


INHERITED = (*SENT, "congestion_control", "link", "host", "browser")
"""Tables of a participant that are merged over the scenario's tables."""
INHERITED_BY_SERVERS = (*SENT, "congestion_control")
"""Tables of a server that are merged over the scenario's tables."""


def inherit(own: dict[str, Any], scenario: dict[str, Any], keys: Sequence[str]) -> dict[str, Any]:
    """A participant or server, whose tables of these names are merged over the scenario's."""
    both = [key for key in keys if isinstance(own.get(key), dict) and isinstance(scenario.get(key), dict)]
    return own | {key: over(scenario[key], own[key], key) for key in both}
