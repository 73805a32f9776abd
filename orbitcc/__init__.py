"""OrbitCC: train and benchmark congestion control over LEO and GEO satellite links.

Importing the package registers the controllers (`orbitcc.envs.controllers`) and the environments (`gymnasium.make`).

Environments: :class:`CongestionEnv`, :class:`VectorCongestionEnv`, :func:`parallel_env`
(:class:`ParallelCongestionEnv`), :class:`BatchedParallelEnv`, :class:`FlowVectorEnv`; their common settings are
:class:`EnvConfig`. Functions of your own: :class:`Observation`, :class:`Action`, :class:`Reward`, bundled by
:class:`Preset`, on the raw statistics whose columns are :data:`STATS`, described by :data:`STATISTICS`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from orbitcc import baselines
from orbitcc.agents.registry import register_agents
from orbitcc.envs.environments.registration import register_when_imported

if TYPE_CHECKING:
    from orbitcc.envs.environments.batched_parallel import BatchedParallelEnv
    from orbitcc.envs.environments.config import EnvConfig
    from orbitcc.envs.environments.flow_vector import FlowVectorEnv
    from orbitcc.envs.environments.parallel import ParallelCongestionEnv, parallel_env
    from orbitcc.envs.environments.presets import STATISTICS, STATS, Action, Observation, Preset, Reward, Who, preset
    from orbitcc.envs.environments.single import CongestionEnv
    from orbitcc.envs.environments.vector import VectorCongestionEnv

__version__ = "0.2.0"

register_agents()
register_when_imported()

__all__ = [
    "STATISTICS",
    "STATS",
    "Action",
    "BatchedParallelEnv",
    "CongestionEnv",
    "EnvConfig",
    "FlowVectorEnv",
    "Observation",
    "ParallelCongestionEnv",
    "Preset",
    "Reward",
    "VectorCongestionEnv",
    "Who",
    "__version__",
    "baselines",
    "parallel_env",
    "preset",
]

_LAZY = {
    **dict.fromkeys(("STATISTICS", "STATS", "Action", "Observation", "Preset", "Reward", "Who", "preset"), "presets"),
    "BatchedParallelEnv": "batched_parallel",
    "CongestionEnv": "single",
    "EnvConfig": "config",
    "FlowVectorEnv": "flow_vector",
    "ParallelCongestionEnv": "parallel",
    "VectorCongestionEnv": "vector",
    "parallel_env": "parallel",
}
"""Public name -> the module in `orbitcc.envs.environments` that is imported at its first use."""


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(f"orbitcc.envs.environments.{_LAZY[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return list(__all__)
