"""A Ray of this machine alone: results in order, errors, lost tasks."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import pytest

pytest.importorskip("ray")

from orbitcc.common.errors import OrbitccError
from orbitcc.eval import contenders
from orbitcc.eval import search as searching
from orbitcc.parallel import cluster

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def local_ray():
    """Ray on this machine, started beside the entry of a cluster that was killed."""
    import ray

    folder = Path(tempfile.mkdtemp(prefix="r", dir="/tmp"))
    (folder / "ray").mkdir()
    (folder / "ray" / "ray_current_cluster").write_text("127.0.0.1:1")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_TMPDIR", str(folder))
        patch.delenv("RAY_ADDRESS", raising=False)
        assert cluster.start(cpus=2)
        yield
        ray.shutdown()
    shutil.rmtree(folder, ignore_errors=True)


def _listening() -> list[str]:
    """The addresses, as in /proc/net, on which this process and what it started accept connections."""
    text = subprocess.run(["ps", "-eo", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
    parents = [tuple(map(int, line.split())) for line in text.splitlines()]
    ours, found = {os.getpid()}, [os.getpid()]
    while found:
        found = [pid for pid, parent in parents if parent in found and pid not in ours]
        ours |= set(found)
    inodes = {
        os.readlink(file)[8:-1]
        for pid in ours
        for file in Path(f"/proc/{pid}/fd").glob("*")
        if file.is_symlink() and os.readlink(file).startswith("socket:[")
    }
    lines = [line.split() for kind in ("tcp", "tcp6") for line in Path(f"/proc/net/{kind}").read_text().splitlines()]
    return [words[1].partition(":")[0] for words in lines if words[3] == "0A" and words[9] in inodes]


STARTED = """
import json, os, ray
from orbitcc.parallel import cluster
from tests.parallel.test_ray_local import _listening
cluster.start(cpus=1)
assert [value for _, value in sorted(cluster.tasks(eval, ["1 + 1"], str))] == [2]
print(json.dumps([ray.get_runtime_context().gcs_address, os.environ["RAY_AUTH_TOKEN"], _listening()]), flush=True)
input()
"""


@pytest.mark.skipif(
    not Path("/proc/net/tcp").exists(), reason="looks at sockets by Linux's /proc: `.ci/run` on Linux does it"
)
@pytest.mark.parametrize("first", ["", "import ray"])
def test_nothing_listens_beyond_this_machine_and_a_token_is_asked_for(first, ray_folder):
    without = ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER")
    env = {key: value for key, value in os.environ.items() if key not in without}
    started = [sys.executable, "-c", f"{first}\n{STARTED}"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(started, env=env, cwd=Path(__file__).parents[2], **pipes) as running:
        address, token, listening = json.loads(running.stdout.readline())
        assert len(listening) >= 4  # daemon, store of the state, driver, worker
        assert set(listening) <= {"0100007F", "0000000000000000FFFF00000100007F"}  # 127.0.0.1

        def asks(**settings):
            ask = [sys.executable, "-c", cluster._ASK, address]
            return subprocess.run(ask, env={**env, **settings}, capture_output=True, text=True, timeout=90, check=False)

        assert "127.0.0.1" in asks(RAY_AUTH_MODE="token", RAY_AUTH_TOKEN=token).stdout
        for stranger in (asks(RAY_AUTH_MODE="disabled"), asks(RAY_AUTH_MODE="token", RAY_AUTH_TOKEN=64 * "0")):
            assert stranger.returncode != 0
            assert "127.0.0.1" not in stranger.stdout
        running.communicate("\n", timeout=60)
    assert not list(ray_folder.glob("orbitray-*"))


def test_no_other_user_can_enter_the_folder_of_a_session(local_ray):
    from ray._private.worker import _global_node

    session = Path(_global_node.get_session_dir_path())
    private = session.parents[1]
    assert private.stat().st_mode & 0o777 == 0o700
    assert (private.stat().st_uid, private.parent) == (os.getuid(), Path(os.environ["RAY_TMPDIR"]))


def test_tasks_give_their_results_in_order_and_raise_their_errors(local_ray):
    assert not cluster.start(cpus=1)
    assert [value for _, value in sorted(cluster.tasks(eval, ["1 + 1", "2 + 2", "3 + 3"], str))] == [2, 4, 6]
    with pytest.raises(ZeroDivisionError):
        [value for _, value in sorted(cluster.tasks(eval, ["1 / 0"], str))]


def test_a_task_that_kills_every_worker_is_named_and_the_others_finish(local_ray):
    found = cluster.tasks(eval, ["1", "__import__('os')._exit(1)", "2", "3"], str)
    finished = [next(found) for _ in range(3)]
    with pytest.raises(OrbitccError, match="ray: 1 of 4 failed in 4 tries each") as caught:
        next(found)
    assert Counter(finished) == Counter([(0, 1), (2, 2), (3, 3)])
    assert "_exit(1) (" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_search_over_a_cluster_is_that_of_this_machine(local_ray, tmp_path):
    pytest.importorskip("optuna")
    target, against = contenders.line_up(["cubic", "bbr3"], [])

    def found(name, **how):
        space = searching.space_of("train-leo")
        asked = searching.Search(target, (against,), "utilisation", space, 8, tmp_path / name, 1)
        return searching.run_search(asked, quiet=True, **how)

    assert found("here", workers=1) == found("there", ray="local")
