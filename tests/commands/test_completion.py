"""Shell completion: the script is told, and words are completed."""

import os
import subprocess
import sys

from tests.commands.shell import orbitcc


def test_the_script_of_a_shell_is_shown():
    done = orbitcc("--show-completion", "bash")
    assert done.returncode == 0, done.stderr
    assert "complete -o default -F" in done.stdout


def test_commands_and_options_are_completed():
    def completed(words):
        env = {
            **os.environ,
            "_ORBITCC_COMPLETE": "complete_bash",
            "COMP_WORDS": words,
            "COMP_CWORD": str(words.count(" ")),
        }
        program = "import sys; sys.argv[0] = 'orbitcc'; from orbitcc.cli import main; main()"
        done = subprocess.run(
            [sys.executable, "-c", program], env=env, capture_output=True, text=True, timeout=60, check=False
        )
        return done.stdout.split()

    assert completed("orbitcc re") == ["reproduce"]
    assert "dataset" in completed("orbitcc d")
    assert completed("orbitcc run --pc") == ["--pcap"]
