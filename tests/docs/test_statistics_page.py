"""docs/statistics.md: its examples run, and its generated table says when a statistic is NaN or infinite."""

import re
from pathlib import Path

import numpy as np
import pytest

import orbitcc
from orbitcc.envs.environments.presets import STATISTICS
from tests import modules

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def page():
    return modules.load(DOCS / "pages" / "statistics.py")


def test_the_examples_run(capsys):
    text = (DOCS / "statistics.md").read_text(encoding="utf-8")
    made = {}
    for block in re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL):
        exec(block, made)
    (shown,) = re.findall(r"```text\n(.*?)```", text, flags=re.DOTALL)
    assert capsys.readouterr().out.split() == shown.split()
    env = made["env"]
    env.reset(seed=1)
    for _ in range(100):
        _, reward, *_ = env.step(env.action_space.sample())
        assert np.isfinite(reward)


def test_every_statistic_is_a_row(page):
    rows = page.table().splitlines()[2:]
    assert [re.match(r"\| `(\w+)` \|", row)[1] for row in rows] == list(orbitcc.STATS)
    assert all(row.count(" | ") == 4 for row in rows)
    assert set(page.INFINITE) <= set(orbitcc.STATS)


@pytest.mark.parametrize("scenario", ["dumbbell", "train-mixed", "leo-access"])
def test_only_these_are_infinite(page, scenario):
    env = orbitcc.BatchedParallelEnv(2, scenario)
    env.reset(seed=1)
    rng = np.random.default_rng(1)
    columns = [s.name not in page.INFINITE and "NaN" not in s.meaning for s in STATISTICS]
    for _ in range(200):
        env.step(rng.uniform(-1, 1, (2, env.max_agents, 1)).astype(np.float32))
        assert np.isfinite(env.statistics()[..., columns]).all()
