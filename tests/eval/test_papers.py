"""Papers: settings of their suites, and several draws judged together."""

import json
import shutil

import pytest

from orbitcc.common.errors import OrbitccError
from orbitcc.eval import claims, contenders, papers
from tests.commands.shell import called

SMALL = papers.Paper(
    "small", "A small paper", "nobody", {"rate-step": ("bbr3", "reno")},
    [claim for claim in claims.load("leo") if claim.key == "F20"], [papers.Score("Regain", "rate-step", "regain_s")],
)  # fmt: skip


@pytest.fixture(scope="module")
def draws(tmp_path_factory):
    """Two draws of three runs each, and one that shares a run with the first."""
    folder = tmp_path_factory.mktemp("draws")
    for name, first_run in (("a", 1), ("b", 101), ("c", 3)):
        settings = {"first_run": first_run}
        papers.run_paper(SMALL, [], out_dir=folder / name, profile="quick", workers=1, settings=settings)
    return folder


def test_suites_take_the_settings_that_their_scenarios_have():
    found = papers.suites_of(papers.get("leo"), {"shaper": "tbf", "first_run": 7})
    shaped = {name for name, suite in found.items() if suite.settings.get("shaper") == "tbf"}
    assert set(found) - shaped == {"delay-jump", "rate-step"}
    assert {suite.first_run for suite in found.values()} == {7}
    assert {
        link.burst_bytes for link in found["inter-rtt"].case(found["inter-rtt"].points("quick")[0], 7).scenario.links
    } == {15_000}
    with pytest.raises(OrbitccError, match="unknown name 'shapr'; did you mean 'shaper'"):
        papers.suites_of(papers.get("leo"), {"shapr": "tbf"})


def test_draws_are_judged_together(draws):
    a, b = (papers.load_paper(SMALL, draws / name) for name in "ab")
    both = papers.together([a, b])["rate-step"]
    assert sorted({row["seed"] for row in both.rows}) == [1, 2, 3, 101, 102, 103]
    assert (both.runs, both.labels) == (6, ["bbr3", "reno"])
    (single,), (joint,) = (papers.judge(SMALL, found) for found in (a, {"rate-step": both}))
    values = [row["metrics"]["regain_s"] for row in both.rows if row["contender"] == "bbr3"]
    assert joint[1].measured.startswith(f"{sorted(values)[2] / 2 + sorted(values)[3] / 2:.1f} ± ")
    assert single[1].verdict != "undecidable"


def test_draws_that_share_a_run_or_differ_otherwise_are_refused(draws):
    a, c = (papers.load_paper(SMALL, draws / name) for name in "ac")
    with pytest.raises(OrbitccError, match="draws with other runs each"):
        papers.together([a, c])
    b = papers.load_paper(SMALL, draws / "b")
    b["rate-step"].suite.settings["buffer_bdp"] = 2.0
    with pytest.raises(OrbitccError, match="buffer_bdp=2.0"):
        papers.together([a, b])


def test_the_command_judges_other_draws_with_its_own(draws, tmp_path, monkeypatch):
    monkeypatch.setitem(papers.PAPERS, "small", SMALL)
    command = ("reproduce", "small", "--profile", "quick", "--workers", "1", "--json")
    own = ("--set", "first_run=201", "--out", str(tmp_path / "own"))
    done = called(*command, *own, "--with", str(draws / "a"), "--with", str(draws / "b"))
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(done.stdout)
    everything = papers.together([papers.load_paper(SMALL, f) for f in (tmp_path / "own", draws / "a", draws / "b")])
    assert row["measured"] == papers.judge(SMALL, everything)[0][1].measured
    assert 0 <= row["met_in"] <= 1
    wrong = called(*command, *own, "--resume", "--with", str(draws / "a"), "--with", str(draws / "c"))
    assert wrong.returncode == 2
    assert wrong.stderr.startswith("error: --with: ")
    again = ("--set", "first_run=201", "--out", str(tmp_path / "again"), "--with", str(tmp_path / "own"))
    wrong = called(*command, *again)
    assert (wrong.returncode, "draws with other runs each" in wrong.stderr) == (2, True)
    assert not (tmp_path / "again").exists(), "nothing was run"


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"settings": {}, "versions": {"orbitcc": "1"}, "contenders": [{"a": 1}]}']
)
def test_damaged_results_are_refused(text, tmp_path):
    (tmp_path / "rate-step").mkdir()
    (tmp_path / "rate-step" / "results.json").write_text(text)
    with pytest.raises(OrbitccError, match="the plan of finished results"):
        papers.load_paper(SMALL, tmp_path)


def test_a_policy_is_known_by_its_card_in_stored_results(tmp_path):
    results = papers.run_paper(SMALL, ["astraea"], out_dir=tmp_path, profile="quick", workers=1)
    (found,) = [c for c in papers.load_paper(SMALL, tmp_path)["rate-step"].contenders if c.family]
    assert found == contenders.from_policy("astraea") == results["rate-step"].contenders[-1]


def test_a_draw_that_lacks_runs_is_refused(draws, tmp_path):
    shutil.copytree(draws / "a", tmp_path / "a")
    rows = tmp_path / "a" / "rate-step" / "runs.jsonl"
    lines = rows.read_text(encoding="utf-8").splitlines(keepends=True)
    rows.write_text("".join(lines[:-2]), encoding="utf-8")
    with pytest.raises(OrbitccError, match=f"a finished evaluation: 2 of {len(lines)} runs are missing"):
        papers.load_paper(SMALL, tmp_path / "a")
