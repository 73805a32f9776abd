"""The example of Ray Tune: its trial is a training run like any other."""

from pathlib import Path

import pytest

from tests import modules

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_a_trial_trains_with_the_values_it_is_given(tmp_path):
    pytest.importorskip("torch")
    pytest.importorskip("ray.tune")
    example = modules.load(ROOT / "examples" / "ray_tune.py")
    small = {"agent_steps": 256, "learner.flows": 8, "learner.batch": 128, "learner.minibatch": 64, "learner.epochs": 1}
    small |= {"evaluation.worlds": 1, "evaluation.every": 256, "network.hidden": [4]}
    assert set(example.SPACE) == {"learner.lr", "learner.clip", "agent_steps"}
    found = example.trial({**small, "learner.lr": 1e-3, "learner.clip": 0.2}, tmp_path)
    assert set(found) == {"score"}
    (run,) = tmp_path.iterdir()
    assert '"lr": 0.001' in (run / "config.json").read_text(encoding="utf-8")
