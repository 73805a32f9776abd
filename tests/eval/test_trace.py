"""The trace of a policy: contributions add up to the action, and the command writes them."""

import csv
from pathlib import Path

import numpy as np
import pytest

from orbitcc.agents import checkpoint
from orbitcc.agents.model_card import Gate, Layer
from orbitcc.envs import scenarios
from orbitcc.envs.description.scenario import Flow, Scenario
from orbitcc.envs.environments.presets import definition_hash
from orbitcc.eval.trace import trace
from tests.commands.shell import called

FEATURES = ["inflation", "rate-share", "loss"]


@pytest.fixture
def gated(tmp_path: Path) -> Path:
    """Two linear experts of inflation and rate share, weighed by a gate of the loss alone."""
    shipped = checkpoint.load("perigee").card
    linear = (Layer(units=2, activation="linear"),)
    hashed = definition_hash("observation", {"name": "features", "features": FEATURES})
    seen = {"preset": "features", "parameters": {"features": FEATURES}, "dim": 3, "hash": hashed}
    card = shipped.model_copy(
        update={
            "name": "gated",
            "observation": shipped.observation.model_copy(update=seen),
            "layers": linear,
            "gate": Gate(layers=linear, inputs=(2,), expert_inputs=(0, 1)),
            "normaliser": False,
        }
    )
    f32 = np.float32
    tensors = {
        "layers.0.weight": np.array([[-2.0, 0.5], [0.0, -0.25]], f32),
        "layers.0.bias": np.array([0.4, 0.1], f32),
        "gate.0.weight": np.array([[0.0], [1.0]], f32),
        "gate.0.bias": np.array([0.0, np.log(3.0)], f32),
    }
    return checkpoint.save(tmp_path / "gated", card, tensors)


def test_contributions_of_a_mixture_are_weighed_by_its_gate_and_add_up_to_the_action(gated: Path) -> None:
    made = trace(scenarios.get("dumbbell", duration_s=5.0), str(gated))
    assert made.contributions.shape == made.inputs.shape == (len(made.actions), 3)
    # Without losses the weights are 1/4 and 3/4: inflation counts -2/4, the rate share 0.5/4 - 0.25 * 3/4.
    calm = made.inputs[:, 2] == 0.0
    assert calm.any()
    np.testing.assert_allclose(made.gate[calm], np.broadcast_to([0.25, 0.75], (calm.sum(), 2)), atol=1e-6)
    np.testing.assert_allclose(made.contributions[calm, 0], -0.5 * made.inputs[calm, 0], atol=1e-6)
    np.testing.assert_allclose(made.contributions[calm, 1], -0.0625 * made.inputs[calm, 1], atol=1e-6)
    np.testing.assert_allclose(made.constant[calm], 0.4 / 4 + 0.3 / 4, atol=1e-6)
    total = np.clip(made.contributions.sum(axis=1) + made.constant, -1.0, 1.0)
    np.testing.assert_allclose(total, made.actions, atol=1e-5)


def test_contributions_of_a_linear_policy_add_up_to_its_actions() -> None:
    made = trace(scenarios.get("leo-responsiveness", duration_s=20.0), "perigee")
    total = np.clip(made.contributions.sum(axis=1) + made.constant, -1.0, 1.0)
    np.testing.assert_allclose(total, made.actions, atol=1e-4)
    assert made.gate.shape == (len(made.actions), 0)


def test_the_seed_of_the_scenario_is_that_of_the_trace() -> None:
    played = scenarios.get("leo-responsiveness", loss=True, duration_s=10.0)
    one, other, again = (trace(played.with_seed(seed), "perigee") for seed in (1, 7, 7))
    assert not np.array_equal(one.actions, other.actions)
    np.testing.assert_array_equal(other.actions, again.actions)


def test_a_network_with_hidden_layers_has_no_contributions() -> None:
    made = trace(scenarios.get("dumbbell", duration_s=5.0), "apogee")
    assert not made.contributions.any()
    assert made.inputs.any()


