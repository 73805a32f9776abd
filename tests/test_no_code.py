"""No file that OrbitCC reads can name code that is then imported, whatever reads it."""

import subprocess
import sys
from pathlib import Path

import pytest

from orbitcc.common.errors import OrbitccError
from orbitcc.envs.backends.simulator import Recording, simulate
from orbitcc.envs.description.scenario import ControllerSpec, Flow, Scenario
from orbitcc.training.recipe import Recipe
from tests.commands.shell import called

CODE = """
from pathlib import Path
Path("ran").touch()

class Policy:
    def act(self, obs):
        return obs[:, :1] * 0

make = Policy
"""
LINK = 'name = "n"\nduration_s = 1\nlinks = [{ name = "l", rate_mbps = 10, delay_ms = 10 }]\n'
NAMES = ("planted:make", "rllib:planted", "sb3:planted.zip", "hf:owner/planted")
WAYS = ('{{ name = "policy", params = {{ path = "{}" }} }}', '"policy:path={}"')


@pytest.fixture(autouse=True)
def _planted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "planted", raising=False)
    Path("planted.py").write_text(CODE)


def _scenario(way: str, name: str) -> str:
    return LINK + f"flows = [{{ controller = {way.format(name)} }}]\n"


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    "command",
    [
        ["run", "s.toml"],
        ["run", "s.toml", "--set", "duration_s=2"],
        ["eval", ".", "--controller", "cubic"],
        ["scenario", "show", "s.toml"],
        ["trace", "perigee", "s.toml"],
    ],
)
def test_scenario_files(command: list[str], way: str, name: str) -> None:
    Path("s.toml").write_text(_scenario(way, name))
    done = called(*command)
    assert done.returncode == 2
    assert "cannot name code" in " ".join(done.stderr.split())
    assert "flows.0.controller.params.path" in done.stderr
    assert not Path("ran").exists()


@pytest.mark.parametrize("way", WAYS)
def test_distributions_and_recipes(way: str) -> None:
    controller = way.format(NAMES[0])
    text = f'name = "d"\nkind = "mixture"\n[[parts]]\nweight = 1\nbase = "train-leo"\nbackground = {controller}\n'
    Path("d.toml").write_text(text)
    assert called("run", "d.toml").returncode == 2
    recipe = {"name": "r", "algorithm": "ppo", "agent_steps": 1000, "preset": "ratios"}
    with pytest.raises(OrbitccError):
        Recipe.build({**recipe, "scenario": {"kind": "mixture", "parts": [{"base": "s.toml"}]}}).world().sample(1)
    assert not Path("ran").exists()


def test_a_recording_names_the_placeholder() -> None:
    code = ControllerSpec(name="policy", params={"path": NAMES[0]})
    played = simulate(Scenario.from_toml(_scenario('"{}"', "cubic")).with_controller(code))
    assert Path("ran").exists()  # it was named in Python
    played.save("r.npz")
    read = Recording.load("r.npz").scenario.flows[0]
    assert (read.controller.name, read.name) == ("external", "planted:make-0")


def test_python_and_the_command_line_may_name_code() -> None:
    Path("s.toml").write_text(_scenario('"{}"', "contender"))
    assert called("run", "s.toml", "--flow", f"policy:path={NAMES[0]}").returncode == 0
    assert Path("ran").exists()
    own = Scenario.load("s.toml").with_controller(f"policy:path={NAMES[0]}")
    assert own.override("duration_s", 2).flows[0].controller.params == {"path": NAMES[0]}
    with pytest.raises(OrbitccError, match="cannot name code"):
        Flow.build({"controller": f"policy:path={NAMES[0]}"})
    assert simulate(own).flow_totals


@pytest.mark.parametrize("name", NAMES)
def test_a_recipe_names_no_code_and_no_download(name: str) -> None:
    recipe = {"name": "r", "algorithm": "ppo", "agent_steps": 1000, "preset": "ratios", "scenario": "train-leo"}
    with pytest.raises(OrbitccError, match="cannot name code or a download"):
        Recipe.build({**recipe, "start_from": name})


@pytest.mark.parametrize("name", NAMES)
def test_a_row_of_results_causes_no_download(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from orbitcc.agents import checkpoint
    from orbitcc.eval import comparison

    monkeypatch.setattr(checkpoint, "load", lambda name: pytest.fail(f"{name} was loaded"))
    assert comparison._training_seed({"params": {"path": name}, "controller": "policy"}) == -1


def test_every_policy_that_is_no_checkpoint_has_a_name_that_files_may_not_give() -> None:
    from orbitcc.agents import hub, libraries
    from orbitcc.common import code

    assert {hub.PREFIX, *(f"{kind}:" for kind in libraries.KINDS)} == set(code.PREFIXES)


def test_processes_of_ours_import_nothing_from_the_working_directory(tmp_path: Path) -> None:
    for name in ("signal", "ray", "multiprocessing"):
        (tmp_path / f"{name}.py").write_text(CODE)
    words = ["eval", "rate-step", "--controller", "cubic", "--controller", "reno", "--workers", "2", "--out", "found"]
    script = Path(sys.executable).with_name("orbitcc")  # `python -m` would look there itself
    done = subprocess.run([script, *words], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "ran").exists()
