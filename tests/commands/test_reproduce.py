"""`orbitcc reproduce` and `orbitcc compare` from the shell."""

import json

import pytest
from typer.testing import CliRunner

from orbitcc.cli import app
from orbitcc.eval import contenders, papers
from orbitcc.eval.results import Results
from tests.commands.shell import called


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("reproduce", "leos"), "paper: unknown name 'leos'; did you mean 'leo'?"),
        (("reproduce", "geo", "--profile", "huge"), "profile: unknown name 'huge'"),
        (("reproduce", "geo", "--resume"), "--resume: name the folder"),
        (("compare", "/nowhere", "/nowhere"), "run: '/nowhere' is not allowed"),
        (("eval", "responsiveness", "--set", "rtt=papr"), "rtt: 'papr' is not allowed"),
    ],
)
def test_wrong_arguments_are_one_line(arguments, said):
    done = called(*arguments)
    assert done.returncode == 2, done.stdout
    assert done.stderr.startswith(f"error: {said}"), done.stderr
    assert done.stderr.count("\n") == 1


def test_a_folder_that_holds_something_else_is_refused(tmp_path):
    def refused(*arguments):
        done = called(*arguments, "--out", str(tmp_path))
        assert done.returncode == 2, done.stdout
        assert done.stderr.startswith(f"error: out: '{tmp_path}' is not allowed"), done.stderr
        assert done.stderr.count("\n") == 1

    inner = tmp_path / "geo-download"
    inner.mkdir()
    (inner / "runs.jsonl").touch()
    refused("reproduce", "leo", "--profile", "quick")
    refused("eval", "rate-step")
    assert [path.name for path in tmp_path.iterdir()] == ["geo-download"]
    inner.rename(tmp_path / "whatever")
    (tmp_path / "runs.jsonl").touch()
    refused("reproduce", "geo", "--profile", "quick")


@pytest.mark.parametrize(
    ("paper", "profile", "says"),
    [
        ("geo", "quick", "warning: the profile quick decides none of the 82 claims (reduced: 59)"),
        ("leo", "quick", "warning: the profile quick decides 7 of the 47 claims (reduced: 36)"),
        ("geo", "reduced", None),
    ],
)
def test_a_profile_that_decides_nothing_is_named_before_it_runs(paper, profile, says, monkeypatch, tmp_path):
    def interrupted(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(papers, "run_paper", interrupted)
    done = CliRunner().invoke(app, ["reproduce", paper, "--profile", profile, "--out", str(tmp_path / "out")])
    assert done.exit_code == 130
    first = done.stderr.splitlines()[0]
    assert first.startswith(says or "interrupted")


def test_draws_that_are_judged_together_decide_together(tmp_path):
    paper = papers.get("c4")
    assert papers.decidable(paper, [], "quick") == []
    suite, line_up = papers.suites_of(paper, {})["c4-tests"], contenders.line_up(paper.suites["c4-tests"], [])
    rows = [
        {"contender": c.key, "point": dict(point), "seed": seed, "metrics": {}}
        for c in line_up for point in suite.points("full") for seed in range(100, 103)
    ]  # fmt: skip
    nothing = {"c4-tests": Results(suite, line_up, "full", 3, tmp_path, "", "", rows)}
    assert papers.decidable(paper, [], "quick", others=[nothing]) == []  # runs without the metrics do not count


@pytest.mark.slow
def test_the_geo_papers_are_reproduced(tmp_path):
    out = str(tmp_path / "geo")
    done = called("reproduce", "geo", "--profile", "reduced", "--out", out, "--json")
    assert done.returncode == 0, done.stderr
    claims = {row["key"]: row for row in json.loads(done.stdout)}
    # Far from their limits, with any draw.
    for key in ("H01", "H02", "H08", "H09", "H15", "B01", "B02", "B05", "B06", "G11", "G20", "G30"):
        assert claims[key]["verdict"] == "holds", claims[key]
    for key in ("G10", "G10b", "G18", "G29", "G33"):
        assert claims[key]["verdict"] == "fails", claims[key]
    undecidable = {key for key, row in claims.items() if row["verdict"] == "undecidable"}
    # Too few runs for what is significant; and what is said of a closed program.
    assert {key for key in undecidable if not key.endswith("a")} == {"G04", "G12"}
    assert "G01a" in undecidable
    assert (tmp_path / "geo" / "report.html").stat().st_size > 100_000
    again = called("reproduce", "geo", "--profile", "reduced", "--out", out, "--resume", "--json")
    assert json.loads(again.stdout) == list(claims.values())
    same = json.loads(called("compare", out, out, "--json").stdout)
    assert {row["difference"] for row in same} == {0.0}
