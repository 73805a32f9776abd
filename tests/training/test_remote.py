"""Trainings on a cluster: run folders appear on the driver's disk, whatever becomes of nodes."""

import csv
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("ray.rllib")

from orbitcc.agents import checkpoint
from orbitcc.training import recipe
from orbitcc.training.remote import needed_cores, pack, unpack
from tests.training.named import of

ROOT = Path(__file__).parents[2]
SMALL = (
    "agent_steps=2000", "evaluation.every=500", "evaluation.worlds=1", "learner.flows=8", "learner.batch=250",
    "learner.minibatch=125", "network.hidden=[8]",
)  # fmt: skip
KEPT = {"best", "config", "events", "last", "metrics", "reference", "state"}
LOCALLY = {**os.environ, "PYTHONPATH": str(ROOT)}


def command(folder, *words, changes=SMALL):
    settings = [word for change in changes for word in ("--set", change)]
    return [sys.executable, "-m", "orbitcc.cli", *words, *settings, "--out", str(folder)]


def started(folder, *words, cwd, **options):
    return subprocess.Popen(command(folder, *words, **options), cwd=cwd, env=LOCALLY, stderr=subprocess.PIPE, text=True)


def progress(run):
    try:
        return json.loads((run / "state" / "progress.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {"agent_steps": 0}


def workers(node):
    """The processes of a node that run tasks."""
    raylet = node.all_processes["raylet"][0].process.pid
    words = ["ps", "--ppid", str(raylet), "-o", "pid=,args="]
    listed = subprocess.run(words, capture_output=True, text=True, check=False).stdout
    return [int(line.split()[0]) for line in listed.splitlines() if "ray::call" in line]


def until(happens, seconds=120):
    deadline = time.monotonic() + seconds
    while not (found := happens()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return found


def after_a_kill(driver, nodes, run):
    """What a training says whose worker is killed once this run has saved a decision."""
    try:
        until(lambda: progress(run)["agent_steps"])
        (node,) = nodes.worker_nodes
        os.kill(until(lambda: workers(node))[0], signal.SIGKILL)
        said = driver.communicate(timeout=240)[1]
    finally:
        driver.kill()
    assert driver.returncode == 0, said
    return said


@pytest.mark.parametrize("name", ["rllib-ppo-leo", "rllib-sac-worlds", "rllib-dqn-leo"])
def test_a_seed_needs_a_core_for_each_env_runner_and_one_more(name):
    assert needed_cores(recipe.load(of(name), ["learner.env_runners=3"])) == 4
    assert needed_cores(recipe.load("ppo-leo")) == 1


def test_a_folder_travels_as_a_whole(tmp_path):
    (tmp_path / "there" / "state").mkdir(parents=True)
    (tmp_path / "there" / "state" / "new").write_text("1")
    (tmp_path / "there" / "metrics.csv").write_text("2")
    (tmp_path / "here" / "state").mkdir(parents=True)
    (tmp_path / "here" / "state" / "old").write_text("3")
    (tmp_path / "here" / "notes").write_text("4")
    unpack(pack(tmp_path / "there"), tmp_path / "here")
    found = {str(path.relative_to(tmp_path / "here")): path for path in (tmp_path / "here").rglob("*")}
    assert set(found) == {"state", "state/new", "metrics.csv", "notes"}
    assert found["metrics.csv"].read_text(encoding="utf-8") == "2"
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


@pytest.mark.slow
def test_seeds_on_a_node_that_loses_its_worker_are_those_of_this_machine(ray_nodes, tmp_path):
    longer = ["agent_steps=20_000", *SMALL[1:]]  # so that the first save is not the last
    words = ["train", "ppo-leo", "--seed", "1", "2", "--name"]
    done = subprocess.run(
        command("runs", *words, "here", "--jobs", "2", changes=longer), cwd=tmp_path, env=LOCALLY, check=False
    )
    assert done.returncode == 0
    # A folder that the node, started elsewhere, cannot resolve
    driver = started("runs", *words, "there", "--ray", ray_nodes.address, cwd=tmp_path, changes=longer)
    said = after_a_kill(driver, ray_nodes, tmp_path / "runs" / "there-1")
    assert "seed 1: its node or process died; it continues again" in said
    assert progress(tmp_path / "runs" / "there-1")["restarts"] == 1
    for seed in (1, 2):
        here, there = (tmp_path / "runs" / f"{name}-{seed}" for name in ("here", "there"))
        assert [{path.name.split(".")[0] for path in run.iterdir()} for run in (here, there)] == [KEPT, KEPT]
        for kept in ("best", "last"):
            assert (here / kept / checkpoint.WEIGHTS).read_bytes() == (there / kept / checkpoint.WEIGHTS).read_bytes()
    assert not (ROOT / "runs" / "there-1").exists()


@pytest.mark.slow
def test_ctrl_c_saves_a_seed_on_a_node_and_trials_are_tasks_too(ray_nodes, tmp_path):
    endless = [change.replace("agent_steps=2000", "agent_steps=100_000_000") for change in SMALL]
    words = ["train", "ppo-leo", "--seed", "1", "2", "--name", "long", "--ray", ray_nodes.address]
    driver = started("runs", *words, cwd=tmp_path, changes=[*endless, "evaluation.give_up_after=0"])
    try:
        until(lambda: progress(tmp_path / "runs" / "long-1")["agent_steps"])
        driver.send_signal(signal.SIGINT)
        said = driver.communicate(timeout=120)[1]
    finally:
        driver.kill()
    assert driver.returncode == 130, said
    assert "seed 1: interrupted; saved; --resume continues" in said
    assert not (tmp_path / "runs" / "long-2" / "state").exists()  # never begun

    tuning = command("search", "tune", "ppo-leo", "--search", "learner.lr=log(1e-4,1e-2)", "--trials", "2", "--json",
                     "--ray", ray_nodes.address)  # fmt: skip
    done = subprocess.run(tuning, cwd=tmp_path, env=LOCALLY, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["complete"] + found["pruned"] == 2
    rows = list(csv.DictReader((tmp_path / "search" / "trials.csv").open()))
    assert found["best_score"] == max(float(row["score"]) for row in rows if row["score"])
    assert len(list((tmp_path / "search" / "runs").glob("*/best/card.json"))) == 2


@pytest.mark.slow
def test_env_runners_of_rllib_run_on_other_nodes(ray_nodes, tmp_path):
    ray_nodes.add_node(num_cpus=1)
    changes = [*SMALL, "learner.epochs=1", "learner.env_runners=1"]
    words = ["train", "rllib-ppo-leo", "--name", "mine", "--ray", ray_nodes.address]
    driver = started("runs", *words, cwd=tmp_path, changes=changes)
    try:
        until(lambda: all(busy(node) for node in ray_nodes.worker_nodes))
        said = driver.communicate(timeout=240)[1]
    finally:
        driver.kill()
    assert driver.returncode == 0, said
    assert checkpoint.load(tmp_path / "runs" / "mine" / "best").card.training.agent_steps >= 0
    assert progress(tmp_path / "runs" / "mine")["agent_steps"] >= 2000


def busy(node):
    raylet = node.all_processes["raylet"][0].process.pid
    words = ["ps", "--ppid", str(raylet), "-o", "args="]
    listed = subprocess.run(words, capture_output=True, text=True, check=False).stdout
    return "ray::call" in listed or "EnvRunner" in listed
