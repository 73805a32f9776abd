"""The sandbox of candidates: every attack ends with a reason, or changes nothing."""

import json
import socket
import subprocess
import sys
import time

import numpy as np
import pytest

from orbitcc import _sim
from orbitcc.agents import sandbox
from orbitcc.agents.sandbox import PROTECTIONS, CandidateError, OutOfTimeError, Sandbox
from orbitcc.common.errors import StateError
from orbitcc.envs.environments.presets import STATISTICS, STATS
from orbitcc.envs.scenarios import get

GOOD = """
class Policy:
    def act(self, obs):
        {}
        return obs[:, :1] * 0 + 0.25

def make():
    return Policy()
"""
STATS_ROW = np.linspace(0.1, 4.3, len(STATISTICS))


@pytest.fixture
def box():
    made = Sandbox()
    yield made
    made.close()


def decision(box: Sandbox, source: str, **more):
    """The answer to one decision, of the default preset, and the end of the run."""
    box.begin(source, "candidate.py", **more)
    answer = box._decide(0, np.zeros(18, np.float32), STATS_ROW.copy())
    box.end()
    return answer


def body(*lines: str) -> str:
    """A policy with these lines in `act`."""
    return GOOD.format("\n        ".join(lines))


def test_an_answer_and_a_new_process_for_each_run(box):
    counting = "import builtins\nbuiltins.runs = getattr(builtins, 'runs', 0) + 1\n"
    answer = counting + body("import builtins", "return obs[:, :1] * 0 + builtins.runs / 8")
    assert decision(box, answer) == decision(box, answer) == 0.125
    assert box.decisions == 2
    assert list(box.protections) == list(PROTECTIONS)


PRESET = "from orbitcc import Action, Observation, Preset, STATS\nimport numpy\n" + body()
PRESET += "Policy.preset = Preset('p', {})"
WINDOW = "action=Action(lambda a, s, w: numpy.full(len(s), {}))"
FAULTS = {
    "throws": (body("raise ValueError('too bad')"), r"ValueError: too bad.*line 4"),
    "leaves": (body("raise SystemExit(3)"), "SystemExit"),
    "imports-leave": ("import sys; sys.exit(0)", "SystemExit"),
    "exits": (body("import os; os._exit(7)"), "ended with status 7"),
    "crashes": (body("import ctypes; ctypes.string_at(0)"), "it may not do this: ctypes.string_at"),
    "memory": (body("x = bytearray(4 << 30)"), "MemoryError"),
    "arrays": (body("import numpy; x = numpy.ones(1 << 30)"), "[Mm]emory"),
    "nan": (body("return obs[:, :1] * float('nan')"), "NaN"),
    "infinite": (body("return obs[:, :1] + float('inf')"), "else than an action"),
    "shape": (body("return obs[0]"), "shape"),
    "text": (body("return 'left'"), "values of the type <U4"),
    "prints": (body("while True: print('x' * 10000)"), "File too large"),
    "syntax": ("def make(:\n", r"SyntaxError.*line 1"),
    "no-factory": ("x = 1\n", "make"),
    "no-act": ("make = object\n", "act"),
    "recursion": (body("self.act(obs)"), "RecursionError"),
    "forges": (
        body("import os", "for fd in range(3, 20):", "    try: os.write(fd, b'Z' * 64)", "    except OSError: pass"),
        "else than an action",
    ),
    "oracle": (PRESET.format("observation='ratios-oracle'"), "handovers"),
    "huge": (PRESET.format(WINDOW.format("1e12")), "asked for 1e\\+12"),
    "infinite-window": (PRESET.format(WINDOW.format("numpy.inf")), "infinity"),
    "preset": (PRESET.format("interval_ms=1e-9"), "interval_ms"),
}  # fmt: skip


def test_the_safety_filter_of_a_candidates_preset_is_that_of_its_run(box):
    limited = body("return obs[:, :1] * 0 + 1").replace("class Policy:", "from orbitcc import Preset\n\nclass Policy:")
    limited = limited.replace("    def act", "    preset = Preset('p', safety_filter={'max_bdp': 1.5})\n    def act")
    network = json.loads(get("dumbbell", duration_s=4, rate_mbps=20).compile())
    network["flows"][0]["controller"] = {"name": "policy", "params": {"policy": "p"}}
    sent = []
    for source in (limited, limited.replace("1.5", "0")):
        simulation = _sim.Simulation(json.dumps(network), policies={"p": box.begin(source, "candidate.py")})
        simulation.run()
        box.end()
        sent.append(simulation.flow_totals()[0]["sent_packets"])
    assert sent[0] < sent[1]


@pytest.mark.parametrize("attack", FAULTS)
def test_faults_have_a_reason(box, attack):
    source, reason = FAULTS[attack]
    with pytest.raises(CandidateError, match=reason):
        decision(box, source)


