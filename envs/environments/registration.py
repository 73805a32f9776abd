"""Ids for `gymnasium.make` and `gymnasium.make_vec`: one for every scenario and distribution that needs no argument."""

import gymnasium as gym

# Written out, so that `import orbitcc` does not import the library of scenarios; a test compares.
_SCENARIOS = (
    "dumbbell", "leo-responsiveness", "leo-path", "leoem", "leo-access", "geo-ideal", "geo-viasat-2020",
    "geo-viasat-2021", "geo-rain", "inter-rtt", "intra-rtt", "parking-lot", "efficiency", "double-dumbbell",
    "cubic-friendliness", "hard-handover", "delay-jump", "train-astraea", "train-astraea-loss", "train-astraea-rtt",
    "train-leo", "train-geo", "train-orbits", "train-mixed",
)  # fmt: skip


def env_id(scenario: str) -> str:
    """The id of a scenario's environment: `orbitcc/GeoViasat2020-v0` for `geo-viasat-2020`."""
    return f"orbitcc/{''.join(part.capitalize() for part in scenario.split('-'))}-v0"


IDS: dict[str, str] = {env_id(name): name for name in _SCENARIOS}
"""Environment id -> the scenario or distribution its episodes come from."""


def register_envs() -> None:
    """Make the ids known to gymnasium; a second call changes nothing."""
    for name, scenario in IDS.items():
        if name not in gym.registry:
            gym.register(
                name,
                entry_point="orbitcc.envs.environments.single:CongestionEnv",
                vector_entry_point="orbitcc.envs.environments.vector:VectorCongestionEnv",
                kwargs={"scenario": scenario},
            )
