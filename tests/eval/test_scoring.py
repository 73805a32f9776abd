"""Scores of candidates: utilities, stages, worlds that differ, faults, files."""

import contextlib
import json
import os
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from orbitcc.agents.sandbox import Sandbox
from orbitcc.common.errors import OrbitccError
from orbitcc.eval import contenders, score, scoring, suites
from orbitcc.eval.statistics import mean_of_groups
from tests.agents.test_sandbox import PRESET, WINDOW, body
from tests.commands.shell import called

EXAMPLES = Path(__file__).parents[2] / "examples"
SHORT = "delay-jump,hard-handover"


@pytest.fixture
def candidate(tmp_path):
    def write(source: str) -> Path:
        file = tmp_path / "candidate.py"
        file.write_text(source)
        return file

    return write


def test_utility_by_hand():
    one = {"goodput_over_optimal": 0.5 * 1448 / 1514, "delay_inflation": 4.0, "retransmission_rate": 0.1}
    assert scoring.utility(suites.get("responsiveness"), one) == pytest.approx(0.5 * 0.5 * 0.8)
    two = {"goodput_ratio": 0.25, "own_share": 0.8, "goodput_share": 1.0}
    assert scoring.utility(suites.get("cubic-friendliness"), two) == 0.25
    assert scoring.utility(suites.get("cubic-friendliness"), {**two, "goodput_ratio": float("nan")}) == 0.0
    assert scoring.utility(suites.get("responsiveness"), {**one, "retransmission_rate": 0.7}) == 0.0


def test_beside_rivals_the_utility_counts_what_the_candidate_itself_gets():
    crowd, l4s = suites.get("cubic-crowd"), suites.get("l4s")
    full = {"goodput_share": 1448 / 1514, "queue_p99_ms": 1.0, "queue_ms": 1.0}
    for own, expected in ((0.025, 0.025), (1.0, 1.0), (4.0, 0.25), (0.0, 0.0)):
        assert scoring.utility(crowd, {**full, "own_over_fair": own}) == pytest.approx(expected)
    for own, expected in ((0.02, 2 / 98), (0.5, 1.0), (0.8, 0.25), (0.0, 0.0), (1.0, 0.0)):
        assert scoring.utility(l4s, {**full, "own_share": own}) == pytest.approx(expected)
    alone = {**full, "own_share": float("nan"), "goodput_share": 0.25 * 1448 / 1514}
    assert scoring.utility(l4s, alone) == pytest.approx(0.25)


def test_suites_whose_figures_are_those_of_rivals_are_refused(monkeypatch):
    monkeypatch.setattr(suites, "SUITES", dict(suites.SUITES))
    own, others = (m for m in suites.get("cubic-crowd").metrics)
    beside = type("Beside", (type(suites.get("cubic-crowd")),), {"name": "beside", "metrics": (others,)})
    alone = type("Alone", (beside,), {"name": "alone", "enter": lambda self, case, who: who.take_all(case.scenario)})
    suites.SUITES.update(beside=beside, alone=alone)
    with pytest.raises(OrbitccError, match=r"'beside' .* allowed: suites without rivals, or that .* own_over_fair"):
        scoring.suites_of("alone,beside")
    assert [suite.name for suite in scoring.suites_of("alone")] == ["alone"]
    beside.metrics = (own, others)
    assert [suite.name for suite in scoring.suites_of("beside")] == ["beside"]


@pytest.mark.slow
def test_who_sends_nearly_nothing_is_far_below_cubic_beside_rivals(candidate, monkeypatch):
    """Without rivals nobody else uses the link."""
    monkeypatch.setattr(scoring, "CLASSICAL", ("cubic",))
    accepted = []
    for name in suites.names():
        with contextlib.suppress(OrbitccError):
            accepted += scoring.suites_of(name)
    names = [suite.name for suite in accepted if not suite.name.startswith("traces") and scoring._has_rivals(suite)]
    assert {"cubic-friendliness", "bbr3-friendliness", "l4s", "cubic-crowd"} <= set(names)
    idle = candidate(PRESET.format(WINDOW.format("1.0")))
    for name in names:
        found = score(idle, name, runs=1, seed=3, seconds=600)
        assert found["fault"] == ""
        assert 0 < found["combined_score"] < 0.1 * found["classical"]["cubic"]["combined_score"]


def test_mean_of_groups_is_the_textbook_interval():
    one = mean_of_groups([[1.0, 2.0, 3.0, 4.0]])
    half = 3.182446 * np.std([1, 2, 3, 4], ddof=1) / 2  # t of 3 degrees of freedom, from a table
    assert (one.value, one.low, one.high) == pytest.approx((2.5, 2.5 - half, 2.5 + half), rel=1e-6)
    two = mean_of_groups([[0.0, 2.0], [5.0, 5.0]])
    half = 4.302653 * np.sqrt(2 / 2 * (1 / 2 + 1 / 2)) / 2
    assert (two.value, two.high) == pytest.approx((3.0, 3.0 + half), rel=1e-6)
    assert np.isnan(mean_of_groups([[1.0], [2.0]]).low)