@pytest.mark.parametrize("source", ["while True: pass", "import time; time.sleep(1e6)", "make = input"])
def test_a_hang_is_noticed(box, monkeypatch, source):
    monkeypatch.setattr(sandbox, "START_S", 1.5)
    with pytest.raises(CandidateError, match=r"no answer within 1\.5 s|EOFError"):
        decision(box, source)
    box.close()
    monkeypatch.undo()
    new = Sandbox()
    monkeypatch.setattr(sandbox, "DECISION_S", 1.0)
    began = time.monotonic()
    with pytest.raises(CandidateError, match=r"no answer within 1 s|EOFError"):
        decision(new, body(source.replace("make = input", "input()")))
    new.close()
    assert time.monotonic() - began < 12


def test_a_process_that_does_not_start_is_not_the_candidates_fault(monkeypatch):
    monkeypatch.setattr(sys, "executable", "/bin/false")
    broken = Sandbox()
    with pytest.raises(StateError, match="the process for candidates does not start") as raised:
        decision(broken, body())
    assert not isinstance(raised.value, CandidateError)
    broken.close()


def test_nothing_is_left_when_the_caller_is_killed():
    code = "from orbitcc.agents.sandbox import Sandbox; box = Sandbox(); print(box._process.pid, flush=True)\n"
    code += "box.begin('import time; time.sleep(1e6)', 'candidate.py')"
    caller = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert caller.stdout is not None
    server = int(caller.stdout.readline())
    time.sleep(2)  # it has begun to sleep
    caller.kill()
    caller.wait()
    told, until = "", time.monotonic() + 20
    while time.monotonic() < until and told != "gone":
        time.sleep(0.1)
        told = subprocess.run(["ps", "-o", "stat=", "-g", str(server)], capture_output=True, text=True).stdout
        told = told if any(not line.startswith("Z") for line in told.splitlines()) else "gone"
    assert told == "gone"


def test_the_end_of_the_time_is_not_the_candidates_fault(box):
    decision(box, body())
    with pytest.raises(OutOfTimeError):
        decision(box, body("import time; time.sleep(1.5)"), until=time.monotonic() + 0.5)


def refused(*lines: str) -> str:
    """A policy whose action is 0.5 where the lines raise an OSError (or the like), else -1."""
    tried = ["try:", *(f"    {line}" for line in lines), "    return obs[:, :1] * 0 - 1"]
    return body(*tried, "except (OSError, RuntimeError, ImportError): return obs[:, :1] * 0 + 0.5")


@pytest.fixture
def confined(box):
    box.audits = False
    decision(box, body())
    if not all(box.protections.values()):
        pytest.skip(f"this kernel grants {box.protections}")
    return box


ATTEMPTS = {
    "fork": ["import os", "os.fork()"],
    "exec": ["import os", "os.execv('/bin/true', ['true'])"],
    "shell": ["import subprocess", "subprocess.run(['true'])"],
    "thread": ["import threading", "threading.Thread(target=print).start()"],
    "kill": ["import os", "os.kill(os.getpid(), 0)"],
    "kill-parent": ["import os", "os.kill(-1, 0)"],
    "write": ["open('FILE.new', 'w')"],
    "read": ["open('FILE')"],
    "process": ["open('/proc/self/maps')"],
    "parent": ["import os", "open(f'/proc/{os.getppid()}/mem', 'rb')"],
    "list": ["import os", "os.listdir('/')"],
    "source": ["import orbitcc, os", "open(os.path.join(os.path.dirname(orbitcc.__file__), 'eval/scoring.py'))"],
    "scorer": ["import orbitcc.eval.scoring"],
    "remove": ["import os", "os.unlink('FILE')"],
    "mode": ["import os", "os.chmod('FILE', 0o777)"],
    "append": ["open('FILE', 'a')"],
    "limits": ["import resource", "resource.prlimit(0, resource.RLIMIT_CPU, (1, 1))"],
    "network": ["import _socket", "_socket.socket()"],
    "memory-file": ["import os", "os.memfd_create('x')"],
}  # fmt: skip


UNSEEN = {"memory-file", "thread"}
"""Of these Python tells nobody; the kernel refuses them."""


@pytest.mark.parametrize("attempt", ATTEMPTS)
def test_what_a_candidate_may_not_do(confined, attempt, tmp_path):
    file = tmp_path / "file"
    file.write_text("content")
    lines = [line.replace("FILE", str(file)) for line in ATTEMPTS[attempt]]
    assert decision(confined, refused(*lines)) == 0.5
    assert [p.name for p in tmp_path.iterdir()] == ["file"]
    assert (file.read_text(), file.stat().st_mode & 0o777 != 0o777) == ("content", True)


