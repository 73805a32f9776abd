"""Geostationary links."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Literal

import numpy as np

from orbitcc.envs.description.flows import ControllerChoice, Flow
from orbitcc.envs.description.links import MAX_RATE_MBPS, Direction, Link
from orbitcc.envs.description.model import MAX_TIME_S, number
from orbitcc.envs.description.queues import Viasat
from orbitcc.envs.description.ranges import Span
from orbitcc.envs.description.scenario import Scenario, SimSettings
from orbitcc.envs.impairments.effects import impaired
from orbitcc.envs.impairments.geo import LEAST_RTT_MS, GeoImpairments
from orbitcc.envs.impairments.weather import Fades, Rain, Weather
from orbitcc.envs.scenarios.micro import CUBIC

_HOST_BUFFER_BYTES = 60_000_000
"""tcp_rmem and tcp_wmem in the measurements (Claypool et al.)."""
_SIZES = (_HOST_BUFFER_BYTES,) * 3

LOSS_SCALE = {"none": 0.0, "exact": 1.0, "text": 2.5, "winds": 35.0}
"""Factors on the measured loss: the paper counts 604 of 3,024,000 probes (0.02 %), says 0.05 %, and cites 0.7 % for
another satellite."""


def geo_ideal(
    rate_mbps: Annotated[float, number(0.01, MAX_RATE_MBPS, "Mbit/s")] = 144.0,
    return_rate_mbps: Annotated[float, number(0.01, MAX_RATE_MBPS, "Mbit/s")] = 20.0,
    base_rtt_ms: Annotated[float, number(0.01, 1e5, "ms")] = 597.0,
    flows: Annotated[int, number(1, 1000, whole=True)] = 1,
    controller: ControllerChoice = CUBIC,
    duration_s: Annotated[float, number(0.001, MAX_TIME_S, "s")] = 120.0,
) -> Scenario:
    """The Viasat link of Claypool et al. without weather, loss and stalls; its queue of 36 MB drops from 18 MB on."""
    return Scenario(
        name="geo-ideal",
        duration_s=duration_s,
        links=(_satellite(rate_mbps, return_rate_mbps, base_rtt_ms),),
        flows=tuple(Flow(controller=controller) for _ in range(flows)),
        sim=SimSettings(rmem_bytes=_SIZES, wmem_bytes=_SIZES),
    )


def _satellite(rate_mbps: float, return_rate_mbps: float, base_rtt_ms: float) -> Link:
    return Link(
        name="satellite",
        rate_mbps=rate_mbps,
        delay_ms=base_rtt_ms / 2,
        queue=Viasat(),
        handovers=(),
        reverse=Direction(rate_mbps=return_rate_mbps, delay_ms=base_rtt_ms / 2),
    )


def geo_rain(
    weather: Literal["fades", "rain"] = "fades",
    fades_per_h: Annotated[float, number(0, 1e5, "1/h")] = 6.0,
    start_percent: Annotated[float, number(0, 100, "%", above=True)] = 0.1,
    speedup: Annotated[float, number(1, 1e4)] = 10.0,
    clear_sky_db: Annotated[float, number(1, 100, "dB")] = 12.5,
    run: Annotated[int, number(1, 2**31, whole=True)] = 1,
    rate_mbps: Annotated[float, number(0.01, MAX_RATE_MBPS, "Mbit/s")] = 144.0,
    return_rate_mbps: Annotated[float, number(0.01, MAX_RATE_MBPS, "Mbit/s")] = 20.0,
    base_rtt_ms: Annotated[float, number(0.01, 1e5, "ms")] = 597.0,
    flows: Annotated[int, number(1, 1000, whole=True)] = 1,
    controller: ControllerChoice = CUBIC,
    duration_s: Annotated[float, number(0.001, MAX_TIME_S, "s")] = 300.0,
) -> Scenario:
    """The ideal GEO link in rain: coding and modulation, and with them the rate, adapt to the signal.

    weather: `fades`, single fades at a rate of fades_per_h per hour of clear sky; or `rain`, the rain of New York at
    20 GHz, which starts at the attenuation that is exceeded for start_percent of the time.
    speedup: how many times faster than in nature the weather changes.
    Each step to a lower modulation loses up to 5 % of the packets for about 0.4 s. If the signal is too weak for more
    than a second, all packets are lost.
    """
    sky = _sky(weather, fades_per_h, start_percent, speedup, clear_sky_db)
    link = _satellite(rate_mbps, return_rate_mbps, base_rtt_ms)
    return Scenario(
        name="geo-rain",
        duration_s=duration_s,
        seed=run,
        links=(impaired(link, [sky.draw(np.random.default_rng(run), duration_s)]),),
        flows=tuple(Flow(controller=controller) for _ in range(flows)),
        sim=SimSettings(rmem_bytes=_SIZES, wmem_bytes=_SIZES),
    )


def _sky(
    weather: Literal["fades", "rain"],
    fades_per_h: float = 6.0,
    start_percent: float = 0.1,
    speedup: float = 10.0,
    clear_sky_db: float = 12.5,
) -> Weather:
    attenuation: Fades | Rain = Fades(per_h=fades_per_h, speedup=_fixed(speedup))
    if weather == "rain":
        attenuation = Rain(start_percent=start_percent, beta_per_s=_fixed(2e-4 * speedup))
    return Weather(attenuation=attenuation, clear_sky_db=_fixed(clear_sky_db))


def _viasat(name: str, mean_share: float, description: str) -> Callable[..., Scenario]:
    """The builder of a scenario whose mean rate is `mean_share` of the plan's rate."""

    def build(
        run: Annotated[int, number(1, 2**31, whole=True)] = 1,
        rtt: Literal["gate", "sine_ar1", "fixed"] = "gate",
        stalls: bool = True,
        loss: Literal["none", "exact", "text", "winds"] = "exact",
        loss_as: Literal["outages", "packets"] = "outages",
        residual_loss: Annotated[float, number(0, 1)] = 5e-6,
        plan_rate_mbps: Annotated[float, number(0.01, MAX_RATE_MBPS, "Mbit/s")] = 144.0,
        rate_mean: Annotated[float, number(0.01, 2)] = mean_share,
        rate_sd: Annotated[float, number(0, 0.5)] = 0.05,
        return_rate_mbps: Annotated[float, number(0.01, MAX_RATE_MBPS, "Mbit/s")] = 20.0,
        weather: Literal["clear", "fades", "rain"] = "clear",
        start_delay_ms: Annotated[float, number(0, 1e4, "ms")] = 120.0,
        application_offset_s: Annotated[float, number(0, 1e3, "s")] = 1.2,
        flows: Annotated[int, number(1, 1000, whole=True)] = 1,
        controller: ControllerChoice = CUBIC,
        duration_s: Annotated[float, number(0.001, MAX_TIME_S, "s")] = 120.0,
    ) -> Scenario:
        impairments = GeoImpairments(
            slow_ms=_fixed(11.0 * (rtt == "gate")),
            frame_ms=_fixed(50.0 * (rtt == "gate")),
            swing_probability=float(rtt == "sine_ar1"),
            stall_scale=_fixed(float(stalls)),
            loss_scale=_fixed(LOSS_SCALE[loss]),
            outage_share=_fixed(float(loss_as == "outages")),
            short_outage_ms=_fixed(200.0),
            residual_loss=_fixed(residual_loss),
            rate_mean=_fixed(rate_mean),
            rate_sd=_fixed(rate_sd),
            start_delay_ms=_fixed(start_delay_ms),
        )
        base_rtt_ms = 597.0 if rtt == "fixed" else LEAST_RTT_MS
        link = _satellite(plan_rate_mbps, return_rate_mbps, base_rtt_ms)
        effects = impairments.draw_apart(run, duration_s)
        if weather != "clear":
            effects.append(_sky(weather).draw(np.random.default_rng([run, len(effects)]), duration_s))
        return Scenario(
            name=name,
            duration_s=duration_s,
            seed=run,
            links=(impaired(link, effects),),
            flows=tuple(Flow(controller=controller, start_s=application_offset_s) for _ in range(flows)),
            sim=SimSettings(kernel="v4_15", rmem_bytes=_SIZES, wmem_bytes=_SIZES),
        )

    build.__doc__ = description
    return build


