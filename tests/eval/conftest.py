"""A small finished evaluation that the tests look at."""

import pytest

from orbitcc.eval import contenders, suites
from orbitcc.eval.results import Results
from orbitcc.eval.runner import run_suite


@pytest.fixture(scope="session")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """Three runs of the responsiveness suite for cubic and reno."""
    return run_suite(
        suites.get("responsiveness"),
        contenders.line_up(["cubic", "reno"], []),
        out_dir=tmp_path_factory.mktemp("results"),
        runs=3,
        workers=1,
        quiet=True,
        command="orbitcc eval responsiveness --runs 3",
    )
