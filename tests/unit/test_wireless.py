"""Calls over Wi-Fi and 3G have the losses and delays that were measured on such networks."""

from __future__ import annotations

import polars as pl
import pytest

from rtclab.backend.sim import SimBackend
from rtclab.scenario import Scenario


def packets(name: str, flow: str, **changes: object) -> pl.DataFrame:
    """Packets of a flow, with the second in which each was sent and its delay in ms."""
    loaded = Scenario.load(name, {key.replace("__", "."): value for key, value in changes.items()})
    table = SimBackend().simulate(loaded, seed=1, repeat=0).table("packets")
    delay = (pl.col("delivered_ns") - pl.col("sent_ns")) / 1e6
    return table.filter(pl.col("flow") == flow).with_columns(
        second=pl.col("sent_ns") // 10**9, delay_ms=delay
    )


def loss_and_deviation(attempts: int) -> tuple[float, float]:
    """Loss ratio, and standard deviation of the delay in ms, of the packets to the tablet."""
    limit = {"participants__tablet__link__both__wifi__max_attempts": attempts}
    table = packets("examples/wifi", "server->tablet", **limit)
    deviation = table["delay_ms"].drop_nulls().std()
    assert isinstance(deviation, float)
    return table["delivered_ns"].null_count() / table.height, deviation


def test_wifi_without_retries_loses_and_with_fifteen_delays() -> None:
    # 5 % of attempts fail for 3 s and 80 % for 100 ms, which is 7.4 % on average. With a single attempt each,
    # these packets are lost. There are only about 32 fades in 100 s; their share of the time varies by a
    # quarter.
    loss, steady = loss_and_deviation(1)
    assert 0.05 <= loss <= 0.12
    # 0.8^15 = 3.5 % of the packets in fades are lost, 0.1 % of all. The others wait, in spikes of tens of ms.
    residual, varying = loss_and_deviation(15)
    assert 0 <= residual <= 0.005
    assert steady <= 3
    assert 5 * steady <= varying <= 100


@pytest.mark.parametrize("error", [0.0, 1.0])
def test_wifi_that_never_or_always_fails_ends_with_all_or_nothing(error: float) -> None:
    fading = {"good": {"rate": "6 Mbit/s", "error": error}}
    table = packets(
        "examples/wifi",
        "server->tablet",
        participants__tablet__link__both__wifi__fading=fading,
        duration="10 s",
    )
    # With 1.0 the call is never set up, so no media are sent that could be lost.
    assert table["drop_cause"].null_count() == table.height
    assert (table.height == 0) == (error == 1.0)


def test_a_phone_on_3g_has_seconds_of_delay_until_its_bearer_widens() -> None:
    up = packets("examples/mobile-3g", "phone->desktop")
    # 16 kB at 64 kbit/s are 2 s, plus 0.11 s of delay and jitter.
    first = up.filter(pl.col("second") < 60)["delay_ms"].max()
    assert isinstance(first, float)
    assert 1000 <= first <= 2300
    last = up.filter(pl.col("second").is_between(120, 175))
    middle = last["delay_ms"].median()
    assert isinstance(middle, float)
    assert 110 <= middle <= 300
    kbps = last.filter(pl.col("delivered_ns").is_not_null())["size_bytes"].sum() * 8 / 56e3
    assert 150 <= kbps <= 256
