"""Trace sets that no import wrote, with a digest that fits."""

import json

import numpy as np
import pytest

from benches.fuzz import forged_set
from orbitcc.common.errors import FileContentError
from orbitcc.envs.orbits import trace_set
from orbitcc.envs.orbits.trace_set import MeasuredPath, TraceSet
from orbitcc.envs.traces.check import check

PATHS = [
    MeasuredPath(f"p{k}", "here", "", 30.0, np.full(30, 20.0), 1.0, np.full(30, 10.0), np.full(30, 2.0), 1.0)
    for k in range(3)
]


def forged(path, index=lambda entry: None, head=None, **arrays):
    """A set of three paths; `index` changes the entry of path 0, `arrays` replace arrays of path 0."""
    entries = [{**p.entry(), "part": part} for p, part in zip(PATHS, trace_set.PARTS, strict=True)]
    index(entries[0])
    whole = {"format": trace_set.FORMAT, "paths": entries, **(head or {})}
    return forged_set(path, [{**PATHS[0].arrays(), **arrays}, *(p.arrays() for p in PATHS[1:])], json.dumps(whole))


def test_the_set_is_read_without_a_change(tmp_path):
    found = TraceSet(forged(tmp_path / "set.npz"))
    assert found.measured(0).trace().duration_s == 30
    assert {one.what for one in check(found)} == {"same content", "frozen rate", "frozen delay"}


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("delay_ms", np.zeros(0)),
        ("delay_ms", np.full((30, 1), 20.0)),
        ("delay_ms", np.full(10, 20.0)),
        ("delay_ms", np.full(30, 20j)),
        ("rate_mbps", np.zeros(0)),
        ("rate_mbps", np.full(33, 10.0)),
        ("back_mbps", np.full(10, 2.0)),
    ],
)
def test_an_array_of_another_shape_is_refused(tmp_path, name, values):
    found = TraceSet(forged(tmp_path / "set.npz", **{name: values}))
    for use in (lambda: found.measured(0), lambda: list(check(found))):
        with pytest.raises(FileContentError, match=f"0/{name}"):
            use()


@pytest.mark.parametrize(
    "change",
    [
        {"rtt_ms": [1.0]},
        {"rate_mbps": []},
        {"rate_mbps": 0},
        {"place": "x" * 10_000},
        {"duration_s": 0},
        {"duration_s": None},
        {"duration_s": []},
        {"duration_s": True},
        {"rate_step_s": 0},
        {"digest": "zz"},
        {"digest": "-1"},
    ],
)
def test_an_entry_that_no_import_writes_is_refused(tmp_path, change):
    with pytest.raises(FileContentError, match="path 0 of its index is damaged"):
        TraceSet(forged(tmp_path / "set.npz", lambda entry: entry.update(change)))


def test_what_was_left_out_is_a_list(tmp_path):
    with pytest.raises(FileContentError, match="unreadable is not a list"):
        TraceSet(forged(tmp_path / "set.npz", head={"unreadable": 5}))
