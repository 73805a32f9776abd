"""Checkpoints: what is saved is what acts; what is broken is refused with one clear error."""

import json
import shutil
import subprocess
import sys

import numpy as np
import pytest

from orbitcc.agents import checkpoint
from orbitcc.agents.model_card import CardAction, CardObservation, Layer, ModelCard, Training, TrainingRange
from orbitcc.common.errors import OrbitccError
from orbitcc.envs.backends.simulator import simulate
from orbitcc.envs.description.scenario import Flow
from orbitcc.envs.environments.presets import definition_hash, preset
from orbitcc.envs.scenarios import get


def card(**changes) -> ModelCard:
    values = {
        "name": "test",
        "description": "a test",
        "observation": CardObservation(preset="astraea", dim=50, hash=definition_hash("observation", "astraea")),
        "action": CardAction(preset="astraea", dim=1, hash=definition_hash("action", "astraea")),
        "interval_ms": 30.0,
        "layers": (Layer(units=8, activation="tanh"), Layer(units=1, activation="linear")),
        "training_range": TrainingRange(scenario="dumbbell"),
        "training": Training(
            recipe="none",
            command="none",
            seed=1,
            revision="none",
            agent_steps=0,
            simulated_hours=0.0,
            wall_minutes=0.0,
            versions={},
        ),
    }
    return ModelCard(**{**values, **changes})


def tensors(seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    shapes = {"layers.0.weight": (8, 50), "layers.0.bias": (8,), "layers.1.weight": (1, 8), "layers.1.bias": (1,)}
    return {name: (0.3 * rng.standard_normal(shape)).astype(np.float32) for name, shape in shapes.items()}


def reference(weights: dict[str, np.ndarray], obs: np.ndarray) -> np.ndarray:
    hidden = np.tanh(obs.astype(np.float64) @ weights["layers.0.weight"].T + weights["layers.0.bias"])
    return np.clip(hidden @ weights["layers.1.weight"].T + weights["layers.1.bias"], -1, 1)


@pytest.fixture
def saved(tmp_path):
    return checkpoint.save(tmp_path / "policy", card(), tensors())


def test_a_saved_policy_acts_as_its_weights_say(saved) -> None:
    obs = np.random.default_rng(1).uniform(0, 2, (20, 50)).astype(np.float32)
    loaded = checkpoint.load(saved)
    assert loaded.card.model_copy(update={"weights_sha256": "", "digest": ""}) == card()
    assert np.allclose(loaded.policy.act(obs), reference(tensors(), obs), atol=1e-5)


def test_layer_norm_and_normaliser_are_applied(tmp_path) -> None:
    layers = (Layer(units=8, activation="leaky_relu", norm="layer"), Layer(units=1, activation="linear"))
    rng = np.random.default_rng(3)
    weights = tensors() | {
        "layers.0.norm.scale": rng.uniform(0.5, 1.5, 8).astype(np.float32),
        "layers.0.norm.shift": rng.standard_normal(8).astype(np.float32),
        "normaliser.mean": rng.uniform(0, 1, 50).astype(np.float32),
        "normaliser.std": rng.uniform(0.5, 1, 50).astype(np.float32),
    }
    path = checkpoint.save(tmp_path / "p", card(layers=layers, normaliser=True, clip=2.0, squash="tanh"), weights)
    obs = rng.uniform(0, 2, (20, 50)).astype(np.float32)
    x = np.clip((obs - weights["normaliser.mean"]) / weights["normaliser.std"], -2, 2)
    x = x @ weights["layers.0.weight"].T + weights["layers.0.bias"]
    x = (x - x.mean(axis=1, keepdims=True)) / np.sqrt(x.var(axis=1, keepdims=True) + 1e-5)
    x = x * weights["layers.0.norm.scale"] + weights["layers.0.norm.shift"]
    x = np.where(x >= 0, x, 0.2 * x)
    expected = np.tanh(x @ weights["layers.1.weight"].T + weights["layers.1.bias"])
    assert np.allclose(checkpoint.load(path).policy.act(obs), expected, atol=1e-5)


def test_saving_again_replaces_the_policy_and_keeps_other_files(saved) -> None:
    (saved / "README.md").write_text("mine")
    obs = np.ones((1, 50), np.float32)
    before = checkpoint.load(saved).policy.act(obs)
    checkpoint.save(saved, card(description="newer"), tensors(9))
    assert checkpoint.load(saved).card.description == "newer"
    assert not np.allclose(checkpoint.load(saved).policy.act(obs), before)
    assert (saved / "README.md").read_text(encoding="utf-8") == "mine"
    assert [path.name for path in saved.parent.iterdir()] == ["policy"]


def test_a_truncated_file_is_refused(saved) -> None:
    weights = saved / "policy.safetensors"
    weights.write_bytes(weights.read_bytes()[:-40])
    with pytest.raises(OrbitccError, match=r"policy\.safetensors: is truncated"):
        checkpoint.load(saved)


def test_a_foreign_file_is_refused(saved) -> None:
    (saved / "policy.safetensors").write_bytes(b"\x80\x04\x95 a pickle")
    with pytest.raises(OrbitccError, match="another file"):
        checkpoint.load(saved)
    with pytest.raises(OrbitccError, match="not a safetensors file"):
        checkpoint.seal(saved)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: "not json", "is not a model card"),
        (lambda text: text.replace('"interval_ms": 30.0', '"interval_ms": -1'), "interval_ms"),
        (lambda text: text.replace('"interval_ms": 30.0', '"interval_ms": 1e15'), "interval_ms"),
        (lambda text: text.replace('"clip": 10.0', '"clip": Infinity'), "clip"),
        (lambda text: text.replace('"clip": 10.0', '"clip": 1e-300'), "clip"),
        (lambda text: text.replace('"schema_version": 1', '"schema_version": 2'), "schema_version"),
        (lambda text: text.replace('"units": 8', '"units": 9'), "has shape"),
        (
            lambda text: text.replace(definition_hash("observation", "astraea"), "0" * 16),
            "another definition of the obs",
        ),
        (lambda text: text.replace(definition_hash("action", "astraea"), "0" * 16), "another definition of the action"),
        (lambda text: text.replace('"preset": "astraea"', '"preset": "unheard-of"'), "unheard-of"),
        (lambda text: text.replace('"description"', '"descriptio"'), "descriptio"),
    ],
)
def test_a_card_that_does_not_fit_is_refused(saved, change, message: str) -> None:
    path = saved / "card.json"
    text = change(path.read_text(encoding="utf-8"))
    assert text != path.read_text(encoding="utf-8")
    path.write_text(text)
    with pytest.raises(OrbitccError, match=f"{message}|its digest does not fit"):
        checkpoint.load(saved)
    with pytest.raises(OrbitccError, match=message):
        checkpoint.load(checkpoint.seal(saved).parent)


