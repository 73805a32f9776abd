"""What all tests share."""

import os
import secrets
import shutil
import tempfile
from pathlib import Path

import numpy as np
import pytest

from tests import skipped

# Networks of tests are small: threads of torch's that wait for each other would cost more than all else.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Libraries and examples that start Ray themselves: never on a cluster that happens to run on this machine.
os.environ["RAY_ADDRESS"] = "local"
os.environ.setdefault("RAY_AUTH_MODE", "token")
os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")  # on the loopback address alone
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")

# Scripts with RLlib, such as the tutorials', write to ~/ray_results.
if not os.access(Path.home(), os.W_OK):
    os.environ["HOME"] = tempfile.mkdtemp(prefix="home")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(terminalreporter):
    """After everything else: what this machine lacked, in one sentence, and the command that helps."""
    done = yield
    reports = terminalreporter.stats.get("skipped", [])
    for line in skipped.sentences((r.nodeid, r.longrepr[2]) for r in reports if isinstance(r.longrepr, tuple)):
        terminalreporter.write_line(line, yellow=True)
    return done


@pytest.fixture
def ray_folder(monkeypatch):
    """Ray's temporary folder, with a short name: sockets lie below it."""
    folder = Path(tempfile.mkdtemp(prefix="r", dir="/tmp"))
    monkeypatch.setenv("RAY_TMPDIR", str(folder))
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def ray_nodes(ray_folder):
    """A cluster: a head without cores, to which drivers connect, and a node of one core.

    Its nodes share this machine but not the folder where Ray installs wheels: two would install into it at once.
    """
    from ray.cluster_utils import Cluster

    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    made.add_node(num_cpus=1, runtime_env_dir_name="second")
    yield made
    made.shutdown()


@pytest.fixture(scope="session", autouse=True)
def own_key(tmp_path_factory):
    """The key that signs the state of runs lies in a folder of the tests, not in the user's."""
    before = os.environ.get("XDG_CONFIG_HOME")
    os.environ["XDG_CONFIG_HOME"] = str(tmp_path_factory.mktemp("config"))
    yield
    if before is None:
        del os.environ["XDG_CONFIG_HOME"]
    else:
        os.environ["XDG_CONFIG_HOME"] = before


@pytest.fixture(scope="session")
def checkpoint_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A policy that always answers 0, `trained` on 10-20 Mbit/s and 1-500 ms."""
    from orbitcc import _sim
    from orbitcc.agents import ModelCard, save
    from orbitcc.envs.environments.presets import definition_hash

    dim = int(_sim.function("observation", '"astraea"')["dim"])
    card = ModelCard.model_validate(
        {
            "name": "idle-policy",
            "description": "never changes its window",
            "observation": {"preset": "astraea", "dim": dim, "hash": definition_hash("observation", "astraea")},
            "action": {"preset": "astraea", "dim": 1, "hash": definition_hash("action", "astraea")},
            "interval_ms": 30.0,
            "layers": [{"units": 1, "activation": "linear"}],
            "training_range": {"scenario": "none", "rate_mbps": (10, 20), "base_rtt_ms": (1, 500)},
            "training": {
                "recipe": "none",
                "command": "none",
                "seed": 0,
                "revision": "none",
                "agent_steps": 0,
                "simulated_hours": 0,
                "wall_minutes": 0,
                "versions": {},
            },
        }
    )
    tensors = {"layers.0.weight": np.zeros((1, dim), np.float32), "layers.0.bias": np.zeros(1, np.float32)}
    return save(tmp_path_factory.mktemp("policy") / "idle", card, tensors)