def _fixed(value: float) -> Span:
    return Span(low=value, high=value)


_PARTS = """

    run: number of the run, which determines outages, stalls and rates.
    rtt: `gate`, frames of 50 ms on the return channel (fitted to probes), with which HyStart does not end slow start
    early; `sine_ar1`, an oscillating delay (fitted to probes and to how early HyStart ended slow start in the
    measurements: 5 MB in 15 s with HyStart, in 8 s without); `fixed`, 597 ms.
    loss: `exact`, `text` or `winds` is a loss of 0.02, 0.05 or 0.7 % of the probes.
    loss_as: whether a single lost probe stands for an outage of 200 ms or a lost packet.
    residual_loss: additional loss probability of packets (calibrated).
    rate_mean, rate_sd: mean and standard deviation of the varying rate, as shares of the plan's rate (calibrated).
    weather: as in geo-rain.
    start_delay_ms: extra delay of the return path in the first 25 s (calibrated).
    application_offset_s: time before the first byte of a download is sent (calibrated).
"""

geo_viasat_2020 = _viasat(
    "geo-viasat-2020",
    0.93,
    "The Viasat link of July 2020 (Claypool et al.): varying RTT and rate, stalls, outages." + _PARTS,
)
geo_viasat_2021 = _viasat(
    "geo-viasat-2021",
    120 / 144,
    "The Viasat link of May 2021 (Peters et al., HyStart): as in 2020, with a mean rate of 120 Mbit/s." + _PARTS,
)
