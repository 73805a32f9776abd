"""Experiments on failing claims about Astraea with its released policy: one condition is changed at a time.

    python -m benches.astraea_ablations FOLDER    # as `orbitcc import` wrote it

docs/reproduction.md explains the results.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from benches import ablations
from orbitcc.agents import checkpoint
from orbitcc.envs.environments.presets import Native, definition_hash
from orbitcc.eval.suites.leoem import PATHS


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
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    released(parser.parse_args().folder)
