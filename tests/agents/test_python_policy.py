"""Policies in Python drive flows natively: the same packets, fresh memory for every run, one clear error."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from orbitcc import _sim
from orbitcc.agents import python_policy
from orbitcc.common.errors import OrbitccError
from orbitcc.envs.backends.simulator import simulate
from orbitcc.envs.description.scenario import Flow, Scenario
from orbitcc.envs.environments import presets
from orbitcc.envs.environments.batch import Batch
from orbitcc.envs.environments.parallel import parallel_env
from orbitcc.envs.environments.presets import STATS
from orbitcc.envs.scenarios import get
from orbitcc.eval import contenders
from tests.commands.shell import orbitcc

KEYS = ("goodput_mbps", "received_bytes", "sent_packets", "lost_packets", "retransmitted_packets")


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Writes a module of policies into the working directory; module names must differ from test to test."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))

    def written(module: str, source: str) -> None:
        (tmp_path / f"{module}.py").write_text(source)

    return written


def totals(flows) -> list[list[float]]:
    return [[flow[key] for key in KEYS] for flow in flows]


def scenario(controller: str) -> Scenario:
    flows = [controller, f"{controller}@1s", "cubic@2s"]
    return get("dumbbell", duration_s=8, rate_mbps=20).with_flows([Flow.parse(text) for text in flows])


NETWORK = """
from types import SimpleNamespace

from orbitcc.agents import checkpoint

def make():
    loaded = checkpoint.load("perigee")
    return SimpleNamespace(act=loaded.policy.act, preset=loaded.preset)
"""


COUNTING = """
import numpy as np

class Flow:
    def __init__(self, log):
        self.log, self.calls = log, 0
        log.append(self)

    def act(self, obs):
        self.calls += 1
        return np.zeros((len(obs), 1))

class Counting:
    log = []

    def begin(self):
        return Flow(self.log)

