"""What all tests share."""

import os
import secrets
import shutil
import tempfile
from pathlib import Path

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
