"""Deploying needs root and BPF: its tests are skipped with the doctor's own line."""

import os

import pytest

from orbitcc.agents import checkpoint, deployment
from orbitcc.agents.model_card import CardAction
from orbitcc.emulator import needs
from orbitcc.envs.environments.presets import definition_hash

NAME = f"t{os.getpid():x}"
"""That no other process of tests uses."""


@pytest.fixture
def machine():
    """A machine that takes policies and emulates links; what a test deploys is removed."""
    lacks = needs.missing("deploy") or needs.missing("flows")
    if lacks:
        pytest.skip(lacks)
    yield
    if NAME in {row["name"] for row in deployment.deployed()}:
        deployment.undeploy(NAME)


@pytest.fixture
def name():
    return NAME


@pytest.fixture
def perigee(machine, name):
    """The shipped policy, deployed under `name`."""
    deploy(name)


def deploy(name, safety_filter=None, policy="perigee"):
    """Deploy a shipped policy under this name."""
    deployment.deploy(name, deployment.make_object(checkpoint.load(policy), name, safety_filter))


def write_constant(folder, recovery):
    """Write a policy that never moves its window, and whose window is held or left to the kernel in recoveries."""
    perigee = checkpoint.load("perigee")
    action = CardAction(
        preset="log-window",
        parameters={"recovery": recovery},
        dim=1,
        hash=definition_hash("action", {"name": "log-window", "recovery": recovery}),
    )
    tensors = {name: tensor * 0 for name, tensor in checkpoint.read_tensors(perigee.path).items()}
    tensors["normaliser.std"] += 1
    return checkpoint.save(folder, perigee.card.model_copy(update={"action": action}), tensors)


def row(name):
    """The counters of a deployed policy."""
    return next(row for row in deployment.deployed() if row["name"] == name)
