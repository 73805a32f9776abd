"""A Ray of this machine alone: results in order, errors, lost tasks."""

import shutil
import tempfile
from collections import Counter
from pathlib import Path

import pytest

pytest.importorskip("ray")

from orbitcc.envs.errors import OrbitccError
from orbitcc.eval import cluster, contenders
from orbitcc.eval import search as searching

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


def test_tasks_give_their_results_in_order_and_raise_their_errors(local_ray):
    assert not cluster.start(cpus=1)
    assert cluster.ordered(eval, ["1 + 1", "2 + 2", "3 + 3"], str) == [2, 4, 6]
    with pytest.raises(ZeroDivisionError):
        cluster.ordered(eval, ["1 / 0"], str)


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
        asked = searching.Search(target, against, "utilisation", space, 8, tmp_path / name, 1)
        return searching.run_search(asked, quiet=True, **how)

    assert found("here", workers=1) == found("there", ray="local")
