"""Short downloads over TCP and QUIC, the second table of docs/quic.md: `python -m benches.quic [--runs 300]`.

An object over `dumbbell` (100 Mbit/s, 50 ms) with random loss: time from the start of its flow until the receiver has
all of it. TCP of the simulator begins with its first segment, so one round trip is added for its handshake.
"""

import argparse

import numpy as np

from orbitcc.envs import scenarios
from orbitcc.envs.backends.simulator import simulate
from orbitcc.envs.description.flows import Flow

SIZES = (5_000, 30_000, 300_000)
WAYS = {
    "TCP, Cubic": {"controller": "cubic"},
    "QUIC, Cubic of TCP": {"controller": "cubic", "transport": "quic"},
    "QUIC, quinn's Cubic": {"controller": "quinn-cubic"},
    "the same, 0-RTT": {"controller": "quinn-cubic", "transport": {"kind": "quic", "resume": True}},
}


def took_ms(way: dict[str, object], size: int, seed: int, loss: float) -> float:
    """Milliseconds of one download."""
    flow = Flow.build({**way, "traffic": {"kind": "bytes", "bytes": size}})
    scenario = scenarios.get("dumbbell", duration_s=30.0).override("links.0.loss", loss).override("sim.noise", "false")
    (total,) = simulate(scenario.with_flows([flow]).with_seed(seed)).flow_totals
    handshake_ms = 0.0 if flow.transport is not None else scenario.base_rtt_ms()
    return 1e3 * (total["finished_s"] - total["start_s"]) + handshake_ms


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=300)
    runs = parser.parse_args().runs
    cells = [(size, loss) for size in SIZES for loss in (0.0, 0.02)]
    print("|  | " + " | ".join(f"{size / 1e3:g} KB, {loss:.0%} loss" for size, loss in cells) + " |")
    print("|---|" + "---|" * len(cells))
    for name, way in WAYS.items():
        row = []
        for size, loss in cells:
            times = [took_ms(way, size, seed, loss) for seed in range(1, (runs if loss else 1) + 1)]
            row.append(f"{np.median(times):.0f} ({np.percentile(times, 95):.0f})" if loss else f"{times[0]:.0f}")
        print(f"| {name} | {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    main()
