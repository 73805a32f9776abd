"""Ids for `gymnasium.make` and `gymnasium.make_vec`: one for every scenario and distribution."""

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import gymnasium as gym

from orbitcc.envs.errors import UnknownNameError

if TYPE_CHECKING:
    from orbitcc.envs.environments.single import CongestionEnv
    from orbitcc.envs.environments.vector import VectorCongestionEnv


# Written out, so that `import orbitcc` does not import the library of scenarios; a test compares.
_SCENARIOS = (
    "dumbbell", "leo-responsiveness", "leo-path", "leoem", "path-trace", "leo-access", "geo-ideal", "geo-viasat-2020",
    "geo-viasat-2021", "geo-rain", "inter-rtt", "intra-rtt", "parking-lot", "efficiency", "double-dumbbell",
    "cubic-friendliness", "hard-handover", "delay-jump", "train-astraea", "train-astraea-loss", "train-astraea-rtt",
    "train-leo", "train-geo", "train-orbits", "train-mixed",
)  # fmt: skip


def env_id(scenario: str) -> str:
    """The id of a scenario's environment: `orbitcc/GeoViasat2020-v0` for `geo-viasat-2020`."""
    return f"orbitcc/{''.join(part.capitalize() for part in scenario.split('-'))}-v0"


IDS: dict[str, str] = {env_id(name): name for name in _SCENARIOS}
"""Environment id -> the scenario or distribution its episodes come from."""


def single(scenario: Any, **arguments: Any) -> "CongestionEnv":
    """The single environment; `arguments` are its own, or parameters of a named scenario.

    Raises:
        OrbitccError: an argument is neither, or has a value that is not allowed.
    """
    from orbitcc.envs.environments.single import CongestionEnv

    return CongestionEnv(**sorted_out(CongestionEnv, scenario, arguments))


def vector(num_envs: int = 1, *, scenario: Any, **arguments: Any) -> "VectorCongestionEnv":
    """The native vector environment; arguments as in :func:`single`."""
    from orbitcc.envs.environments.vector import VectorCongestionEnv

    return VectorCongestionEnv(num_envs, **sorted_out(VectorCongestionEnv, scenario, arguments))


def register_envs() -> None:
    """Make the ids known to gymnasium; a second call changes nothing."""
    for name, scenario in IDS.items():
        if name not in gym.registry:
            gym.register(
                name,
                entry_point="orbitcc.envs.environments.registration:single",
                vector_entry_point="orbitcc.envs.environments.registration:vector",
                kwargs={"scenario": scenario},
            )


def sorted_out(environment: Callable[..., Any], scenario: Any, arguments: dict[str, Any]) -> dict[str, Any]:
    """Arguments of the environment, with those that are the scenario's put into the scenario."""
    from orbitcc.envs.scenarios import SCENARIOS, get

    own = [name for name in inspect.signature(environment).parameters if name not in ("num_envs", "scenario")]
    params = SCENARIOS[scenario].params if isinstance(scenario, str) and scenario in SCENARIOS else {}
    for name in arguments:
        if name not in own and name not in params:
            raise UnknownNameError(name, name, ["scenario", *own, *params])
    given = {name: value for name, value in arguments.items() if name in params and name not in own}
    rest = {name: value for name, value in arguments.items() if name not in given}
    return {"scenario": get(scenario, **given) if given else scenario, **rest}


# gymnasium asks what it makes environments with for their render modes
single.metadata = {"render_modes": ["human", "rgb_array"], "render_fps": 30}  # type: ignore[attr-defined]
vector.metadata = single.metadata  # type: ignore[attr-defined]
