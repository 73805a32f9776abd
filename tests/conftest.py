"""What all tests share."""

import os
import shutil
import tempfile
from pathlib import Path

import pytest

# Networks of tests are small: threads of torch's that wait for each other would cost more than all else.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Libraries and examples that start Ray themselves: never on a cluster that happens to run on this machine.
os.environ["RAY_ADDRESS"] = "local"
os.environ.setdefault("RAY_AUTH_MODE", "disabled")
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")


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
    """A cluster: a head without cores, to which drivers connect, and a node of one core."""
    from ray.cluster_utils import Cluster

    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    made.add_node(num_cpus=1)
    yield made
    made.shutdown()
