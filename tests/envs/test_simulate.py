import numpy as np
import pytest

from orbitcc import _sim
from orbitcc.common.errors import FileError, OrbitccError
from orbitcc.envs import scenarios
from orbitcc.envs.backends.simulator import Recording, simulate
from orbitcc.envs.description.flows import Flow


@pytest.fixture(scope="module")
def recording():
    scenario = scenarios.get("dumbbell", rate_mbps=20, duration_s=4).with_flows(
        [Flow.parse("cubic"), Flow.parse("reno@2s")]
    )
    return simulate(scenario, seed=3, record_interval_s=0.5)


def test_series_have_one_row_per_interval_and_one_column_per_flow_or_link(recording):
    np.testing.assert_allclose(recording.t_s, np.arange(1, 9) * 0.5)
    assert set(recording.flows) == set(_sim.FLOW_SERIES)
    assert set(recording.links) == set(_sim.LINK_SERIES)
    assert {series.shape for series in recording.flows.values()} == {(8, 2)}
    assert {series.shape for series in recording.links.values()} == {(8, 1)}
    assert recording.flow_names == ("cubic-0", "reno-1")
    assert recording.scenario.seed == 3


def test_a_flow_that_is_not_there_has_no_levels_and_no_counts(recording):
    before = recording.t_s <= 2
    for name in ("srtt_ms", "cwnd_packets", "base_rtt_ms"):
        assert np.isnan(recording.flows[name][before, 1]).all()
    for name in ("active", "goodput_mbps", "sent_packets"):
        assert (recording.flows[name][before, 1] == 0).all()
    assert (recording.flows["goodput_mbps"][-2:, 1] > 0).all()


def test_totals_agree_with_the_series(recording):
    total = recording.flow_totals[0]
    assert total["sent_packets"] == recording.flows["sent_packets"][:, 0].sum()
    link = recording.link_totals[0]
    assert link["capacity_mbps"] == pytest.approx(20)
    assert link["utilisation"] == pytest.approx(recording.links["delivered_mbps"][:, 0].mean() / 20, rel=1e-6)


def test_goodput_never_exceeds_what_headers_leave(recording):
    # Summed since the start: what waited behind a hole is delivered at once when the hole is filled.
    delivered = recording.flows["goodput_mbps"].sum(axis=1).cumsum()
    assert (delivered <= 20 * 1448 / 1514 * np.arange(1, 9)).all()
    assert recording.links["delivered_mbps"].max() <= 20 * 1.001


def test_a_recording_survives_its_file(recording, tmp_path):
    copy = Recording.load(recording.save(tmp_path / "run.npz"))
    assert copy.scenario == recording.scenario
    assert copy.flow_totals == recording.flow_totals
    assert copy.link_totals == recording.link_totals
    for group in ("flows", "links"):
        for name, series in getattr(recording, group).items():
            np.testing.assert_array_equal(getattr(copy, group)[name], series)


def test_a_foreign_file_is_refused(tmp_path):
    (tmp_path / "text.npz").write_text("no")
    np.savez(tmp_path / "other.npz", x=np.zeros(3))
    (tmp_path / "empty.npz").write_bytes(b"")
    for name in ("text", "other", "empty"):
        with pytest.raises(FileError, match="a recording written by OrbitCC"):
            Recording.load(tmp_path / f"{name}.npz")
    with pytest.raises(FileError, match="no such file"):
        Recording.load(tmp_path / "none.npz")


def test_csv_has_a_column_for_each_series(recording, tmp_path):
    lines = recording.save_csv(tmp_path / "run.csv").read_text(encoding="utf-8").splitlines()
    head = lines[0].split(",")
    assert len(lines) == 9
    assert len(head) == 1 + 2 * len(_sim.FLOW_SERIES) + len(_sim.LINK_SERIES)
    row = dict(zip(head, lines[-1].split(","), strict=True))
    assert float(row["t_s"]) == 4
    assert float(row["cubic-0.goodput_mbps"]) == pytest.approx(recording.flows["goodput_mbps"][-1, 0])
    first = dict(zip(head, lines[1].split(","), strict=True))
    assert first["reno-1.srtt_ms"] == ""


