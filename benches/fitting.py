"""How well `orbitcc fit` finds known networks again: the tables and the figure of docs/fitting.md.

`python -m benches.fitting`, from the top of the repository; takes ten minutes on one core. Each world is recorded:
captures of BBR and of Cubic, and a log of probes, each with its own seed. The fitted scenario and the world then run
with other seeds. A seed changes losses, jitter and the order of events; rates, weather and interruptions of a world
belong to its `run` and stay.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import orbitcc  # noqa: F401  (registers the controllers)
from benches import pictures
from benches.pages import replace
from orbitcc.envs import scenarios
from orbitcc.envs.backends.simulator import simulate
from orbitcc.envs.description.flows import Cbr, ControllerSpec, Flow
from orbitcc.envs.description.scenario import Scenario
from orbitcc.envs.fitting import pcap
from orbitcc.envs.fitting.files import gather
from orbitcc.envs.fitting.fit import fit
from orbitcc.envs.fitting.model import Fit
from orbitcc.eval.figures.fit import draw_fit
from orbitcc.eval.figures.style import LIGHT

DOCUMENT = Path("docs/fitting.md")
PICTURE = Path("docs/images/fitting/starlink-2026.png")
RECORDED = {"bbr": 2, "cubic": 2}
"""Captures of each controller; the seeds are 1, 2 ..."""
MORE = {
    "loss bursts": {"bbr": 2, "cubic": 6},
    "leo-access": {"bbr": 2, "cubic": 6},
    "starlink-2026": {"bbr": 2, "cubic": 16},
}
"""Where few losses determine the goodput of Cubic."""
HELD_OUT = {"cubic": range(101, 165), "bbr": range(101, 109)}
"""Random losses make the goodput of Cubic differ from seed to seed, by 20 % on starlink-2026."""
PROBE_MS, PROBE_SEED = 20.0, 100
JITTER = {"kind": "gamma", "mean_ms": 3.0, "shape": 2, "tau_ms": 30.0}
BURSTS = {"kind": "gilbert_elliott", "to_bad_per_s": 1.0, "to_good_per_s": 100.0}


def _static() -> Scenario:
    return scenarios.get("dumbbell", rate_mbps=40, base_rtt_ms=40, duration_s=60)


def _bursts() -> Scenario:
    return scenarios.get("dumbbell", rate_mbps=40, base_rtt_ms=40, duration_s=120).override("links.0.loss", BURSTS)


def _handovers() -> Scenario:
    path = scenarios.get("leo-responsiveness", duration_s=120, run=2)
    return path.override("links.bottleneck.jitter", JITTER).override("links.bottleneck.reverse.jitter", JITTER)


def _geometry() -> Scenario:
    return scenarios.get("leo-path", source="Seattle", target="New York", mode="bp", rate_mbps=50, duration_s=120)


def _losses() -> Scenario:
    return scenarios.get("leo-responsiveness", duration_s=120, loss=True)


def _rain() -> Scenario:
    return scenarios.get("geo-rain", duration_s=120)


def _access() -> Scenario:
    return scenarios.get("leo-access", duration_s=120)


def _starlink() -> Scenario:
    return scenarios.get("starlink-2026", duration_s=120)


WORLDS: Mapping[str, Callable[[], Scenario]] = {
    "static": _static,
    "loss bursts": _bursts,
    "handovers, jitter": _handovers,
    "handovers, losses": _losses,
    "satellite path": _geometry,
    "geo-rain": _rain,
    "leo-access": _access,
    "starlink-2026": _starlink,
}


@dataclass(frozen=True)
class Outcome:
    """A fit, and the mean goodput in Mbit/s of each controller in the world and in the fitted scenario."""

    found: Fit
    truth: Mapping[str, float]
    fitted: Mapping[str, float]

    def error(self, controller: str) -> float:
        return self.fitted[controller] / self.truth[controller] - 1


def record(world: Scenario, folder: Path, recorded: Mapping[str, int] = RECORDED) -> list[Path]:
    """Captures of flows, and a log as ping writes it, of a world."""
    files = []
    names = [controller for controller, count in recorded.items() for _ in range(count)]
    for seed, controller in enumerate(names, start=1):
        files.append(folder / f"{controller}-{seed}.pcap")
        simulate(world.with_controller(controller).with_seed(seed), pcap=files[-1])
    return [*files, probe(world, folder / "ping.txt")]


def probe(world: Scenario, path: Path) -> Path:
    """A log as ping writes it: the RTTs of single packets, 20 ms apart, of a flow that hardly loads the world.

    A receiver acknowledges every second packet at once; only these are probes.
    """
    flow = Flow(controller=ControllerSpec(name="reno"), traffic=Cbr(rate_mbps=1514 * 8e-3 / PROBE_MS))
    capture = path.with_suffix(".pcap")
    simulate(world.with_flows([flow]).with_seed(PROBE_SEED), pcap=capture)
    seen = pcap.read(capture.read_bytes(), str(capture))
    kept = seen.once | seen.lost
    lines = ["PING 10.2.0.0 (10.2.0.0) 56(84) bytes of data."]
    for k, (sent, acked, known) in enumerate(zip(seen.sent_s[kept], seen.acked_s[kept], seen.once[kept], strict=True)):
        if known:
            stamp, rtt = 1.7e9 + acked, (acked - sent) * 1e3
            lines.append(f"[{stamp:.6f}] 64 bytes from 10.2.0.0: icmp_seq={k + 1} ttl=64 time={rtt:.3g} ms")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def measure(name: str, folder: Path) -> Outcome:
    """Record a world, fit it, and run both with seeds that were not recorded."""
    world = WORLDS[name]()
    found = fit(gather(record(world, folder, MORE.get(name, RECORDED))), name.replace(", ", "-").replace(" ", "-"))
    truth, fitted = (
        {
            controller: float(np.mean([_goodput(network.with_controller(controller), seed) for seed in seeds]))
            for controller, seeds in HELD_OUT.items()
        }
        for network in (world, found.scenario())
    )
    return Outcome(found, truth, fitted)


def _goodput(scenario: Scenario, seed: int) -> float:
    return float(simulate(scenario.with_seed(seed)).flow_totals[0]["goodput_mbps"])


def table(outcomes: Mapping[str, Outcome]) -> str:
    head = "| world | Cubic, Mbit/s | Cubic, fitted | error, % | BBR, Mbit/s | BBR, fitted | error, % |"
    rows = [head, "|---|---|---|---|---|---|---|"]
    for name, o in outcomes.items():
        cells = [f"{o.truth[c]:.1f} | {o.fitted[c]:.1f} | {100 * o.error(c):+.1f}" for c in ("cubic", "bbr")]
        rows.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(rows)


def main(names: list[str]) -> None:
    outcomes = {}
    for name in names or WORLDS:
        with tempfile.TemporaryDirectory() as folder:
            outcomes[name] = measure(name, Path(folder))
        print(table({name: outcomes[name]}).splitlines()[-1], flush=True)
        for note in outcomes[name].found.notes:
            print(f"    {note.quantity}: {note.value} ({note.origin})", flush=True)
    if not names:
        replace(DOCUMENT, {"fitting": table(outcomes)})
        found = outcomes["starlink-2026"].found
        runs = [simulate(found.scenario().with_controller(c), record_interval_s=1) for c in ("cubic", "bbr")]
        pictures.write(draw_fit(found, runs, LIGHT), PICTURE, max_bytes=90_000, dpi=110)


if __name__ == "__main__":
    main(sys.argv[1:])
