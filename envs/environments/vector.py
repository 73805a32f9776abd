"""N single-agent environments that native threads step together."""

from typing import Any, ClassVar, Unpack

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from orbitcc.common.errors import OrbitccError
from orbitcc.envs.description.scenario import Scenario, ScenarioDistribution
from orbitcc.envs.environments.batch import TERMINATED, TRUNCATED, WorldState
from orbitcc.envs.environments.config import EnvConfig, Settings
from orbitcc.envs.environments.core import (
    STEP_INFO,
    Core,
    checked_actions,
    checked_count,
    checked_options,
    checked_seed,
    scenarios_of,
)
from orbitcc.envs.environments.episodes import ScenarioEpisodes
from orbitcc.envs.environments.render import FPS, MODES
from orbitcc.envs.environments.view import WorldsView

_MODES = (AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP)
_STEP_MASKS = tuple(f"_{name}" for name in STEP_INFO)


class VectorCongestionEnv(WorldsView, VectorEnv[NDArray[np.float32], NDArray[np.float32], NDArray[Any]]):
    """N worlds of :class:`orbitcc.CongestionEnv`, stepped together by native threads.

    After a reset with `seed`, environment i is, bit for bit, the single environment reset with `seed + i` (or with
    `seed[i]`), for any number of threads.

    `infos` are arrays. The figures of the last interval, `step_goodput_mbps` and so on, are float64[N] with the masks
    `_step_goodput_mbps` and so on. Where an episode ended, the totals of its flow (`goodput_mbps`, ...) are given with
    masks, too. With same-step autoreset, totals and figures of the last interval move to `final_info`, and `final_obs`
    holds the last observations.

    Args:
        num_envs: number of worlds.
        autoreset_mode: `AutoresetMode.NEXT_STEP` (default) or `SAME_STEP`, or their values.
        threads: size of the native thread pool; 0: one per core.
        render_mode: `rgb_array`: :meth:`render` gives a frame of every world; `human`: a window shows the first one.
        other arguments: as in the single environment.
    """

    metadata: ClassVar[dict[str, Any]] = {"render_modes": list(MODES), "render_fps": FPS}  # type: ignore[misc]

    def __init__(
        self,
        num_envs: int = 1,
        scenario: str | Scenario | ScenarioDistribution | EnvConfig = "dumbbell",
        *,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        **settings: Unpack[Settings],
    ) -> None:
        self.num_envs = checked_count("num_envs", num_envs)
        self.autoreset_mode = autoreset_of(autoreset_mode)
        self.config = EnvConfig.of(scenario, settings, type(self)).for_one_agent()
        self.metadata = {**type(self).metadata, "autoreset_mode": self.autoreset_mode}  # type: ignore[misc]
        self.render_mode = self.config.render_mode
        self._core = core = Core(self.config, ScenarioEpisodes(self.config), self.num_envs)
        self.single_observation_space = core.observation_space
        self.single_action_space = core.action_space
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self.state_space = core.state_space
        self._over, self._any_over = np.zeros(self.num_envs, np.bool_), False
        self._everybody, self._first = np.ones(self.num_envs, np.bool_), np.zeros(self.num_envs, np.int64)

    def reset(
        self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Start new episodes, everywhere or where `options["reset_mask"]` (bool[N]) is true.

        `options["scenario"]` is played instead of the next: one for all, or a list with one for each (None: the next).
        """
        options = checked_options(options, "scenario", "reset_mask")
        core = self._made
        mask = np.asarray(options.get("reset_mask", self._everybody))
        if mask.shape != (self.num_envs,) or mask.dtype != np.bool_:
            raise OrbitccError("options.reset_mask", f"{mask.dtype}{list(mask.shape)}", f"bool[{self.num_envs}]")
        seeds, scenarios = self._seeds(seed), scenarios_of(options, self.num_envs)
        for index in np.flatnonzero(mask).tolist():
            core.begin(index, core.generator(index, seeds[index]), seeds[index], scenarios[index])
        core.batch.observe()
        self._over[mask] = False
        core.look()
        return core.batch.obs[:, 0].copy(), self._step_infos(self._everybody)

    def step(
        self, actions: NDArray[np.float32]
    ) -> tuple[NDArray[np.float32], NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]:
        core = self._made
        values = checked_actions("actions", actions, core.preset, (self.num_envs,))
        batch = core.step(values[:, None])
        if batch.all_active() and not self._any_over:  # nothing ends: most steps, so they are kept short
            if core.pictures is not None:
                core.look()
            nobody = np.zeros((2, self.num_envs), np.bool_)
            infos = step_infos(batch.step_figures()[..., 0].copy(), self._everybody)
            return batch.obs[:, 0].copy(), batch.reward[:, 0].astype(np.float64), nobody[0], nobody[1], infos
        renewed, status = self._over, batch.status[:, 0]
        if renewed.any():  # next-step mode: this step is the reset of episodes that ended in the last one
            status = np.where(renewed, 0, status)
            core.renew(renewed)
        terminated, truncated = (status & TERMINATED) != 0, (status & TRUNCATED) != 0
        rewards = np.where(renewed, 0.0, batch.reward[:, 0]).astype(np.float64)
        ended = terminated | truncated
        infos = {}
        if ended.any():
            infos = core.final_infos(ended, np.arange(self.num_envs), self._first)
            if self.autoreset_mode is AutoresetMode.SAME_STEP:
                last = step_infos(np.where(ended, batch.step_figures()[..., 0], 0.0), ended) | infos
                infos = {"final_info": last, "_final_info": ended, **_final_obs(batch.obs[:, 0], ended)}
                core.renew(ended)
        if self.autoreset_mode is AutoresetMode.NEXT_STEP:
            self._over, self._any_over = ended, bool(ended.any())
        core.look()
        return batch.obs[:, 0].copy(), rewards, terminated, truncated, self._step_infos(self._everybody) | infos

    def statistics(self) -> NDArray[np.float64]:
        """Raw statistics of every agent's flow over the last interval, f64[N, len(STATS)]."""
        return self._made.batch.statistics()[:, 0].copy()

    def restore(self, index: int, saved: tuple[Scenario, WorldState]) -> NDArray[np.float32]:
        """Put a saved episode into environment `index`; all observations, f32[N, D]. It continues identically.

        After the end of an episode the next one begins: with the next step, or in same-step mode at once.
        """
        core = self._made
        core.restore(index, saved)
        over = ~core.batch.present()[:, 0]
        if self.autoreset_mode is AutoresetMode.SAME_STEP and over.any():
            core.renew(over)
            core.look()
            over[:] = False
        self._over, self._any_over = over, bool(over.any())
        return core.batch.obs[:, 0].copy()

    def _seeds(self, seed: Any) -> list[int | None]:
        if isinstance(seed, list | tuple | np.ndarray):
            seeds = [checked_seed(own) for own in seed]
        else:
            first = checked_seed(seed)
            seeds = [None if first is None else first + i for i in range(self.num_envs)]
        if len(seeds) != self.num_envs:
            raise OrbitccError("seed", f"{len(seeds)} seeds", f"one number, or {self.num_envs} of them")
        return seeds

    def _step_infos(self, present: NDArray[np.bool_]) -> dict[str, Any]:
        return step_infos(self._made.batch.step_figures()[..., 0].copy(), present)


def step_infos(figures: NDArray[np.float64], present: NDArray[np.bool_]) -> dict[str, Any]:
    """Figures f64[4, n] of a step as infos of a vector environment; present: which entries are valid, bool[n]."""
    infos: dict[str, Any] = {name: present.copy() for name in _STEP_MASKS}
    infos.update(zip(STEP_INFO, figures))  # noqa: B905 (four and four, in every step)
    return infos


def _final_obs(obs: NDArray[np.float32], ended: NDArray[np.bool_]) -> dict[str, Any]:
    # an object array with a row per ended episode: what gymnasium's own vector environments give
    final = np.full(len(ended), None, dtype=object)
    for index in np.flatnonzero(ended):
        final[index] = obs[index].copy()
    return {"final_obs": final, "_final_obs": ended.copy()}


def autoreset_of(mode: AutoresetMode | str) -> AutoresetMode:
    """An autoreset mode from itself or its value; raises OrbitccError for unsupported ones."""
    if mode not in _MODES and mode not in [known.value for known in _MODES]:
        raise OrbitccError("autoreset_mode", mode, f"one of {', '.join(known.value for known in _MODES)}")
    return AutoresetMode(mode)
