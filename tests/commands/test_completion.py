"""Shell completion: the script is told, and words are completed."""

import os
import subprocess
import sys

import pytest

PROGRAM = "import sys; sys.argv[0] = 'orbitcc'; from orbitcc.cli import main; main()"


def told(**variables):
    """What the command prints for a shell that completes."""
    env = {**os.environ, **variables}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=env, capture_output=True, text=True, timeout=60, check=False
    )
    return done.stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_a_shell_is_shown(shell):
    assert f"_ORBITCC_COMPLETE=complete_{shell}" in told(_ORBITCC_COMPLETE=f"source_{shell}")


def test_commands_and_options_are_completed():
    def completed(words):
        place = str(words.count(" "))
        return told(_ORBITCC_COMPLETE="complete_bash", COMP_WORDS=words, COMP_CWORD=place).split()

    assert completed("orbitcc re") == ["reproduce"]
    assert "dataset" in completed("orbitcc d")
    assert completed("orbitcc run --pc") == ["--pcap"]


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ("orbitcc run leo-resp", "leo-responsiveness"),
        ("orbitcc run dumbbell --flow bbr", "bbr3"),
        ("orbitcc run dumbbell --policy peri", "perigee"),
        ("orbitcc eval responsiveness-l", "responsiveness-loss"),
        ("orbitcc train peri", "perigee"),
        ("orbitcc policy show apo", "apogee"),
        ("orbitcc list rec", "recipes"),
    ],
)
def test_names_are_completed(words, name):
    place = str(words.count(" "))
    shown = told(_ORBITCC_COMPLETE="complete_bash", COMP_WORDS=words, COMP_CWORD=place).split()
    assert name in shown
