"""The example of Ray Tune: its trial is a training run like any other."""

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_a_trial_trains_with_the_values_it_is_given(tmp_path):
    pytest.importorskip("torch")
    pytest.importorskip("ray.tune")
    spec = importlib.util.spec_from_file_location("ray_tune_example", ROOT / "examples" / "ray_tune.py")
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    small = {"agent_steps": 256, "ppo.flows": 8, "ppo.batch": 128, "ppo.minibatch": 64, "ppo.epochs": 1}
    small |= {"evaluation.worlds": 1, "evaluation.every": 256, "network.hidden": [4]}
    assert set(example.SPACE) == {"ppo.lr", "ppo.clip", "agent_steps"}
    found = example.trial({**small, "ppo.lr": 1e-3, "ppo.clip": 0.2}, tmp_path)
    assert set(found) == {"score"}
    (run,) = tmp_path.iterdir()
    assert '"lr": 0.001' in (run / "config.json").read_text(encoding="utf-8")
