"""The code and the commands of the README work as shown."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from orbitcc.cli import app
from orbitcc.envs.environments.registration import IDS

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
LOOP, RLLIB = re.findall(r"```python\n(.*?)```", TEXT, flags=re.DOTALL)
COMMANDS = re.findall(r"^    orbitcc (.*?)(?:  #.*)?$", TEXT, flags=re.MULTILINE)


def run_python(code: str, folder: Path = ROOT) -> list[str]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
        timeout=300,
        cwd=folder,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_the_loop_prints_goodput_and_delay() -> None:
    lines = run_python(LOOP)
    assert len(lines) == 5
    assert all(re.fullmatch(r"\d+\.\d Mbit/s at \d+ ms", line) for line in lines)
    assert max(float(line.split()[0]) for line in lines) > 40


@pytest.mark.slow
def test_the_script_for_rllib_trains_and_its_checkpoint_is_evaluated(tmp_path: Path) -> None:
    pytest.importorskip("ray.rllib")
    assert "range(10)" in RLLIB
    patient = "num_env_runners=2, sample_timeout_s=600"  # beside other tests
    script = RLLIB.replace("range(10)", "range(1)").replace("num_env_runners=2", patient)
    (printed,) = run_python(script, tmp_path)[-1:]
    assert float(printed) < 0  # a number within the first iteration
    (command,) = [text for text in COMMANDS if "rllib:" in text]
    words = [sys.executable, "-m", "orbitcc.cli", *command.split(), "--runs", "1"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        words, cwd=tmp_path, capture_output=True, text=True, env=environment, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "rllib:script" in done.stdout


def test_environments_exist() -> None:
    shown = set(re.findall(r"`(orbitcc/\w+-v0)`", TEXT))
    assert len(shown) == 8
    assert shown <= set(IDS)
    assert f"all {len(IDS)}" in TEXT


def test_commands_are_known() -> None:
    assert len(COMMANDS) >= 4
    for command in COMMANDS:
        name, *words = command.split()
        text = CliRunner().invoke(app, [name, "--help"]).output
        for option in [word for word in words if word.startswith("--")]:
            assert option in text, command


def test_make_targets_exist() -> None:
    known = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    assert set(re.findall(r"\bmake ([a-z]+)\b", TEXT)) <= known
