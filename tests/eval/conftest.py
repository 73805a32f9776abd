"""A small finished results that the tests look at."""

from pathlib import Path

import numpy as np
import pytest

from orbitcc.eval import contenders, suites
from orbitcc.eval.results import Results
from orbitcc.eval.runner import run_suite


@pytest.fixture(scope="session")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """Three runs of the responsiveness suite for cubic and reno."""
    return run_suite(
        suites.get("responsiveness"),
        contenders.line_up(["cubic", "reno"], []),
        out_dir=tmp_path_factory.mktemp("results"),
        runs=3,
        workers=1,
        quiet=True,
        command="orbitcc eval responsiveness --runs 3",
    )


@pytest.fixture(scope="session")
def checkpoint_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A policy that always answers 0, `trained` on 10-20 Mbit/s and 1-500 ms."""
    from orbitcc import _sim
    from orbitcc.agents import ModelCard, save
    from orbitcc.envs.environments.presets import definition_hash

    dim = int(_sim.function("observation", '"astraea"')["dim"])
    card = ModelCard.model_validate(
        {
            "name": "idle-policy",
            "description": "never changes its window",
            "observation": {"preset": "astraea", "dim": dim, "hash": definition_hash("observation", "astraea")},
            "action": {"preset": "astraea", "dim": 1, "hash": definition_hash("action", "astraea")},
            "interval_ms": 30.0,
            "layers": [{"units": 1, "activation": "linear"}],
            "training_range": {"scenario": "none", "rate_mbps": (10, 20), "base_rtt_ms": (1, 500)},
            "training": {
                "recipe": "none",
                "command": "none",
                "seed": 0,
                "revision": "none",
                "agent_steps": 0,
                "simulated_hours": 0,
                "wall_minutes": 0,
                "versions": {},
            },
        }
    )
    tensors = {"layers.0.weight": np.zeros((1, dim), np.float32), "layers.0.bias": np.zeros(1, np.float32)}
    return save(tmp_path_factory.mktemp("policy") / "idle", card, tensors)
