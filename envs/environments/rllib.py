"""RLlib environments (new API stack): whole worlds as multi-agent environments, and one sub-environment per flow.

This module needs Ray; nothing else in this package does.

RLlib knows both by name (:mod:`orbitcc.envs.environments.registration`).
"""

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, ClassVar

import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray
from ray.rllib.env.multi_agent_env import MultiAgentEnv

from orbitcc.common.errors import MissingError, OrbitccError
from orbitcc.envs.environments.batch import GLOBAL_STATE
from orbitcc.envs.environments.core import checked_count, checked_flag, checked_real
from orbitcc.envs.environments.flow_vector import FlowVectorEnv
from orbitcc.envs.environments.parallel import parallel_env
from orbitcc.envs.environments.presets import Preset, require_one_clock
from orbitcc.envs.environments.registration import FLOWS, WORLDS, register_with_ray

__all__ = ["FLOWS", "WORLDS", "RLlibCongestionEnv", "StatefulFlowVectorEnv", "flows", "register_envs"]

Obs = dict[str, NDArray[np.float32]]


class RLlibCongestionEnv(MultiAgentEnv):
    """One world as an RLlib `MultiAgentEnv`.

    RLlib's own PettingZoo wrapper takes the agents present at reset for all there are; this adapter does not.
    `config` holds the arguments of :func:`orbitcc.parallel_env`, and

    * `reward_scale`: a factor on every reward (default 1; the preset's rewards are small);
    * `stagger`: cut the first episode at a random moment (a truncation), so that worlds sampled side by side do not
      pass through the same part of an episode together (default false);
    * `give_up_below`, `give_up_steps`: cut an episode (a truncation) once no agent's reward, before scaling, has
      reached this value for so many steps. A world flooded by an exploring policy needs minutes to drain and teaches
      nothing meanwhile (default: None, never);
    * `seed_once`: use only the first seed that `reset` receives (default false). RLlib passes the same seed before
      every sample of complete episodes; without this option, every sample would contain the same worlds;
    * `global_state`: observations end with the twelve numbers of the global state, for centralised critics, as those of
      :class:`StatefulFlowVectorEnv` (default false).

    RLlib seeds its env runners s + 1, s + 2, ... and the worlds of each of them from there on upwards, so that they
    would share seeds; in an env runner beside the learner's process a world's seed is mixed with the runner's number.

    A reward goes to an agent that acted; who has just joined gets an observation only. With the clock `flow` of a
    preset agents are observed, and act, only when they are due; a step leads to the next moment at which one is. An
    episode that is cut goes on until everybody's interval is over.

    RLlib declares an episode *terminated* as soon as every agent it has met is flagged as done one by one, even if all
    were truncated, and then learns a final value of zero. So when the last agents present leave, the whole is truncated
    by `truncateds["__all__"]` and those that were truncated get no flag of their own. That also ends the episode where
    everybody known has left and others would come later: RLlib could not go on with them.
    """

    def __init__(self, config: dict[str, Any] | None = None) -> None:
        super().__init__()
        arguments = _arguments({} if config is None else config)
        self._scale = checked_real("reward_scale", arguments.pop("reward_scale", 1.0))
        self._stagger = checked_flag("stagger", arguments.pop("stagger", False))
        below = arguments.pop("give_up_below", None)
        self._give_up_below = -math.inf if below is None else checked_real("give_up_below", below)
        self._give_up_steps = checked_count("give_up_steps", arguments.pop("give_up_steps", 1), most=10**12)
        self._seed_once = checked_flag("seed_once", arguments.pop("seed_once", False))
        self._stateful = checked_flag("global_state", arguments.pop("global_state", False))
        self._runner = int(getattr(config, "worker_index", 0) or 0)  # in RLlib's EnvContext
        self._steps_left = -1
        self._hopeless = 0
        self.world = parallel_env(**arguments)
        self._due: set[str] = set()
        self.possible_agents = list(self.world.possible_agents)
        self.agents: list[str] = []
        self.observation_spaces = self.world.observation_spaces
        if self._stateful:
            self.observation_spaces = {
                agent: _and_more(space, GLOBAL_STATE) for agent, space in self.observation_spaces.items()
            }
        self.action_spaces = self.world.action_spaces

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Obs, dict[str, dict[str, Any]]]:
        if self._seed_once and self.world.np_random is not None:
            seed = None
        if seed is not None and self._runner > 0:
            seed = int(np.random.SeedSequence([seed, self._runner]).generate_state(1)[0])
        observations, infos = self.world.reset(seed=seed, options=options)
        self.agents = list(self.world.agents)
        self._steps_left, self._hopeless, self._due = -1, 0, set(observations)
        if self._stagger:
            self._stagger = False
            assert self.world.np_random is not None
            self._steps_left = int(self.world.np_random.integers(1, self.world.steps_to_limit + 1))
        return self._shown(observations), infos

    def step(
        self, action_dict: dict[str, NDArray[np.float32]]
    ) -> tuple[Obs, dict[str, float], dict[str, bool], dict[str, bool], dict[str, dict[str, Any]]]:
        acted = self.world.agents
        told = self._play(action_dict)
        self._steps_left -= 1
        paid = [told[agent][1] for agent in acted if agent in told]
        if paid:
            self._hopeless = self._hopeless + 1 if max(paid) < self._give_up_below else 0
        cut = self._steps_left == 0 or self._hopeless >= self._give_up_steps
        # on clocks of their own some agents wait: somebody must act next, and who is cut off needs a last observation
        while self.world.agents and not (all if cut else any)(agent in told for agent in self.world.agents):
            self._due.clear()
            told = self._play({}) | told
        self._due = set(told)
        known_stay = not cut and any(agent in self.world.agents for agent in acted)
        # who left now still answers in this step
        self.agents = list(dict.fromkeys([*acted, *self.world.agents])) if known_stay else list(acted)
        shown = [agent for agent in self.agents if agent in told]
        return (
            self._shown({agent: told[agent][0] for agent in shown}),
            {agent: self._scale * told[agent][1] for agent in acted if agent in told},
            {**{agent: told[agent][2] for agent in shown}, "__all__": False},
            {**{agent: told[agent][3] and known_stay for agent in shown}, "__all__": not known_stay},
            {agent: told[agent][4] for agent in shown},
        )

    def _play(self, actions: dict[str, NDArray[np.float32]]) -> dict[str, Any]:
        """A step of the world: observation, reward, ends and info of each agent whose interval is over."""
        nothing = np.zeros(self.world.action_space(self.possible_agents[0]).shape or (), np.float32)
        if not isinstance(actions, Mapping):
            raise OrbitccError("actions", actions, "a dict with an action for every agent that decides")
        results = self.world.step({a: nothing for a in self.world.agents if a not in self._due} | dict(actions))
        infos = results[-1]
        return {agent: [part[agent] for part in results] for agent in infos if infos[agent].get("due", True)}

    def _shown(self, observations: Obs) -> Obs:
        if not self._stateful:
            return observations
        state = self.world.state()
        return {agent: np.concatenate([seen, state]) for agent, seen in observations.items()}


