"""Runs on a Ray cluster: those of this machine, whatever becomes of nodes; and never on somebody else's."""

import json
import os
import re
import socket
import subprocess
import sys
import time
import zipfile
from importlib.metadata import version
from pathlib import Path

import pytest

pytest.importorskip("ray")

from orbitcc.common.errors import OrbitccError
from orbitcc.eval import contenders, suites
from orbitcc.eval import results as store
from orbitcc.eval.runner import run_suite
from orbitcc.parallel import cluster

ROOT = Path(__file__).parents[2]


def run(out, runs=2, policies=(), **options):
    line_up = contenders.line_up(["cubic", "bbr3"], policies)
    return run_suite(suites.get("rate-step"), line_up, out_dir=out, runs=runs, quiet=True, **options)


def rows(folder):
    """The stored rows without the time that each took, sorted."""
    found = [json.loads(line) for line in (folder / "runs.jsonl").read_text(encoding="utf-8").splitlines()]
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


def test_an_address_where_no_ray_answers_is_refused_within_seconds(monkeypatch):
    monkeypatch.setattr(cluster, "ANSWER_S", 2.0)
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(OrbitccError, match="what listens there did not answer as Ray within 2 s"):
            cluster.find(address)


def test_the_entry_of_a_cluster_that_was_killed_is_not_followed(ray_folder, monkeypatch, capsys):
    assert cluster.find("auto") == cluster.LOCAL
    assert capsys.readouterr().err == ""
    (ray_folder / "ray").mkdir()
    entry = ray_folder / "ray" / "ray_current_cluster"
    entry.write_text("127.0.0.1:1")
    assert cluster.find("auto") == cluster.LOCAL
    said = rf"ray: nothing answers at 127.0.0.1:1, the address in {entry} \(.*\): this machine alone is used\n"
    assert re.fullmatch(said, capsys.readouterr().err)
    monkeypatch.setattr(cluster, "ANSWER_S", 2.0)
    with socket.create_server(("127.0.0.1", 0)) as server:  # something else, or a cluster that is busy
        entry.write_text(f"127.0.0.1:{server.getsockname()[1]}")
        with pytest.raises(OrbitccError, match=rf"from {entry}\).*--ray local; `ray stop` removes the entry") as caught:
            cluster.find("auto")
    assert "\n" not in str(caught.value)
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")  # this one was named
    with pytest.raises(OrbitccError, match="127.0.0.1:1"):
        cluster.find("auto")


@pytest.mark.slow
def test_beside_a_running_cluster_training_keeps_to_itself(ray_nodes, tmp_path):
    import ray

    assert cluster.find("auto") == ray_nodes.address
    small = ["agent_steps=256", "learner.flows=8", "learner.batch=128", "learner.minibatch=64", "learner.epochs=1"]
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
def test_rows_are_those_of_one_machine(ray_nodes, tmp_path, monkeypatch, checkpoint_folder, event):
    monkeypatch.chdir(checkpoint_folder.parent)  # the nodes, which have been started elsewhere, get the checkpoint
    policies = [f"./{checkpoint_folder.name}"]
    run(tmp_path / "here", 10, policies, workers=1)
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
    there = run(tmp_path / "there", 10, policies, ray=ray_nodes.address)
    assert len(rows(tmp_path / "there")) == 30
    assert rows(tmp_path / "there") == rows(tmp_path / "here")
    assert (tmp_path / "here" / "runs.csv").read_bytes() == (tmp_path / "there" / "runs.csv").read_bytes()
    assert there.recordings().keys() == {"cubic", "bbr3", "idle-policy"}  # written here, whichever node made them


@pytest.mark.slow
def test_nodes_without_this_orbitcc_are_named_until_a_wheel_is_given(ray_nodes, tmp_path):
    other = tmp_path / "other" / "orbitcc"
    other.mkdir(parents=True)
    (other / "__init__.py").write_text("raise ImportError('an OrbitCC of long ago')")
    path = f"{other.parent}:{os.environ.get('PYTHONPATH', '')}"
    variables = {"PYTHONPATH": path, "PIP_NO_DEPS": "1"}
    ray_nodes.add_node(num_cpus=1, env_vars=variables, runtime_env_dir_name="third")
    here = {**os.environ, "PYTHONPATH": str(ROOT)}

    def orbitcc(*words, **more):
        command = [sys.executable, "-m", "orbitcc.cli", *words]
        return subprocess.run(
            command, cwd=tmp_path, env=here | more, capture_output=True, text=True, check=False, timeout=300
        )

    line = (
        r"error: ray: node \S+ \(\w{6}\) has no OrbitCC that runs \(ImportError: an OrbitCC of long ago\); install .*\n"
    )
    checked = orbitcc("cluster", "check", ray_nodes.address, "--json")
    assert checked.returncode == 2
    assert re.fullmatch(line, checked.stderr)
    found = json.loads(checked.stdout)
    assert sorted((row["cores"], row["speed"] is None) for row in found) == [(0, True), (1, False), (1, True)]
    assert max(row["speed"] or 0 for row in found) > 10
    refused = orbitcc("eval", "rate-step", "--ray", ray_nodes.address, "--out", "out")
    assert refused.returncode == 2
    assert re.fullmatch(line, refused.stderr)
    assert not (tmp_path / "out").exists()

    given = orbitcc("cluster", "check", ray_nodes.address, "--json", ORBITCC_RAY_WHEEL=str(wheel(tmp_path)))
    if " " in sys.executable:
        assert given.returncode == 2
        assert "with Python in a folder without spaces" in given.stderr
        return
    assert given.returncode == 0, given.stderr
    assert [row["speed"] is None for row in json.loads(given.stdout)] == [False, False, True]


def wheel(folder):
    """A wheel of the package as it is here."""
    import orbitcc

    root, packed = Path(orbitcc.__file__).parent, folder / f"orbitcc-{version('orbitcc')}-py3-none-any.whl"
    about = {
        "METADATA": f"Metadata-Version: 2.1\nName: orbitcc\nVersion: {version('orbitcc')}\n",
        "WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        "RECORD": "",
    }
    with zipfile.ZipFile(packed, "w") as file:
        for parent, _, names in os.walk(root, followlinks=True):
            for name in names:
                if name != "orbitcc-emulator" and not name.endswith(".pyc"):
                    file.write(Path(parent) / name, Path("orbitcc") / Path(parent).relative_to(root) / name)
        for name, text in about.items():
            file.writestr(f"orbitcc-{version('orbitcc')}.dist-info/{name}", text)
    return packed
