"""Deploying needs root and BPF: its tests are skipped with the doctor's own line."""

import os

import pytest

from orbitcc.agents import checkpoint, deployment
from orbitcc.emulator import needs

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


def row(name):
    """The counters of a deployed policy."""
    return next(row for row in deployment.deployed() if row["name"] == name)
