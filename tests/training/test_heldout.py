"""Held-out scores: fixed worlds, the same figures whoever drives."""

import numpy as np
import pytest

from orbitcc.agents import checkpoint
from orbitcc.training.heldout import HeldOut, constant, jain, uniform


@pytest.fixture(scope="module")
def heldout() -> HeldOut:
    return HeldOut("train-leo", "astraea", worlds=3, seed=77)


def test_scores_are_reproducible(heldout: HeldOut) -> None:
    again = HeldOut("train-leo", "astraea", worlds=3, seed=77)
    assert heldout.rollout(constant(0.2)) == again.rollout(constant(0.2))
    assert heldout.rollout(uniform(1)) == again.rollout(uniform(1))


def test_a_policy_scores_the_same_natively_and_step_by_step(heldout: HeldOut) -> None:
    policy = checkpoint.load(checkpoint.shipped()[0]).policy
    stepped = heldout.rollout(policy.act)
    native = heldout.run({"name": "policy", "params": {"policy": "p"}}, {"p": policy})
    for key in ("utilisation", "queue_delay_ms", "loss"):
        assert native[key] == stepped[key]
    assert native["jain"] == pytest.approx(stepped["jain"], abs=0.05)  # windows of 33 decisions, of 1 s


def test_cubic_fills_the_links(heldout: HeldOut) -> None:
    scores = heldout.run({"name": "cubic", "params": {}})
    assert 0.4 < scores["utilisation"] <= 1.0
    assert 0.0 <= scores["loss"] < 0.2


def test_jain_counts_windows_with_two_flows_or_more() -> None:
    goodput = np.array([[1.0, 1.0, 0.0], [3.0, 1.0, 9.0], [5.0, 0.0, 0.0]])
    present = np.array([[True, True, False], [True, True, False], [True, False, False]])
    assert jain(goodput, present) == pytest.approx((1.0 + 16 / 20) / 2)
    assert np.isnan(jain(goodput[2:], present[2:]))


def test_the_shipped_policy_beats_random_and_constant_policies() -> None:
    name = checkpoint.shipped()[0]
    card = checkpoint.read_card(checkpoint.SHIPPED / name)
    worlds = HeldOut(card.envelope.scenario, card.observation.preset, worlds=6, seed=2_000_000)
    ours = worlds.rollout(checkpoint.load(name).policy.act)["reward"]
    others = [constant(value) for value in (-1.0, 0.0, 0.1, 1.0)] + [uniform(1)]
    assert ours > max(worlds.rollout(other)["reward"] for other in others)
