"""Scenarios, suites and papers of others by `module:name`: used from the command line, never from a file."""

import importlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

from orbitcc.common.errors import OrbitccError
from orbitcc.eval import contenders, papers, suites
from orbitcc.eval.runner import run_suite
from tests.commands.shell import orbitcc

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def mine(tmp_path, monkeypatch):
    """Writes the module `mine`, which begins with all of own_suite; what it registers is forgotten afterwards."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    monkeypatch.setattr(suites, "SUITES", dict(suites.SUITES))  # before the first import, which registers its suite
    own = importlib.import_module("own_suite")
    suites.SUITES.setdefault(own.LossyLink.name, own.LossyLink)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "mine", raising=False)
    head = "from dataclasses import replace\nimport numpy as np\nfrom own_suite import *\n"
    return lambda text: (tmp_path / "mine.py").write_text(f"{head}{text}\n")


def call(*words: str) -> subprocess.CompletedProcess[str]:
    done = orbitcc(*words, cwd=EXAMPLES)
    assert done.returncode == 0, done.stderr
    return done


def test_a_scenario_by_module_and_name():
    goodput = []
    for loss in ("0", "0.05"):
        done = call("run", "own_suite:lossy", "--flow", "cubic", "--set", f"loss={loss}", "--json")
        goodput.append(json.loads(done.stdout)["flows"][0]["goodput_mbps"])
    assert goodput[0] > 5 * goodput[1]
    shown = orbitcc("run", "own_suite:lossy", "--set", "los=1", cwd=EXAMPLES)
    assert (shown.returncode, len(shown.stderr.splitlines())) == (2, 1)
    assert "loss" in shown.stderr


def test_a_suite_by_module_and_name_is_evaluated_continued_and_compared(tmp_path):
    out = str(tmp_path / "lossy")
    words = ["eval", "own_suite:LossyLink", "--controller", "cubic", "--controller", "bbr3", "--out", out]
    call(*words)
    again = call(*words, "--resume", "--set", "first_run=1", "--json")
    found = {c["contender"]: c["goodput_share"]["median"] for c in json.loads(again.stdout)["contenders"]}
    assert found["bbr3"] > 2 * found["cubic"]
    compared = call("compare", out, "--suite", "own_suite:LossyLink", "--a", "cubic", "--b", "bbr3", "--json")
    assert {row["metric"] for row in json.loads(compared.stdout)} == {"goodput_share", "delay_inflation"}
    without = orbitcc("compare", out, "--a", "cubic", "--b", "bbr3", cwd=EXAMPLES)  # the folder's files name no code
    assert (without.returncode, len(without.stderr.splitlines())) == (2, 1)


def test_a_paper_by_module_and_name(tmp_path):
    done = call("reproduce", "own_suite:PAPER", "--profile", "quick", "--out", str(tmp_path / "own"))
    assert "holds" in done.stdout
    assert (tmp_path / "own" / "report.html").stat().st_size > 10_000


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["run", "own_suite:none"], "own_suite:lossy"),
        (["run", "own_suite:RATE_MBPS"], "a Scenario, a distribution, or a function"),
        (["run", "no_such_module:x"], "a module that can be imported"),
        (["eval", "own_suite:lossy"], "a subclass of orbitcc.eval.suites.Suite"),
        (["reproduce", "own_suite:lossy"], "orbitcc.eval.papers.Paper"),
    ],
)
def test_what_is_none_is_one_line(words, says):
    done = orbitcc(*words, cwd=EXAMPLES)
    assert (done.returncode, len(done.stderr.strip().splitlines())) == (2, 1), done.stderr
    assert says in done.stderr


@pytest.mark.parametrize("body", ["sys.exit()", "def world():\n    sys.exit()"])
def test_code_that_ends_its_program_is_refused(body, tmp_path):
    (tmp_path / "ending.py").write_text(f"import sys\n{body}\n", encoding="utf-8")
    done = orbitcc("run", "ending:world", cwd=tmp_path)
    assert (done.returncode, len(done.stderr.strip().splitlines())) == (2, 1), done.stderr
    assert "SystemExit" in done.stderr


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("def measure(self, *_): return {**GOOD, 'goodput_share': np.float32(1.5)}", ""),
        ("def measure(self, *_): return {**GOOD, 'goodput_share': np.nan}", ""),
        (
            "def measure(self, *_): return {**GOOD, 'goodput_share': 1e200}",
            "measure.goodput_share: 1e+200",
        ),
        (
            "def measure(self, *_): return {**GOOD, 'goodput_share': 'good'}",
            "measure.goodput_share: 'good'",
        ),
        ("def measure(self, *_): return {**GOOD, 'goodput_share': True}", "measure.goodput_share: True"),
        ("def measure(self, *_): return {'delay_inflation': 1}", ""),
        ("def measure(self, *_): return [1]", "a table of numbers"),
        ("def measure(self, *_): return 1 / 0", "measure: 'ZeroDivisionError: division by zero'"),
        ("def measure(self, *_): raise SystemExit(0)", "measure: 'SystemExit: 0'"),
        ("def case(self, point, seed): return None", "case: 'None'"),
        ("def case(self, point, seed): raise RuntimeError('no')", "case: 'RuntimeError: no'"),
        ("def grid(self, profile): return []", "grid"),
        ("metrics = ()", "one Metric or more"),
        ("metrics = (Metric('a', 'A', '', 'Higher', 1.0, ''),)", "metric a.better: 'Higher'"),
        ("metrics = (Metric('a', 'A', '', 'lower', 'x', ''),)", "metric a.ideal: 'x'"),
        ("metrics = (Metric('a', 'A', '', 'lower', 1.0, '', decimals=-1),)", "metric a.decimals: -1"),
        ("trade = ('goodput_share', 'delay')", "two of its metrics (goodput_share, delay_inflation)"),
        ("by = 'losses'", "mine.by"),
        ("def grid(self, profile): return [{'loss': np.nan}]", "mine.grid.loss"),
        ("profiles = {'quick': 'x'}", "whole numbers of runs"),
    ],
)
def test_a_suite_that_does_not_work_is_named(body, says, tmp_path, mine):
    good = "GOOD = {'goodput_share': 1.0, 'delay_inflation': 1.0}"
    mine(f"{good}\nclass Mine(LossyLink):\n    name = 'mine'\n    {body}")

    def rows(resume: bool) -> list[dict]:
        suite = suites.get(suites.named("mine:Mine"))
        beside = contenders.line_up(["cubic"], [])
        return run_suite(suite, beside, out_dir=tmp_path / "out", runs=1, workers=1, quiet=True, resume=resume).rows

    if says:
        with pytest.raises(OrbitccError) as error:
            rows(resume=False)
        assert says in str(error.value)
    else:
        assert rows(resume=False) == rows(resume=True)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ("scores=()", "with one Score or more"),
        ("suites=('lossy-link',)", "a table of contenders by suite"),
        ("scores=(Score('x', 'rate-step', 'y'),)", "score 'x'.suite: unknown name 'rate-step'"),
        ("scores=(Score('x', 'lossy-link', 'y'),)", "score 'x'.metric: unknown name 'y'"),
    ],
)
def test_a_paper_that_cannot_be_shown_is_refused_before_its_runs(change, says, mine):
    mine(f"PAPER = replace(PAPER, {change})")
    with pytest.raises(OrbitccError) as error:
        papers.named("mine:PAPER")
    assert says in str(error.value)


def test_two_suites_cannot_have_one_name(monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    monkeypatch.setattr(suites, "SUITES", dict(suites.SUITES))
    monkeypatch.delitem(sys.modules, "own_suite", raising=False)

    class Other(suites.SUITES["rate-step"]):  # type: ignore[misc]
        name = "intra-rtt"

    with pytest.raises(OrbitccError, match="intra-rtt is taken"):
        suites.register(Other)


def test_no_recipe_names_a_scenario_in_code(tmp_path):
    (tmp_path / "own_suite.py").write_text("raise SystemExit('it ran')")
    text = 'name = "r"\nalgorithm = "ppo"\nagent_steps = 1000\npreset = "ratios"\nscenario = "own_suite:lossy"\n'
    (tmp_path / "r.toml").write_text(text)
    done = orbitcc("train", "r.toml", "--out", str(tmp_path / "runs"), cwd=tmp_path)
    assert done.returncode == 2
    assert "it ran" not in done.stdout + done.stderr
