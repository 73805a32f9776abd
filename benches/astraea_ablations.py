"""Experiments on failing claims about Astraea with the shipped policy: one condition is changed at a time.

    python -m benches.astraea_ablations
    python -m benches.astraea_ablations FOLDER    # of the released policy, as `orbitcc import` wrote it

docs/reproduction.md explains the results.
"""

from __future__ import annotations

import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benches import ablations
from orbitcc.agents import checkpoint
from orbitcc.envs.description.scenario import Scenario
from orbitcc.envs.environments.presets import Native, definition_hash
from orbitcc.eval.suites.leoem import PATHS

OWN = "astraea"


class _Shipped:
    """The network of the shipped policy, with the observation of its training but for the changes in `observation`."""

    def __init__(self, observation: dict[str, Any] | None = None, interval_ms: float = 30.0) -> None:
        trained = checkpoint.load(OWN)
        own = trained.preset.native("observation")
        seen = Native(own.name, {**own.parameters, **(observation or {})})
        self.preset = replace(trained.preset, observation=seen, interval_ms=interval_ms)
        self._policy = trained.policy

    def act(self, observations: NDArray[np.float32]) -> NDArray[np.float32]:
        return self._policy.act(np.ascontiguousarray(observations))


def forgetful() -> _Shipped:
    """The observation has the minimum RTT of ten seconds instead of thirty."""
    return _Shipped({"min_rtt_window_s": 10.0})


def unforgetting() -> _Shipped:
    """The observation has the minimum RTT of the whole connection, as published."""
    return _Shipped({"min_rtt_window_s": 0.0})


class _OfOneRate(_Shipped):
    """The feature of the largest throughput, the fourth of eight, is 50 Mbit/s as soon as there is a value."""

    def act(self, observations: NDArray[np.float32]) -> NDArray[np.float32]:
        seen = observations.copy()
        rates = seen[:, 3::8]
        rates[rates > 0] = np.log1p(50)
        return super().act(seen)


def of_one_rate() -> _Shipped:
    """The observation does not include the flow's own rate."""
    return _OfOneRate()


def frequent() -> _Shipped:
    """A decision every 20 ms, as in the paper."""
    return _Shipped(interval_ms=20.0)


FORGETFUL, UNFORGETTING, FREQUENT, OF_ONE_RATE = (
    f"benches.astraea_ablations:{name}" for name in ("forgetful", "unforgetting", "frequent", "of_one_rate")
)


def together(scenario: Scenario) -> Scenario:
    """All flows start at the same time with an empty queue, so that all observe the true RTT."""
    return scenario.changed(flows=tuple(flow.changed(start_s=0.0) for flow in scenario.flows))


def collapse() -> None:
    """F15, F17: as it is, every 20 ms, minimum RTT of 10 s and of the whole connection, without interruptions."""
    changes: tuple[tuple[str, str, ablations.Change | None], ...] = (
        ("as it is", OWN, None),
        ("every 20 ms", FREQUENT, None),
        ("minimum RTT of 10 s", FORGETFUL, None),
        ("minimum RTT of the whole connection", UNFORGETTING, None),
        ("no interruptions", OWN, ablations.undisturbed),
    )
    for label, who, change in changes:
        found = ablations.measured("responsiveness", who, {}, 6, change)
        least, above = found["u_at_least_rtt"], found["u_above_twice_least_rtt"]
        fairness = [ablations.measured("leoem-fairness", who, {"path": path}, 1, change) for path in PATHS]
        ratios = " ".join(f"{values['goodput_ratio']:.2f}" for values in fairness)
        print(
            f"{label}: U {found['goodput_over_optimal']:.2f}, {least:.2f} at the smallest RTT, {above:.2f} at twice "
            f"that and more; LeoEM: R {ratios}, variation of goodput "
            f"{ablations.mean(fairness, 'goodput_cv'):.2f}"
        )


def company() -> None:
    """F35, F39, F44: two flows with equal RTTs, a long flow, and many flows, each under four conditions."""
    conditions: tuple[tuple[str, ablations.Change | None], ...] = (
        (OWN, None),
        (OWN, ablations.undisturbed),
        (OWN, together),
        (OF_ONE_RATE, None),
    )

    def row(suite: str, metric: str, points: list[dict[str, Any]]) -> str:
        found = [
            [ablations.measured(suite, who, point, 2, change)[metric] for point in points] for who, change in conditions
        ]
        return "; ".join(" ".join(f"{x:.2f}" for x in values) for values in found)

    print("as it is; without interruptions; all flows start together; own rate not observed")
    rtts = [{"base_rtt_ms": x} for x in (100, 140, 180, 200)]
    print(f"two flows at 100, 140, 180, 200 ms: {row('intra-rtt', 'goodput_ratio', rtts)}")
    for hops in (3, 6):
        points = [{"bottlenecks": hops, "base_rtt_ms": x} for x in (60, 140, 200)]
        print(f"long flow over {hops} hops at 60, 140, 200 ms: {row('parking-lot', 'long_ratio', points)}")
    crowds = [{"flows": n} for n in (5, 10, 20)]
    print(f"delay ratio of 5, 10, 20 flows: {row('efficiency', 'delay_ratio', crowds)}")


def released(folder: str, runs: int = 3) -> None:
    """F11, F26, F32, F35, F44 with the released policy: LeoEM's transient, the token bucket, and losses that hold."""
    held = checkpoint.load(folder)
    action = held.card.action.model_copy(update={"parameters": {**held.card.action.parameters, "recovery": "hold"}})
    action = action.model_copy(update={"hash": definition_hash("action", Native(action.preset, action.parameters))})
    with tempfile.TemporaryDirectory() as scratch:
        card = held.card.model_copy(update={"action": action, "name": "held"})
        holds = str(checkpoint.save(Path(scratch) / "held", card, checkpoint.read_tensors(held.path)))
        for transient_ms in (0.0, 120.0):
            shares = [
                ablations.measured("leoem-single", folder, {"path": path}, runs, transient_ms=transient_ms)
                for path in PATHS
            ]
            print(f"F11, transient of {transient_ms:g} ms: G {ablations.mean(shares, 'goodput_share'):.3f}")
        for shaper in ("exact", "tbf", "tbf-later"):
            point = {"base_rtt_ms": 100, "buffer_bdp": 1.0}
            found = ablations.measured("inter-rtt", folder, point, runs, shaper=shaper)
            print(f"F32, shaper={shaper}: R at 100 ms {found['goodput_ratio']:.2f}")
        for label, who in (("kernel", folder), ("hold", holds)):
            u = [
                ablations.measured(f"responsiveness{loss}", who, {}, 10)["goodput_over_optimal"]
                for loss in ("", "-loss")
            ]
            pairs = [
                ablations.measured("intra-rtt", who, {"base_rtt_ms": x}, runs)["goodput_ratio"] for x in (60, 140, 200)
            ]
            crowds = [ablations.measured("efficiency", who, {"flows": n}, runs)["delay_ratio"] for n in (5, 10, 20)]
            print(
                f"recovery={label}: F26, U {u[0]:.3f} without, {u[1]:.3f} with loss; F35, R at 60, 140, 200 ms "
                f"{' '.join(f'{x:.2f}' for x in pairs)}; F44, delay ratio {' '.join(f'{x:.2f}' for x in crowds)}"
            )


if __name__ == "__main__":
    if sys.argv[1:]:
        released(sys.argv[1])
        sys.exit()
    for run in (collapse, company):
        print(f"\n{run.__name__}: {run.__doc__}")
        run()
