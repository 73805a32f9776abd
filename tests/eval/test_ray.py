"""Runs on a Ray cluster: those of this machine, whatever becomes of nodes; and never on somebody else's."""

import json
import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

pytest.importorskip("ray")

from orbitcc.envs.errors import OrbitccError
from orbitcc.eval import cluster, contenders, suites
from orbitcc.eval import results as store
from orbitcc.eval.runner import run_suite

ROOT = Path(__file__).parents[2]


def run(out, runs=2, **options):
    line_up = contenders.line_up(["cubic", "bbr3"], [])
    return run_suite(suites.get("rate-step"), line_up, out_dir=out, runs=runs, quiet=True, **options)


def rows(folder):
    """The stored rows without the time that each took, sorted."""
    found = [json.loads(line) for line in (folder / "runs.jsonl").read_text().splitlines()]
    return sorted(json.dumps({key: value for key, value in row.items() if key != "elapsed_s"}) for row in found)


def workers(node):
    """The processes of a node's workers that run a task."""
    raylet = node.all_processes["raylet"][0].process.pid
    listed = subprocess.run(
        ["ps", "--ppid", str(raylet), "-o", "pid=,args="], capture_output=True, text=True, check=False
    ).stdout
    return [int(line.split()[0]) for line in listed.splitlines() if "ray::call" in line]


def test_a_cluster_that_does_not_answer_is_refused_at_once(tmp_path):
    for address in ("127.0.0.1:1", "nonsense", "host:port"):
        with pytest.raises(OrbitccError, match="ray: .* is not allowed; allowed: HOST:PORT"):
            run(tmp_path / "out", ray=address)
        assert not (tmp_path / "out").exists()


def test_the_entry_of_a_cluster_that_was_killed_is_not_followed(ray_folder, monkeypatch):
    (ray_folder / "ray").mkdir()
    (ray_folder / "ray" / "ray_current_cluster").write_text("127.0.0.1:1")
    assert cluster.find("auto") == cluster.LOCAL
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")  # this one was named
    with pytest.raises(OrbitccError, match="127.0.0.1:1"):
        cluster.find("auto")


@pytest.mark.slow
def test_a_local_start_ignores_the_entry_of_a_killed_cluster(ray_folder):
    import ray

    (ray_folder / "ray").mkdir()
    (ray_folder / "ray" / "ray_current_cluster").write_text("127.0.0.1:1")
    assert cluster.start(cpus=1)
    try:
        assert not cluster.start(cpus=1)
        assert cluster.ordered(eval, ["1 + 1", "2 + 2"], str) == [2, 4]
        with pytest.raises(ZeroDivisionError):
            cluster.ordered(eval, ["1 / 0"], str)
    finally:
        ray.shutdown()


@pytest.mark.slow
def test_beside_a_running_cluster_training_keeps_to_itself(ray_nodes, tmp_path):
    import ray

    assert cluster.find("auto") == ray_nodes.address
    small = ["agent_steps=256", "ppo.flows=8", "ppo.batch=128", "ppo.minibatch=64", "ppo.epochs=1"]
    small += ["evaluation.worlds=1", "evaluation.every=256", "network.hidden=[4]"]
    changes = [word for change in small for word in ("--set", change)]
    command = [sys.executable, "-m", "orbitcc.cli", "train", "rllib-ppo-leo", *changes, "--out", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    ray.init(address=ray_nodes.address, log_to_driver=False)
    try:
        assert len(ray._private.state.state.job_table()) == 1  # this test's own
    finally:
        ray.shutdown()


@pytest.mark.slow
@pytest.mark.parametrize("event", ["a worker dies", "a node joins and another dies"])
def test_rows_are_those_of_one_machine(ray_nodes, tmp_path, monkeypatch, event):
    run(tmp_path / "here", runs=15, workers=1)
    append, order = store.append, []

    def watched(file, row):
        append(file, row)
        order.append(row)
        if len(order) != 5:
            return
        (node,) = ray_nodes.worker_nodes
        if event == "a worker dies":
            while not (found := workers(node)):
                time.sleep(0.01)
            os.kill(found[0], 9)
        else:
            ray_nodes.add_node(num_cpus=1)
            ray_nodes.remove_node(node, allow_graceful=False)

    monkeypatch.setattr(store, "append", watched)
    there = run(tmp_path / "there", runs=15, ray=ray_nodes.address)
    assert len(rows(tmp_path / "there")) == 30
    assert rows(tmp_path / "there") == rows(tmp_path / "here")
    assert (tmp_path / "here" / "runs.csv").read_bytes() == (tmp_path / "there" / "runs.csv").read_bytes()
    assert there.recordings().keys() == {"cubic", "bbr3"}  # written here, whichever node made them


@pytest.mark.slow
def test_a_task_that_kills_every_worker_is_named_and_the_others_finish(ray_folder):
    with cluster.joined(cluster.LOCAL, 2):
        found = cluster.tasks(eval, ["1", "__import__('os')._exit(1)", "2", "3"], str)
        finished = [next(found) for _ in range(3)]
        with pytest.raises(OrbitccError, match="ray: 1 of 4 failed in 4 tries each") as caught:
            next(found)
    assert Counter(finished) == Counter([(0, 1), (2, 2), (3, 3)])
    assert "_exit(1) (" in str(caught.value)
    assert "\n" not in str(caught.value)