def test_worlds_differ_from_call_to_call_and_from_what_is_published_or_reserved():
    chosen = scoring.suites_of("leo")
    runs = [[world.case.seed for world in scoring.worlds(chosen, 3, seed)] for seed in range(12)]
    assert all(1_000_000 <= run < 9_000_000 for one in runs for run in one)
    assert len({run for one in runs for run in one}) == 12 * 15
    assert runs[7] == [world.case.seed for world in scoring.worlds(chosen, 3, 7)]
    names = [world.suite.name for world in scoring.worlds(chosen, 2, 1)]
    assert names == [*scoring.SETS["leo"]] * 2
    digests = {scoring.worlds(chosen, 1, seed)[0].case.digest for seed in (1, 2, 3)}
    assert len(digests) == 3


def test_a_score_its_files_and_the_cache(candidate, tmp_path, monkeypatch):
    file = candidate((EXAMPLES / "delay_candidate.py").read_text())
    first = score(file, SHORT, seed=5, runs=6, seconds=600, out=tmp_path / "out")
    assert first["worlds"] == first["planned"] == 12
    assert first["stage"] == 3
    assert (first["stopped"], first["fault"]) == ("", "")
    low, high = first["interval"]
    assert 0 < low < first["combined_score"] < high < 1
    per_suite = [own["candidate"]["utility"] for own in first["suites"].values()]
    assert first["combined_score"] == pytest.approx(np.mean(per_suite))
    assert [Path(f).name for f in first["files"]] == ["score.json", "score.png", "worst.png", "worst.csv"]
    assert all(Path(f).stat().st_size > 300 for f in first["files"])
    assert json.loads((tmp_path / "out/score.json").read_text())["combined_score"] == first["combined_score"]
    # The classical controllers are known, and the candidate's figures are the same with another number of processes.
    own, run = scoring._Judge._measured, []
    monkeypatch.setattr(scoring._Judge, "_measured", lambda self, w, c: (run.append(c.label), own(self, w, c))[1])
    monkeypatch.setattr(os, "cpu_count", lambda: 1)
    again = score(file, SHORT, seed=5, runs=6, seconds=600)
    assert run == ["candidate"] * 12
    assert again["suites"] == first["suites"]
    assert len({score(file, "delay-jump", runs=1)["seed"] for _ in range(2)}) == 2


def test_patches_of_modules_and_of_results_change_nothing(candidate, monkeypatch):
    """A candidate that rewrites what it finds is at fault; unseen, it has the score of one that does not."""
    plain = candidate(body("return obs[:, :1] * 0 + 0.1"))
    honest = score(plain, SHORT, seed=5, runs=1, seconds=600)
    patched = candidate(
        "import sys, gc, json, numpy\n"
        "for m in list(sys.modules.values()):\n"
        "    if getattr(m, '__name__', '').startswith('orbitcc'):\n"
        "        for k in ('simulate', 'measure', 'utility', 'score', 'Recording', 'Sandbox', 'CandidateError'):\n"
        "            setattr(m, k, lambda *a, **k: 1.0)\n"
        "numpy.mean = numpy.prod = numpy.min = lambda *a, **k: 1.0\n"
        "assert not [o for o in gc.get_objects() if type(o).__name__ in ('Scenario', 'Simulation', 'Suite', 'Case')]\n"
        "f = sys._getframe()\n"
        "while f: assert 'scoring' not in f.f_code.co_filename; f = f.f_back\n" + body("return obs[:, :1] * 0 + 0.1")
    )
    found = score(patched, SHORT, seed=5, runs=1, seconds=600)
    assert (found["combined_score"], found["fault"]) == (0.0, "it may not do this: gc.get_objects")
    monkeypatch.setattr(Sandbox, "audits", False)
    cheating = score(patched, SHORT, seed=5, runs=1, seconds=600)
    assert cheating["fault"] == ""
    assert cheating["suites"] == honest["suites"]


def test_a_bad_candidate_is_stopped_early_by_the_interval(candidate):
    found = score(candidate(PRESET.format(WINDOW.format("1.0"))), SHORT, seed=8, runs=8, seconds=600, against="leocc")
    assert found["worlds"] in (2, 10)
    assert found["worlds"] == (2, 10)[found["stage"] - 1]
    assert found["against"]["high"] < 0
    assert f"after {found['worlds']} worlds its utility is below that of leocc" in found["stopped"]
    assert found["combined_score"] < found["classical"]["leocc"]["combined_score"]
    assert "of the bandwidth" in found["reason"]