make = Counting
"""


def test_each_flow_has_an_object_of_its_own_where_a_policy_begins_them(write) -> None:
    write("counting", COUNTING)
    simulate(scenario("policy:path=counting:make"))
    import counting

    early, late = sorted((flow.calls for flow in counting.Counting.log), reverse=True)
    assert early - late == pytest.approx(1000 / 30, abs=2)  # the second starts a second later


def test_an_python_policy_around_a_network_sends_the_same_packets(write) -> None:
    write("same_packets", NETWORK)
    native = simulate(scenario("perigee"))
    wrapped = simulate(scenario("policy:path=same_packets:make"))
    assert totals(wrapped.flow_totals) == totals(native.flow_totals)
    assert native.flow_totals[0]["sent_packets"] > 1000


def test_an_python_policy_drives_background_flows_of_a_batch(write) -> None:
    """Every world has a policy of its own."""
    write("in_background", NETWORK)
    named = get("dumbbell", duration_s=4).with_flows(
        [Flow(controller="external"), Flow.parse("policy:path=in_background:make")]
    )
    results = []
    for other in (named, named.with_controller("perigee", only="policy")):
        batch = Batch(
            [other.compile()] * 3, max_agents=1, preset=presets.preset(), threads=2, policies=other.policies()
        )
        batch.observe()
        play_on(batch)
        results.append([totals(batch.totals(world)[0]) for world in range(3)])
    assert results[0] == results[1]


def remembering(stats: np.ndarray, who: presets.Who) -> np.ndarray:
    """Intervals so far, and the largest delivery rate of them."""
    who.memory[:, 0] += 1
    who.memory[:, 1] = np.maximum(who.memory[:, 1], stats[:, STATS["delivery_rate_bps"]])
    return who.memory * [1e-3, 1e-8]


def windows(actions: np.ndarray, stats: np.ndarray, who: presets.Who) -> tuple[np.ndarray, np.ndarray]:
    """An additive step of a window that is remembered with its fraction, paced at a rate of its own."""
    who.memory[who.fresh, 0] = 10.0
    who.memory[:, 0] = np.maximum(who.memory[:, 0] + 3 * actions[:, 0] + 0.3, 2.0)
    return who.memory[:, 0], 1.2 * who.memory[:, 0] * 1500 * 8 / np.maximum(stats[:, STATS["srtt_s"]], 0.01)


class Rule:
    preset = presets.Preset(
        "rule",
        observation=presets.Observation(remembering, np.zeros(2), np.full(2, 10.0), memory=2),
        action=presets.Action(windows, dim=2, memory=1),
        interval_ms=20,
    )

    def act(self, obs: np.ndarray) -> np.ndarray:
        return np.cos(np.stack([300 * obs[:, 0], obs[:, 1]], axis=1))


class Limited(Rule):
    preset = replace(Rule.preset, safety_filter={"max_bdp": 1.5, "min_rtt_ms": [0.0, 30.0]})


@pytest.mark.parametrize("kind", [Rule, Limited])
def test_python_functions_send_the_same_packets_in_an_environment_and_in_a_run(kind: type[Rule]) -> None:
    played = scenario("external")
    driven = json.loads(played.compile())
    for flow in driven["flows"][:2]:
        flow["controller"] = {"name": "policy", "params": {"policy": "p"}}
    simulation = _sim.Simulation(json.dumps(driven), policies={"p": python_policy.load(f"{__name__}:{kind.__name__}")})
    simulation.run()

    env, rule = parallel_env(played, preset=kind.preset), kind()
    obs, _ = env.reset(seed=played.seed)
    while env.agents:
        actions = rule.act(np.stack([obs[agent] for agent in env.agents]))
        obs, *_ = env.step(dict(zip(env.agents, actions, strict=True)))
    stepped, _ = env.totals()
    assert totals(simulation.flow_totals()) == totals(stepped)
    assert stepped[0]["sent_packets"] > 1000
    if kind is Limited:
        free = simulate(played.with_controller(f"policy:path={__name__}:Rule", only="external"))
        assert totals(stepped) != totals(free.flow_totals)


def test_every_run_begins_with_a_fresh_policy(write) -> None:
    write(
        "fresh_runs",
        "import numpy as np\nmade = []\n"
        "class P:\n"
        "    def __init__(self): self.calls = 0; made.append(self)\n"
        "    def act(self, obs): self.calls += 1; return np.full((len(obs), 1), min(1.0, self.calls / 100))\n",
    )
    runs = [totals(simulate(scenario("policy:path=fresh_runs:P")).flow_totals) for _ in range(2)]
    assert runs[0] == runs[1]
    import fresh_runs  # type: ignore[import-not-found]

    assert [p.calls for p in fresh_runs.made] == [0, *[fresh_runs.made[1].calls] * 2]
    assert fresh_runs.made[1].calls == 266 + 233  # of both flows, every 30 ms


ACT = "class P:\n    def act(self, obs):\n        return "
WRONG = {
    "no module": (None, ":make", "module"),
    "a module that raises": ("x = 1 / 0", ":make", "ZeroDivisionError: division by zero, {module}.py line 1"),
    "a module that is none": ("def make(: pass", ":make", "SyntaxError"),
    "no factory": ("def make(): pass", ":made", "did you mean '{module}:make'"),
    "a factory with arguments": ("def make(size): pass", ":make", "without arguments .*size"),
    "a factory that raises": (
        "def make():\n    raise OSError('no', 'weights')",
        ":make",
        "weights, {module}.py line 2",
    ),
    "a factory that ends": ("def make():\n    raise SystemExit(0)", ":make", "SystemExit: 0, {module}.py line 2"),
    "no act": ("def make(): return 7", ":make", "act\\(obs\\); it returned int"),
    "an unknown preset": ("class P:\n    act = print\n    preset = 'gold'", ":P", "preset.*gold"),
    "a wrong preset": ("class P:\n    act = print\n    preset = 7", ":P", "preset is a name"),
}
WRONG_WHEN_ACTING = {
    "it raises": (f"{ACT}obs.missing", ":P", "no attribute 'missing', {module}.py line 3"),
    "it ends": (f"{ACT}exit(0)", ":P", "SystemExit: 0"),
    "another shape": (f"{ACT}[0.5]", ":P", "{module}:P.act: .*shape \\(1,\\).*shape \\(1, 1\\)"),
    "a complex number": (f"{ACT}[[0.5 + 3j]]", ":P", "{module}:P.act: 'values of the type complex128' .*real numbers"),
    "a text": (f"{ACT}[['0.5']]", ":P", "{module}:P.act: 'values of the type <U3' .*real numbers"),
    "NaN": (f"{ACT}[[float('nan')]]", ":P", "{module}:P.act: 'NaN'"),
}


@pytest.mark.parametrize("case", [*WRONG, *WRONG_WHEN_ACTING])
def test_what_a_policy_does_wrong_is_one_error_that_names_it(write, case: str) -> None:
    source, factory, message = (WRONG | WRONG_WHEN_ACTING)[case]
    module = case.replace(" ", "_")
    if source:
        write(module, source)
    name = f"{module}{factory}"
    if case in WRONG_WHEN_ACTING:
        python_policy.load(name)
    judged = scenario(f"policy:path={name}")
    with pytest.raises(OrbitccError, match=message.format(module=module)) as caught:
        simulate(judged)
    assert name in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("source", [f"{ACT}obs.missing", f"{ACT}exit(0)", f"{ACT}0\n    def begin(self): exit(0)"])
@pytest.mark.parametrize(
    "command", [("dataset", "--id", "orbitcc/mine-v0", "--episodes", "1"), ("trace", "--csv", "t.csv")]
)
def test_a_policy_that_fails_while_its_decisions_are_kept_is_one_error(source, command, tmp_path) -> None:
    (tmp_path / "failing.py").write_text(source)
    what, *options = command
    given = {"dataset": ("dumbbell", "--policy", "failing:P"), "trace": ("failing:P", "dumbbell")}[what]
    done = orbitcc(what, *given, "--set", "duration_s=1", *options, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert "error: policy: 'failing:P' is not allowed" in done.stderr
    assert "Traceback" not in done.stderr


def play_on(batch: Batch) -> None:
    while not batch.finished().all():
        batch.step(np.zeros((batch.num_worlds, 1, 1), np.float32))


def test_an_exception_or_a_nan_stops_its_world_for_good() -> None:
    network = json.loads(scenario("external").compile())
    for flow in network["flows"][:2]:
        flow["controller"] = {"name": "policy", "params": {"policy": "p"}}

    def policy(decide) -> dict[str, _sim.PythonPolicy]:
        functions = {"observation": '"astraea"', "action": '"astraea"'}
        return {"p": _sim.PythonPolicy(lambda: decide, interval_ns=30_000_000, **functions)}

    def failing(flow, obs, stats):
        if flow == 1:
            raise KeyError("lost")
        return 0.0

    simulation = _sim.Simulation(json.dumps(network), policies=policy(failing))
    for _ in range(2):
        with pytest.raises(KeyError, match="lost"):
            simulation.run()
        assert 10**9 < simulation.now_ns < 1.2 * 10**9
    nan = {float("nan"): "action = NaN", (1.0, -1.0): "pacing_bps = -1", (float("inf"), 0.0): "cwnd_packets = inf"}
    for answer, message in nan.items():
        simulation = _sim.Simulation(json.dumps(network), policies=policy(lambda flow, obs, stats, a=answer: a))
        with pytest.raises(ValueError, match=message):
            simulation.run_until(10**9)

    network["flows"][2]["controller"] = {"name": "external"}
    batch = Batch([json.dumps(network)] * 2, max_agents=1, preset=presets.preset(), threads=2, policies=policy(failing))
    batch.observe()
    with pytest.raises(KeyError, match="lost"):
        play_on(batch)


def test_a_changed_source_is_another_contender(write) -> None:
    source = "class P:\n    act = print\n"
    write("digested", source)
    first = contenders.from_policy("digested:P")
    assert first == contenders.from_controller("policy:path=digested:P")
    assert (first.label, first.params) == ("digested:P", {"path": "digested:P"})
    write("digested", source + "# better\n")
    second = contenders.from_policy("digested:P")
    assert (second.label, second.key != first.key) == (first.label, True)
