"""Against Linux 6.1 with ECN, measured in exact virtual time (tests/data/kernel_truth/ecn.csv)."""

from __future__ import annotations

import pytest

from tests.sim.ecn_truth import Case, compared, ensemble, measured, simulated

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
    cases = [case for case in measured() if case.scenario == "E1" or "dctcp" in case.flows]
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
