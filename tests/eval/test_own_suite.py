"""Scenarios, suites and papers of others by `module:name`: used from the command line, never from a file."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from orbitcc.common.errors import OrbitccError
from orbitcc.eval import suites
from tests.commands.shell import orbitcc

EXAMPLES = Path(__file__).parents[2] / "examples"


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
