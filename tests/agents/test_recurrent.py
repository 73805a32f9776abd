"""Recurrent policies: the native network is PyTorch's, states belong to flows, and checkpoints hold all of it."""

import itertools
import json
from pathlib import Path

import numpy as np
import pytest

from orbitcc import _sim
from orbitcc.agents import checkpoint
from orbitcc.agents.decisions import collect
from orbitcc.agents.deployment import make_object
from orbitcc.agents.model_card import Gru, Layer, ModelCard
from orbitcc.agents.policy import build, expected_tensors
from orbitcc.envs.description.scenario import ControllerSpec, Flow, Scenario
from orbitcc.envs.environments.presets import definition_hash
from orbitcc.envs.environments.single import CongestionEnv
from orbitcc.envs.errors import OrbitccError
from orbitcc.envs.scenarios import get
from orbitcc.eval.trace import trace
from tests.commands.shell import called

FEATURES = ["inflation", "rate-share", "loss", "window-change"]
F32 = np.float32


def card(gru: Gru, *hidden: int, **changes) -> ModelCard:
    shipped = checkpoint.load("perigee").card
    parameters = {"features": FEATURES}
    hashed = definition_hash("observation", {"name": "features", **parameters})
    seen = {"preset": "features", "parameters": parameters, "dim": len(FEATURES), "hash": hashed}
    layers = [Layer(units=units, activation="tanh") for units in hidden]
    values = {
        "name": "recurrent",
        "observation": shipped.observation.model_copy(update=seen),
        "layers": (*layers, Layer(units=1, activation="linear")),
        "gru": gru,
        "normaliser": False,
    }
    return shipped.model_copy(update=values | changes)