class StatefulFlowVectorEnv(FlowVectorEnv):
    """A `FlowVectorEnv` whose observations end with the global state of the flow's world, for centralised critics.

    An observation is float32[D + 12]: the preset's, which is all that a policy may read, then
    :meth:`~orbitcc.FlowVectorEnv.state` of the same moment, for the value function. Autoreset is in the next
    step, so the last observation of an episode comes with the last state of its world. A flow that waits for its next
    decision (clock `flow`) repeats its observation, beside the state of this moment. A subclass may give the value
    function other inputs: `CRITIC_INPUTS` numbers of :meth:`critic_inputs`.
    """

    CRITIC_INPUTS: ClassVar[int] = GLOBAL_STATE

    def __init__(self, num_envs: int, scenario: Any, **arguments: Any) -> None:
        """Arguments are those of :class:`FlowVectorEnv`.

        Raises:
            OrbitccError: another `autoreset_mode` than the next step, or flows have clocks of their own outside
                :func:`counting_decisions`.
        """
        super().__init__(num_envs, scenario, **arguments)
        _require_one_clock(self.preset)
        if self.autoreset_mode is not AutoresetMode.NEXT_STEP:
            raise OrbitccError("autoreset_mode", AutoresetMode.SAME_STEP.value, AutoresetMode.NEXT_STEP.value)
        self.single_observation_space = _and_more(self.single_observation_space, self.CRITIC_INPUTS)
        self.observation_space = batch_space(self.single_observation_space, num_envs)

    def observations(self) -> NDArray[np.float32]:
        return np.concatenate([super().observations(), self.critic_inputs()], axis=1)

    def critic_inputs(self) -> NDArray[np.float32]:
        """What the value function reads beside the observations, float32[num_envs, CRITIC_INPUTS]."""
        return self.state()


_COUNTS_DECISIONS: ContextVar[bool] = ContextVar("_COUNTS_DECISIONS", default=False)


@contextmanager
def counting_decisions() -> Iterator[None]:
    """Allow environments that are made within it flows with clocks of their own.

    An env runner calls it that asks :meth:`FlowVectorEnv.active` which flows decide. RLlib's own does not ask.
    """
    token = _COUNTS_DECISIONS.set(True)
    try:
        yield
    finally:
        _COUNTS_DECISIONS.reset(token)


def _require_one_clock(used: Preset) -> None:
    if not _COUNTS_DECISIONS.get():
        require_one_clock(used, "RLlib's own env runner")


def _and_more(seen: spaces.Space[Any], numbers: int) -> spaces.Box:
    """The space of observations with so many numbers behind them that have no bounds."""
    assert isinstance(seen, spaces.Box)
    more = np.full(numbers, np.inf, np.float32)
    return spaces.Box(np.concatenate([seen.low, -more]), np.concatenate([seen.high, more]), dtype=np.float32)


def _arguments(config: Any) -> dict[str, Any]:
    """A copy of RLlib's `env_config`; raises OrbitccError for anything but a dict with a scenario."""
    if not isinstance(config, Mapping):
        raise OrbitccError("env_config", config, "a dict of arguments by name")
    if "scenario" not in config:
        raise MissingError("scenario")
    return dict(config)


def flows(config: dict[str, Any]) -> FlowVectorEnv:
    """One sub-environment per flow, from RLlib's `env_config` and `num_envs`.

    Args:
        config: arguments of :class:`orbitcc.FlowVectorEnv`, and `global_state`: observations end with the
            global state, as those of :class:`StatefulFlowVectorEnv` (default false).

    Raises:
        OrbitccError: an argument that is missing or not allowed, RLlib asks for a single environment, or flows have
            clocks of their own outside :func:`counting_decisions`.
    """
    arguments = _arguments(config)
    stateful = checked_flag("global_state", arguments.pop("global_state", False))
    kind = StatefulFlowVectorEnv if stateful else FlowVectorEnv
    if "num_envs" not in arguments:
        raise OrbitccError("gym_env_vectorize_mode", "one environment at a time", "'vector_entry_point'")
    made = kind(**arguments)
    _require_one_clock(made.preset)
    return made


def register_envs() -> None:
    """Register the names :data:`FLOWS` and :data:`WORLDS` with RLlib, as importing orbitcc does."""
    register_with_ray()
