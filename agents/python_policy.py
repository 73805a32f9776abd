"""Policies in Python: `package.module:factory`, accepted wherever a checkpoint is.

`factory()` returns an object with `act(obs f32[n, D]) -> actions [n, A]`, in [-1, 1] unless the preset has an action of
its own, and optionally `preset` (:func:`orbitcc.preset`; default ratios), whose functions are native or in Python.
The factory is called for every run, so that runs do not influence each other. The object decides for all flows of the
run that use the policy, one at a time. State of a flow belongs into the `memory` of a function, or into what `begin()`
returns: where the object has this method, it is called for each flow and returns an object whose `act(obs)` decides for
this flow alone.

Policies of RLlib and Stable-Baselines3 (`rllib:FOLDER`, `sb3:FILE`, :mod:`orbitcc.agents.libraries`) are such objects.
"""

import hashlib
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orbitcc import _sim
from orbitcc.agents import hub, libraries
from orbitcc.agents.libraries import Act
from orbitcc.common import code
from orbitcc.common.errors import OrbitccError
from orbitcc.common.numbers import REAL
from orbitcc.envs.environments.custom import control, observe
from orbitcc.envs.environments.presets import DEFAULT, Action, Observation, Preset, Who, preset


def is_python_policy(name_or_path: str) -> bool:
    """Is this `package.module:factory`, or a policy of a library, rather than the name or folder of a checkpoint?"""
    if hub.is_on_hub(name_or_path):
        return False
    return libraries.is_library_policy(name_or_path) or code.is_code(name_or_path)


@lru_cache(maxsize=16)
def load(name: str) -> _sim.PythonPolicy:
    """The policy of `package.module:factory` or of a library; the working directory is searched first.

    Raises:
        OrbitccError: the module or the factory is missing or raises, or what it returns has no `act` or no usable
            preset; or the policy of a library cannot be used (:func:`orbitcc.agents.libraries.load`).
    """
    preset = Run(name).preset
    return _sim.PythonPolicy(
        lambda: Run(name).decide,
        observation=preset.native("observation").json(),
        action=preset.native("action").json(),
        interval_ns=preset.interval_ns,
        interval_rtts=preset.interval_rtts,
        interval_least_ns=preset.interval_least_ns,
        safety_filter=preset.limits,
    )


def digest(name: str) -> str:
    """12 hex digits of the source of the policy's module, or of its library's files.

    Raises:
        OrbitccError: the module cannot be imported.
    """
    if libraries.is_library_policy(name):
        return libraries.digest(name)
    file = getattr(code.module("policy", name), "__file__", None)
    return hashlib.sha256(Path(file).read_bytes() if file else b"").hexdigest()[:12]


class Run:
    """The policy in one run: a new object, and the memory of its functions for each flow."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._policy = libraries.load(name) if libraries.is_library_policy(name) else _made(name)
        try:
            self.preset: Preset = preset(getattr(self._policy, "preset", DEFAULT)).for_deployment()
        except (OrbitccError, AttributeError, TypeError) as error:
            raise _refused(name, "a policy whose preset is a name, a table or a Preset", error) from error
        self._shape = (1, self.preset.action_dim)
        self._memory: dict[int, dict[str, NDArray[np.float64]]] = {}
        self._acts: dict[int, Act] = {}

    def decide(self, flow: int, obs: NDArray[np.float32], stats: NDArray[np.float64]) -> float | tuple[float, float]:
        """One decision for one flow; see `_sim.PythonPolicy`."""
        preset, seen, row = self.preset, obs[None], stats[None]
        fresh = flow not in self._memory
        if fresh:
            self._memory[flow] = {kind: np.zeros((1, function.memory)) for kind, function in preset.python().items()}
            self._acts[flow] = self.begin()

        def who(kind: str) -> Who:
            number = np.array([flow])
            return Who(np.zeros(1, np.int64), number, number, np.array([fresh]), self._memory[flow][kind])

        try:
            if isinstance(preset.observation, Observation):
                seen = observe(preset.observation, row, who("observation"))
            actions = self._acts[flow](seen)
            if isinstance(preset.action, Action):
                (cwnd,), (pacing,) = control(preset.action, actions, row, who("action"))
                return float(cwnd), float(pacing)
        except OrbitccError as error:
            if error.field == "policy":
                raise
            raise error.under(self.name) from error
        except code.RAISED as error:
            raise _refused(self.name, "a policy that can act", error) from error
        return float(actions[0, 0])

    def begin(self) -> Act:
        """What decides for one flow: actions f32[1, A] for an observation f32[1, D]; it raises OrbitccError where the
        policy returns another result."""
        begin = getattr(self._policy, "begin", None)
        try:
            made = self._policy if begin is None else begin()
        except code.RAISED as error:
            raise _refused(self.name, "a policy that can begin", error) from error
        return partial(self._checked, made)

    def _checked(self, policy: Any, seen: NDArray[np.float32]) -> NDArray[np.float32]:
        try:
            given = np.asarray(policy.act(seen))
        except code.RAISED as error:
            raise _refused(self.name, "a policy that can act", error) from error
        if given.dtype.kind not in REAL:
            raise OrbitccError("act", f"values of the type {given.dtype}", "real numbers in [-1, 1]")
        with np.errstate(over="ignore"):  # values beyond the bounds are clipped
            actions = given.astype(np.float32)
        if actions.shape != self._shape:
            raise OrbitccError("act", f"an array of shape {actions.shape}", f"shape {self._shape}: a row per flow")
        if np.isnan(actions).any():
            raise OrbitccError("act", "NaN", "numbers in [-1, 1]")
        return actions


def _made(name: str) -> Any:
    """What the factory of `package.module:factory` returns."""
    factory = code.attribute("policy", name)
    if not callable(factory):
        raise OrbitccError("policy", name, "a factory that can be called")
    try:
        policy = factory()
    except code.RAISED as error:
        raise _refused(name, "a factory that works without arguments", error) from error
    if not any(callable(getattr(policy, method, None)) for method in ("act", "begin")):
        made = type(policy).__name__
        raise OrbitccError("policy", name, f"a factory of objects with act(obs); it returned {made} without one")
    return policy


def _refused(name: str, allowed: str, error: BaseException) -> OrbitccError:
    return code.refused("policy", name, allowed, error)