def test_missing_surplus_and_unfit_tensors_are_refused(tmp_path) -> None:
    good = tensors()
    bad = {
        "missing": {name: value for name, value in good.items() if name != "layers.1.bias"},
        "not in the card": good | {"layers.9.bias": np.zeros(1, np.float32)},
        "NaN": good | {"layers.1.bias": np.full(1, np.nan, np.float32)},
        "float64": good | {"layers.1.bias": np.zeros(1)},
    }
    for message, weights in bad.items():
        with pytest.raises(OrbitccError, match=message):
            checkpoint.save(tmp_path / "policy", card(), weights)
        assert list(tmp_path.iterdir()) == []


def test_a_missing_folder_or_half_a_checkpoint_is_refused(saved, tmp_path) -> None:
    with pytest.raises(OrbitccError, match="does not exist"):
        checkpoint.load(tmp_path / "nowhere")
    shutil.rmtree(saved)
    saved.mkdir()
    with pytest.raises(OrbitccError, match=r"card\.json"):
        checkpoint.load(saved)
    (saved / "card.json").write_text(card().model_dump_json())
    with pytest.raises(OrbitccError, match=r"card\.json"):
        checkpoint.load(saved)
    with pytest.raises(OrbitccError, match=r"policy\.safetensors"):
        checkpoint.seal(saved)


def test_a_file_is_named_wherever_the_error_surfaces(saved) -> None:
    (saved / "policy.safetensors").write_bytes(b"")
    with pytest.raises(OrbitccError, match=r"policy\.safetensors: is truncated"):
        simulate(get("dumbbell").with_flows([Flow(controller=f"policy:path={saved}")]))


def test_no_name_is_not_the_folder_one_stands_in(saved, monkeypatch) -> None:
    monkeypatch.chdir(saved)
    with pytest.raises(OrbitccError, match="unknown policy ''"):
        checkpoint.load("")


