"""The end of a run names what this machine lacks, once, and the command that helps."""

from tests import skipped


def test_what_was_skipped_is_said_once_with_the_command():
    lines = skipped.sentences(
        [
            ("tests/emulator/test_runs.py::a", "Skipped: orbitcc-emulator is missing: make emulator"),
            ("tests/emulator/test_runs.py::b", "Skipped: orbitcc-emulator is missing: make emulator"),
            ("tests/deploy/test_traffic.py::c", "Skipped: root is missing: run as root"),
            ("tests/envs/test_captures.py::d", "Skipped: tshark is not installed (make system)"),
            ("tests/environments/test_sb3.py::e", "Skipped: could not import 'stable_baselines3'"),
        ]
    )
    assert lines[0] == (
        "4 tests of this machine's kernel and tools were skipped: orbitcc-emulator is missing: make emulator; "
        "root is missing: run as root; tshark is not installed (make system)."
    )
    assert "make system test" in lines[1]


def test_nothing_is_said_where_nothing_was_missing():
    assert skipped.sentences([("tests/environments/test_sb3.py::e", "Skipped: could not import")]) == []
