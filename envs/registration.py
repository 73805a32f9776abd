"""Ids for `gymnasium.make` and `gymnasium.make_vec`."""

import gymnasium as gym

IDS: dict[str, str] = {
    "orbitcc/Dumbbell-v0": "dumbbell",
    "orbitcc/LeoResponsiveness-v0": "leo-responsiveness",
    "orbitcc/LeoAccess-v0": "leo-access",
    "orbitcc/GeoIdeal-v0": "geo-ideal",
    "orbitcc/GeoViasat2020-v0": "geo-viasat-2020",
    "orbitcc/ParkingLot-v0": "parking-lot",
    "orbitcc/TrainAstraea-v0": "train-astraea",
    "orbitcc/TrainLeo-v0": "train-leo",
    "orbitcc/TrainGeo-v0": "train-geo",
    "orbitcc/TrainOrbits-v0": "train-orbits",
    "orbitcc/TrainMixed-v0": "train-mixed",
}
"""Environment id -> the scenario or distribution its episodes come from."""


def register_envs() -> None:
    """Make the ids known to gymnasium; a second call changes nothing."""
    for env_id, scenario in IDS.items():
        if env_id not in gym.registry:
            gym.register(
                env_id,
                entry_point="orbitcc.envs.single:CongestionEnv",
                vector_entry_point="orbitcc.envs.vector:VectorCongestionEnv",
                kwargs={"scenario": scenario},
            )
