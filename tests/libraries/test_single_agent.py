"""Libraries for one agent, called as their own documentation does (weekly by `make libraries`)."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

from tests.commands.shell import called


def run(code: str, folder: Path) -> str:
    """The output of a script in a process of its own, as users start it: libraries spawn processes that import it."""
    script = folder / "script.py"
    script.write_text(textwrap.dedent(code))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, timeout=600, cwd=folder, env=environment
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_torchrls_gym_env_makes_an_id() -> None:
    pytest.importorskip("torchrl")
    from torchrl.envs import GymEnv

    env = GymEnv("orbitcc/Dumbbell-v0")
    steps = env.rollout(5)
    assert steps["next", "reward"].shape == (5, 1)
    assert np.isfinite(steps["observation"].numpy()).all()


@pytest.mark.slow
@pytest.mark.skipif(not os.environ.get("ORBITCC_LIBRARIES"), reason="takes minutes: `make libraries` runs it, weekly")
def test_torchrls_gym_env_makes_several_of_an_id(tmp_path) -> None:
    pytest.importorskip("torchrl")
    code = """
        import orbitcc
        from torchrl.envs import GymEnv

        if __name__ == "__main__":
            env = GymEnv("orbitcc/Dumbbell-v0", num_envs=2)
            print(tuple(env.rollout(5)["next", "reward"].shape))
            env.close()
    """
    assert run(code, tmp_path).splitlines()[-1] == "(2, 5, 1)"


def test_d3rlpy_reads_our_data_sets(tmp_path, monkeypatch) -> None:
    pytest.importorskip("d3rlpy", reason="d3rlpy is not installed: `make libraries` does it, weekly")
    pytest.importorskip("minari")
    from d3rlpy.datasets import get_minari

    words = ("dataset", "dumbbell", "--set", "duration_s=5", "--flow", "cubic", "--episodes", "2")
    made = called(*words, "--id", "orbitcc/cubic-v0", "--root", str(tmp_path))
    assert made.returncode == 0, made.stderr
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    dataset, env = get_minari("orbitcc/cubic-v0")
    assert len(dataset.episodes) >= 2
    assert dataset.episodes[0].observations.shape[1:] == env.observation_space.shape
    assert env.reset(seed=1)[0].shape == env.observation_space.shape


@pytest.mark.slow
@pytest.mark.parametrize("cpus", [0, 2])
def test_supersuit_joins_parallel_environments(cpus: int, tmp_path) -> None:
    pytest.importorskip("supersuit", reason="supersuit is not installed: `make libraries` does it, weekly")
    code = f"""
        import numpy as np, orbitcc, supersuit

        if __name__ == "__main__":
            flows = supersuit.pettingzoo_env_to_vec_env_v1(orbitcc.parallel_env("inter-rtt", pad_absent=True))
            env = supersuit.concat_vec_envs_v1(flows, 2, num_cpus={cpus}, base_class="gymnasium")
            observations, _ = env.reset(seed=1)
            for _ in range(20):
                observations, rewards, *_ = env.step(np.zeros((env.num_envs, 1), np.float32))
            print(env.num_envs, observations.shape, bool(np.isfinite(rewards).all()))
            env.close()
    """
    assert run(code, tmp_path).splitlines()[-1] == "4 (4, 50) True"
