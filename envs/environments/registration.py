"""Ids for `gymnasium.make` and `gymnasium.make_vec`: one for every scenario and distribution that needs no argument.

RLlib knows the same ids, and the names :data:`FLOWS` and :data:`WORLDS`, in all its processes. Gymnasium 1.x loads no
plug-ins, and a worker of Ray does not import what its driver has imported. Ray's own registry is what a worker asks
first: it holds a function by the name of its module, so that reading it imports this package.
"""

import sys
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

# Written out, so that `import orbitcc` does not import the library of scenarios; a test compares.
_SCENARIOS = (
    "dumbbell", "leo-responsiveness", "leo-path", "leoem", "leo-access", "starlink-2026", "geo-ideal",
    "geo-viasat-2020", "geo-viasat-2021", "geo-rain", "geo-pep", "inter-rtt", "intra-rtt", "parking-lot", "efficiency",
    "double-dumbbell", "cubic-friendliness", "hard-handover", "delay-jump", "train-astraea", "train-astraea-loss",
    "train-astraea-rtt", "train-leo", "train-leo-wide", "train-geo", "train-orbits", "train-mixed",
)  # fmt: skip


def env_id(scenario: str) -> str:
    """The id of a scenario's environment: `orbitcc/GeoViasat2020-v0` for `geo-viasat-2020`."""
    return f"orbitcc/{''.join(part.capitalize() for part in scenario.split('-'))}-v0"


IDS: dict[str, str] = {env_id(name): name for name in _SCENARIOS}
"""Environment id -> the scenario or distribution its episodes come from."""

_WITH_RUNS = (
    "leo-responsiveness", "leo-path", "leoem", "leo-access", "starlink-2026", "geo-viasat-2020", "geo-viasat-2021",
    "geo-rain", "geo-pep", "intra-rtt", "parking-lot", "efficiency",
)  # fmt: skip


def test_id(scenario: str) -> str:
    """The id of a scenario's run 1: `orbitcc/LeoResponsivenessTest-v0` for `leo-responsiveness`."""
    return env_id(scenario).replace("-v0", "Test-v0")


TEST_IDS: dict[str, str] = {test_id(name): name for name in _WITH_RUNS}
"""Ids for tests: run 1 of the scenario, as in the suites; the ids above draw runs that no suite uses."""

TRACE_IDS: dict[str, str] = {env_id(name): name for name in ("traces-train", "traces-validation", "traces-test")}
"""Ids for the measured paths in one part of a trace set, which the argument `traces` names."""

FLOWS, WORLDS = "orbitcc-flows", "orbitcc-worlds"
"""RLlib's names of one sub-environment per flow, and of whole worlds (:mod:`orbitcc.envs.environments.rllib`)."""

_EPISODE_S = {"leo-path": 30.0}
"""Episodes of an id that are shorter than the scenario. PPO of RLlib samples 4,000 decisions per iteration, on two
env runners 2,000 each; 300 s are 10,000 decisions of 30 ms, so that no episode would end in the first iterations."""


def register_envs() -> None:
    """Make the ids known to gymnasium; a second call changes nothing."""
    import gymnasium as gym

    shorter = {env_id(name): {"duration_s": seconds} for name, seconds in _EPISODE_S.items()}
    settings = {name: {"scenario": scenario, **shorter.get(name, {})} for name, scenario in IDS.items()}
    settings |= {name: {"scenario": scenario, "run": 1} for name, scenario in TEST_IDS.items()}
    settings |= {name: {"scenario": scenario} for name, scenario in TRACE_IDS.items()}
    for name, kwargs in settings.items():
        if name not in gym.registry:
            gym.register(
                name,
                entry_point="orbitcc.envs.environments.single:CongestionEnv",
                vector_entry_point="orbitcc.envs.environments.vector:VectorCongestionEnv",
                kwargs=kwargs,
            )


def register_with_ray() -> None:
    """Make the ids and names known to RLlib, in every process of this job; a second call changes nothing."""
    from ray.tune.registry import register_env

    for name in (*IDS, *TEST_IDS, *TRACE_IDS):
        register_env(name, partial(_by_id, name))
    for name in (FLOWS, WORLDS):
        register_env(name, partial(_by_name, name))


def _by_id(name: str, config: dict[str, Any]) -> Any:
    """The environment that RLlib asks for, one or many at once."""
    import gymnasium as gym

    register_envs()
    if "num_envs" in config:
        return gym.make_vec(name, vectorization_mode="vector_entry_point", **config)
    return gym.make(name, **config)


def _by_name(name: str, config: dict[str, Any]) -> Any:
    adapters = import_module("orbitcc.envs.environments.rllib")  # which imports this module
    return {FLOWS: adapters.flows, WORLDS: adapters.RLlibCongestionEnv}[name](config)


def _ray_is_there() -> None:
    """Register now, and again whenever Ray starts: `ray.shutdown()` forgets its registry."""
    register_with_ray()
    # Ray has no public hook for its start. Without this one the names are lost after a shutdown, and nothing else.
    hooks = getattr(import_module("ray._private.worker"), "_post_init_hooks", [])
    hooks.append(register_with_ray)


_WAITING: dict[str, Callable[[], None]] = {"gymnasium": register_envs, "ray.tune.registry": _ray_is_there}
"""Module -> what is done once it has been imported."""


def register_when_imported() -> None:
    """Register now, or as soon as somebody imports gymnasium or RLlib, which take their time."""
    for name in [name for name in _WAITING if name in sys.modules]:
        _WAITING.pop(name)()
    if _WAITING and _Registrar not in sys.meta_path:
        sys.meta_path.insert(0, _Registrar)


class _Registrar:
    """First of Python's finders until both are imported: lets them be found, and registers the ids after them."""

    @classmethod
    def find_spec(
        cls, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name not in _WAITING:
            return None
        found = (finder.find_spec(name, path, target) for finder in sys.meta_path if finder is not cls)
        spec = next((spec for spec in found if spec is not None), None)
        if spec is not None and spec.loader is not None:
            run = spec.loader.exec_module

            def run_and_register(module: ModuleType) -> None:  # not before: some only ask whether it is there
                run(module)
                register = _WAITING.pop(name, None)
                if not _WAITING and cls in sys.meta_path:
                    sys.meta_path.remove(cls)
                if register is not None:
                    register()

            spec.loader.exec_module = run_and_register  # type: ignore[method-assign]
        return spec
