"""Models of measured paths: how generated ones are compared, and the command."""

import json

import numpy as np
import pytest

from orbitcc.common.errors import OrbitccError
from orbitcc.envs.fitting.distribution import Observed
from orbitcc.envs.orbits.trace_set import TraceSet
from orbitcc.envs.scenarios import load
from orbitcc.eval import path_model
from orbitcc.parallel import work
from tests.commands.shell import called
from tests.envs import trace_folders

EACH = lambda function, items, name=str: enumerate(map(function, items))  # noqa: E731


def path(rtt_ms, rate_mbps=None) -> Observed:
    rate = None if rate_mbps is None else np.array(rate_mbps, dtype=float)
    return Observed("p", 0.5 * len(rtt_ms), rate, np.array(rtt_ms, dtype=float), 0.5)


def test_distances_are_differences_of_shares(monkeypatch):
    monkeypatch.setattr(path_model, "CONTROLLERS", ())
    parts = {
        "train": [path([1, 2, 3, 4])],
        "test": [path([1, 2, np.nan, 4])],
        "generated": [path([3, 4, 5, 6]), path([3, 4, 5, 6])],
    }
    found = path_model.compare(parts, {}, EACH)
    rtt = next(m for m in found.marginals if m.quantity == "RTT")
    assert rtt.measured == pytest.approx((1.1, 2, 3.8))
    assert rtt.distance == pytest.approx(2 / 3)  # below 3 ms: two of three against none
    assert rtt.between_parts == pytest.approx(1 / 6)  # up to 3 ms: two of three against three of four, and so on
    loss = next(m for m in found.marginals if m.quantity == "loss in a second")
    assert loss.measured == pytest.approx((2.5, 25, 47.5))
    assert "RTT: 0.67 apart, train and test 0.17" in found.misses()
    with pytest.raises(OrbitccError, match="generated: 'no path'"):
        path_model.compare(parts | {"generated": []}, {}, EACH)


def test_correlations_over_time_are_those_of_half_seconds():
    square = path(np.tile([10, 20], 50))
    assert path_model.correlation(path_model.halves(square, "RTT"), 0.5) == pytest.approx(-1, abs=0.02)
    assert path_model.correlation(path_model.halves(square, "RTT"), 1.0) == pytest.approx(1)
    assert np.isnan(path_model.correlation(path_model.halves(path([5] * 100), "RTT"), 1.0))
    assert path_model.halves(square, "rate").size == 0
    slots = path(10 + np.sin(2 * np.pi * np.arange(0, 120, 0.5) / 15))
    shares = dict(path_model._figures())
    assert shares["RTT, share of the variance at 1/15 Hz"](slots) == pytest.approx(1)


def test_the_command_writes_a_distribution_that_draws_paths_like_the_measured_ones(tmp_path):
    out, picture = tmp_path / "model.toml", tmp_path / "model.png"
    given = [trace_folders.shared(), "--out", str(out), "--worlds", "2", "--plot", str(picture), "--json"]
    done = called("traces", "model", *given)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    # Each place has its own part. One opportunity per ms: 12 Mbit/s; an outage of 100 ms that holds packets.
    assert set(told["notes"]) == {"A", "B", "C", "D"}
    drawn = load(out)
    scenario = drawn.sample(np.random.default_rng(1))
    assert scenario.duration_s == 20
    rate = next(m for m in told["marginals"] if m["quantity"] == "mean rate of a path")
    assert rate["measured"][1] == pytest.approx(rate["generated"][1], rel=0.1)
    assert {c["controller"] for c in told["controllers"]} == set(path_model.CONTROLLERS)
    assert picture.read_bytes().startswith(b"\x89PNG")
    again = called("traces", "model", *given)
    assert again.returncode == 2
    assert "--overwrite" in again.stderr
    for wrong in (
        ["--out", str(tmp_path / "model.npz")],
        ["--out", str(out), "--overwrite", "--plot", "x.txt"],
        ["--out", str(out), "--overwrite", "--workers", "0"],
        ["--out", str(out), "--overwrite", "--workers", "-3"],
    ):
        assert called("traces", "model", given[0], *wrong).returncode == 2


def test_a_model_that_is_stopped_says_so(tmp_path, monkeypatch):
    def stopped(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(path_model, "model", stopped)
    done = called("traces", "model", trace_folders.shared(), "--out", str(tmp_path / "m.toml"))
    assert done.returncode == 130
    assert done.stderr == "interrupted; nothing is kept. Start again with the same command\n"


def test_paths_that_are_fitted_together_are_compared_together(tmp_path, monkeypatch):
    """A has 30 traces with RTTs of 42 to 100 ms; each of twelve other places has three with 400 ms."""
    monkeypatch.setattr(path_model, "CONTROLLERS", ())
    folder = trace_folders.leocc(tmp_path / "traces", "A", 30)
    for place in "BCDEFGHIJKLM":
        trace_folders.leocc(folder, place, 3)
        for k in (1, 2, 3):
            (folder / place / str(k) / f"delay_{k}.txt").write_text("200\n" * 2_000)
    traces = TraceSet(trace_folders.imported("leocc", folder, tmp_path / "set.npz"))
    del traces.index["source"]  # as of a set of another program
    found = path_model.model(traces, "m", EACH, worlds=2)
    assert set(found.notes) == {"A", "other places"}
    assert found.table["description"].endswith(traces.path)
    shares = {
        part: np.mean([np.nanmedian(path.rtt_ms) > 200 for path in found.seen[part]]) for part in ("test", "generated")
    }
    assert 0.2 < shares["test"] < 0.9
    assert shares["generated"] == pytest.approx(shares["test"], abs=0.3)


def test_a_set_with_few_paths_is_refused(tmp_path):
    few = trace_folders.imported("leocc", trace_folders.leocc(tmp_path / "traces", "A", 6), tmp_path / "few.npz")
    with work.workers(1) as apply, pytest.raises(OrbitccError, match="at least 5 paths"):
        path_model.model(TraceSet(few), "few", apply, worlds=2)
