"""OrbitCC: a training gym for congestion control over satellite links.

Importing the package registers the controllers (`orbitcc.envs.controllers`) and the environments (`gymnasium.make`).
The environments themselves are here, too: :class:`CongestionEnv`, :class:`VectorCongestionEnv`,
:class:`ParallelCongestionEnv` (:func:`parallel_env`), :class:`BatchedParallelEnv`, :class:`FlowVectorEnv`, and what
they share, :class:`EnvConfig`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from orbitcc import _moved, baselines
from orbitcc.agents.registry import register_agents
from orbitcc.envs.environments.registration import register_when_imported

if TYPE_CHECKING:
    from orbitcc.envs.environments.batched_parallel import BatchedParallelEnv
    from orbitcc.envs.environments.config import EnvConfig
    from orbitcc.envs.environments.parallel import ParallelCongestionEnv, parallel_env
    from orbitcc.envs.environments.single import CongestionEnv
    from orbitcc.envs.environments.slots import FlowVectorEnv
    from orbitcc.envs.environments.vector import VectorCongestionEnv

__version__ = "0.1.0"

register_agents()
register_when_imported()
_moved.put_up_signposts()

__all__ = [
    "BatchedParallelEnv",
    "CongestionEnv",
    "EnvConfig",
    "FlowVectorEnv",
    "ParallelCongestionEnv",
    "VectorCongestionEnv",
    "__version__",
    "baselines",
    "parallel_env",
]

_ENVIRONMENTS = {
    "BatchedParallelEnv": "batched_parallel",
    "CongestionEnv": "single",
    "EnvConfig": "config",
    "FlowVectorEnv": "slots",
    "ParallelCongestionEnv": "parallel",
    "VectorCongestionEnv": "vector",
    "parallel_env": "parallel",
}
"""What is imported when it is asked for -> its module."""


def __getattr__(name: str) -> Any:
    if name in _ENVIRONMENTS:
        return getattr(import_module(f"orbitcc.envs.environments.{_ENVIRONMENTS[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
