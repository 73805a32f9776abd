"""The results over Ray: the same table as without."""

import pytest

from orbitcc.envs.errors import OrbitccError
from orbitcc.eval import contenders, suites
from orbitcc.eval.runner import run_suite


def run(out, **options):
    line_up = contenders.line_up(["cubic", "bbr3"], [])
    return run_suite(suites.get("rate-step"), line_up, out_dir=out, runs=2, quiet=True, **options)


def test_a_cluster_that_does_not_answer_is_refused_at_once(tmp_path):
    pytest.importorskip("ray")
    for address in ("127.0.0.1:1", "nonsense", "host:port"):
        with pytest.raises(OrbitccError, match="ray: .* is not allowed; allowed: HOST:PORT"):
            run(tmp_path / "out", ray=address)
        assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_runs_over_a_cluster_are_those_of_this_machine(tmp_path):
    pytest.importorskip("ray")
    here, there = run(tmp_path / "here", workers=1), run(tmp_path / "there", ray="local")
    assert (tmp_path / "here" / "runs.csv").read_bytes() == (tmp_path / "there" / "runs.csv").read_bytes()
    assert here.recordings().keys() == there.recordings().keys()
