"""Held-out scores: fixed worlds, the same figures whoever drives."""

import numpy as np
import pytest

from orbitcc.agents import checkpoint
from orbitcc.training.heldout import HeldOut, constant, jain, uniform
from orbitcc.training.logbook import SCORES


@pytest.fixture(scope="module")
def heldout() -> HeldOut:
    return HeldOut("train-leo", "astraea", worlds=3, seed=77)


def test_scores_are_reproducible(heldout: HeldOut) -> None:
    again = HeldOut("train-leo", "astraea", worlds=3, seed=77)
    assert heldout.reward(constant(0.2)) == again.reward(constant(0.2))
    assert heldout.reward(uniform(1)) == again.reward(uniform(1))
    cubic = {"name": "cubic", "params": {}}
    assert heldout.run(cubic) == again.run(cubic)


def test_a_policy_has_every_score(heldout: HeldOut) -> None:
    scores = heldout.score(checkpoint.load(checkpoint.shipped()[0]).policy)
    assert set(scores) == set(SCORES)
    assert all(np.isfinite(list(scores.values())))


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
    ours = worlds.reward(checkpoint.load(name).policy.act)
    others = [constant(value) for value in (-1.0, 0.0, 0.1)] + [uniform(1)]
    assert ours > max(worlds.reward(other) for other in others)
