"""Why claims of the papers fail here: one condition changed at a time. `python -m benches.ablations [NAME...]`

docs/reproduction.md tells what each of these shows.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from benches import geo_ablations
from orbitcc.envs import scenarios
from orbitcc.envs.scenario import Scenario
from orbitcc.envs.simulate import simulate
from orbitcc.eval import contenders, suites
from orbitcc.eval.suites.leoem import PATHS

Change = Callable[[Scenario], Scenario]


def measured(
    suite: str, who: str, point: Mapping[str, Any], runs: int = 3, change: Change | None = None
) -> dict[str, float]:
    """Means over runs of what a suite measures at a point, with the scenario changed."""
    chosen, contender = suites.get(suite), contenders.from_controller(who)
    found = []
    for seed in range(1, runs + 1):
        scenario = chosen.enter(chosen.case(point, seed), contender)
        recording = simulate(change(scenario) if change else scenario, record_interval_s=chosen.record_interval_s)
        found.append(chosen.measure(recording))
    return {key: float(np.nanmean([values[key] for values in found])) for key in found[0]}


def undisturbed(scenario: Scenario) -> Scenario:
    """Without outages and handovers."""
    return scenario.changed(links=tuple(link.changed(outages=(), handovers=()) for link in scenario.links))


def longer_outages(factor: float) -> Change:
    def change(scenario: Scenario) -> Scenario:
        links = [
            link.changed(outages=tuple(o.changed(duration_ms=factor * o.duration_ms) for o in link.outages))
            for link in scenario.links
        ]
        return scenario.changed(links=tuple(links))

    return change


def mean(found: Sequence[Mapping[str, float]], key: str) -> float:
    return float(np.mean([values[key] for values in found]))


def vivace_mode() -> None:
    """F10, F31, F34, F38, F43: Vivace in latency mode (what the study's command line says) and in loss mode."""
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
            f"{who}: different RTTs R {mean(far, 'goodput_ratio'):.2f}, share of the long flow "
            f"{mean(far, 'second_share'):.2f}; one RTT R {mean(same, 'goodput_ratio'):.2f}, spread "
            f"{mean(same, 'goodput_ratio_sd'):.2f}; long flow over 3 {mean(lots[3], 'long_ratio'):.2f}, over 6 "
            f"{mean(lots[6], 'long_ratio'):.2f}; LeoEM G {mean(alone, 'goodput_share'):.2f}, I "
            f"{mean(alone, 'delay_inflation'):.2f}; many flows G "
            + " ".join(f"{values['goodput_share']:.3f}" for values in many)
        )


def parking_lot() -> None:
    """F36, F37: the long flow's part with other buffers, and without interruptions; 3 bottlenecks, 60 ms."""
    for who in ("bbr3", "bbr3:flavour=ietf", "bbr", "leocc:trigger=global", "satcp", "cubic", "reno"):
        point = {"bottlenecks": 3, "base_rtt_ms": 60}
        calm = measured("parking-lot", who, point, 2, undisturbed)["long_ratio"]
        parts = [f"as it is {measured('parking-lot', who, point, 2)['long_ratio']:.2f}", f"uninterrupted {calm:.2f}"]
        for bdp in (0.5, 5.0):
            deep = scenarios.get("parking-lot", buffer_bdp=bdp, base_rtt_ms=60, interruption_every_s=0.0)
            recording = simulate(contenders.from_controller(who).take_all(deep))
            goodput = recording.flows["goodput_mbps"][100:].mean(axis=0)
            parts.append(f"and {bdp:g} BDP {goodput[0] / goodput[1:].max():.2f}")
        print(f"{who}: {', '.join(parts)}")


def torn_links() -> None:
    """F03, F04: LeoEM's paths without torn links between satellites, and without any interruption."""

    def whole_between(scenario: Scenario) -> Scenario:
        return scenario.changed(
            links=tuple(link.changed(outages=()) if link.name == "path" else link for link in scenario.links)
        )

    changes: dict[str, Change | None] = {"as it is": None, "middle whole": whole_between, "uninterrupted": undisturbed}
    for label, change in changes.items():
        found = {
            who: [measured("leoem-single", who, {"path": p}, 2, change) for p in PATHS]
            for who in ("cubic", "satcp", "bbr3", "vivace")
        }
        print(
            f"{label}: retransmissions % "
            + ", ".join(f"{who} {100 * mean(values, 'retransmission_rate'):.3f}" for who, values in found.items())
            + "; largest I "
            + ", ".join(f"{who} {max(v['delay_inflation'] for v in values):.2f}" for who, values in found.items())
        )


def outage_length() -> None:
    """F16: interruptions longer than nominal (the study's commands took time), and its text's RTT range."""
    for factor in (1.0, 1.5, 2.0, 3.0):
        found = {
            who: measured("responsiveness", who, {}, 10, longer_outages(factor)) for who in ("cubic", "bbr3", "satcp")
        }
        print(f"x {factor:g}: U " + ", ".join(f"{who} {v['goodput_over_optimal']:.3f}" for who, v in found.items()))
    for who in ("cubic", "bbr3", "satcp", "leocc:trigger=global", "vivace"):
        contender, suite, u = contenders.from_controller(who), suites.get("responsiveness"), []
        for run in range(1, 11):
            scenario = scenarios.get("leo-responsiveness", run=run, rtt="paper")
            u.append(suite.measure(simulate(contender.take_all(scenario)))["goodput_over_optimal"])
        print(f"10-100 ms: U {who} {np.median(u):.3f}")


def restarts() -> None:
    """F42: LeoCC's queue with and without reconfigurations, which make it measure anew."""
    for who in ("leocc:trigger=global", "leocc:trigger=flow", "bbr3"):
        parts = [
            " ".join(f"{measured('efficiency', who, {'flows': n}, 2, change)['delay_ratio']:.2f}" for n in (5, 10, 20))
            for change in (None, undisturbed)
        ]
        print(f"{who}: delay ratio {parts[0]} as it is, {parts[1]} uninterrupted")


ABLATIONS: dict[str, Callable[[], None]] = {
    **{f.__name__: f for f in (vivace_mode, parking_lot, torn_links, outage_length, restarts)},
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
