"""Decisions of flows as episodes for offline learning: observations, actions and rewards, flow by flow.

An agent's actions are its own. A controller that decides by itself is watched as if it were an agent: its actions are
the change of its window (or pacing rate) over each interval, expressed in the preset's action where that can be turned
round, cut to [-1, 1].
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from gymnasium.utils import seeding
from numpy.typing import NDArray

from orbitcc.agents import checkpoint, python_policy
from orbitcc.agents.registry import OPTIONS
from orbitcc.common.errors import OrbitccError
from orbitcc.envs.controllers import CONTENDER, EXTERNAL
from orbitcc.envs.description.compile import as_text
from orbitcc.envs.description.scenario import ControllerSpec, Scenario, ScenarioDistribution
from orbitcc.envs.environments import presets
from orbitcc.envs.environments.batch import ACTIVE, IDLE, TERMINATED, Batch
from orbitcc.envs.environments.presets import STATS, Action, Native, Preset, definition_hash, of_choices
from orbitcc.envs.environments.source import EpisodeSource, agent_flows


@dataclass(frozen=True)
class FlowEpisode:
    """The decisions of one flow; T of them.

    observations: f32[T+1, D], the last one when it left. actions: f32[T, A]. rewards: f32[T]. statistics: f64[T+1, F],
    the raw ones of the interval before each observation (`STATS`). terminated: its object was delivered;
    otherwise it left or time was up. seed: `reset(seed=...)` of the environment plays the same world.
    """

    scenario: Scenario
    seed: int
    flow: str
    controller: str
    observations: NDArray[np.float32]
    actions: NDArray[np.float32]
    rewards: NDArray[np.float32]
    statistics: NDArray[np.float64]
    terminated: bool


@dataclass(frozen=True)
class Actor:
    """What decides for a flow: a classical controller, or a policy (`act`) with its `preset`.

    begin: instead of `act`, makes one for each flow.
    """

    controller: ControllerSpec
    act: Callable[..., NDArray[np.float32]] | None = None
    preset: Preset | None = None
    begin: Callable[[], Callable[..., NDArray[np.float32]]] | None = None

    @property
    def decides(self) -> bool:
        """Is it a policy?"""
        return self.act is not None or self.begin is not None

    @staticmethod
    def of(controller: ControllerSpec) -> Actor:
        """From a controller's name: `policy:path=...` and shipped policies act, all others are recorded.

        Raises:
            OrbitccError: there is no such policy, or it cannot be used, or has options.
        """
        if controller.name == EXTERNAL:
            raise OrbitccError("--flow", CONTENDER, "a controller that runs by itself, e.g. cubic")
        path = controller.params.get("path") if controller.name == "policy" else controller.name
        if isinstance(path, str) and python_policy.is_python_policy(path):
            made = python_policy.Run(path)
            return Actor(controller, preset=made.preset, begin=made.begin)
        if controller.name != "policy" and controller.name not in checkpoint.shipped():
            return Actor(controller)
        if any(controller.params.get(name, option.default) != option.default for name, option in OPTIONS.items()):
            raise OrbitccError("--policy", str(controller), f"a policy without {' and '.join(OPTIONS)}")
        found = checkpoint.load(str(path))
        if found.card.safety_filter is not None:
            allowed = (
                "a policy without a safety filter, which acts outside of its network "
                f"(`orbitcc policy filter {path} --off --out FOLDER` writes such a copy)"
            )
            raise OrbitccError("--policy", str(path), allowed)
        return Actor(controller, found.policy.act, found.preset)


def collect(
    scenario: str | Scenario | ScenarioDistribution,
    controllers: Sequence[ControllerSpec] = (),
    *,
    preset: Preset | None = None,
    episodes: int = 1,
    seed: int = 1,
) -> Iterator[FlowEpisode]:
    """Simulate worlds and yield the decisions of each flow that makes at least two.

    Args:
        scenario: what the worlds are drawn from; world k is that of an environment reset with `seed + k`.
        controllers: of the flows that an environment would have as agents: one for all, or one for each. None: those
            that a plain scenario names itself.
        preset: observation, action, reward and interval; None: those of the policy among the
            controllers, or the default ones.
        episodes: worlds to play.

    Raises:
        OrbitccError: a distribution without controllers, more controllers than flows, or policies that see or do other
            things than `preset`.
    """
    source = EpisodeSource(scenario)
    given = list(controllers)
    if not given:
        drawn = source.scenario
        if not isinstance(drawn, Scenario):
            drawn = drawn.sample(np.random.default_rng(0))
        if any(f.controller.name == EXTERNAL for f in drawn.flows):
            raise OrbitccError("--flow", "(none)", "a controller for the learning flows of a drawn scenario")
        given = [drawn.flows[i].controller for i in agent_flows(source.mark_agents(drawn))]
    if len(given) != 1 and len(given) != source.max_agents:
        raise OrbitccError("--flow", f"{len(given)} flows", f"1 for all, or one for each of {source.max_agents}")
    actors = [Actor.of(controller) for controller in given]
    chosen = preset or next((actor.preset for actor in actors if actor.preset is not None), presets.preset())
    if chosen.safety_filter is not None:
        raise OrbitccError("preset.safety_filter", "a table", "none here: it acts outside of what a data set records")
    for actor in actors:
        _check_fit(actor, chosen)
    for number in range(episodes):
        rng, _ = seeding.np_random(seed + number)
        drawn = source.draw(rng, seed + number)
        yield from _play(drawn, actors, chosen, seed + number)


def _check_fit(actor: Actor, chosen: Preset) -> None:
    if actor.preset is None:
        return
    for kind in ("observation", "action"):
        own, other = getattr(actor.preset, kind), getattr(chosen, kind)
        native = isinstance(own, Native) and isinstance(other, Native)
        same = definition_hash(kind, own) == definition_hash(kind, other) if native else own == other
        if not same:
            allowed = f"the {kind} of {actor.controller}, which is {own if native else own.name}"
            raise OrbitccError("preset", chosen.name, allowed)
    if actor.preset.interval != chosen.interval:
        raise OrbitccError("preset", chosen.name, f"one with the interval of {actor.controller}")


def _play(drawn: Scenario, actors: Sequence[Actor], preset: Preset, seed: int) -> Iterator[FlowEpisode]:
    marked = [i for i, flow in enumerate(drawn.flows) if flow.controller.name == EXTERNAL]
    roles = {i: actors[k % len(actors)] for k, i in enumerate(marked)}
    flows = [
        flow.changed(controller=roles[i].controller) if i in roles and not roles[i].decides else flow
        for i, flow in enumerate(drawn.flows)
    ]
    played = drawn.with_flows(flows)
    network = played.network()
    for i in roles:
        network["flows"][i]["watched"] = not roles[i].decides
    learning = list(roles)
    text = as_text(network)
    batch = Batch([text], max_agents=len(learning), preset=preset, policies=played.policies())
    batch.reset(0, text)
    batch.observe()
    logs, open_ = [_Log() for _ in learning], np.zeros(len(learning), np.bool_)  # who waits for what a decision brings
    dim = batch.preset.action_dim
    while not batch.finished()[0]:
        actions = np.zeros((1, len(learning), dim), np.float32)
        acting = batch.status[0] == ACTIVE
        open_ |= acting
        statistics = batch.statistics()[0]
        for agent in np.flatnonzero(acting).tolist():
            actor = roles[learning[agent]]
            if actor.decides:
                decided = logs[agent].act(actor)(batch.obs[0, agent : agent + 1])
                actions[0, agent] = np.clip(decided[0], -1.0, 1.0)
            logs[agent].decide(batch.obs[0, agent], actions[0, agent], statistics[agent])
        batch.step(actions)
        statistics = batch.statistics()[0]
        for agent, log in enumerate(logs):
            status = int(batch.status[0, agent])
            if open_[agent] and status != IDLE:
                open_[agent] = False
                log.end(
                    batch.obs[0, agent], float(batch.reward[0, agent]), statistics[agent], bool(status & TERMINATED)
                )
    for agent, log in enumerate(logs):
        actor = roles[learning[agent]]
        if len(log.rewards) < 2:
            continue
        history = np.array([*log.before[: len(log.rewards)], log.after])
        acted = np.array(log.actions[: len(log.rewards)], np.float32)
        if not actor.decides:
            acted = np.zeros((len(log.rewards), dim), np.float32)
            acted[:, 0] = expressed(preset.action, history[:-1], history[1:])
        yield FlowEpisode(
            drawn,
            seed,
            drawn.flow_names[learning[agent]],
            str(actor.controller),
            np.array([*log.seen[: len(log.rewards)], log.last], np.float32),
            acted,
            np.array(log.rewards, np.float32),
            history,
            log.terminated,
        )


class _Log:
    """Observations, actions and rewards of a flow so far."""

    def __init__(self) -> None:
        self.seen: list[NDArray[np.float32]] = []
        self.actions: list[NDArray[np.float32]] = []
        self.before: list[NDArray[np.float64]] = []
        self.rewards: list[float] = []
        self.last: NDArray[np.float32] = np.zeros(0, np.float32)
        self.after: NDArray[np.float64] = np.zeros(0)
        self.terminated = False
        self._act: Callable[..., NDArray[np.float32]] | None = None

    def act(self, actor: Actor) -> Callable[..., NDArray[np.float32]]:
        """What decides for the flow."""
        if self._act is None:
            self._act = actor.act if actor.begin is None else actor.begin()
        assert self._act is not None
        return self._act

    def decide(self, seen: NDArray[np.float32], action: NDArray[np.float32], before: NDArray[np.float64]) -> None:
        self.seen.append(seen.copy())
        self.actions.append(action.copy())
        self.before.append(before.copy())

    def end(self, last: NDArray[np.float32], reward: float, after: NDArray[np.float64], terminated: bool) -> None:
        self.last, self.after = last.copy(), after.copy()
        self.rewards.append(reward)
        self.terminated = terminated


def expressed(action: Any, before: NDArray[np.float64], after: NDArray[np.float64]) -> NDArray[np.float64]:
    """The action in [-1, 1] that would have changed windows (or rates) as observed, f64[n], up to bounds and rounding.

    before, after: raw statistics at the decisions and an interval later, f64[n, F]. An action that cannot be turned
    round gives the logarithm of the change to base 2: 1 is a doubling.
    """
    column = STATS["cwnd_packets"]
    ratio = after[:, column] / np.maximum(before[:, column], 1.0)
    turn: Callable[[NDArray[np.float64]], NDArray[np.float64]] = np.log2
    if isinstance(action, Native):
        definition = action.definition("action")
        parameters: Mapping[str, Any] = definition["parameters"]
        if definition["family"] == "orca":
            turn = partial(_scaled, parameters["base"])
        elif definition["family"] == "steps":
            rates = before[:, STATS["pacing_rate_bps"]], after[:, STATS["pacing_rate_bps"]]
            if parameters["moves"] == "rate":
                paced = (rates[0] > 0) & (rates[1] > 0)
                ratio = np.where(paced, rates[1] / np.where(paced, rates[0], 1.0), ratio)
            if parameters["per_time_ms"] > 0:
                taken_ms = before[:, STATS["interval_s"]] * 1e3
                parameters = {**parameters, "step": parameters["step"] * taken_ms / parameters["per_time_ms"]}
            turn = partial(_selected if parameters["form"] == "list" else _stepped, parameters)
    elif not isinstance(action, Action):
        raise TypeError(f"{action!r} is no action")
    return np.clip(turn(np.maximum(ratio, 1e-9)), -1.0, 1.0)


def _scaled(base: float, ratio: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.log(ratio) / np.log(max(base, 1.0 + 1e-9))


def _selected(parameters: Mapping[str, Any], ratio: NDArray[np.float64]) -> NDArray[np.float64]:
    """The nearest factor of a list, by the logarithm."""
    factors = np.log(np.asarray(parameters["factors"], np.float64))
    nearest = np.abs(np.log(ratio)[:, None] - factors).argmin(1)
    return of_choices(nearest.astype(np.float64), len(factors))


def _stepped(parameters: Mapping[str, Any], ratio: NDArray[np.float64]) -> NDArray[np.float64]:
    """Invert sim/core/src/observe/steps.rs: first the factor of x, then x = (1 - cubic) a + cubic a^3."""
    step, cubic = parameters["step"], parameters["cubic"]
    x = (
        np.log(ratio) / step
        if parameters["form"] == "log"
        else np.where(ratio >= 1.0, (ratio - 1.0) / step, (1.0 - 1.0 / ratio) / step)
    )
    x = np.clip(x, -1.0, 1.0)
    low, high = np.full_like(x, -1.0), np.full_like(x, 1.0)
    for _ in range(40):
        middle = (low + high) / 2
        below = (1.0 - cubic) * middle + cubic * middle**3 < x
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return (low + high) / 2


def table_of(preset: Preset) -> dict[str, Any]:
    """The preset as a table for `preset=` of every environment; all its functions must be native."""

    def entry(function: Any) -> dict[str, Any]:
        if not isinstance(function, Native):
            raise OrbitccError("preset", preset.name, "native functions: others cannot be written down")
        return {"name": function.name, **function.parameters}

    made = {kind: entry(getattr(preset, kind)) for kind in ("observation", "action", "reward")}
    intervals = {key: getattr(preset, key) for key in ("interval_ms", "interval_rtts", "interval_least_ms")}
    clock = {"clock": preset.clock} if preset.clock != "world" else {}
    return {"name": preset.name, **made, **intervals, **clock}
