"""Tutorials run as they are written, shorter where they learn."""

import os
import re
from pathlib import Path

import pytest

from orbitcc import _moved  # noqa: F401  the package is importable here

TUTORIALS = Path(__file__).parents[2] / "docs" / "tutorials"


def blocks(name, language):
    text = (TUTORIALS / f"{name}.md").read_text(encoding="utf-8")
    return re.findall(rf"```{language}\n(.*?)```", text, flags=re.DOTALL)


def run(name, shorter=()):
    """Execute the Python blocks of a tutorial one after another, with some numbers replaced."""
    code = "\n".join(blocks(name, "python"))
    for before, after in shorter:
        assert code.count(before) == 1, f"{before!r} is not in {name}.md"
        code = code.replace(before, after)
    made = {"__name__": f"tutorial_{name}"}
    exec(compile(code, f"{name}.md", "exec"), made)
    return made


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", f"{Path(__file__).parents[2]}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def test_every_tutorial_is_run_here():
    assert {path.stem for path in TUTORIALS.glob("*.md")} == {
        "first-training", "multi-agent", "your-scenario", "your-controller", "reading-a-report"
    }  # fmt: skip


@pytest.mark.parametrize("path", sorted(TUTORIALS.glob("*.md")), ids=lambda path: path.stem)
def test_examples_import_what_they_use(path):
    """Names that a block uses are imported or made in it or in one before."""
    import ast
    import builtins

    known = set(dir(builtins))
    for block in blocks(path.stem, "python"):
        tree = ast.parse(block)
        bound = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)}
        bound |= {n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.ClassDef)}
        bound |= {n.arg for n in ast.walk(tree) if isinstance(n, ast.arg)}
        bound |= {
            (a.asname or a.name).split(".")[0]
            for n in ast.walk(tree)
            if isinstance(n, ast.Import | ast.ImportFrom)
            for a in n.names
        }
        known |= bound
        used = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)}
        assert used <= known


def test_your_scenario(folder):
    (text,) = blocks("your-scenario", "toml")
    (folder / "pass.toml").write_text(text, encoding="utf-8")
    made = run("your-scenario")
    goodputs = [flow["goodput_mbps"] for flow in made["recording"].flow_totals]
    assert 25 < sum(goodputs) < 80
    assert 2 <= made["drawn"].mean_capacity_mbps() <= 40


def test_your_controller(folder):
    module = blocks("your-controller", "python")[0]
    (folder / "mine.py").write_text(module, encoding="utf-8")
    total = run("your-controller")["total"]
    assert total["goodput_mbps"] > 50
    assert total["srtt_ms"] < 1.5 * total["base_rtt_ms"]


@pytest.mark.slow
def test_reading_a_report():
    pytest.importorskip("pandas")
    made = run("reading-a-report")
    assert set(made["results"]["contender"]) == {"cubic", "vegas"}
    text = (TUTORIALS / "reading-a-report.md").read_text(encoding="utf-8")
    for name in re.findall(r"^\| `([\w./]+)` \|", text, flags=re.MULTILINE):
        assert Path("results/first", name).exists()


@pytest.mark.slow
def test_multi_agent():
    pytest.importorskip("torchrl")
    shorter = [
        (
            "steps, iterations, epochs, minibatch = 2_000, 50, 4, 500",
            "steps, iterations, epochs, minibatch = 120, 2, 1, 60",
        )
    ]
    made = run("multi-agent", shorter)
    assert len(made["earned"]) == 2
    assert made["agents"] == 3
    reads_all = made["critic"].module
    assert reads_all.centralized


@pytest.mark.slow
def test_first_training(monkeypatch):
    ray = pytest.importorskip("ray")
    learner = pytest.importorskip("orbitcc.training.rllib.learner")
    for name, value in (("RAY_USAGE_STATS_ENABLED", "0"), ("RAY_AUTH_MODE", "disabled")):
        monkeypatch.setenv(name, value)
    shorter = [
        ("slots = 128", "slots = 8"), ("batch = 16_384", "batch = 256"), ("iterations = 40", "iterations = 1"),
        ("minibatch_size=4_096, num_epochs=4", "minibatch_size=128, num_epochs=1"),
    ]  # fmt: skip
    # As training starts it: a busy machine may need a second try.
    learner._init_ray(ray, {"address": None, "num_cpus": 2, "include_dashboard": False, "log_to_driver": False})
    try:
        made = run("first-training", shorter)
    finally:
        ray.shutdown()
    assert made["result"]["env_runners"]["num_env_steps_sampled_lifetime"] >= 256
    assert all(key.startswith("layers.") for key in made["tensors"])