def drawn(card: ModelCard, seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {name: rng.uniform(-0.5, 0.5, shape).astype(F32) for name, shape in expected_tensors(card).items()}


SMALL = Gru(units=6, inputs=(1, 3), head_inputs=(0, 1, 2), every=2)


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    made = card(SMALL)
    return checkpoint.save(tmp_path / "recurrent", made, drawn(made, 1))


@pytest.mark.parametrize("seed", range(6))
def test_the_native_network_is_that_of_pytorch(seed: int) -> None:
    """Random weights and sequences; `every` decisions apart, with hidden layers behind the unit and without."""
    torch = pytest.importorskip("torch")
    every, hidden = (1, 3)[seed % 2], ((), (5,), (7, 3))[seed % 3]
    made = card(Gru(units=17, inputs=(0, 1, 3), head_inputs=(2, 0), every=every), *hidden, squash="tanh")
    tensors = drawn(made, seed)
    cell = torch.nn.GRUCell(3, 17, dtype=torch.float64)
    for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
        getattr(cell, name).data = torch.from_numpy(tensors[f"gru.{name}"]).double()
    policy, rows = build(made, tensors), np.random.default_rng(seed + 100).normal(size=(50, 5, 4)).astype(F32)
    state, h = np.zeros((5, policy.state_size), F32), torch.zeros(5, 17, dtype=torch.float64)
    worst = 0.0
    for t, row in enumerate(rows):
        seen = torch.from_numpy(row).double()
        if t % every == 0:
            h = cell(seen[:, [0, 1, 3]], h)
        x = torch.cat([seen[:, [2, 0]], h], 1)
        for index in range(len(made.layers)):
            weight, bias = (torch.from_numpy(tensors[f"layers.{index}.{part}"]).double() for part in ("weight", "bias"))
            x = torch.nn.functional.linear(x, weight, bias)
            x = torch.tanh(x)  # the last one is the squash
        worst = max(worst, np.abs(policy.act(row, state) - x.detach().numpy()).max())
        assert np.abs(state[:, :17] - h.detach().numpy()).max() < 1e-6
    assert worst < 1e-6


def test_actions_and_states_are_bit_equal_over_batch_sizes(saved: Path) -> None:
    policy = checkpoint.load(saved).policy
    rows = np.random.default_rng(0).normal(size=(40, 12, 4)).astype(F32)
    together, alone = np.zeros((12, 7), F32), np.zeros((12, 7), F32)
    for row in rows:
        actions = policy.act(row, together)
        each = np.concatenate([policy.act(row[i : i + 1], alone[i : i + 1]) for i in range(12)])
        assert np.array_equal(actions, each)
        assert np.array_equal(together, alone)
    assert together.std(axis=0)[:6].min() > 0.01


def test_a_recurrent_policy_needs_the_states_of_its_flows(saved: Path) -> None:
    policy = checkpoint.load(saved).policy
    assert policy.state_size == 7
    rows = np.zeros((2, 4), F32)
    with pytest.raises(ValueError, match=r"state: a recurrent policy needs .* \[2, 7\], zeros where a flow begins"):
        policy.act(rows)
    with pytest.raises(ValueError, match=r"state: shape \[2, 6\], must be \[2, 7\]"):
        policy.act(rows, np.zeros((2, 6), F32))
    plain = checkpoint.load("perigee").policy
    assert plain.state_size == 0
    seen = np.zeros((2, 18), F32)
    assert np.array_equal(plain.act(seen), plain.act(seen, np.zeros((2, 0), F32)))


def flows(path: Path, *times: tuple[float, float | None]) -> Scenario:
    spec = ControllerSpec(name="policy", params={"path": str(path)})
    listed = [Flow(controller=spec, start_s=start, stop_s=stop) for start, stop in times]
    return get("dumbbell", duration_s=6, rate_mbps=20).with_flows(listed)


def test_every_flow_has_a_state_of_its_own_from_its_own_beginning(saved: Path) -> None:
    """Natively three flows of one policy; the same actions follow from each flow's observations alone."""
    policy = checkpoint.load(saved).policy
    played = flows(saved, (0, None), (1, 3), (3.5, None))
    preset = checkpoint.load(saved).preset
    episodes = list(collect(played, preset=preset, seed=3))
    assert [len(episode.actions) > 50 for episode in episodes] == [True] * 3
    for episode in episodes:
        state = np.zeros((1, 7), F32)
        expected = np.array([policy.act(row[None], state)[0] for row in episode.observations[:-1]])
        assert np.array_equal(np.clip(expected, -1, 1), episode.actions)
        assert 0.01 < episode.actions.std() < 0.9, "the states matter"


def test_steps_in_python_send_the_packets_of_the_native_run(saved: Path) -> None:
    loaded = checkpoint.load(saved)
    scenario = get("dumbbell", duration_s=8, rate_mbps=20).override("sim.start_jitter_ms", 0.0)
    native = scenario.with_flows([flows(saved, (0, None)).flows[0], Flow(controller="cubic", start_s=1)])
    network = native.with_seed(6)
    simulation = _sim.Simulation(network.compile(), policies=network.policies())
    simulation.run()
    expected = simulation.flow_totals()[0]

    env = CongestionEnv(
        scenario.with_flows([Flow(controller="external"), Flow(controller="cubic", start_s=1)]), preset=loaded.preset
    )
    obs, _ = env.reset(seed=6)
    state, over = np.zeros((1, 7), F32), False
    while not over:
        obs, _, _, over, _ = env.step(loaded.policy.act(obs[None], state)[0])
    stepped = env.totals()[0][0]
    for key in ("sent_packets", "received_bytes", "lost_packets", "retransmitted_packets"):
        assert stepped[key] == expected[key]
    assert expected["sent_packets"] > 1000


def test_a_copy_of_a_world_continues_with_the_states(saved: Path) -> None:
    network = flows(saved, (0, None), (1, None)).with_seed(2)
    simulation = _sim.Simulation(network.compile(), policies=network.policies())
    simulation.run_until(3_000_000_000)
    twin = simulation.clone()
    simulation.run()
    twin.run()
    whole = _sim.Simulation(network.compile(), policies=network.policies())
    whole.run()
    found = [json.dumps(one.flow_totals()) for one in (simulation, twin, whole)]
    assert found[0] == found[1] == found[2]


def test_a_checkpoint_holds_the_unit_and_its_weights(saved: Path) -> None:
    loaded = checkpoint.load(saved)
    assert loaded.card.gru == SMALL
    tensors = checkpoint.read_tensors(saved)
    assert {name: value.shape for name, value in tensors.items()} == {
        "gru.weight_ih": (18, 2),
        "gru.weight_hh": (18, 6),
        "gru.bias_ih": (18,),
        "gru.bias_hh": (18,),
        "layers.0.weight": (1, 9),
        "layers.0.bias": (1,),
    }
    shown = called("policy", "show", str(saved))
    network = "GRU of 6 units (2 inputs, updated every 2 decisions), with 3 inputs → 1"
    assert network in " ".join(shown.stdout.split())
    assert called("policy", "verify", str(saved)).returncode == 0


@pytest.mark.parametrize(
    ("name", "shape"), [("gru.weight_ih", (18, 3)), ("gru.weight_hh", (12, 6)), ("gru.bias_hh", (6,))]
)
def test_wrong_shapes_are_refused_by_the_name_of_the_tensor(tmp_path: Path, name: str, shape: tuple[int, ...]) -> None:
    made = card(SMALL)
    tensors = drawn(made, 1) | {name: np.zeros(shape, F32)}
    with pytest.raises(OrbitccError, match=rf"the tensor {name} has shape .*the card says"):
        checkpoint.save(tmp_path / "wrong", made, tensors)
    with pytest.raises(ValueError, match=name):
        build(made, tensors)
    with pytest.raises(OrbitccError, match=f"the tensor {name} is missing"):
        checkpoint.save(tmp_path / "wrong", made, {k: v for k, v in drawn(made, 1).items() if k != name})


def test_columns_that_the_observation_lacks_are_refused(tmp_path: Path) -> None:
    made = card(SMALL.model_copy(update={"inputs": (0, 4)}))
    with pytest.raises(OrbitccError, match="its gru takes column 4 of 4"):
        checkpoint.save(tmp_path / "wrong", made, drawn(made, 1))


def test_a_recurrent_policy_has_no_fixed_point_form(saved: Path) -> None:
    with pytest.raises(OrbitccError, match=r"arithmetic.*recurrent.*gru: a recurrent network has no fixed-point form"):
        get("dumbbell").with_flows(
            [Flow(controller=ControllerSpec(name="policy", params={"path": str(saved), "arithmetic": "fixed"}))]
        ).compile()
    with pytest.raises(OrbitccError, match=r"a policy that can be deployed: gru: a recurrent network"):
        make_object(checkpoint.load(saved), "mine", None)


def test_contributions_and_the_part_of_the_state_add_up_to_the_action(saved: Path) -> None:
    made = trace(get("dumbbell", duration_s=5.0), str(saved))
    total = np.clip(made.contributions.sum(axis=1) + made.constant, -1.0, 1.0)
    np.testing.assert_allclose(total, made.actions, atol=1e-5)
    assert not made.contributions[:, 3].any(), "the layer does not observe the last feature"
    changes = np.flatnonzero(np.diff(made.constant))
    assert set(changes % 2) == {1}, "the state changes with every second decision"
    assert len(list(itertools.islice(changes, 5))) == 5
