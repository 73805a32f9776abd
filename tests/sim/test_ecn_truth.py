"""Against Linux 6.1 with ECN and on a LEO path, measured in exact virtual time (tests/data/kernel_truth/ecn.csv)."""

from __future__ import annotations

import numpy as np
import pytest

from tests.sim.ecn_truth import SLOT_S, Case, compared, ensemble, leo_windows, measured, simulated

# One of each: a classic sender, DCTCP at a step, a sender that only CWR answers for, and a pair.
SHORT = [
    Case("E1", "codel", "cubic"),
    Case("E1", "step", "dctcp"),
    Case("E1", "fq_codel", "reno"),
]


@pytest.mark.parametrize("case", SHORT, ids=str)
def test_one_flow_ends_as_in_linux(case):
    missed = [row for row in compared(case, [simulated(case)]) if not row[-1]]
    assert not missed


@pytest.mark.slow
def test_nearly_all_figures_lie_within_those_of_linux():
    # `python -m benches.ecn` runs all offsets; the pairs of Cubic take twelve each.
    cases = [case for case in measured() if case.scenario in ("E1", "E3") or "dctcp" in case.flows]
    rows = [(case, row) for case in cases for row in compared(case, ensemble(case))]
    missed = [(case, *row) for case, row in rows if not row[-1]]
    assert len(missed) <= 0.05 * len(rows), missed


def test_packets_without_ecn_are_dropped_where_others_are_marked():
    # Linux drops all of the second flow's packets that it would mark, and none of the first's.
    case = Case("E2", "codel", "cubic+cubic:off")
    first, second = simulated(case)
    assert (first.retransmitted_packets, second.marked_packets) == (0, 0)
    assert 11 <= second.retransmitted_packets <= 15
    assert 14 <= first.marked_packets <= 20


@pytest.mark.parametrize(("queue", "flows"), [("drop_tail", "reno:off"), ("fq_codel", "reno"), ("fq_codel", "cubic")])
def test_a_leo_path_ends_as_in_linux(queue, flows):
    case = Case("E3", queue, flows)
    missed = [row for row in compared(case, ensemble(case)) if not row[-1]]
    assert not missed


@pytest.mark.parametrize(("controller", "seconds"), [("reno", 120), ("cubic", 59)])
def test_the_window_follows_linux_over_a_leo_path(controller, seconds):
    """Cubic, as long as both meet a full queue before the same outages."""
    kernel, ours = (side[: 10 * seconds] for side in leo_windows(controller))
    near = np.abs(ours[:, 0] - kernel[:, 0]) <= np.maximum(3, 0.02 * kernel[:, 0])
    assert near.mean() > 0.95
    after = [10 * (at + 2) for at in range(SLOT_S, seconds - 2, SLOT_S)]
    np.testing.assert_allclose(ours[after, 1], kernel[after, 1], rtol=0.03)
