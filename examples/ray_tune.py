"""Hyper-parameters of a recipe with Ray Tune: every trial is a training run of `orbitcc train`'s own loop.

Run: python examples/ray_tune.py
"""

from pathlib import Path
from typing import Any

from ray import tune

from orbitcc.training import recipe
from orbitcc.training.loop import new_run, train

SPACE = {"learner.lr": tune.loguniform(1e-4, 3e-3), "learner.clip": tune.uniform(0.1, 0.3), "agent_steps": 300_000}


def trial(config: dict[str, Any], runs: Path = Path("runs")) -> dict[str, float]:
    """Train once with these values; the score of `best/`."""
    plan = recipe.load("ppo-leo", [f"{key}={value}" for key, value in config.items()])
    run = new_run(plan, 1, runs, "ray tune")
    return {"score": train(plan, 1, run, resume=False, command="ray tune").best_score}


def main(samples: int = 8, space: dict[str, Any] = SPACE) -> dict[str, Any]:
    """The best values of so many."""
    runs = Path("runs").absolute()  # trials work in folders of their own
    search = tune.TuneConfig(metric="score", mode="max", num_samples=samples)
    tuner = tune.Tuner(tune.with_parameters(trial, runs=runs), param_space=space, tune_config=search)
    best: dict[str, Any] = tuner.fit().get_best_result().config
    return best


if __name__ == "__main__":
    print(main())
