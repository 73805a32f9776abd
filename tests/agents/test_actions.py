"""Copies of a checkpoint whose action has other parameters."""

import numpy as np
import pytest

from orbitcc.agents import checkpoint
from orbitcc.agents.actions import with_parameters
from orbitcc.common.errors import OrbitccError
from orbitcc.eval.contenders import from_policy
from tests.agents.test_checkpoint import card, tensors
from tests.agents.test_safety_filter import constant, recorded
from tests.commands.shell import called


def test_the_copy_acts_with_the_parameter(tmp_path) -> None:
    plain = checkpoint.save(tmp_path / "plain", card(), constant(-1.0))
    changed = with_parameters(plain, tmp_path / "changed", {"floor_packets": 20}, name="higher")
    assert checkpoint.load(changed).card.name == "higher"
    smallest = {folder: recorded(folder)[0].flows["cwnd_packets"][100:, 0] for folder in (plain, changed)}
    assert np.all(smallest[plain] == 4), "a policy that always shrinks its window stands at the smallest one"
    assert np.all(smallest[changed] == 20)


def test_the_copy_decides_at_other_times(tmp_path) -> None:
    plain = checkpoint.save(tmp_path / "plain", card(), constant(-1.0))
    rarer = with_parameters(plain, tmp_path / "rarer", {}, interval_rtts=0.5)
    assert checkpoint.load(plain).card.interval == (30.0, 0.0, 1.0)
    assert checkpoint.load(rarer).card.interval == (30.0, 0.5, 30.0), "a fixed interval becomes the shortest one"
    again = with_parameters(rarer, tmp_path / "again", {}, interval_rtts=0.2)
    assert checkpoint.load(again).card.interval == (30.0, 0.2, 30.0)
    assert len({from_policy(str(folder)).digest for folder in (plain, rarer, again)}) == 3, "results are not mixed up"
    wrong = called("policy", "action", str(plain), "--interval-rtts", "-1", "--out", str(tmp_path / "wrong"))
    assert wrong.returncode == 2
    assert "--interval-rtts: -1.0 is not allowed; allowed: a number of RTTs in 0 .. 100" in wrong.stderr


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"occupancy_range": 7}, r"action\.occupancy_range: 7 is not allowed; allowed: a number in 0 \.\. 2"),
        ({"ocupancy_range": 0.1}, r"action\.ocupancy_range: .* occupancy_range"),
    ],
)
def test_what_the_action_does_not_take_is_refused(changes, message, tmp_path) -> None:
    plain = checkpoint.save(tmp_path / "plain", card(), tensors())
    with pytest.raises(OrbitccError, match=message):
        with_parameters(plain, tmp_path / "changed", changes)
    assert not (tmp_path / "changed").exists()
    with pytest.raises(OrbitccError, match="a folder that does not exist yet"):
        with_parameters(plain, tmp_path, {})


def test_a_policy_cannot_act_by_what_only_the_simulator_knows(tmp_path) -> None:
    plain = checkpoint.save(tmp_path / "plain", card(), tensors())
    changes = ("--set", 'cap_of="true"', "--set", "cap_bdp=1")
    made = called("policy", "action", str(plain), *changes, "--out", str(tmp_path / "x"))
    assert made.returncode == 2
    assert "cap_of = true, a bound of the true BDP" in made.stderr
    assert not (tmp_path / "x").exists()


def test_the_command_writes_such_a_copy(tmp_path) -> None:
    plain = checkpoint.save(tmp_path / "plain", card(), tensors())
    called("policy", "action", str(plain), "--set", "occupancy_range=0.1", "--out", str(tmp_path / "changed"))
    assert checkpoint.load(tmp_path / "changed").card.action.parameters == {"occupancy_range": 0.1}
    wrong = called("policy", "action", str(plain), "--set", "step", "--out", str(tmp_path / "wrong"))
    assert "--set: 'step' is not allowed; allowed: KEY=VALUE" in wrong.stderr
    nothing = called("policy", "action", str(plain), "--out", str(tmp_path / "same"))
    assert "allowed: KEY=VALUE, or --interval-rtts" in " ".join(nothing.stderr.split())
