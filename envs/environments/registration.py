"""Ids for `gymnasium.make` and `gymnasium.make_vec`: one for every scenario and distribution that needs no argument."""

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType

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


def register_envs() -> None:
    """Make the ids known to gymnasium; a second call changes nothing."""
    import gymnasium as gym

    for name, scenario in IDS.items():
        if name not in gym.registry:
            gym.register(
                name,
                entry_point="orbitcc.envs.environments.single:CongestionEnv",
                vector_entry_point="orbitcc.envs.environments.vector:VectorCongestionEnv",
                kwargs={"scenario": scenario},
            )


def register_when_imported() -> None:
    """:func:`register_envs` now, or as soon as somebody imports gymnasium, which takes its time."""
    if "gymnasium" in sys.modules:
        register_envs()
    elif _Registrar not in sys.meta_path:
        sys.meta_path.insert(0, _Registrar)


class _Registrar:
    """First of Python's finders until gymnasium is imported: lets it be found, and registers the ids after it."""

    @classmethod
    def find_spec(
        cls, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != "gymnasium":
            return None
        found = (finder.find_spec(name, path, target) for finder in sys.meta_path if finder is not cls)
        spec = next((spec for spec in found if spec is not None), None)
        if spec is not None and spec.loader is not None:
            run = spec.loader.exec_module

            def run_and_register(module: ModuleType) -> None:  # not before: some only ask whether it is there
                run(module)
                if cls in sys.meta_path:
                    sys.meta_path.remove(cls)
                register_envs()

            spec.loader.exec_module = run_and_register  # type: ignore[method-assign]
        return spec
