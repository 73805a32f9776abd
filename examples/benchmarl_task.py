"""A BenchMARL task: its algorithms train the flows that share a link.

Run: python examples/benchmarl_task.py [mappo | ippo | masac]

BenchMARL 1.5.2 needs TorchRL 0.10 or 0.11: `make libraries` installs both into build/benchmarl (PYTHONPATH).
"""

import sys
from collections.abc import Callable
from tempfile import TemporaryDirectory
from typing import Any

from benchmarl.algorithms import IppoConfig, MappoConfig, MasacConfig
from benchmarl.environments.common import Task, TaskClass
from benchmarl.experiment import Experiment, ExperimentConfig
from benchmarl.models.mlp import MlpConfig
from torchrl.data import Composite
from torchrl.envs import EnvBase
from torchrl.envs.libs.pettingzoo import PettingZooWrapper

import orbitcc
from orbitcc.envs.scenarios import get

ALGORITHMS = {"mappo": MappoConfig, "ippo": IppoConfig, "masac": MasacConfig}


class OrbitccClass(TaskClass):
    """A scenario of several agents. config: the arguments of `orbitcc.parallel_env`."""

    def get_env_fun(
        self, num_envs: int, continuous_actions: bool, seed: int | None, device: Any
    ) -> Callable[[], EnvBase]:
        def make() -> EnvBase:
            env = orbitcc.parallel_env(**self.config, pad_absent=True)
            return PettingZooWrapper(
                env, return_state=True, use_mask=False, done_on_any=False, seed=seed, device=device
            )

        return make

    def supports_continuous_actions(self) -> bool:
        return True

    def supports_discrete_actions(self) -> bool:
        return False

    def has_render(self, env: EnvBase) -> bool:
        return False

    def max_steps(self, env: EnvBase) -> int:
        """Longer than any episode: it ends with the scenario."""
        return 100_000

    def group_map(self, env: EnvBase) -> dict[str, list[str]]:
        return env.group_map

    def observation_spec(self, env: EnvBase) -> Composite:
        spec = env.observation_spec.clone()
        del spec["state"]
        for group in env.group_map:
            del spec[group, "info"]
        return spec

    def state_spec(self, env: EnvBase) -> Composite:
        """The global state: what a central critic sees."""
        return Composite(state=env.observation_spec["state"].clone())

    def action_spec(self, env: EnvBase) -> Composite:
        return env.full_action_spec

    def info_spec(self, env: EnvBase) -> None:
        return None

    def action_mask_spec(self, env: EnvBase) -> None:
        return None

    @staticmethod
    def env_name() -> str:
        return "orbitcc"


class OrbitccTask(Task):
    TWO_RTTS = None

    @staticmethod
    def associated_class() -> type[OrbitccClass]:
        return OrbitccClass


def main(algorithm: str = "mappo", iterations: int = 20, duration_s: float = 30.0) -> float:
    """The mean return of the episodes of the last iteration. An iteration is five episodes, two at a time."""
    settings = ExperimentConfig.get_from_yaml()
    steps = 5 * round(duration_s / 0.03)
    settings.on_policy_collected_frames_per_batch = settings.off_policy_collected_frames_per_batch = steps
    settings.on_policy_n_envs_per_worker = settings.off_policy_n_envs_per_worker = 2
    settings.on_policy_n_minibatch_iters, settings.off_policy_n_optimizer_steps = 10, 100
    settings.max_n_iters, settings.max_n_frames = iterations, None
    settings.lr = 3e-4
    settings.evaluation, settings.loggers = False, []
    with TemporaryDirectory() as folder:
        settings.save_folder = folder
        experiment = Experiment(
            task=OrbitccTask.TWO_RTTS.get_task({"scenario": get("inter-rtt", join_s=0, duration_s=duration_s)}),
            algorithm_config=ALGORITHMS[algorithm].get_from_yaml(),
            model_config=MlpConfig.get_from_yaml(),
            critic_model_config=MlpConfig.get_from_yaml(),
            seed=0,
            config=settings,
        )
        experiment.run()
    return float(experiment.mean_return)


if __name__ == "__main__":
    print(f"mean return of an episode: {main(*sys.argv[1:2]):.1f}")