def test_the_command_prints_a_table_and_writes_rows_and_a_picture(gated: Path, tmp_path: Path) -> None:
    table, picture = tmp_path / "rows.csv", tmp_path / "trace.png"
    files = ["--csv", str(table), "--plot", str(picture)]
    done = called("trace", str(gated), "dumbbell", "--set", "duration_s=5", "--flow", "cubic", *files)
    assert done.returncode == 0, done.stderr
    assert "weights of the experts" in done.stdout
    with table.open() as file:
        rows = list(csv.DictReader(file))
    assert float(rows[-1]["time_s"]) == pytest.approx(5.0, abs=0.1)
    assert {"action", "cwnd_packets", "queue_packets", "expert:2", "contribution:constant"} <= rows[0].keys()
    assert picture.stat().st_size > 10_000


CBR = {"kind": "cbr", "rate_mbps": 1.0}
MINE = {"name": "mine", "controller": "contender", "start_s": 2.0}


def beside(other: dict[str, object], mine: dict[str, object]) -> Scenario:
    dumbbell = scenarios.get("dumbbell", duration_s=5.0)
    return dumbbell.with_flows([Flow(name="background", **other), Flow(**mine)])


@pytest.mark.parametrize(
    ("other", "mine"),
    [
        ({"controller": "cubic"}, MINE),
        ({"controller": "udp", "traffic": CBR}, {**MINE, "controller": "cubic"}),
    ],
)
def test_the_policy_drives_the_flow_that_it_drives_in_a_run(
    other: dict[str, object], mine: dict[str, object], tmp_path: Path
) -> None:
    played = beside(other, mine)
    made = trace(played, "perigee")
    assert made.flow == "mine"
    assert 2.0 < made.time_s[0] < 2.5, "the flow starts at 2 s, the background at 0"
    played.save(tmp_path / "two.toml")
    done = called("trace", "perigee", "two.toml", "--csv", "t.csv", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert f"{len(made.actions)} decisions of mine" in done.stdout
    made.save_csv(tmp_path / "again.csv")
    assert (tmp_path / "t.csv").read_text() == (tmp_path / "again.csv").read_text()


def test_the_flow_beside_the_contender_keeps_its_controller() -> None:
    cubic, vegas = (trace(beside({"controller": name}, MINE), "perigee") for name in ("cubic", "vegas"))
    assert cubic.measured["goodput_mbps"].mean() < vegas.measured["goodput_mbps"].mean(), "Vegas leaves more"


def test_flows_that_name_the_policy_keep_it_and_the_others_theirs() -> None:
    named = {**MINE, "controller": {"name": "policy", "params": {"path": "perigee"}}}
    made, same = (
        trace(beside({"controller": "cubic"}, named), "perigee"),
        trace(beside({"controller": "cubic"}, MINE), "perigee"),
    )
    assert made.flow == "mine"
    np.testing.assert_array_equal(made.actions, same.actions)


def test_a_policy_behind_a_proxy_is_traced() -> None:
    split = beside(
        {"controller": "cubic"},
        {"name": "mine", "controller": "cubic", "pep": {"of": "background", "buffer_bytes": 10**6}},
    )
    assert trace(split, "perigee").flow == "mine"


def test_a_picture_needs_a_name_and_a_policy_a_checkpoint(tmp_path: Path) -> None:
    for words, message in (
        (["perigee", "dumbbell", "--plot", str(tmp_path / "x.txt")], "a file name ending in"),
        (
            ["perigee", "dumbbell", "--csv", "same.png", "--plot", "same.png"],
            "--csv: 'same.png' is not allowed; allowed: a name ending in .csv\n",
        ),
        (["parigee", "dumbbell"], "did you mean 'perigee'"),
    ):
        done = called("trace", *words, cwd=tmp_path)
        assert (done.returncode, message in done.stderr) == (2, True), done.stderr
