"""BenchMARL trains by the task of examples/benchmarl_task.py (weekly by `make libraries`)."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BESIDE = os.environ.get("ORBITCC_BENCHMARL", "")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not BESIDE, reason="BenchMARL is not installed: `make libraries` does it, weekly"),
]


@pytest.mark.parametrize("algorithm", ["mappo", "ippo", "masac"])
def test_benchmarl_trains_the_flows_of_a_link(algorithm: str) -> None:
    """Two iterations; a return of 200 decisions at a reward of at most 0.1 each lies within 20."""
    code = f"import benchmarl_task; print(benchmarl_task.main({algorithm!r}, iterations=2, duration_s=6.0))"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([BESIDE, str(ROOT / "examples"), str(ROOT)])}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=600, check=False, env=environment
    )
    assert done.returncode == 0, done.stderr
    assert 0.0 < abs(float(done.stdout.splitlines()[-1])) < 20.0