@pytest.mark.parametrize(("finished", "counted"), [(1, 0), (2, 2), (5, 3), (8, 6)])
def test_worlds_count_in_whole_rounds_and_suites_that_were_not_reached_are_0(finished, counted):
    values = {"goodput_after": 1, "goodput_share": 0.5 * 1448 / 1514, "delay_inflation": 1.0, "goodput_ratio": 1.0}
    one = scoring.Ran({who: {**values, "own_share": 0.5, "regain_s": 1} for who in ("candidate", "vegas")}, None)
    left = [one] * finished

    def run(worlds):
        now, left[:] = left[: len(worlds)], left[len(worlds) :]
        return now, "", len(now) < len(worlds)

    planned = scoring.worlds(scoring.suites_of("cubic-friendliness,bbr3-friendliness,inter-rtt"), 4, 5)
    made = scoring._stages(SimpleNamespace(run=run), planned, "vegas")
    assert (len(made.ran), made.stopped[:16]) == (counted, "the time is over")
    judge = SimpleNamespace(decisions=0, protections={}, _begun=0.0)
    found = scoring._result(judge, planned, contenders.line_up(["vegas"], []), made)
    assert found["combined_score"] == pytest.approx(0.5 * min(counted, 3) / 3)
    assert found["worlds"] == counted


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        (body("raise ValueError('too bad')"), "ValueError: too bad (line 4)"),
        ("def make(:\n", "SyntaxError"),
        (body("import os; os._exit(0)"), "ended with status 0"),
        (body("return obs[:, :1] * float('nan')"), "NaN"),
    ],
)
def test_a_candidate_at_fault_gets_0_and_exit_code_0(candidate, source, reason):
    done = called("score", str(candidate(source)), "--suite-set", SHORT, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    assert found["combined_score"] == 0
    assert reason in found["fault"]
    assert found["reason"] == found["fault"]


def test_seconds_bound_the_whole(candidate, tmp_path):
    """Also of a candidate that sends as much as it can, and of one that is as slow as it may be."""
    for source in (PRESET.format(WINDOW.format("1e5")), body("import time; time.sleep(0.5)")):
        began = time.monotonic()
        found = score(candidate(source), "extremes", seconds=4, runs=50, out=tmp_path / "out")
        assert time.monotonic() - began < 12
        assert found["worlds"] < 50
    assert found["stopped"] == "the time is over before 2 worlds were" == found["reason"]
    assert found["combined_score"] == 0
    shown = called("score", str(candidate(source)), "--suite-set", "extremes", "--seconds", "2", "--runs", "50")
    assert "before 2 worlds were" in shown.stdout
    assert "0.000" not in shown.stdout


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["missing.py"], "missing.py"),
        (["."], "folder"),
        (["pipe"], "a pipe"),
        (["ok.py", "--suite-set", "loe"], "did you mean 'leo'"),
        (["ok.py", "--suite-set", "geo-download"], "suites that measure one of"),
        (["ok.py", "--suite-set", "rate-step"], "suites that measure one of"),
        (["ok.py", "--seconds", "0"], "--seconds: 0.0 is not allowed; allowed: a number in [2, 86400]"),
        (["ok.py", "--seed", "-1"], "--seed"),
        (["ok.py", "--runs", "0"], "--runs"),
        (["ok.py", "--against", "cubik"], "--against: unknown name 'cubik'; did you mean 'cubic'"),
        (["ok.py", "--out", "ok.py"], "writable place"),
    ],
)
def test_wrong_usage_is_one_line_and_exit_code_2(tmp_path, monkeypatch, options, said):
    monkeypatch.chdir(tmp_path)
    Path("ok.py").write_text(body())
    os.mkfifo("pipe")
    done = called("score", *options)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in " ".join(done.stderr.split())
    assert len(done.stderr.strip().splitlines()) == 1


def test_the_search_of_the_example_improves_the_score(tmp_path, monkeypatch):
    import importlib

    monkeypatch.syspath_prepend(EXAMPLES)
    search = importlib.import_module("score_search")
    file = tmp_path / "delay_candidate.py"
    file.write_text((EXAMPLES / "delay_candidate.py").read_text())
    found = iter([0.2, 0.1, 0.5, 0.0, 0.6])
    monkeypatch.setattr(search, "score", lambda *_, **__: {"combined_score": next(found)})
    chosen, scores = search.search(file, changes=4)
    assert scores == [0.2, 0.2, 0.5, 0.5, 0.6]
    assert chosen.read_text() != file.read_text()
    assert not (tmp_path / "trial.py").exists()
