"""Two policies joined into one, which selects by the minimum RTT."""

from pathlib import Path

import numpy as np
import pytest

from orbitcc.agents import checkpoint
from orbitcc.agents.joining import joined
from orbitcc.agents.model_card import CardAction, CardObservation, Gate, Layer, ModelCard, TrainingRange
from orbitcc.common.errors import OrbitccError
from orbitcc.envs.environments.presets import definition_hash
from tests.agents.test_checkpoint import card, tensors
from tests.commands.shell import called

FEATURES = ["inflation", "delivered", "own-queue", {"name": "loss", "average_rtts": 1.0}]
LOG_350_MS = np.log(7.0)
"""The feature that selects, at 350 ms: ln(350 / 50)."""


def mixture(seed: int, experts: int, units: int, inputs: tuple[int, ...], **changes) -> tuple[ModelCard, dict]:
    """A random mixture of linear experts that observes the last three features; its gate observes `inputs`."""
    definition = {"name": "features", "features": FEATURES}
    gate = Gate(
        layers=(Layer(units=units, activation="tanh"), Layer(units=experts, activation="linear")),
        inputs=inputs,
        expert_inputs=(1, 2, 3),
    )
    values = {
        "observation": CardObservation(
            preset="features", parameters={"features": FEATURES}, dim=4, hash=definition_hash("observation", definition)
        ),
        "action": CardAction(preset="log-window", dim=1, hash=definition_hash("action", "log-window")),
        "layers": (Layer(units=experts, activation="linear"),),
        "gate": gate,
        "normaliser": True,
        "training_range": TrainingRange(scenario=f"worlds-{seed}", base_rtt_ms=(10.0 * seed, 100.0 * seed)),
        **changes,
    }
    rng = np.random.default_rng(seed)
    shapes = {
        "layers.0.weight": (experts, 3),
        "layers.0.bias": (experts,),
        "gate.0.weight": (units, len(inputs)),
        "gate.0.bias": (units,),
        "gate.1.weight": (experts, units),
        "gate.1.bias": (experts,),
    }
    weights = {name: rng.normal(scale=0.5, size=shape).astype(np.float32) for name, shape in shapes.items()}
    weights["normaliser.mean"] = rng.normal(scale=0.3, size=4).astype(np.float32)
    weights["normaliser.std"] = rng.uniform(0.5, 1.5, 4).astype(np.float32)
    return card(**values), weights


@pytest.fixture
def short(tmp_path: Path) -> Path:
    return checkpoint.save(tmp_path / "short", *mixture(1, experts=3, units=4, inputs=(0, 3)))


@pytest.fixture
def long(tmp_path: Path) -> Path:
    made = mixture(6, experts=2, units=5, inputs=(3, 1), interval_ms=20.0, interval_rtts=0.2, interval_least_ms=30.0)
    return checkpoint.save(tmp_path / "long", *made)


def observations(low: float, high: float) -> np.ndarray:
    """Random values of the four features, then of the one that selects."""
    rng = np.random.default_rng(5)
    return np.column_stack([rng.uniform(0, 1, (500, 4)), rng.uniform(low, high, 500)]).astype(np.float32)


def test_it_acts_as_one_policy_below_a_minimum_rtt_and_as_the_other_above(short, long, tmp_path) -> None:
    made = checkpoint.load(joined(short, long, tmp_path / "joined", above_ms=350.0))
    one, other = checkpoint.load(short).policy, checkpoint.load(long).policy
    below, above = observations(-1.6, LOG_350_MS - 0.25), observations(LOG_350_MS + 0.25, 4.0)
    shorter, longer = one.act(below[:, :4].copy()), other.act(above[:, :4].copy())
    assert np.abs(shorter - longer).mean() > 0.1, "the two differ for equal features"
    assert np.allclose(made.policy.act(below), shorter, rtol=0, atol=1e-6)
    assert np.allclose(made.policy.act(above), longer, rtol=0, atol=1e-5)


def test_its_card_says_where_both_parts_come_from(short, long, tmp_path) -> None:
    made = checkpoint.read_card(joined(short, long, tmp_path / "joined", above_ms=350.0))
    assert made.interval == (20.0, 0.2, 30.0), "that of the policy for long paths"
    assert [layer.units for layer in made.gate.layers] == [4 + 5 + 1, 3 + 2]
    assert made.gate.inputs == (0, 3, 1, 4)
    assert made.observation.dim == 5
    assert made.observation.parameters["features"][4] == {"name": "min-rtt", "window_s": 30.0}
    assert made.training_range.base_rtt_ms == (10.0, 600.0)
    assert made.training_range.scenario == "worlds-1 and worlds-6"
    origin = made.scores["joined"]
    assert origin["above_ms"] == 350.0
    assert origin["weights_sha256"] == checkpoint.read_card(long).weights_sha256


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"interval_least_ms": 20.0}, "interval for short RTTs"),
        ({"clip": 5.0}, "clip"),
        ({"squash": "tanh"}, "squash"),
        ({"action": CardAction(preset="astraea", dim=1, hash=definition_hash("action", "astraea"))}, "action"),
    ],
)
def test_policies_that_differ_in_a_part_are_refused(short, tmp_path, changes, part) -> None:
    settings = {"interval_rtts": 0.2, "interval_least_ms": 30.0, **changes}
    long = checkpoint.save(tmp_path / "long", *mixture(2, experts=2, units=5, inputs=(0, 3), **settings))
    with pytest.raises(OrbitccError, match=f"long.*the {part} of test"):
        joined(short, long, tmp_path / "joined", above_ms=350.0)
    assert not (tmp_path / "joined").exists()


def test_what_cannot_be_joined_is_refused(short, long, tmp_path) -> None:
    dense = checkpoint.save(tmp_path / "dense", card(), tensors())
    with pytest.raises(OrbitccError, match=r"short.*a mixture of linear experts"):
        joined(dense, long, tmp_path / "joined", above_ms=350.0)
    with pytest.raises(OrbitccError, match=r"above_ms"):
        joined(short, long, tmp_path / "joined", above_ms=float("nan"))
    with pytest.raises(OrbitccError, match=r"out.*does not exist yet"):
        joined(short, long, short, above_ms=350.0)


def test_the_command_joins_two_policies(short, long, tmp_path) -> None:
    done = called("policy", "join", str(short), str(long), "--above-ms", "350", "--out", str(tmp_path / "joined"))
    assert done.returncode == 0, done.stderr
    assert checkpoint.load(tmp_path / "joined").card.gate.inputs == (0, 3, 1, 4)
    again = called("policy", "join", str(short), str(long), "--above-ms", "350", "--out", str(tmp_path / "joined"))
    assert again.returncode == 2
