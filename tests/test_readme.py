"""What the README shows works as shown."""

import re
from pathlib import Path

from typer.testing import CliRunner

from orbitcc.cli import app
from orbitcc.envs.backends.simulator import simulate
from orbitcc.envs.description.scenario import Scenario

TEXT = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")


def blocks(language):
    found = re.findall(rf"```{language}\n(.*?)```", TEXT, flags=re.DOTALL)
    assert found
    return found


def test_scenario_files_run():
    for text in blocks("toml"):
        recording = simulate(Scenario.from_toml(text))
        assert all(total["received_bytes"] > 0 for total in recording.flow_totals)


def test_environments_are_made():
    for text in blocks("python"):
        made = {}
        exec(text, made)
        made["env"].reset(seed=1)
        made["envs"].reset(seed=1)
        made["world"].reset(seed=1)


def test_runs_are_valid_commands(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    commands = re.findall(r"^    orbitcc ((?:run|path|list).*)$", TEXT, flags=re.MULTILINE)
    assert commands
    for command in commands:
        assert CliRunner().invoke(app, command.split(), catch_exceptions=False).exit_code == 0
