"""Tutorials run as they are written, shorter where they learn."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from typer.main import get_command

from orbitcc.agents import libraries
from orbitcc.cli import app
from orbitcc.envs import scenarios
from orbitcc.envs.backends.simulator import simulate
from orbitcc.envs.description.flows import Flow
from orbitcc.envs.description.scenario import ControllerSpec, Scenario
from orbitcc.eval import contenders, suites
from orbitcc.parallel import cluster

ROOT = Path(__file__).parents[2]
TUTORIALS = ROOT / "docs" / "tutorials"


def blocks(name, language):
    text = (TUTORIALS / f"{name}.md").read_text(encoding="utf-8")
    return re.findall(rf"```{language}\n(.*?)```", text, flags=re.DOTALL)


def commands(name):
    """The arguments of every `orbitcc` command in a tutorial."""
    text = (TUTORIALS / f"{name}.md").read_text(encoding="utf-8")
    lines = "\n".join(blocks(name, "sh")).replace("\\\n", " ").splitlines()
    lines += re.findall(r"`(orbitcc (?:run|eval|train) [^`]+)`", text)
    return [shlex.split(line, comments=True)[1:] for line in lines if line.startswith("orbitcc ")]


def run(name, shorter=(), only=None):
    """Execute the Python blocks of a tutorial (or these) one after another, with some numbers replaced."""
    found = blocks(name, "python")
    code = "\n".join(found if only is None else [found[index] for index in only])
    for before, after in shorter:
        assert code.count(before) == 1, f"{before!r} is not in {name}.md"
        code = code.replace(before, after)
    made = {"__name__": f"tutorial_{name}"}
    exec(compile(code, f"{name}.md", "exec"), made)
    return made


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", f"{Path(__file__).parents[2]}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def test_every_tutorial_is_run_here():
    assert {path.stem for path in TUTORIALS.glob("*.md")} == {
        "gymnasium", "sb3", "rllib", "bring-your-rllib-script", "multi-agent", "your-scenario", "your-controller",
        "reading-a-report",
    }  # fmt: skip


@pytest.mark.parametrize("path", sorted(TUTORIALS.glob("*.md")), ids=lambda path: path.stem)
def test_examples_import_what_they_use(path):
    """Names that a block uses are imported or made in it or in one before."""
    import ast
    import builtins

    known = set(dir(builtins))
    for block in blocks(path.stem, "python"):
        tree = ast.parse(block)
        bound = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)}
        bound |= {n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.ClassDef)}
        bound |= {n.arg for n in ast.walk(tree) if isinstance(n, ast.arg)}
        bound |= {
            (a.asname or a.name).split(".")[0]
            for n in ast.walk(tree)
            if isinstance(n, ast.Import | ast.ImportFrom)
            for a in n.names
        }
        known |= bound
        used = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)}
        assert used <= known


def test_your_scenario(folder):
    text, handovers, mine = blocks("your-scenario", "toml")
    assert (
        len(
            Scenario.from_toml(f'name = "x"\nduration_s = 60\n{handovers}[[flows]]\ncontroller = "cubic"')
            .links[0]
            .handovers
        )
        == 2
    )
    (folder / "pass.toml").write_text(text, encoding="utf-8")
    (folder / "mine").mkdir()
    (folder / "mine" / "shared.toml").write_text(mine, encoding="utf-8")
    made = run("your-scenario")
    goodputs = [flow["goodput_mbps"] for flow in made["recording"].flow_totals]
    assert 25 < sum(goodputs) < 80
    assert 2 <= made["drawn"].mean_capacity_mbps() <= 40
    (case,) = suites.get("mine").cases("quick", 1)
    played = suites.get("mine").enter(case, contenders.from_controller("bbr3"))
    assert [str(flow.controller) for flow in played.flows] == ["cubic", "bbr3"]


def write_module(folder, name, tutorial, index):
    """A Python block as a module that policies can be loaded from."""
    (folder / f"{name}.py").write_text(blocks(tutorial, "python")[index], encoding="utf-8")
    sys.modules.pop(name, None)


def totals(policy, scenario="dumbbell", rivals=(), **arguments):
    """What a policy in Python achieves, alone or beside others."""
    mine = Flow(controller=ControllerSpec(name="policy", params={"path": policy}))
    flows = [mine, *(Flow(controller=ControllerSpec(name=rival)) for rival in rivals)]
    return simulate(scenarios.get(scenario, **arguments).with_flows(flows)).flow_totals[0]


def test_your_controller(folder):
    write_module(folder, "mine", "your-controller", 0)
    total = run("your-controller")["total"]
    assert total["goodput_mbps"] > 90
    assert total["srtt_ms"] < 1.1 * total["base_rtt_ms"]
    (printed,) = [text for text in blocks("your-controller", "text") if "over a base RTT" in text]
    assert printed.startswith(f"{total['goodput_mbps']:.1f} Mbit/s, {total['srtt_ms']:.1f} ms")
    leo = totals("mine:make", "leo-responsiveness", run=1004, duration_s=90)
    assert leo["goodput_mbps"] > 0.85 * 82  # of the mean rate
    assert leo["srtt_ms"] < 1.25 * leo["base_rtt_ms"]
    beside = totals("mine:make", rivals=["cubic"], duration_s=60)
    assert 3 < beside["goodput_mbps"] < 15  # it yields, as the page says, but it does not starve


def test_gymnasium(folder, capsys):
    shorter = [
        (
            "population, best, generations, seconds = 32, 8, 15, 30",
            "population, best, generations, seconds = 32, 8, 6, 10",
        )
    ]
    made = run("gymnasium", shorter, only=(0, 1))
    assert capsys.readouterr().out.startswith(blocks("gymnasium", "text")[0])  # nothing is random there
    first, *_, last = made["history"]
    assert last > first + 0.05
    write_module(folder, "linear", "gymnasium", 2)
    total = totals("linear:make", "leo-responsiveness", run=1, duration_s=20)
    assert total["goodput_mbps"] > 40
    assert total["delay_inflation"] < 2


@pytest.mark.slow
def test_sb3(folder):
    pytest.importorskip("stable_baselines3")
    made = run("sb3", [("flows, decisions = 256, 400_000", "flows, decisions = 256, 190_000")], only=(0,))
    first, *_, last = made["PrintReward"].history
    assert last > first + 0.02
    libraries.trust([folder / "ppo.zip"])
    assert totals("sb3:ppo.zip:preset=ratios", "leo-responsiveness", run=1, duration_s=10)["sent_packets"] > 1000


def test_another_interval_with_sb3(folder):
    pytest.importorskip("stable_baselines3")
    (text,) = blocks("sb3", "toml")
    (folder / "geo.toml").write_text(text, encoding="utf-8")
    shorter = [("    flows,\n", "    8,\n"), ('"train-leo",', '"train-geo",'), ('preset="ratios"', 'preset="geo.toml"')]
    shorter += [("n_steps=128", "n_steps=8"), ("batch_size=4_096", "batch_size=64"), ("(decisions,", "(64,")]
    made = run("sb3", shorter, only=(0,))
    assert made["native"].preset.interval_ms == 150
    libraries.trust([folder / "ppo.zip"])
    played = contenders.from_policy("sb3:ppo.zip:preset=geo.toml")
    assert played.label == "sb3:ppo.zip:preset=geo.toml"
    assert libraries.load("sb3:ppo.zip:preset=geo.toml").preset.interval_ms == 150


@pytest.mark.slow
def test_rllib(folder):
    ray = pytest.importorskip("ray")
    pytest.importorskip("torch")
    shorter = [
        (
            "flows, batch, minibatch, iterations = 256, 32_768, 4_096, 12",
            "flows, batch, minibatch, iterations = 16, 512, 256, 1",
        )
    ]
    cluster.start(cpus=2)
    try:
        made = run("rllib", shorter, only=(0, 1))
    finally:
        ray.shutdown()
    assert len(made["history"]) == 1
    assert made["result"]["num_env_steps_sampled_lifetime"] >= 500
    (evaluation,) = [words for words in commands("rllib") if "--trust" in words]
    policy, trusted = (evaluation[evaluation.index(option) + 1] for option in ("--policy", "--trust"))
    libraries.trust([trusted])
    assert totals(policy, duration_s=2)["sent_packets"] > 10


SCRIPTS = ("plain", "mapping", "module", "lstm", "search", "again")
SHORT = "train_batch_size_per_learner=200, minibatch_size=100, num_epochs=1"


def short_script(folder, index):
    """Write one of the six scripts with short episodes, small batches and one iteration, and run it."""
    code = blocks("bring-your-rllib-script", "python")[index]
    assert len(code.splitlines()) < 40
    for before, after in (
        (r",\s*gamma=0\.98,\s*minibatch_size=500,\s*num_epochs=10", f", {SHORT}"),
        (r"lr=tune.grid_search\(\[5e-5, 1e-3\]\)", f"lr=tune.grid_search([1e-3]), {SHORT}"),
        (r"train_batch_size_per_learner=2_000", SHORT),
        (r"(\n    \.env_runners\(num_env_runners=2\)\n\))", rf"\n    .training({SHORT})\1"),  # LSTM
        (r'"preset": "ratios"', '"preset": "ratios", "duration_s": 2'),
        (r'"duration_s": 15, ', ""),
        (r"range\(\d+\)", "range(1)"),
        (r'"training_iteration": \d+', '"training_iteration": 1'),
    ):
        code = re.sub(before, after, code)
    (folder / f"{SCRIPTS[index]}.py").write_text(code, encoding="utf-8")
    environment = {**os.environ, "HOME": str(folder)}
    done = subprocess.run(
        [sys.executable, f"{SCRIPTS[index]}.py"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def evaluated(index):
    """Run the command under a script for a suite of one short scenario."""
    arguments = [words for words in commands("bring-your-rllib-script") if words[0] == "eval"][index]
    Path("suite").mkdir(exist_ok=True)
    short = scenarios.get("dumbbell", duration_s=1).with_flows([Flow(controller="external")])
    short.save(Path("suite", "short.toml"))
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "from orbitcc.cli import main; main()",
            "eval",
            "suite",
            *arguments[2:],
            "--workers",
            "1",
            "--json",
        ],
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["contenders"]


@pytest.mark.slow
@pytest.mark.parametrize("index", range(6), ids=SCRIPTS)
def test_bring_your_rllib_script(folder, ray_folder, index):
    pytest.importorskip("ray")
    pytest.importorskip("torch")
    if SCRIPTS[index] == "again":
        short_script(folder, 0)
    printed = short_script(folder, index)
    assert "nan" not in printed.lower()
    contenders = {entry["contender"] for entry in evaluated(index)}
    assert "cubic" in contenders
    assert any(label.startswith("rllib:") for label in contenders)


def test_commands_exist():
    """Every command of the tutorials parses; suites and recipes exist and take the settings."""
    from orbitcc.training import recipe

    known = get_command(app)
    for name in sorted({path.stem for path in TUTORIALS.glob("*.md")} - {"multi-agent"}):
        for arguments in commands(name):
            command, rest = known, list(arguments)
            while hasattr(command, "commands"):
                command = command.commands[rest.pop(0)]
            given = command.make_context("orbitcc", rest, resilient_parsing=False).params
            if arguments[0] == "eval":
                assert given["suite"] in {*suites.SUITES, "mine"}  # the folder of your-scenario.md
            if arguments[0] == "train":
                assert recipe.load(arguments[1], given["changes"] or ())


def test_the_controller_of_the_docs_is_that_of_the_examples():
    """docs/adding-a-controller.md quotes examples/aimd_controller.py."""
    example = (ROOT / "examples" / "aimd_controller.py").read_text(encoding="utf-8")
    function = example[example.index("COLUMNS =") : example.index("class Aimd:")].strip()
    assert function in (ROOT / "docs" / "adding-a-controller.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_reading_a_report():
    pytest.importorskip("pandas")
    made = run("reading-a-report")
    assert set(made["results"]["contender"]) == {"cubic", "vegas"}
    text = (TUTORIALS / "reading-a-report.md").read_text(encoding="utf-8")
    for name in re.findall(r"^\| `([\w./]+)` \|", text, flags=re.MULTILINE):
        assert Path("results/first", name).exists()


@pytest.mark.slow
def test_multi_agent(folder):
    pytest.importorskip("torchrl")
    shorter = [
        (
            "steps, iterations, epochs, minibatch = 2_000, 30, 4, 500",
            "steps, iterations, epochs, minibatch = 120, 2, 1, 60",
        )
    ]
    made = run("multi-agent", shorter, only=range(5))
    assert len(made["earned"]) == 2
    assert made["agents"] == 3
    assert (folder / "mappo.pt").exists()
    write_module(folder, "mappo", "multi-agent", 5)
    assert totals("mappo:make", duration_s=2)["sent_packets"] > 10
    reads_all = made["critic"].module
    assert reads_all.centralized
