"""OrbitCC: a training gym for congestion control over satellite links.

Importing the package registers the controllers (`orbitcc.envs.controllers`) and the environments (`gymnasium.make`).
"""

from typing import Any

from orbitcc import baselines
from orbitcc._moved import put_up_signposts
from orbitcc.agents.registry import register_agents
from orbitcc.envs.environments.registration import register_envs

__version__ = "0.1.0"

register_agents()
register_envs()
put_up_signposts()

__all__ = ["__version__", "baselines", "parallel_env"]


def __getattr__(name: str) -> Any:
    # PettingZoo is imported when it is asked for.
    if name == "parallel_env":
        from orbitcc.envs.environments.parallel import parallel_env

        return parallel_env
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
