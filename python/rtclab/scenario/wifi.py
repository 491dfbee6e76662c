"""A Wi-Fi hop in a scenario: fading of the radio channel, and retries of the MAC."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Discriminator, Field, Tag, model_validator

from rtclab.scenario.table import CONSTANT, Table, check_positive, tag_of
from rtclab.scenario.units import Bitrate, Duration, Probability

# dot11ShortRetryLimit, IEEE 802.11-2012, annex C: the default of access points.
DEFAULT_ATTEMPTS = 7
# The largest limit of the DD-WRT access point in Jansen et al. 2017, section 6.2.
MOST_ADAPTIVE_ATTEMPTS = 15


class Radio(Table):
    """One state of the channel: the sender's PHY rate, and the probability that an attempt fails."""

    rate: Bitrate
    """PHY rate of the sender."""
    error: Probability
    """Probability that a transmission attempt fails."""

    @model_validator(mode="after")
    def _sends(self) -> Self:
        check_positive(self, "rate")
        return self

    def native(self) -> dict[str, object]:
        """The channel as JSON values for the simulator (serde form of ``Radio``)."""
        return {"bps": self.rate.bps, "error": self.error.value}


class Fading(Table):
    """A channel that alternates between good and fade, each for an exponentially distributed time.

    Without ``fade`` it is always good.
    """

    good: Radio
    """The channel while it is good."""
    fade: Radio | None = None
    """The channel during a fade; by default there are no fades."""
    mean_good: Duration = Duration(10**9)
    """Mean time between fades."""
    mean_fade: Duration = Duration(10**8)
    """Mean length of a fade."""

    @model_validator(mode="after")
    def _both_last(self) -> Self:
        check_positive(self, "mean_good", "mean_fade", hint="leave out `fade` if there is none")
        return self


def _fading(good: str, fade: str, error: float, mean_good: str, mean_fade: str) -> Fading:
    # 5 % of attempts fail in a good channel: a share that rate adaptation accepts.
    return Fading(
        good=Radio(rate=Bitrate.parse(good), error=Probability(0.05)),
        fade=Radio(rate=Bitrate.parse(fade), error=Probability(error)),
        mean_good=Duration.parse(mean_good),
        mean_fade=Duration.parse(mean_fade),
    )


# A tablet at an access point of 1 mW at 5 GHz (Jansen et al. 2017, section 6): in the same room, and behind
# a wall. The paper does not describe the channel. Calls behave as in the paper (loss and a steady delay
# without retries; no loss but delay spikes with 15) with fades of 50 to 300 ms every 2 to 5 s in which 70 to
# 90 % of the attempts fail. `near` is the mild end of that range, `far` its middle at the lowest PHY rate.
# `far` is calibrated, not derived: of nine settings it is closest to the effects that the paper reports.
FADINGS = {
    "near": _fading("54 Mbit/s", "12 Mbit/s", 0.7, "5 s", "50 ms"),
    "far": _fading("24 Mbit/s", "6 Mbit/s", 0.8, "3 s", "100 ms"),
}


class Wifi(Table):
    """A Wi-Fi hop, which replaces a capacity: 802.11 OFDM at 5 GHz, one station, no aggregation.

    A packet is sent up to ``max_attempts`` times, and is then lost. Meanwhile the packets behind it wait.
    """

    renamed = {"retry_limit": "max_attempts"}

    fading: Annotated[
        Annotated[Literal["near", "far"], Tag(CONSTANT)] | Annotated[Fading, Tag("<good>")],
        Discriminator(tag_of({"good": Fading})),
    ] = "near"
    """Fading of the channel: ``near`` (a tablet in the same room), ``far`` (a tablet behind a wall), or a
    table."""
    max_attempts: Annotated[
        Annotated[Literal["auto", "adaptive"], Tag("<auto>")]
        | Annotated[int, Tag("<count>"), Field(strict=True, ge=1, le=255)],
        Discriminator(lambda value: "<auto>" if isinstance(value, str) else "<count>"),
    ] = "auto"
    """Maximum number of attempts to send a packet, the first included; ``auto`` is 7. ``adaptive`` is at most
    15, and a packet is retried only as long as the channel keeps pace with the rate that is offered to it."""

    def native(self) -> dict[str, object]:
        """The hop as JSON values for the simulator (serde form of ``Wifi``)."""
        fading = self.fading if isinstance(self.fading, Fading) else FADINGS[self.fading]
        named = {"auto": DEFAULT_ATTEMPTS, "adaptive": MOST_ADAPTIVE_ATTEMPTS}
        return {
            "attempts": self.max_attempts if isinstance(self.max_attempts, int) else named[self.max_attempts],
            "adaptive": self.max_attempts == "adaptive",
            "good": fading.good.native(),
            "fade": (fading.fade or fading.good).native(),
            "mean_good_ns": fading.mean_good.ns,
            "mean_fade_ns": fading.mean_fade.ns if fading.fade else 0,
        }
