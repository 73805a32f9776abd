"""The examples run."""

from pathlib import Path
from types import ModuleType

import pytest

from tests import modules

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def load(name: str) -> ModuleType:
    return modules.load(EXAMPLES / f"{name}.py")


def test_custom_reward_is_a_share_of_the_best() -> None:
    assert 0.0 < load("custom_reward").main(worlds=4, steps=60) < 1.0


def test_many_agents_all_get_something() -> None:
    goodput = load("many_agents").main(duration_s=4.0)
    assert set(goodput) == {"flow_0", "flow_1"}
    assert min(goodput.values()) > 0


def test_the_python_controller_shares_a_link_with_reno() -> None:
    """1448/1514 of the rate is there for both; a fair share is 0.48 of it."""
    assert 0.35 < load("aimd_controller").main(rival="reno", duration_s=60) < 0.65


@pytest.mark.slow
def test_ppo_on_flows_learns() -> None:
    """Half a million decisions, the example's own number, are enough to earn more than at the start."""
    pytest.importorskip("torch")
    example = load("ppo_flows")
    history = example.train(example.Args(total_steps=500_000))
    assert sum(history[-2:]) / 2 > history[0] + 0.006