def test_csv_keeps_the_series_of_a_flow_and_a_link_with_the_same_name(tmp_path):
    scenario = scenarios.get("dumbbell", rate_mbps=2, duration_s=4)
    (link,) = scenario.links
    links = (link.changed(name="up", loss=0.02), link.changed(name="link.up", rate_mbps=1))
    scenario = scenario.changed(links=links).with_flows([Flow(name="up", controller="cubic", path=["up", "link.up"])])
    recording = simulate(scenario, seed=1)
    head, *lines = recording.save_csv(tmp_path / "run.csv").read_text(encoding="utf-8").splitlines()
    assert len(set(head.split(","))) == 1 + len(_sim.FLOW_SERIES) + 2 * len(_sim.LINK_SERIES)
    values = np.array([[float(cell or "nan") for cell in line.split(",")] for line in lines])
    columns = dict(zip(head.split(","), values.T, strict=True))
    lost = recording.flows["lost_packets"][:, 0], *recording.links["lost_packets"].T
    assert not np.array_equal(lost[0], lost[1])
    assert sum(lost[1]) > 0
    for name, series in zip(("up", "link.up", "link.link.up"), lost, strict=True):
        np.testing.assert_allclose(columns[f"{name}.lost_packets"], series)
    np.testing.assert_allclose(columns["up.delivered_mbps"], recording.links["delivered_mbps"][:, 0], rtol=1e-6)


def test_the_seed_decides_everything():
    scenario = scenarios.get("dumbbell", rate_mbps=10, duration_s=3)
    runs = [simulate(scenario, seed=seed).flows["rtt_ms"] for seed in (1, 1, 2)]
    np.testing.assert_array_equal(runs[0], runs[1])
    assert not np.array_equal(runs[0], runs[2])


def test_recording_more_finely_does_not_change_the_run():
    scenario = scenarios.get("leo-responsiveness", run=2, duration_s=17)
    assert simulate(scenario, record_interval_s=1).flow_totals == simulate(scenario, record_interval_s=0.05).flow_totals


def test_progress_ends_at_one():
    told = []
    simulate(scenarios.get("dumbbell", rate_mbps=1, duration_s=1), progress=told.append)
    assert told == sorted(told)
    assert told[-1] == 1.0


def test_a_flow_without_a_driver_is_refused():
    drawn = scenarios.distribution("train-leo").sample(np.random.default_rng(1))
    with pytest.raises(OrbitccError, match="flows.0.controller: 'contender'"):
        simulate(drawn)


def test_an_interval_that_would_fill_the_memory_is_refused():
    # 1,000,000 s of 16 series of a flow and 9 of a link are 25,000,000 values at one per second, of 500,000,000.
    with pytest.raises(OrbitccError, match=r"^interval: 0.01 .*\[0.05, 1e\+06\] s"):
        simulate(scenarios.get("dumbbell", duration_s=1e6), record_interval_s=0.01)


@pytest.mark.parametrize("interval", [0, -1, float("nan"), 100])
def test_a_wrong_interval_is_named(interval):
    with pytest.raises(OrbitccError, match=r"^interval: .*\[0.001, 2\] s"):
        simulate(scenarios.get("dumbbell", duration_s=2), record_interval_s=interval)


WITHIN_3_S = {
    "parking-lot": {"long_start_s": 1.0},
    "inter-rtt": {"join_s": 1.0},
    "intra-rtt": {"join_s": 1.0},
    "cubic-friendliness": {"join_s": 1.0},
    "double-dumbbell": {"cross_s": 1.0, "return_s": 2.0},
    "delay-jump": {"at_s": 1.0},
}


@pytest.mark.parametrize("name", [name for name in scenarios.SCENARIOS if name != "path-trace"])  # that needs a file
def test_every_scenario_of_the_library_runs(name):
    settings = {"duration_s": 3.0, **WITHIN_3_S.get(name, {})}
    if name == "efficiency":
        settings = {"start_span_s": 1.0, "life_s": 2.0}
    for total in simulate(scenarios.get(name, **settings)).flow_totals:
        assert total["received_bytes"] > 0


@pytest.mark.parametrize("name", scenarios.DISTRIBUTIONS)
def test_the_simulator_takes_every_draw(name):
    rng = np.random.default_rng(5)
    for _ in range(30):
        _sim.Simulation(scenarios.distribution(name).sample(rng).compile()).run_until(10**8)