def test_an_unknown_name_suggests_a_shipped_one() -> None:
    names = checkpoint.shipped()
    assert names
    with pytest.raises(OrbitccError, match=f"did you mean '{names[0]}'"):
        checkpoint.load(names[0] + "x")


def test_every_shipped_checkpoint_loads_is_small_and_tells_its_story() -> None:
    for name in checkpoint.shipped():
        loaded = checkpoint.load(name)
        folder = checkpoint.SHIPPED / name
        assert loaded.card.name == name
        assert loaded.card.training.command.startswith("orbitcc train ")
        heldout = loaded.card.scores["heldout"]
        assert heldout["starved"] < 0.1
        assert "held-out worlds" in loaded.card.scores["selection"]
        assert sum(path.stat().st_size for path in folder.iterdir()) < 1_000_000
        assert (folder / "README.md").is_file()


@pytest.mark.parametrize("name", ["apogee", "astraea", "perigee", "zenith", "zenith-rllib"])
def test_no_shipped_policy_floods_a_tenth_of_the_seconds(name: str) -> None:
    assert checkpoint.load(name).card.scores["heldout"]["flooded"] < 0.1


def test_loading_a_policy_imports_neither_torch_nor_ray() -> None:
    code = (
        "import sys, orbitcc; from orbitcc.agents import checkpoint; "
        "[checkpoint.load(name) for name in checkpoint.shipped()]; "
        "assert not {'torch', 'ray', 'tensorboard'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_cards_are_plain_json(saved) -> None:
    assert json.loads((saved / "card.json").read_text(encoding="utf-8"))["schema_version"] == 1


@pytest.mark.parametrize("name", ["orca", "aurora"])
def test_checkpoints_of_other_presets_run_with_their_own_interval(name: str, tmp_path) -> None:
    functions = preset(name)
    (dim,) = functions.observation_space().shape
    weights = {
        "layers.0.weight": np.zeros((8, dim), np.float32),
        "layers.0.bias": np.ones(8, np.float32),
        "layers.1.weight": np.full((1, 8), 0.01, np.float32),
        "layers.1.bias": np.full(1, 0.3, np.float32),
    }
    folder = checkpoint.save(
        tmp_path / name,
        card(
            observation=CardObservation(preset=name, dim=dim, hash=definition_hash("observation", name)),
            action=CardAction(preset=name, dim=1, hash=definition_hash("action", name)),
            interval_ms=functions.interval_ms,
            interval_rtts=functions.interval_rtts,
        ),
        weights,
    )
    assert checkpoint.read_card(folder).interval_rtts == (0.5 if name == "aurora" else 0)
    flows = [Flow.parse(f"policy:path={folder}"), Flow.parse("cubic@2s")]
    run = simulate(get("dumbbell", duration_s=10).with_flows(flows))
    assert run.flow_totals[0]["goodput_mbps"] > 5


def test_the_folder_of_a_run_stands_for_its_best_policy(tmp_path) -> None:
    run = tmp_path / "mine"
    run.mkdir()
    (run / "config.json").write_text("{}")
    with pytest.raises(checkpoint.CheckpointError, match=r"mine/best: does not exist: nothing was evaluated"):
        checkpoint.load(run)
    shutil.copytree(checkpoint.SHIPPED / "perigee", run / "best")
    assert checkpoint.load(run).card.name == "perigee"


def test_numbers_with_which_no_network_works_are_refused(tmp_path) -> None:
    zeros, ones = np.zeros(50, np.float32), np.ones(50, np.float32)
    spread = {"normaliser.mean": zeros, "normaliser.std": np.append(ones[1:], np.float32(0))}
    path = checkpoint.save(tmp_path / "flat", card(normaliser=True), tensors() | spread)
    with pytest.raises(OrbitccError, match=r"policy.safetensors: does not make a network: .* std positive"):
        checkpoint.load(path)
    # Inputs up to 10 x 50 of 3e38 each are 1.5e41 (shown as 2e41), which float32 does not hold.
    usual = {"normaliser.mean": zeros, "normaliser.std": ones}
    large = tensors() | usual | {"layers.0.weight": np.full((8, 50), 3e38, np.float32)}
    path = checkpoint.save(tmp_path / "large", card(normaliser=True, clip=10.0), large)
    with pytest.raises(OrbitccError, match=r"layers\[0\]: weights so large that its outputs can be 2e41"):
        checkpoint.load(path)
