"""A policy acts the same whoever drives it: natively in a run, or step by step through the environment."""

import json

import numpy as np
import pytest

from orbitcc import _sim
from orbitcc.agents import checkpoint
from orbitcc.agents.model_card import Layer
from orbitcc.agents.policy import build
from orbitcc.envs.description.scenario import Flow
from orbitcc.envs.environments.parallel import parallel_env
from orbitcc.envs.environments.source import EpisodeSource
from orbitcc.envs.scenarios import get

SHIPPED = "perigee"
"""A policy with decisions at fixed intervals; with others the flows of an environment decide together."""


def random_policy() -> _sim.Policy:
    """A network with two hidden layers that sees what the shipped one sees, grows its window when the path is empty and
    shrinks it when it is not."""
    hidden = [Layer(units=units, activation="leaky_relu", norm="layer") for units in (256, 128)]
    layers = (*hidden, Layer(units=1, activation="linear"))
    card = checkpoint.read_card(checkpoint.SHIPPED / SHIPPED).model_copy(
        update={"layers": layers, "squash": "tanh", "normaliser": False}
    )
    rng = np.random.default_rng(4)
    width, tensors = card.observation.dim, {}
    for index, layer in enumerate(card.layers):
        weight = rng.standard_normal((layer.units, width)) / np.sqrt(width)
        tensors[f"layers.{index}.weight"] = weight.astype(np.float32)
        tensors[f"layers.{index}.bias"] = (0.1 * rng.standard_normal(layer.units)).astype(np.float32)
        if layer.norm == "layer":
            tensors[f"layers.{index}.norm.scale"] = np.ones(layer.units, np.float32)
            tensors[f"layers.{index}.norm.shift"] = np.zeros(layer.units, np.float32)
        width = layer.units
    return build(card, tensors)


def worlds():
    two = get("dumbbell", duration_s=8).with_flows(
        [
            Flow(controller="external"),
            Flow(controller="external", start_s=2, stop_s=6),
            Flow(controller="cubic", start_s=1),
        ]
    )
    leo = EpisodeSource("train-leo").draw(np.random.default_rng(3))
    return {"dumbbell": two, "leo": leo}


@pytest.mark.parametrize("name", ["dumbbell", "leo"])
def test_native_and_stepped_policy_give_the_same_flows(name: str) -> None:
    scenario, policy = worlds()[name], random_policy()

    network = json.loads(scenario.compile())
    for flow in network["flows"]:
        if flow["controller"]["name"] == "external":
            flow["controller"] = {"name": "policy", "params": {"policy": "p"}}
    native = _sim.Simulation(json.dumps(network), policies={"p": policy})
    native.run()

    env = parallel_env(scenario, preset=checkpoint.load(SHIPPED).preset)
    obs, _ = env.reset(seed=scenario.seed, options={"scenario": scenario})
    while env.agents:
        actions = policy.act(np.stack([obs[agent] for agent in env.agents]))
        obs, *_ = env.step(dict(zip(env.agents, actions, strict=True)))
    stepped, _ = env.totals()

    for ours, theirs in zip(native.flow_totals(), stepped, strict=True):
        assert {ours["controller"], theirs["controller"]} in ({"policy", "external"}, {"cubic"})
        for key in ("name", "goodput_mbps", "received_bytes", "sent_packets", "lost_packets", "retransmitted_packets"):
            assert ours[key] == theirs[key]
    assert native.flow_totals()[0]["sent_packets"] > 1000
