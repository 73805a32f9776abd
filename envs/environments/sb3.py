"""The native vector environments as Stable-Baselines3's `VecEnv`. This module needs SB3."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray
from stable_baselines3.common.vec_env import VecEnv
from stable_baselines3.common.vec_env.base_vec_env import VecEnvStepReturn

from orbitcc.common.errors import OrbitccError
from orbitcc.envs.environments.core import checked_options, checked_seed
from orbitcc.envs.environments.flow_vector import FlowVectorEnv
from orbitcc.envs.environments.presets import require_one_clock
from orbitcc.envs.environments.vector import VectorCongestionEnv


class SB3VecEnv(VecEnv):
    """A native vector environment as a `VecEnv`: single agents, or one sub-environment per flow.

    >>> SB3VecEnv(FlowVectorEnv(256, "train-mixed", autoreset_mode="SameStep"))

    Args:
        native: with same-step autoreset, which is SB3's own; its worlds belong to this adapter from now on.

    Raises:
        OrbitccError: `native` is another environment, or has next-step autoreset, or flows with clocks of their own.
    """

    def __init__(self, native: VectorCongestionEnv | FlowVectorEnv) -> None:
        if not isinstance(native, VectorCongestionEnv | FlowVectorEnv):
            raise OrbitccError("native", type(native).__name__, "a VectorCongestionEnv or a FlowVectorEnv")
        if native.autoreset_mode is not AutoresetMode.SAME_STEP:
            raise OrbitccError("autoreset_mode", native.autoreset_mode.value, AutoresetMode.SAME_STEP.value)
        if isinstance(native, FlowVectorEnv):
            require_one_clock(native.preset, "Stable-Baselines3")
        self.native = native
        self._actions: NDArray[np.float32] | None = None
        super().__init__(native.num_envs, native.single_observation_space, native.single_action_space)

    def reset(self) -> NDArray[np.float32]:
        seeds = self._seeds if self._seeds[0] is not None else None
        scenarios = [own.get("scenario") for own in self._options]
        options = None if all(scenario is None for scenario in scenarios) else {"scenario": scenarios}
        observations, _ = self.native.reset(seed=seeds, options=options)
        self._reset_seeds()
        self._reset_options()
        self.reset_infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        return observations

    def seed(self, seed: int | None = None) -> Sequence[int | None]:
        """The seeds of the next reset: `seed`, `seed + 1` and so on; None draws the first."""
        return super().seed(checked_seed(seed))

    def set_options(self, options: list[dict[str, Any]] | dict[str, Any] | None = None) -> None:
        """Options of the next reset, a dict for all or a list with one for each environment.

        The one option is `scenario`, which is played once instead of the next.

        Raises:
            OrbitccError: another option or number of them, or flows that share worlds (`FlowVectorEnv`).
        """
        each = [options] * self.num_envs if isinstance(options, Mapping) or options is None else options
        if not isinstance(each, Sequence) or len(each) != self.num_envs:
            raise OrbitccError("options", options, f"one dict, or {self.num_envs} of them")
        known = ("scenario",) if isinstance(self.native, VectorCongestionEnv) else ()
        super().set_options([checked_options(own, *known) for own in each])

    def step_async(self, actions: NDArray[np.float32]) -> None:
        self._actions = actions

    def step_wait(self) -> VecEnvStepReturn:
        assert self._actions is not None
        observations, rewards, terminated, truncated, infos = self.native.step(self._actions)
        dones = terminated | truncated
        each: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        if "final_info" in infos:
            for i in np.flatnonzero(dones):
                totals = infos["final_info"]
                each[i] = {key: float(values[i]) for key, values in totals.items() if not key.startswith("_")}
                each[i]["terminal_observation"] = infos["final_obs"][i]
                each[i]["TimeLimit.truncated"] = bool(truncated[i] and not terminated[i])
        return observations, rewards.astype(np.float32), dones, each

    def render(self, mode: str | None = None) -> NDArray[np.uint8] | None:
        """One frame that shows all environments; with the render mode `human` every step updates the window."""
        return None if self.render_mode == "human" else super().render(mode)

    def get_images(self) -> Sequence[NDArray[np.uint8] | None]:
        """A frame of each environment, with the render mode `rgb_array`."""
        return self.native.render() or [None] * self.num_envs

    def close(self) -> None:
        self.native.close()

    def get_attr(self, attr_name: str, indices: int | Sequence[int] | None = None) -> list[Any]:
        """The attribute of the native environment, repeated for each index."""
        wanted = list(self._get_indices(indices))
        if wrong := [k for k in wanted if not -self.num_envs <= k < self.num_envs]:
            raise OrbitccError("indices", wrong[0], f"numbers of environments, 0 to {self.num_envs - 1}")
        return [getattr(self.native, attr_name) for _ in wanted]

    def set_attr(self, attr_name: str, value: Any, indices: int | Sequence[int] | None = None) -> None:
        raise OrbitccError("set_attr", attr_name, "nothing: the environments are one native batch")

    def env_method(
        self, method_name: str, *method_args: Any, indices: int | Sequence[int] | None = None, **method_kwargs: Any
    ) -> list[Any]:
        raise OrbitccError("env_method", method_name, "nothing: the environments are one native batch")

    def env_is_wrapped(self, wrapper_class: Any, indices: int | Sequence[int] | None = None) -> list[bool]:
        return [False for _ in self._get_indices(indices)]
