"""What a policy observes and decides over time: inputs, contributions, action, window and queue of one flow.

A *contribution* is the part of the action, before it is bounded, that an input adds: weight times normalised input in a
linear network, and in a mixture of linear experts with the weights averaged by the gate.
Other networks, and policies in Python, have none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orbitcc.agents import checkpoint, python_policy
from orbitcc.agents.checkpoint import Checkpoint
from orbitcc.agents.data.decisions import FlowEpisode, collect
from orbitcc.agents.model_card import LEAKY_SLOPE, Layer
from orbitcc.common.errors import OrbitccError
from orbitcc.common.files import atomic_write_text
from orbitcc.common.names import csv_text
from orbitcc.envs.description.scenario import ControllerSpec, Scenario
from orbitcc.envs.environments.presets import STATS, Native

Array = NDArray[np.float64]

MEASURED = {
    "goodput_mbps": ("goodput_bps", 1e-6),
    "capacity_mbps": ("capacity_bps", 1e-6),
    "rtt_ms": ("rtt_mean_s", 1e3),
    "base_rtt_ms": ("base_rtt_s", 1e3),
    "cwnd_packets": ("cwnd_packets", 1.0),
    "in_flight_packets": ("in_flight_packets", 1.0),
    "queue_packets": ("queue_bytes", None),
}
"""Column of the table -> raw statistic and factor; the queue is in packets of the flow's MSS."""


@dataclass(frozen=True)
class Trace:
    """The decisions of one flow, T of them.

    time_s [T]; measured: a column of :data:`MEASURED` -> [T]; actions [T] in [-1, 1]; inputs [T, D], not normalised;
    contributions [T, D], zeros without any; constant [T], the part of the action that no input adds; gate [T, E], the
    weights of the experts, E = 0 without a gate. labels: what each input is.
    """

    policy: str
    scenario: Scenario
    flow: str
    time_s: Array
    measured: dict[str, Array]
    actions: Array
    inputs: Array
    contributions: Array
    constant: Array
    gate: Array
    labels: tuple[str, ...]

    def save_csv(self, path: Path) -> Path:
        """A row per decision. Columns: time, measurements, action, `input:...`, `contribution:...`, `expert:...`."""
        columns: list[tuple[str, Array]] = [("time_s", self.time_s), *self.measured.items(), ("action", self.actions)]
        columns += [(f"input:{label}", self.inputs[:, k]) for k, label in enumerate(self.labels)]
        columns += [(f"contribution:{label}", self.contributions[:, k]) for k, label in enumerate(self.labels)]
        columns += [("contribution:constant", self.constant)]
        columns += [(f"expert:{k + 1}", self.gate[:, k]) for k in range(self.gate.shape[1])]
        rows = ([f"{x:.6g}" for x in row] for row in np.column_stack([values for _, values in columns]))
        return atomic_write_text(path, csv_text([[name for name, _ in columns], *rows]))


def trace(scenario: Scenario, policy: str) -> Trace:
    """Play the scenario, and return what the first flow of `policy` observed and did.

    The policy drives the flows that name it as `--policy` does (`policy:path=...`); without any, those that a contender
    drives (`Scenario.driven`).

    Raises:
        OrbitccError: there is no such policy, or it cannot be used, or its flow takes no decision.
    """
    loaded = python_policy.Run(policy) if python_policy.is_python_policy(policy) else checkpoint.load(policy)
    spec = ControllerSpec(name="policy", params={"path": policy})
    flows = list(scenario.flows)
    if not any(flow.controller == spec for flow in flows):
        for i in scenario.driven:
            flows[i] = flows[i].changed(controller=spec)
    played = scenario.with_flows(flows)
    own = {flow.name for flow in played.flows if flow.controller == spec}
    episodes = collect(played, preset=loaded.preset, seed=scenario.seed)
    found = next((episode for episode in episodes if episode.flow in own), None)
    if found is None:
        raise OrbitccError("scenario", scenario.name, "one in which the flow of the policy decides more than once")
    return of_episode(loaded, found)


def of_episode(loaded: Checkpoint | python_policy.Run, episode: FlowEpisode) -> Trace:
    """The trace of an episode that the policy has played."""
    statistics = episode.statistics[:-1]
    mss = np.maximum(statistics[:, STATS["mss_bytes"]], 1.0)
    measured = {
        name: statistics[:, STATS[column]] * (1.0 / mss if factor is None else factor)
        for name, (column, factor) in MEASURED.items()
    }
    inputs = episode.observations[:-1].astype(np.float64)
    rows = len(inputs)
    if isinstance(loaded, Checkpoint):
        name = loaded.card.name
        contributions, constant, gate = explained(loaded, inputs)
    else:
        name = loaded.name
        contributions, constant, gate = np.zeros_like(inputs), np.zeros(rows), np.zeros((rows, 0))
    observation = loaded.preset.observation
    if isinstance(observation, Native):
        labels = observation.definition("observation")["labels"]
    else:
        labels = [getattr(observation, "name", "")] * inputs.shape[1]
    return Trace(
        policy=name,
        scenario=episode.scenario,
        flow=episode.flow,
        time_s=statistics[:, STATS["time_s"]],
        measured=measured,
        actions=episode.actions[:, 0].astype(np.float64),
        inputs=inputs,
        contributions=contributions,
        constant=constant,
        gate=gate,
        labels=tuple(f"{k} {label}" for k, label in enumerate(labels)),
    )


def explained(loaded: Checkpoint, inputs: Array) -> tuple[Array, Array, Array]:
    """Contributions [T, D], constant [T] and gate [T, E] for inputs [T, D]; their sum is the unbounded action."""
    card, tensors = loaded.card, checkpoint.read_tensors(loaded.path)
    x = inputs.copy()
    if card.normaliser:
        x = np.clip((x - tensors["normaliser.mean"]) / tensors["normaliser.std"], -card.clip, card.clip)
    rows = len(x)
    gate = np.zeros((rows, 0))
    if card.gate is not None:
        logits = _forward(card.gate.layers, "gate", tensors, x[:, card.gate.inputs])
        gate = np.exp(logits - logits.max(axis=1, keepdims=True))
        gate /= gate.sum(axis=1, keepdims=True)
    if len(card.layers) > 1 or card.layers[0].norm != "none":
        return np.zeros_like(x), np.zeros(rows), gate
    weight, bias = tensors["layers.0.weight"].astype(np.float64), tensors["layers.0.bias"].astype(np.float64)
    if card.gate is None:
        return x * weight[0], np.full(rows, bias[0]), gate
    contributions = np.zeros_like(x)
    contributions[:, card.gate.expert_inputs] = x[:, card.gate.expert_inputs] * (gate @ weight)
    return contributions, gate @ bias, gate


def _forward(layers: Sequence[Layer], name: str, tensors: Any, x: Array) -> Array:
    functions: dict[str, Callable[[Array], Array]] = {
        "tanh": np.tanh,
        "relu": lambda y: np.maximum(y, 0.0),
        "leaky_relu": lambda y: np.where(y >= 0.0, y, LEAKY_SLOPE * y),
        "linear": lambda y: y,
    }
    for index, layer in enumerate(layers):
        x = functions[layer.activation](x @ tensors[f"{name}.{index}.weight"].T + tensors[f"{name}.{index}.bias"])
    return x
