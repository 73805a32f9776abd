"""The loop around every learner."""

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

from orbitcc.agents import checkpoint
from orbitcc.agents.card import Layer
from orbitcc.agents.runs import RunFolder
from orbitcc.training import loop, recipe


class Stubborn:
    """A learner whose policy always does the same."""

    squash = "clip"
    layers = (Layer(units=4, activation="leaky_relu", norm="layer"), Layer(units=1, activation="linear"))

    def __init__(self, plan: recipe.Recipe, seed: int) -> None:
        del plan, seed

    def iterate(self) -> dict[str, float]:
        return {"agent_steps": 500, "train/reward": 0.0}

    def tensors(self) -> dict[str, np.ndarray]:
        shapes = {"layers.0": (4, 50), "layers.1": (1, 4)}
        weights = {f"{name}.weight": np.zeros(shape, np.float32) for name, shape in shapes.items()}
        weights |= {f"layers.0.norm.{name}": np.ones(4, np.float32) for name in ("scale", "shift")}
        return weights | {f"{name}.bias": np.full(shape[0], 0.3, np.float32) for name, shape in shapes.items()}

    def save(self, folder: Path) -> None:
        (folder / "opinion").write_text("0.3")

    def load(self, folder: Path) -> None:
        assert (folder / "opinion").read_text() == "0.3"

    def stop(self) -> None:
        pass


@pytest.mark.parametrize("name", recipe.names())
def test_a_policy_that_always_does_the_same_is_reported_whoever_trains(name, tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setattr(loop, "_learner", Stubborn)
    changes = ["scenario=train-leo", "agent_steps=1000", "evaluation.every=500", "evaluation.worlds=1"]
    plan = recipe.load(name, [*changes, "network.hidden=[4]"])
    run = RunFolder.create(tmp_path, plan.scenario, plan.name, 1, {"recipe": plan.model_dump(), "revision": "test"})
    loop.train(plan, 1, run, resume=False, command="test")
    said = [line for line in capsys.readouterr().err.splitlines() if "nearly the same" in line]
    assert [line.split()[0] for line in said] == ["500", "1,000"]  # and not of the untrained policy
    rows = [line.split(",") for line in (run.path / "metrics.csv").read_text().splitlines()]
    assert checkpoint.read_card(run.last).layers == Stubborn.layers
    assert [float(row[2]) for row in rows if row[1] == "heldout/action_spread"] == [pytest.approx(0, abs=1e-3)] * 3
