"""N single-agent environments stepped natively: the vector form behind the same ids."""

import copy
from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from gymnasium.utils import seeding
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from orbitcc.envs.description.scenario import Scenario, ScenarioDistribution
from orbitcc.envs.environments.batch import ACTIVE, GLOBAL_STATE, TERMINATED, TRUNCATED, WorldState
from orbitcc.envs.environments.episodes import FINAL_INFO, Episodes
from orbitcc.envs.environments.presets import ActionLike, ObservationLike, Preset, RewardLike, preset
from orbitcc.envs.environments.render import FPS, MODES, Pictures, pictures
from orbitcc.envs.environments.source import EpisodeSource
from orbitcc.envs.errors import OrbitccError

_MODES = (AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP)


class VectorCongestionEnv(VectorEnv[NDArray[np.float32], NDArray[np.float32], NDArray[Any]]):
    """N worlds of :class:`orbitcc.CongestionEnv`, stepped together by native threads.

    Environment i of a batch reset with `seed` is, bit for bit, the single environment reset with `seed + i` (or with
    `seed[i]`), whatever the number of threads.

    `infos` are arrays. Where an episode ended, its flow's totals stand under their names (`goodput_mbps`, ...) with the
    masks `_goodput_mbps`, ...; with same-step autoreset they move to `final_info`, and `final_obs` holds the last
    observations.

    Args:
        num_envs: worlds.
        autoreset_mode: `AutoresetMode.NEXT_STEP` (default) or `SAME_STEP`, or their values.
        threads: of the native pool; 0 = one per core.
        render_mode: `rgb_array`: :meth:`render` gives a frame of every world; `human`: a window shows the first one.
        other arguments: as in the single environment.
    """

    _pictures: Pictures | None = None  # gymnasium closes even what was never made whole

    def __init__(
        self,
        num_envs: int = 1,
        scenario: str | Scenario | ScenarioDistribution = "dumbbell",
        *,
        preset: str | Mapping[str, Any] | Preset = "astraea",
        observation: ObservationLike | None = None,
        action: ActionLike | None = None,
        reward: RewardLike | None = None,
        interval_ms: float | None = None,
        background: str = "cubic",
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        threads: int = 0,
        render_mode: str | None = None,
    ) -> None:
        check_counts(num_envs, threads)
        self._mode = autoreset_of(autoreset_mode)
        self.metadata = {"render_modes": list(MODES), "render_fps": FPS, "autoreset_mode": self._mode}
        self.render_mode = render_mode
        self._pictures = pictures(render_mode, num_envs)
        pieces = _preset(preset, observation=observation, action=action, reward=reward, interval_ms=interval_ms)
        source = EpisodeSource(scenario, max_agents=1, background=background)
        self._episodes = Episodes(source, pieces, num_envs, threads)
        self.num_envs = num_envs
        self.single_observation_space = self._episodes.observation_space
        self.single_action_space = self._episodes.action_space
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._rngs: list[np.random.Generator | None] = [None] * num_envs
        self._over = np.zeros(num_envs, np.bool_)

    def reset(
        self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Start new episodes, everywhere or where `options["reset_mask"]` (bool[N]) is true.

        `options["scenario"]` is played instead of the next: one for all, or a list with one for each (None: the next).
        """
        options = options or {}
        mask = np.asarray(options.get("reset_mask", np.ones(self.num_envs, np.bool_)))
        if mask.shape != (self.num_envs,) or mask.dtype != np.bool_:
            raise OrbitccError("options.reset_mask", f"{mask.dtype}{list(mask.shape)}", f"bool[{self.num_envs}]")
        if seed is None or isinstance(seed, int):
            seeds = [None if seed is None else seed + i for i in range(self.num_envs)]
        else:
            seeds = list(seed)
        if len(seeds) != self.num_envs:
            raise OrbitccError("seed", f"{len(seeds)} seeds", f"one number, or {self.num_envs} of them")
        scenarios = scenarios_of(options, self.num_envs)
        for index in np.flatnonzero(mask):
            self._begin(int(index), seeds[index], scenarios[index])
        self._episodes.batch.observe()
        self._over[mask] = False
        self._look()
        return self._episodes.batch.obs[:, 0].copy(), {}

    def step(
        self, actions: NDArray[np.float32]
    ) -> tuple[NDArray[np.float32], NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]:
        batch = self._episodes.batch
        values = np.asarray(actions, np.float32)
        if values.shape != self.action_space.shape:
            raise OrbitccError("actions", f"an array of shape {values.shape}", f"shape {self.action_space.shape}")
        renewed = self._over
        batch.step(values[:, None])
        status = batch.status[:, 0]
        if (status == ACTIVE).all() and not renewed.any():  # nothing ends: most steps, so they are kept short
            self._look()
            nobody = np.zeros((2, self.num_envs), np.bool_)
            return batch.obs[:, 0].copy(), batch.reward[:, 0].astype(np.float64), nobody[0], nobody[1], {}
        if renewed.any():  # next-step mode: this step is the reset of episodes that ended in the last one
            status = np.where(renewed, 0, status)
            for index in np.flatnonzero(renewed):
                self._begin(int(index))
            batch.observe()
        terminated, truncated = (status & TERMINATED) != 0, (status & TRUNCATED) != 0
        rewards = np.where(renewed, 0.0, batch.reward[:, 0]).astype(np.float64)
        ended = terminated | truncated
        infos = self._totals(ended)
        if self._mode is AutoresetMode.SAME_STEP:
            if ended.any():
                infos = {"final_info": infos, "_final_info": ended, **self._final_obs(ended)}
                for index in np.flatnonzero(ended):
                    self._begin(int(index))
                batch.observe()
        else:
            self._over = ended
        self._look()
        return batch.obs[:, 0].copy(), rewards, terminated, truncated, infos

    def render(self) -> Any:
        """With `rgb_array` a frame of every world, uint8[450, 800, 3] each (a tenth of a second each)."""
        self._episodes.scenario(0)  # an error before the first reset
        return None if self._pictures is None else self._pictures.frames()

    def close_extras(self, **_: Any) -> None:
        if self._pictures is not None:
            self._pictures.close()

    def statistics(self) -> NDArray[np.float64]:
        """Raw statistics of every agent's flow over the last interval, f64[N, len(STATS_FIELDS)]."""
        return self._episodes.batch.statistics()[:, 0].copy()

    def scenario(self, index: int) -> Scenario:
        """The scenario of the running episode of environment `index`."""
        return self._episodes.scenario(index)

    def save(self, index: int) -> tuple[Scenario, WorldState]:
        """An exact copy of the running episode of environment `index`."""
        return self._episodes.save(index)

    def restore(self, index: int, saved: tuple[Scenario, WorldState]) -> NDArray[np.float32]:
        """Put a saved episode into environment `index`; all observations, f32[N, D]. It continues identically."""
        self._episodes.restore(index, saved)
        self._over[index] = False
        if self._pictures is not None:
            self._pictures.clear(index)
        self._look()
        return self._episodes.batch.obs[:, 0].copy()

    def clone(self) -> Self:
        """An environment of its own at the same moment; both continue identically."""
        twin = copy.copy(self)
        twin._episodes = self._episodes.clone()
        twin._pictures = pictures(self.render_mode, self.num_envs)
        twin._rngs, twin._over = copy.deepcopy(self._rngs), self._over.copy()
        return twin

    def state(self) -> NDArray[np.float32]:
        """The global state of each world, float32[N, 12], for centralised critics."""
        state = np.zeros((self.num_envs, GLOBAL_STATE), np.float32)
        self._episodes.batch.global_state(state)
        return state

    def _begin(self, index: int, seed: int | None = None, scenario: Scenario | None = None) -> None:
        rng = self._rngs[index]
        if seed is not None or rng is None:
            rng, _ = seeding.np_random(seed)
            self._rngs[index] = rng
        self._episodes.begin(index, rng, seed, scenario)
        if self._pictures is not None:
            self._pictures.clear(index)

    def _look(self) -> None:
        if self._pictures is not None:
            self._pictures.add(self._episodes.batch)

    def _totals(self, ended: NDArray[np.bool_]) -> dict[str, Any]:
        if not ended.any():
            return {}
        infos: dict[str, Any] = {}
        for key in FINAL_INFO:
            infos[key], infos[f"_{key}"] = np.zeros(self.num_envs), ended.copy()
        for index in np.flatnonzero(ended):
            for key, value in self._episodes.final_info(int(index), 0).items():
                infos[key][index] = value
        return infos

    def _final_obs(self, ended: NDArray[np.bool_]) -> dict[str, Any]:
        # an object array with a row per ended episode: what gymnasium's own vector environments give
        final = np.full(self.num_envs, None, dtype=object)
        for index in np.flatnonzero(ended):
            final[index] = self._episodes.batch.obs[index, 0].copy()
        return {"final_obs": final, "_final_obs": ended.copy()}


def check_counts(num_envs: int, threads: int) -> None:
    """OrbitccError unless there is an environment and a number of threads, or 0."""
    if not (isinstance(num_envs, int) and num_envs >= 1):
        raise OrbitccError("num_envs", num_envs, "a whole number of at least 1")
    if not (isinstance(threads, int) and threads >= 0):
        raise OrbitccError("threads", threads, "a whole number: 1 or more, or 0 for one per core")


def scenarios_of(options: dict[str, Any] | None, count: int) -> list[Any]:
    """`options["scenario"]` of each environment: one for all, or a list with one for each; None: the next one drawn."""
    given = (options or {}).get("scenario")
    scenarios = list(given) if isinstance(given, list | tuple) else [given] * count
    if len(scenarios) != count:
        raise OrbitccError("options.scenario", f"{len(scenarios)} scenarios", f"one, or {count} of them")
    return scenarios


def autoreset_of(mode: AutoresetMode | str) -> AutoresetMode:
    """The mode by itself or by its value; OrbitccError for those that are not supported."""
    if mode not in _MODES and mode not in [known.value for known in _MODES]:
        raise OrbitccError("autoreset_mode", mode, f"one of {', '.join(known.value for known in _MODES)}")
    return AutoresetMode(mode)


_preset = preset  # the constructor's argument of the same name hides the function
