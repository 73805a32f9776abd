"""Experiments on failing claims: one condition is changed at a time. `python -m benches.ablations [NAME...]`

docs/reproduction.md explains the results.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from benches import geo_ablations
from orbitcc.agents.python_policy import is_python_policy
from orbitcc.envs.backends.simulator import simulate
from orbitcc.envs.description.flows import ControllerSpec, Flow
from orbitcc.envs.description.links import Link
from orbitcc.envs.description.queues import DropTailBytes
from orbitcc.envs.description.scenario import Scenario
from orbitcc.eval import contenders, suites
from orbitcc.eval.suites.leoem import PATHS

Change = Callable[[Scenario], Scenario]


def measured(
    suite: str, who: str, point: Mapping[str, Any], runs: int = 3, change: Change | None = None, **settings: Any
) -> dict[str, float]:
    """Mean metrics over runs of a suite at a point, with other settings and a changed scenario."""
    chosen = suites.get(suite, settings)
    is_policy = is_python_policy(who) or Path(who).is_dir()
    contender = contenders.from_policy(who) if is_policy else contenders.from_controller(who)
    found = []
    for seed in range(1, runs + 1):
        case = chosen.case(point, seed)
        scenario = chosen.enter(case, contender)
        recording = simulate(change(scenario) if change else scenario, record_interval_s=chosen.record_interval_s)
        found.append(chosen.measure(case, recording))
    return {key: float(np.nanmean([values[key] for values in found])) for key in found[0]}


def undisturbed(scenario: Scenario) -> Scenario:
    """The scenario without outages and handovers."""
    return scenario.changed(links=tuple(link.changed(outages=(), handovers=()) for link in scenario.links))


def deeper(factor: float) -> Change:
    """A change that makes all buffers `factor` times as deep."""

    def change(scenario: Scenario) -> Scenario:
        def queue(link: Link) -> DropTailBytes:
            assert isinstance(link.queue, DropTailBytes)
            return DropTailBytes(limit_bytes=round(factor * link.queue.limit_bytes))

        return scenario.changed(links=tuple(link.changed(queue=queue(link)) for link in scenario.links))

    return change


def jittered(ms: float) -> Change:
    """A change after which each packet waits U(0, ms) at its host, in order."""
    return lambda scenario: scenario.changed(sim=scenario.sim.changed(send_jitter_ms=ms))


def long_flow(change: Callable[[Flow], Flow]) -> Change:
    """A change of the long flow in the parking lot."""
    return lambda scenario: scenario.changed(flows=(change(scenario.flows[0]), *scenario.flows[1:]))


def mean(found: Sequence[Mapping[str, float]], key: str) -> float:
    return float(np.mean([values[key] for values in found]))


def vivace_mode() -> None:
    """F10, F31, F34, F38, F43: Vivace in latency mode (as in the paper's command line) and in loss mode."""
    for who in ("vivace", "vivace:preset=loss"):
        far = [
            measured("inter-rtt", who, {"base_rtt_ms": x, "buffer_bdp": q})
            for x in (60, 120, 200)
            for q in (0.2, 1.0, 4.0)
        ]
        same = [measured("intra-rtt", who, {"base_rtt_ms": x}) for x in (60, 140)]
        lots = {
            n: [measured("parking-lot", who, {"bottlenecks": n, "base_rtt_ms": x}, 2) for x in (60, 140)]
            for n in (3, 6)
        }
        alone = [measured("leoem-single", who, {"path": path}, 1) for path in PATHS]
        many = [measured("efficiency", who, {"flows": n}, 2) for n in (5, 10, 20)]
        print(
            f"{who}: different RTTs, R {mean(far, 'goodput_ratio'):.2f}, share of the long flow "
            f"{mean(far, 'second_share'):.2f}; equal RTTs, R {mean(same, 'goodput_ratio'):.2f}, spread "
            f"{mean(same, 'goodput_ratio_sd'):.2f}; long flow over 3 {mean(lots[3], 'long_ratio'):.2f}, over 6 "
            f"{mean(lots[6], 'long_ratio'):.2f}; LeoEM, G {mean(alone, 'goodput_share'):.2f}, I "
            f"{mean(alone, 'delay_inflation'):.2f}; many flows, G "
            + " ".join(f"{values['goodput_share']:.3f}" for values in many)
        )


def buffers() -> None:
    """F03, F04: LeoEM's paths with deeper buffers (5 %: unit of the micro-benchmarks), and without interruptions."""

    def whole_between(scenario: Scenario) -> Scenario:
        return scenario.changed(
            links=tuple(link.changed(outages=()) if link.name == "path" else link for link in scenario.links)
        )

    changes: dict[str, Change | None] = {
        "as it is": None,
        "5 % deeper": deeper(1.0486),
        "twice as deep": deeper(2.0),
        "no losses on links between": whole_between,
        "no interruption and no handover": undisturbed,
    }
    for label, change in changes.items():
        found = {
            who: [measured("leoem-single", who, {"path": p}, 2, change) for p in PATHS]
            for who in ("cubic", "satcp", "bbr3")
        }
        print(
            f"{label}: retransmissions % "
            + ", ".join(f"{who} {100 * mean(values, 'retransmission_rate'):.3f}" for who, values in found.items())
            + "; largest I "
            + ", ".join(f"{who} {max(v['delay_inflation'] for v in values):.2f}" for who, values in found.items())
        )


def stale_rtt() -> None:
    """F16: BBRv3 that keeps a minimum RTT for 10 s, as released, or for 5 s; or with four BDP in flight."""
    for shaper in ("exact", "tbf", "tbf-later"):
        for who in ("cubic", "bbr3", "bbr3:min_rtt_window_s=5", "bbr3:cwnd_gain=4"):
            u = measured("responsiveness", who, {}, 10, shaper=shaper)["goodput_over_optimal"]
            print(f"shaper={shaper} {who}: U {u:.3f}")


def bucket() -> None:
    """F28, F40: the token buckets of the paper's code (15 kB) and of its later code (42 ms of the rate)."""
    rtts = range(20, 201, 20)
    for shaper in ("exact", "tbf", "tbf-later"):
        found = [
            measured("inter-rtt", "bbr3", {"base_rtt_ms": x, "buffer_bdp": 4.0}, 5, shaper=shaper)["goodput_ratio"]
            for x in rtts
        ]
        rho = stats.spearmanr(rtts, found).statistic
        print(f"shaper={shaper}: bbr3, 4 BDP, R {' '.join(f'{r:.2f}' for r in found)}, rank correlation {rho:.2f}")
        for who in ("cubic", "satcp"):
            delays = [measured("efficiency", who, {"flows": n}, 5, shaper=shaper)["delay_ratio"] for n in (5, 10, 20)]
            print(f"shaper={shaper}: {who}, delay ratio {' '.join(f'{d:.2f}' for d in delays)}")


def mean_buffer() -> None:
    """F16: the buffer of the code (655,360 bytes), and one BDP of the mean rate and RTT, as in the text."""
    for size in (655_360, 540_672):
        for who in ("cubic", "satcp", "bbr3", "leocc:trigger=global", "vivace"):
            found = measured("responsiveness", who, {}, 10, buffer_bytes=size)
            print(f"{size} bytes, {who}: U {found['goodput_over_optimal']:.3f}, I {found['delay_inflation']:.2f}")


def concurrent() -> None:
    """F12, F13, F14: pairs on LeoEM's paths that run together for 200 s, as in LeoEM, or for 300 s, as in the text."""
    suite = suites.get("leoem-fairness")
    for duration_s in (300.0, 400.0):
        for who in ("cubic", "satcp", "bbr3", "leocc:trigger=global", "vivace"):
            found = []
            for path in PATHS:
                ratios = []
                for run in (1, 2):
                    scenario = suite.build(path=path, run=run, flows=2, duration_s=duration_s)
                    taken = contenders.from_controller(who).take_all(scenario)
                    recording = simulate(taken, record_interval_s=1.0)
                    ratios.append(suite.measure(suite.case({"path": path}, run), recording)["goodput_ratio"])
                found.append(f"{np.mean(ratios):.2f}")
            print(f"together for {duration_s - 100:g} s, {who}: R {' '.join(found)}")


def reports() -> None:
    """F33, F36: SaTCP and Cubic with and without interruptions; only SaTCP receives notifications of them."""
    rtts = range(20, 201, 20)
    for every_s in (15.0, 0.0):
        for suite, key, factors in (
            ("intra-rtt", "goodput_ratio", {}),
            ("parking-lot", "long_ratio", {"bottlenecks": 3}),
            ("parking-lot", "long_ratio", {"bottlenecks": 6}),
        ):
            for who in ("cubic", "satcp"):
                found = [
                    measured(suite, who, {**factors, "base_rtt_ms": x}, 5, interruption_every_s=every_s)[key]
                    for x in rtts
                ]
                print(f"interrupted every {every_s:g} s: {suite} {factors} {who} {' '.join(f'{r:.2f}' for r in found)}")


def queues() -> None:
    """F37: share of the long flow over 1, 2, 3 and 6 links at 20, 60 and 140 ms; with jitter; with more in flight."""

    def parts(who: str, n: int, change: Change | None = None, **settings: Any) -> str:
        points = ({"bottlenecks": n, "base_rtt_ms": x} for x in (20, 60, 140))
        return " ".join(
            f"{measured('parking-lot', who, point, 2, change, **settings)['long_ratio']:.2f}" for point in points
        )

    away = long_flow(lambda flow: flow.changed(uplink_delay_ms=3 * flow.uplink_delay_ms))
    wide = long_flow(lambda flow: flow.changed(controller=ControllerSpec.parse("bbr3:cwnd_gain=8")))
    for who in ("bbr3", "leocc:trigger=global"):
        print(f"{who}, 1, 2, 3, 6 links: {'; '.join(parts(who, n) for n in (1, 2, 3, 6))}")
        for label, change in (("10 ms of jitter", jittered(10.0)), ("long flow with three times the RTT", away)):
            print(f"{who}, {label}, 3 and 6 links: {parts(who, 3, change)}; {parts(who, 6, change)}")
        print(f"{who}, buffer of 0.2 BDP: {parts(who, 3, buffer_bdp=0.2)}; {parts(who, 6, buffer_bdp=0.2)}")
    print(f"bbr3, long flow with eight BDP in flight: {parts('bbr3', 3, wide)}; {parts('bbr3', 6, wide)}")


def restarts() -> None:
    """F42: queue of LeoCC with and without reconfigurations, and with a buffer of two BDP; also of BBR, its base."""
    for who in ("leocc:trigger=global", "leocc:trigger=flow", "leocc:trigger=ping", "bbr", "bbr3"):
        parts = [
            " ".join(
                f"{measured('efficiency', who, {'flows': n}, 2, **settings)['delay_ratio']:.2f}" for n in (5, 10, 20)
            )
            for settings in ({}, {"interruption_every_s": 0.0}, {"buffer_bdp": 2.0})
        ]
        print(
            f"{who}: delay ratio {parts[0]} as it is, {parts[1]} without interruptions, "
            f"{parts[2]} with a buffer of two BDP"
        )


ABLATIONS: dict[str, Callable[[], None]] = {
    **{
        f.__name__: f
        for f in (buffers, stale_rtt, bucket, mean_buffer, concurrent, vivace_mode, reports, queues, restarts)
    },
    **geo_ablations.ABLATIONS,
}


def main(names: Sequence[str]) -> None:
    for name in names or ABLATIONS:
        run = ABLATIONS[name]
        print(f"\n{name}: {run.__doc__}")
        run()
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
