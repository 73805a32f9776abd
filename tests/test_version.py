"""The version is stated in several places: they agree."""

import json
import re
import tomllib
from pathlib import Path

import pytest

import orbitcc

ROOT = Path(__file__).parents[1]
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]


def stated(path, pattern):
    return re.findall(pattern, (ROOT / path).read_text(encoding="utf-8"), flags=re.MULTILINE)


@pytest.mark.parametrize(
    ("path", "pattern"),
    [
        ("CITATION.cff", r"^version: (.+)$"),
        ("sim/Cargo.toml", r'^version = "(.+)"$'),
        ("docs/index.md", r"version = \{(.+)\}"),
    ],
)
def test_each_place_states_the_version_of_the_package(path, pattern):
    assert stated(path, pattern) == [VERSION]


def test_every_crate_takes_the_version_of_the_workspace():
    for path in (ROOT / "sim").glob("*/Cargo.toml"):
        crate = tomllib.loads(path.read_text(encoding="utf-8"))["package"]
        assert crate["version"] == {"workspace": True}, path


def test_the_package_says_its_version():
    assert orbitcc.__version__ == VERSION


def test_the_pages_name_wheels_of_this_version():
    named = {path.name: stated(path, r"orbitcc-(\d+\.\d+\.\d+)-") for path in (ROOT / "docs").glob("*.md")}
    assert named["packaging.md"]
    assert {version for versions in named.values() for version in versions} == {VERSION}


def test_the_notebook_shows_this_version():
    cells = json.loads((ROOT / "docs" / "notebook.ipynb").read_text(encoding="utf-8"))["cells"]
    shown = [
        "".join(output["data"]["text/plain"])
        for cell in cells
        for output in cell.get("outputs", ())
        if "".join(cell["source"]).endswith("orbitcc.__version__")
    ]
    assert shown == [repr(VERSION)]


def test_the_changelog_has_a_section_for_this_version_below_what_is_unreleased():
    first, second, *_ = stated("CHANGELOG.md", r"^## (.+)$")
    assert first == "Unreleased"
    assert second.split(" ")[0] == VERSION