@pytest.mark.parametrize("attempt", sorted(ATTEMPTS.keys() - UNSEEN))
def test_an_attempt_is_a_fault_whatever_the_candidate_catches(box, attempt, tmp_path):
    lines = [line.replace("FILE", str(tmp_path / "file")) for line in ATTEMPTS[attempt]]
    with pytest.raises(CandidateError, match="it may not do this: "):
        decision(box, refused(*lines))


def test_a_module_that_was_changed_is_a_fault(box):
    with pytest.raises(CandidateError, match=r"it changed numpy\.clip"):
        decision(box, "import numpy\nnumpy.clip = lambda *a: 0\n" + body())


def test_a_network_of_its_own_has_no_way_to_a_server_of_this_machine():
    """The namespace alone, without the filter of calls."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        code = (
            "import socket, sys; from orbitcc.agents.confinement import own_network; print(own_network(), flush=True)\n"
        )
        code += "socket.create_connection(('127.0.0.1', int(sys.argv[1])), timeout=5); print('reached')"
        port = str(server.getsockname()[1])
        told = subprocess.run([sys.executable, "-c", code, port], capture_output=True, text=True).stdout.split()
    assert told in (["True"], ["False", "reached"])


def test_no_secret_of_the_environment_comes_along(box, monkeypatch):
    monkeypatch.setenv("API_KEY", "secret")
    new = Sandbox()
    try:
        source = body("import os", "return obs[:, :1] * 0 + ('API_KEY' in os.environ)")
        assert decision(new, source) == 0
    finally:
        new.close()


def test_what_only_a_simulator_knows_is_hidden(box):
    columns = "[numpy.isnan(stats[0, STATS[n]]) for n in ('capacity_bps', 'base_rtt_s', 'handover_in_s')]"
    function = f"lambda stats, who: numpy.array([[all({columns}) * stats[0, STATS['srtt_s']]]])"
    seen = PRESET.format(f"observation=Observation({function}, low=[-9], high=[9])").replace("* 0 + 0.25", "")
    assert decision(box, seen) == pytest.approx(STATS_ROW[STATS["srtt_s"]])


def test_useful_modules_can_be_imported(box):
    modules = "math, random, statistics, collections, dataclasses, json, re, heapq, bisect, decimal, numpy.linalg"
    assert decision(box, f"import {modules}\nimport numpy as np\nfrom orbitcc import Who\n" + body()) == 0.25


LOOP = """import os, struct, sys
def loop():
    frame = sys._getframe()
    while frame.f_code.co_name != "_run":
        frame = frame.f_back
    return frame.f_locals["requests"], frame.f_locals["answers"]
answer = struct.Struct("=cdd").pack
"""


def test_a_candidate_that_takes_over_the_pipe_does_not_outlive_its_run(box):
    lines = [
        "requests, answers = loop()",
        "os.write(answers, answer(b'A', 0.5, 0))",
        "os.read(requests, 8)  # the end",
        "os.write(answers, answer(b'E', 0, 0))",
        "os.read(requests, 1 << 16)  # the source of the next",
    ]
    with pytest.raises(CandidateError, match="else than an action"):
        decision(box, LOOP + body(*lines))


def test_what_a_candidate_did_not_read_does_not_reach_the_next(box):
    last = ["requests, answers = loop()", "os.write(answers, answer(b'A', 0.5, 0))", "os._exit(0)"]
    assert decision(box, LOOP + body(*last)) == 0.5
    assert decision(box, body(), until=time.monotonic() + 10) == 0.25


@pytest.mark.parametrize("about", ['{"observation": 3}', '{"observation": {}}', "[]", "[" * 3000, "\\xff"])
def test_a_forged_preset_is_a_fault(box, about):
    forged = f"about = {about!r}.encode('latin1')\nos.write(loop()[1], answer(b'R', len(about), 0) + about)\n"
    with pytest.raises(CandidateError, match="its preset cannot be used"):
        box.begin(LOOP + forged, "candidate.py")


def test_a_candidate_that_closes_what_shows_its_end_is_killed(box):
    with pytest.raises(CandidateError, match="killed by SIGKILL"):
        decision(box, LOOP + body("import time", "os.closerange(loop()[1] + 1, 64)", "time.sleep(1e6)"))


def test_answers_in_advance_do_not_block_the_caller(box):
    ahead = ["import time", "os.write(loop()[1], answer(b'A', 0.5, 0) * 3000)", "time.sleep(1e6)"]
    box.begin(LOOP + body(*ahead), "candidate.py")
    began = time.monotonic()
    with pytest.raises(CandidateError, match="no answer within 2 s"):
        [box._decide(0, np.zeros(18, np.float32), STATS_ROW.copy()) for _ in range(3000)]
    assert time.monotonic() - began < 10
