import json
import os

import pytest
from typer.testing import CliRunner

from orbitcc.cli import app
from orbitcc.common.errors import OrbitccError
from tests.commands.shell import orbitcc

KINDS = ["scenarios", "envs", "presets", "controllers", "suites", "recipes", "policies", "places", "statistics"]


def listed(*args):
    done = CliRunner().invoke(app, ["list", *args], catch_exceptions=False)
    assert done.exit_code == 0
    return done.stdout


def test_everything_that_has_a_name_is_listed():
    found = json.loads(listed("--json"))
    assert list(found) == KINDS
    names = {kind: {entry["name"] for entry in entries} for kind, entries in found.items()}
    assert {"dumbbell", "leo-responsiveness", "geo-ideal", "parking-lot", "train-mixed"} <= names["scenarios"]
    assert {"orbitcc/Dumbbell-v0", "orbitcc/TrainMixed-v0"} <= names["envs"]
    assert {"astraea", "orca", "aurora"} <= names["presets"]
    assert {"reno", "cubic"} <= names["controllers"]
    assert "responsiveness" in names["suites"]
    assert all(entry["description"] for entries in found.values() for entry in entries)


def test_one_kind_is_listed_alone():
    assert list(json.loads(listed("controllers", "--json"))) == ["controllers"]
    out = listed("controllers")
    assert "hystart" in out
    assert "dumbbell" not in out


def test_an_unknown_kind_suggests_the_nearest():
    with pytest.raises(OrbitccError, match="unknown name 'scenario'; did you mean 'scenarios'"):
        CliRunner().invoke(app, ["list", "scenario"], catch_exceptions=False)


def test_a_locale_without_utf_8_lists_everything():
    ascii_only = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    done = orbitcc("list", env={**os.environ, **ascii_only})
    assert done.returncode == 0, done.stderr
    assert "leo-responsiveness" in done.stdout
    assert done.stdout.isascii()


@pytest.mark.parametrize("columns", ["0", "1"])
def test_tables_have_letters_whatever_the_environment_says_of_the_terminal(columns):
    done = orbitcc("list", "controllers", env={**os.environ, "COLUMNS": columns})
    assert "westwood" in done.stdout


def test_a_drawing_backend_that_does_not_exist_is_not_asked_for(tmp_path):
    words = ["run", "dumbbell", "--set", "duration_s=1", "--plot", str(tmp_path / "run.png")]
    done = orbitcc(*words, env={**os.environ, "MPLBACKEND": "none"})
    assert (done.returncode, done.stderr) == (0, "")
