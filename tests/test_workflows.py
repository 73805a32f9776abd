"""The workflows load, and what they call exists: nothing here can run them."""

import re
import shlex
from fnmatch import fnmatch
from pathlib import Path

import pytest

from tests import modules

yaml = pytest.importorskip("yaml")

ROOT = Path(__file__).parents[1]
FILES = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
ACTIONS = {
    "actions/checkout@v6",
    "actions/setup-python@v6",
    "actions/upload-artifact@v7",
    "actions/download-artifact@v8",
    "actions/upload-pages-artifact@v5",
    "actions/deploy-pages@v5",
    "pypa/cibuildwheel@v4.2",
    "pypa/gh-action-pypi-publish@release/v1",
}
"""Tags and branches that were seen in the repositories of these actions in November 2026."""
RETIRED = {"macos-13", "ubuntu-20.04"}


def load(name):
    # YAML 1.1 reads the key `on` as true.
    found = yaml.safe_load((ROOT / ".github" / "workflows" / name).read_text(encoding="utf-8"))
    return {"on" if key is True else key: value for key, value in found.items()}


def steps(name):
    return [step for job in load(name)["jobs"].values() for step in job.get("steps", ())]


def test_every_workflow_is_known():
    assert [path.name for path in FILES] == ["ci.yml", "pages.yml", "release.yml", "weekly.yml", "wheels.yml"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_jobs_are_whole(path):
    workflow = load(path.name)
    assert set(workflow) <= {"name", "on", "permissions", "concurrency", "jobs"}
    assert workflow["permissions"] == {"contents": "read"}, "a job that needs more says so itself"
    for name, job in workflow["jobs"].items():
        needs = job.get("needs", [])
        assert ({needs} if isinstance(needs, str) else set(needs)) <= set(workflow["jobs"]), name
        if "uses" in job:
            called = job["uses"].removeprefix("./.github/workflows/")
            assert "workflow_call" in load(called)["on"]
            continue
        assert job["steps"]
        rows = job.get("strategy", {}).get("matrix", {}).get("include", [])
        assert not RETIRED & {job["runs-on"], *(row["os"] for row in rows)}
        for step in job["steps"]:
            assert ("uses" in step) != ("run" in step), (name, step)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_what_steps_call_exists(path):
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for step in steps(path.name):
        if "uses" in step:
            assert step["uses"] in ACTIONS
            continue
        words = shlex.split(step["run"], comments=True)
        if words[0] == "make":
            assert re.search(rf"^{words[1]}:", makefile, re.MULTILINE), words
        for word in words:
            if word.endswith(".py") or word.startswith(".ci/"):
                assert (ROOT / word).exists(), word
        for module in re.findall(r"-m (benches\.\w+)", step["run"]):
            assert (ROOT / f"{module.replace('.', '/')}.py").exists() or (ROOT / module.replace(".", "/")).is_dir()


def test_a_release_publishes_every_package_and_nothing_else():
    uploaded = {step["with"]["name"] for step in steps("wheels.yml") if "upload-artifact" in step.get("uses", "")}
    release = load("release.yml")
    for job in ("publish", "github"):
        patterns = [
            step["with"]["pattern"] for step in release["jobs"][job]["steps"] if "pattern" in step.get("with", {})
        ]
        assert len(patterns) == 1
        assert uploaded
        assert all(fnmatch(name, patterns[0]) for name in uploaded)
        assert not fnmatch("notes", patterns[0])
        if job == "publish":
            assert release["jobs"][job]["environment"] == "pypi"
            assert release["jobs"][job]["permissions"] == {"id-token": "write"}
    assert "push" not in load("wheels.yml")["on"], "a tag would build twice"


def test_only_the_weekly_job_without_pins_may_fail():
    weekly = load("weekly.yml")["jobs"]
    assert [name for name, job in weekly.items() if job.get("continue-on-error")] == ["newest"]
    assert weekly["newest"]["steps"][-1]["run"].endswith("NEWEST=1")


@pytest.fixture(scope="module")
def notes():
    return modules.load(ROOT / ".github" / "notes.py")


def test_the_notes_of_a_release_are_its_section(notes):
    text = (
        "# Changelog\n\n## Unreleased\n\n- new\n\n## 1.1.0\n\n### Added\n\n- that\n\n## 1.0.0 (2026-01-01)\n\n- first\n"
    )
    assert notes.section(text, "1.1.0") == "### Added\n\n- that"
    assert notes.section(text, "1.0.0") == "- first"
    for version in ("1.1", "2.0.0", "1.1.0.1"):
        with pytest.raises(SystemExit, match="says nothing"):
            notes.section(text, version)


def test_the_notes_of_this_version_are_there_and_another_tag_is_refused(notes, capsys):
    version = (ROOT / "CITATION.cff").read_text(encoding="utf-8").split("\nversion: ")[1].split("\n")[0]
    notes.main(f"v{version}")
    printed = capsys.readouterr().out
    assert "### Added" in printed
    assert "## Unreleased" not in printed
    with pytest.raises(SystemExit, match="is not v"):
        notes.main("v99.0.0")
