"""Experiments on failing claims of the GEO papers, one condition at a time. Run by `python -m benches.ablations`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from orbitcc.envs import scenarios
from orbitcc.envs.backends.simulator import simulate
from orbitcc.envs.description.scenario import Scenario
from orbitcc.eval import contenders, suites
from orbitcc.eval.suites.geo import FIRST_RUN, OBJECT_BYTES, TIMEOUT_S, download_values

Values = Sequence[Mapping[str, float]]

HYBLA = "hybla:ssthresh_cache=5000"
PACKET_MS = 1514 * 8 / 144e3
"""Transmission time of a packet at 144 Mbit/s."""


def download(
    who: str,
    runs: int = 10,
    link: str = "geo-viasat-2020",
    change: Callable[[Scenario], Scenario] | None = None,
    **params: Any,
) -> Values:
    """The metrics of downloads over a link with other parameters."""
    found = []
    for run in range(FIRST_RUN + 1, FIRST_RUN + 1 + runs):
        scenario = scenarios.get(link, **{"rtt": "sine_ar1", "run": run, "duration_s": TIMEOUT_S, **params})
        flows = [flow.changed(traffic={"kind": "bytes", "bytes": OBJECT_BYTES}) for flow in scenario.flows]
        taken = contenders.from_controller(who).take_all(scenario.with_flows(flows))
        found.append(download_values(simulate(change(taken) if change else taken, record_interval_s=0.1)))
    return found


def mean(found: Values, key: str) -> float:
    return float(np.nanmean([values[key] for values in found]))


def spread(found: Values, key: str) -> float:
    return float(np.nanstd([values[key] for values in found], ddof=1))


def times(found: Values, *megabytes: int) -> str:
    return " / ".join(f"{mean(found, f'time_{mb}mb_s'):.1f}" for mb in megabytes)


def bbr_start() -> None:
    """G10, G13, G15, G18, G26: start of BBR at the measured RTT (917 ms)."""
    for rtt, start_ms in (("sine_ar1", 120.0), ("fixed", 120.0), ("sine_ar1", 320.0), ("fixed", 320.0)):
        found = download("bbr", rtt=rtt, start_delay_ms=start_ms)
        print(
            f"rtt={rtt}, {start_ms:g} ms more at the start: {mean(found, 'start_up_mbps'):.1f} Mbit/s, "
            f"{mean(found, 'start_up_rtt_ms'):.0f} ms, power {mean(found, 'start_up_power'):.1f}; "
            f"1, 5, 30, 50 MB in {times(found, 1, 5, 30, 50)} s"
        )


def start_rtts() -> None:
    """G25: start-up RTTs if the extra delay of a new flow differs between runs, and an eighth has no threshold."""
    extra_ms = np.random.default_rng(1).normal(120.0, 40.0, 24).clip(0.0)
    for who in ("bbr", "cubic", HYBLA):
        found = []
        for k, ms in enumerate(extra_ms):
            found += download(
                "hybla:ssthresh_cache=off" if who == HYBLA and k % 8 == 7 else who,
                runs=1,
                run=FIRST_RUN + 1 + k,
                start_delay_ms=float(ms),
            )
        print(f"{who}: standard deviation of the start-up RTT {spread(found, 'start_up_rtt_ms'):.1f} ms")


def merged_acks(segments: int) -> Callable[[Scenario], Scenario]:
    """A change after which packets arrive in groups, as a modem decodes them, and receive offload merges each group."""

    def change(scenario: Scenario) -> Scenario:
        links = tuple(link.changed(gate_ms=segments * PACKET_MS) for link in scenario.links)
        return scenario.changed(links=links, sim=scenario.sim.changed(gro_segments=segments))

    return change


def losses() -> None:
    """G04, G06, G21: fewer losses, and receivers with one ACK for several packets."""
    for loss in (5e-6, 8e-7):
        for segments in (1, 4, 8):
            parts = []
            for who in ("bbr", "cubic", HYBLA):
                found = download(who, 20, change=merged_acks(segments) if segments > 1 else None, residual_loss=loss)
                parts.append(
                    f"{who.split(':')[0]} {mean(found, 'steady_mbps'):.0f} +- {spread(found, 'steady_mbps'):.0f} "
                    f"Mbit/s, {mean(found, 'steady_rtt_ms'):.0f} ms, share of runs without retransmissions "
                    f"{1 - mean(found, 'resent_any'):.2f}"
                )
            print(f"residual loss {loss:g}, {segments} segments per ACK: " + "; ".join(parts))


def sinking_rates() -> None:
    """G33: RTTs of 2 s and more if the rate varies more (the queue has 36 MB at any rate)."""
    for sd in (0.05, 0.25, 0.4):
        shares = {who: mean(download(who, rate_sd=sd), "slow_rtt_share") for who in ("bbr", "cubic", HYBLA)}
        print(f"rate_sd {sd:g}: " + ", ".join(f"{who} {100 * share:.1f} %" for who, share in shares.items()))


def hystart_hosts() -> None:
    """H04, H05, H06: another residual loss, and a slow-start threshold stored by earlier downloads."""
    for loss, cache in ((5e-6, "off"), (1e-5, "off"), (5e-6, 3500), (1e-5, 3500)):
        parts, first = [], {}
        for mode in ("both", "off"):
            found = download(f"cubic:hystart={mode},ssthresh_cache={cache}", link="geo-viasat-2021", residual_loss=loss)
            first[mode] = mean(found, "first_30_s_mbps")
            parts.append(
                f"{mode}: 1, 5, 30 MB in {times(found, 1, 5, 30)} s, 1 GB in {mean(found, 'time_1gb_s'):.0f} s, steady "
                f"after {mean(found, 'steady_at_s'):.1f} s"
            )
        ratio = first["off"] / first["both"]
        print(f"residual loss {loss:g}, threshold {cache}: {'; '.join(parts)}; first 30 s, off / on {ratio:.2f}")


def lossless() -> None:
    """H10, B04: pairs with HyStart, and large buffers, with and without residual loss."""
    for loss in (5e-6, 0.0):
        parts = []
        for name, point, keys in (
            ("hystart", {"hystart": "both+both"}, ("jain_15_s", "jain_steady")),
            ("buffers", {"rmem": "D", "wmem": "60 MB", "autotuning": "on"}, ("goodput_mbps",)),
        ):
            suite, found = suites.get(name), []
            for seed in range(1, 11):
                case = suite.case(point, seed)
                given = scenarios.get(
                    "geo-viasat-2021", rtt="sine_ar1", run=FIRST_RUN + seed, residual_loss=loss,
                    flows=len(case.scenario.flows), duration_s=case.scenario.duration_s,
                )  # fmt: skip
                entered = suite.enter(case, contenders.from_controller("cubic")).changed(links=given.links)
                found.append(suite.measure(case, simulate(entered, record_interval_s=suite.record_interval_s)))
            parts += [f"{key} {mean(found, key):.3g}" for key in keys]
        print(f"residual loss {loss:g}: {', '.join(parts)}")


def default_rtt() -> None:
    """HyStart over the RTT that is the default of the scenarios (frames), and over the one of the suites (swing)."""
    for rtt in ("gate", "sine_ar1"):
        for mode in ("both", "off"):
            found = download(f"cubic:hystart={mode}", link="geo-viasat-2021", rtt=rtt)
            print(f"rtt={rtt}, HyStart {mode}: 1, 5, 30 MB in {times(found, 1, 5, 30)} s")


ABLATIONS: dict[str, Callable[[], None]] = {
    f.__name__: f for f in (bbr_start, start_rtts, losses, sinking_rates, hystart_hosts, lossless, default_rtt)
}
