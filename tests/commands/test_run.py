import csv
import json
import os
import signal
import subprocess
import sys
import time

import pytest
from typer.testing import CliRunner

from orbitcc.agents import libraries
from orbitcc.cli import app
from orbitcc.commands.options import print_json
from orbitcc.commands.run import prepare, too_short
from orbitcc.envs import scenarios
from orbitcc.envs.backends.simulator import Recording
from orbitcc.envs.description.flows import Flow
from orbitcc.envs.description.scenario import Scenario
from tests.commands.shell import called

FLOW_KEYS = [
    "name", "controller", "goodput_mbps", "srtt_ms", "srtt_p95_ms", "base_rtt_ms", "delay_inflation", "sent_packets",
    "retransmitted_packets", "lost_packets", "rtos", "received_datagrams", "delay_p50_ms", "delay_p95_ms",
    "delay_p99_ms", "late_share",
]  # fmt: skip
LINK_KEYS = ["name", "utilisation", "queue_bytes_mean", "queue_bytes_max", "dropped_packets", "lost_packets"]


def run(*args):
    done = CliRunner().invoke(app, ["run", *args], catch_exceptions=False)
    assert done.exit_code == 0
    return done.stdout


def test_json_has_the_figures_of_each_flow_and_link():
    changes = ["--set", "duration_s=5", "--set", "links.0.rate_mbps=20"]
    out = run("dumbbell", *changes, "--flow", "cubic:hystart=off", "--flow", "reno@2s", "--seed", "1", "--json")
    found = json.loads(out)
    assert list(found) == ["flows", "links"]
    assert [list(flow) for flow in found["flows"]] == [FLOW_KEYS] * 2
    assert [list(link) for link in found["links"]] == [LINK_KEYS]
    assert [(flow["name"], flow["controller"]) for flow in found["flows"]] == [("cubic-0", "cubic"), ("reno-1", "reno")]
    assert sum(flow["goodput_mbps"] for flow in found["flows"]) > 0
    assert 0.5 < found["links"][0]["utilisation"] <= 1


def test_a_flow_that_never_ran_has_null_where_nothing_was_measured():
    flow = json.loads(run("dumbbell", "--set", "duration_s=1", "--flow", "cubic@0.999s", "--json"))["flows"][0]
    assert flow["srtt_ms"] is None
    assert flow["goodput_mbps"] == 0


def test_losses_of_datagrams_are_not_known_and_their_delays_are(tmp_path):
    args = ["dumbbell", "--set", "duration_s=2", "--set", "links.0.loss=0.1", "--flow", "udp:rate_mbps=5"]
    flow = json.loads(run(*args, "--json", "--series", str(tmp_path / "s.csv")))["flows"][0]
    with (tmp_path / "s.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {row[f"udp-0.{key}"] for row in rows for key in ("retransmitted_packets", "lost_packets")} == {""}
    assert sum(float(row["udp-0.sent_packets"]) for row in rows) == flow["sent_packets"]
    assert (flow["retransmitted_packets"], flow["lost_packets"]) == (None, None)
    assert 0.8 * flow["sent_packets"] < flow["received_datagrams"] < flow["sent_packets"]
    assert 24 < flow["delay_p50_ms"] <= flow["delay_p95_ms"] <= flow["delay_p99_ms"] < 30
    assert flow["late_share"] == 0
    row = next(line for line in run(*args).splitlines() if "udp-0" in line)
    assert row.split()[-4:] == [str(flow["sent_packets"]), "–", "–", "0"]


def test_the_same_seed_prints_the_same():
    args = ["dumbbell", "--set", "duration_s=2", "--json", "--seed"]
    assert run(*args, "4") == run(*args, "4")
    assert run(*args, "4") != run(*args, "5")


def test_tables_name_flows_and_links():
    out = run("parking-lot", "--set", "duration_s=2", "--set", "long_start_s=0.5", "--set", "controller=reno")
    assert all(name in out for name in ("long", "cross-2", "hop-1", "reno"))


def test_series_and_picture_are_written(tmp_path):
    args = ["dumbbell", "--set", "duration_s=2", "--interval", "0.5"]
    run(*args, "--series", str(tmp_path / "a.csv"), "--plot", str(tmp_path / "a.png"))
    run(*args, "--series", str(tmp_path / "a.npz"))
    assert len((tmp_path / "a.csv").read_text(encoding="utf-8").splitlines()) == 5
    assert len(Recording.load(tmp_path / "a.npz").t_s) == 4
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


def test_a_file_runs_like_its_name(tmp_path):
    path = scenarios.get("dumbbell", duration_s=2).save(tmp_path / "mine.toml")
    assert run(str(path), "--json") == run("dumbbell", "--set", "duration_s=2", "--json")


def test_a_distribution_is_drawn_with_the_seed_and_driven_by_the_flow_given():
    found = json.loads(run("train-astraea", "--set", "duration_s=3", "--flow", "reno", "--seed", "2", "--json"))
    assert {flow["controller"] for flow in found["flows"]} == {"reno"}


MANY = """
schema_version = 1
name = "many"
duration_s = 10

[[links]]
name = "slow"
rate_mbps = 10
delay_ms = 5
queue = { kind = "drop_tail_packets", limit_packets = 100 }

[[links]]
name = "back"
rate_mbps = 10
delay_ms = 9
queue = { kind = "drop_tail_packets", limit_packets = 100 }

[[flows]]
name = "download"
controller = "cubic"
path = ["slow"]
return_path = ["back"]
start_s = 1
stop_s = 8
uplink_delay_ms = 2
traffic = { kind = "bytes", bytes = 2_000_000 }
reroutes = [{ at_s = 4, path = ["back"] }]
receiver = { kind = "stretch" }

[[flows]]
controller = "udp"
path = ["slow"]
traffic = { kind = "cbr", rate_mbps = 1 }

[[flows]]
name = "far"
controller = "cubic"

[[flows]]
controller = "hybla"
pep = { of = "far", buffer_bytes = 100_000 }
"""


@pytest.fixture
def many(tmp_path):
    (tmp_path / "many.toml").write_text(MANY, encoding="utf-8")
    return str(tmp_path / "many.toml")


def changed_fields(source, *flows, policies=()):
    """For each flow of the scenario, the fields that these `--flow` options change."""
    before, after = scenarios.load(source), prepare(source, list(flows), list(policies), [], None)
    pairs = zip(before.flows, after.flows, strict=True)
    return [{k for k in type(a).model_fields if getattr(a, k) != getattr(b, k)} for a, b in pairs], after


def test_one_flow_option_changes_the_controller_of_all_flows_but_udp_and_nothing_else(many):
    changes, after = changed_fields(many, "reno")
    assert changes == [{"controller"}, set(), {"controller"}, {"controller", "name"}]
    assert [str(flow.controller) for flow in after.flows] == ["reno", "udp", "reno", "reno"]
    assert after.flow_names == ("download", "udp-1", "far", "reno-3")
    assert changed_fields(many, policies=["perigee"])[0] == changes


def test_flow_options_are_taken_in_order_and_change_the_start_that_they_name(many):
    changes, after = changed_fields(many, "reno@2s", "bbr3", "vegas")
    assert changes == [{"controller", "start_s"}, set(), {"controller"}, {"controller", "name"}]
    assert [str(flow.controller) for flow in after.flows] == ["reno", "udp", "bbr3", "vegas"]


def test_flow_options_for_a_scenario_of_one_flow_are_copies_of_it():
    (only,) = scenarios.get("geo-viasat-2020").flows
    after = prepare(
        "geo-viasat-2020", ["cubic", "reno", "cubic@9s"], [], ["flows.0.traffic={kind='bytes', bytes=2000}"], 1
    )
    assert after.flow_names == ("cubic-0", "reno-1", "cubic-2")
    assert [flow.start_s for flow in after.flows] == [only.start_s, only.start_s, 9.0]
    assert [flow.traffic.bytes for flow in after.flows] == [2000] * 3
    named = prepare("dumbbell", ["cubic", "reno"], [], ["flows.0.name=mine"], None)
    assert named.flow_names == ("mine", "mine-1")


def test_flows_of_policies_are_named_after_the_policy(tmp_path):
    texts = ["perigee", str(tmp_path / "mine" / "best"), "module:make"]
    names = prepare("dumbbell", ["cubic"], texts, [], None).flow_names
    assert names == ("cubic-0", "perigee-1", "mine/best-2", "module:make-3")


def test_flows_of_policies_of_libraries_have_the_names_that_evaluations_give_them(tmp_path):
    (tmp_path / "checkpoint_000001").mkdir()
    (tmp_path / "best").symlink_to(tmp_path / "checkpoint_000001")
    texts = [f"sb3:{tmp_path}/sb3/geo.zip:preset={tmp_path}/p150.toml", f"rllib:{tmp_path}/best"]
    names = prepare("dumbbell", [], texts, [], None).flow_names
    assert names == ("sb3:geo.zip:preset=p150.toml-0", "rllib:best-1")
    assert [libraries.label(text) for text in texts] == ["sb3:geo.zip:preset=p150.toml", "rllib:best"]


def test_an_event_after_the_end_of_a_file_is_warned_of(tmp_path):
    link = {"name": "l", "rate_mbps": [[0, 5], [90, 6]], "outages": [{"at_s": 50, "duration_ms": 10}]}
    data = {"name": "x", "duration_s": 1, "links": [link], "flows": [{"controller": "cubic"}]}
    path = str(Scenario.from_dict(data).save(tmp_path / "x.toml"))
    for command in (["run"], ["scenario", "show"]):
        done = called(*command, path)
        assert done.returncode == 0
        assert done.stderr == (
            "warning: links.0.outages.0: at_s = 50 is after the end, duration_s = 1, so it never happens\n"
        )
    assert "warning" not in called("scenario", "show", "leo-responsiveness", "--set", "duration_s=2").stderr


@pytest.mark.parametrize(
    "key", ["links.0.outages=[{at_s=50, duration_ms=10}]", "flows.0.reroutes=[{at_s=50, path=[0]}]"]
)
def test_an_event_after_the_end_of_a_named_scenario_is_warned_of_where_it_is_given(key):
    for command in (["run"], ["scenario", "show"]):
        done = called(*command, "dumbbell", "--set", key, "--set", "duration_s=1")
        assert done.returncode == 0
        assert (
            done.stderr
            == f"warning: {key.partition('=')[0]}.0: at_s = 50 is after the end, duration_s = 1, so it never happens\n"
        )


def test_a_flow_that_may_never_start_is_warned_of(tmp_path):
    link = {"name": "l", "rate_mbps": 10, "delay_ms": 20}
    flows = [{"controller": "cubic"}, {"controller": "reno", "start_s": 1, "stop_s": 1.005}]
    data = {"name": "x", "duration_s": 3, "links": [link], "flows": flows}
    says = "flows.1: it starts up to 20 ms late (sim.start_jitter_ms) and lasts 5 ms, so it may send nothing"
    assert too_short(Scenario.from_dict(data)) == [says.replace("20 ms", "40 ms")]
    data["sim"] = {"start_jitter_ms": 20}
    assert too_short(Scenario.from_dict(data)) == [says]
    data["sim"] = {"noise": False}
    assert too_short(Scenario.from_dict(data)) == []


def test_a_link_without_a_rate_is_called_so_and_counts_are_in_words():
    out = run("leo-responsiveness", "--set", "duration_s=2", "--flow", "cubic")
    assert "no rate: the link is unlimited, so that it has no queue" in out
    assert "no rate" not in run("dumbbell", "--set", "duration_s=1")
    assert "1 link · 1 flow" in " ".join(called("scenario", "show", "dumbbell").stdout.split())


def test_flows_and_policies_are_taken_in_the_order_of_the_command_line():
    args = ["dumbbell", "--set", "duration_s=1", "--policy", "perigee", "--flow", "reno", "--policy=astraea", "--json"]
    found = json.loads(run(*args))["flows"]
    assert [flow["name"] for flow in found] == ["perigee-0", "reno-1", "astraea-2"]
    found = json.loads(run(*args, "--flow", "cubic"))["flows"]
    assert [flow["name"] for flow in found] == ["perigee-0", "reno-1", "astraea-2", "cubic-3"]


def test_flow_options_are_for_the_contenders_flows_alone(tmp_path):
    flows = [Flow(controller="cubic"), Flow(controller="contender"), Flow(controller="contender")]
    path = str(scenarios.get("dumbbell", duration_s=1).with_flows(flows).save(tmp_path / "mine.toml"))
    assert [str(f.controller) for f in prepare(path, ["bbr3"], [], [], None).flows] == ["cubic", "bbr3", "bbr3"]
    for options in ([], ["--flow", "reno", "--flow", "reno", "--flow", "reno"], ["--flow", "contender"]):
        done = called("run", path, *options)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)
        assert "contender" in done.stderr


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["dumbell"], "scenario: unknown name 'dumbell'; did you mean 'dumbbell'?"),
        (
            ["geo-download"],
            "scenario: geo-download is a suite: `orbitcc eval geo-download`; a single run of its scenario",
        ),
        (["dumbbell", "--flow", "renoo"], "flow: unknown name 'renoo'; did you mean 'reno'?"),
        (["dumbbell", "--flow", "cubic@70s"], "flows.0.start_s: 70.0 is not allowed"),
        (["dumbbell", "--set", "links.0.rate_mbps=-5"], "links.0.rate_mbps: -5 is not allowed"),
        (["dumbbell", "--set", "links.0.rate_mbps=nan"], "links.0.rate_mbps: NaN is not allowed"),
        (["dumbbell", "--set", "links.0.rate_mbps=[[0,1],[9,2],[5,3]]"], "in increasing order of time"),
        (["dumbbell", "--set", "flows.0.path=[3]"], "flows.0.path.0: 3 is not allowed"),
        (["dumbbell", "--set", "rate_mbps"], "--set: 'rate_mbps' is not allowed; allowed: KEY=VALUE"),
        (["dumbbell", "--seed", "-1"], "--seed: -1 is not allowed"),
        (["dumbbell", "--interval", "0"], "--interval: 0.0 is not allowed"),
        (["dumbbell", "--series", "x.txt"], "--series: 'x.txt' is not allowed; allowed: a name ending in .csv or .npz"),
        (["dumbbell", "--set", "duration_s=1", "--series", "/proc/none/x.csv"], "a writable place"),
        (["none.toml"], "no such file: none.toml"),
        (["train-leo"], "--flow: '(none)' is not allowed"),
        (
            ["parking-lot", "--flow", "reno", "--flow", "reno"],
            "1 for all, or one for each of the 4 flows of parking-lot",
        ),
        (["dumbbell", "--policy", "nowhere"], "nowhere"),
        (["dumbbell", "--policy", "no/folder"], "checkpoint no/folder: does not exist"),
        (["dumbbell", "--interval", "abc"], "--interval: 'abc' is not allowed; allowed: a number"),
        (["dumbbell", "--seed", "1.5"], "--seed: '1.5' is not allowed; allowed: a whole number"),
        (["dumbbell", "--sed", "1"], "No such option: --sed"),
        (["dumbbell", "--plot", "x.xyz"], "plot: 'x.xyz' is not allowed; allowed: a file name ending in .png"),
        ([], "Missing argument"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_input_is_one_line_and_exit_code_2(args, says):
    done = called("run", *args)
    assert (done.returncode, done.stdout) == (2, "")
    assert says in done.stderr
    assert done.stderr.count("\n") == 1


def test_nothing_is_written_when_the_input_is_wrong(tmp_path):
    done = called("run", "dumbbell", "--flow", "renoo", "--series", "a.csv", "--plot", "a.png", cwd=tmp_path)
    assert done.returncode == 2
    assert os.listdir(tmp_path) == []


def test_a_picture_that_cannot_be_written_stops_the_run_before_it_begins(tmp_path):
    (tmp_path / "file").write_text("in the way")
    for picture in ("a.xyz", "file/a.png"):
        done = called("run", "dumbbell", "--series", "a.csv", "--plot", picture, cwd=tmp_path)
        assert done.returncode == 2
        assert picture in done.stderr
        assert os.listdir(tmp_path) == ["file"]


def test_a_narrow_terminal_shows_every_figure_whole():
    args = ["run", "dumbbell", "--set", "duration_s=20", "--flow", "cubic:hystart=off"]
    narrow = {**os.environ, "COLUMNS": "70"}
    sent = json.loads(called(*args, "--json").stdout)["flows"][0]["sent_packets"]
    out = called(*args, env=narrow).stdout
    assert f" {sent} " in out
    assert "…" not in out


def test_an_unknown_command_is_one_line_with_the_nearest_one():
    done = called("runn")
    assert done.returncode == 2
    assert done.stderr == "error: No such command 'runn'. Did you mean 'run'?\n"


def test_no_command_shows_the_help():
    done = called()
    assert done.returncode == 0
    assert "Usage: " in done.stdout


def test_downloads_are_listed():
    done = called("run", "dumbbell", "--set", "duration_s=20", "--set", 'flows.0.traffic={kind="objects", per_s=3.0}')
    assert done.returncode == 0, done.stderr
    assert "downloads" in done.stdout


def test_standard_error_that_is_closed_never_becomes_a_file(tmp_path):
    out = tmp_path / "out"
    words = "eval responsiveness --controller cubic --runs 1 --workers 1 --out"
    done = subprocess.run(
        ["sh", "-c", f"exec '{sys.executable}' -m orbitcc.cli {words} '{out}' 0<&- 2>&-"],
        stdout=subprocess.PIPE, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0
    (line,) = (out / "runs.jsonl").read_text(encoding="utf-8").splitlines()
    assert json.loads(line)["contender"] == "cubic"


def test_an_error_is_not_printed_to_standard_output_when_standard_error_is_closed():
    words = f"exec '{sys.executable}' -m orbitcc.cli run nothing 2>&-"
    done = subprocess.run(["sh", "-c", words], stdout=subprocess.PIPE, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (2, "")


def test_a_name_that_is_no_utf8_is_refused_before_any_work(tmp_path):
    words = [sys.executable, "-m", "orbitcc.cli", "eval", "responsiveness", "--out", b"a\xff"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, cwd=tmp_path)
    assert (done.returncode, done.stderr.splitlines()) == (
        2, ["error: --out: 'a\\udcff' is not allowed; allowed: UTF-8 text"],
    )  # fmt: skip
    assert list(tmp_path.iterdir()) == []


def test_a_capture_that_is_ended_leaves_no_file(tmp_path):
    words = ["run", "dumbbell", "--flow", "cubic", "--set", "duration_s=10000", "--pcap", str(tmp_path / "x.pcap")]
    running = subprocess.Popen([sys.executable, "-m", "orbitcc.cli", *words], stderr=subprocess.DEVNULL)
    until = time.monotonic() + 60
    while not any(tmp_path.iterdir()) and time.monotonic() < until:
        time.sleep(0.05)
    assert any(tmp_path.iterdir())
    running.terminate()
    assert running.wait(timeout=60) == 128 + signal.SIGTERM
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize(
    "words",
    [
        ["run", "dumbbell", "--flow", "cubic:hystart=off"], ["trace", "dumbbell", "perigee"],
        ["eval", "rate-step", "--policy", "perigee:interval_ms=20"], ["assess", "reno"], ["search", "reno"],
        ["reproduce", "leo"], ["dataset", "dumbbell", "--id", "a/b-v0"],
    ],
)  # fmt: skip
def test_trust_that_nothing_can_use_is_one_line(words, tmp_path):
    done = called(*words, "--trust", "mine", cwd=tmp_path)
    allowed = "beside a policy rllib:FOLDER or sb3:FILE, for which alone it is used"
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"error: --trust: 'mine' is not allowed; allowed: {allowed}\n"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "words",
    [
        ["--policy", "sb3:mine/nothing.zip"], ["--flow", "policy:path=sb3:mine/nothing.zip"],
        ["--policy", "nowhere:make"],  # code that may load one
    ],
)  # fmt: skip
def test_trust_is_taken_beside_what_may_use_it(words):
    done = called("run", "dumbbell", *words, "--trust", "mine")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "nothing.zip" in done.stderr or "nowhere" in done.stderr


@pytest.mark.parametrize(
    "words", [["run", "os:getcwd"], ["search", "cubic", "--against", "reno", "--scenario", "os:getcwd"]]
)
def test_what_makes_no_scenario_is_one_line(words):
    done = called(*words)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "'os:getcwd' is not allowed; allowed: a Scenario, a distribution, or a function" in done.stderr


def test_what_is_no_number_is_null_in_json(capsys):
    print_json({"a": [float("nan"), (float("-inf"), 1.5)], "b": {"c": float("inf"), "d": None}})
    assert json.loads(capsys.readouterr().out) == {"a": [None, [None, 1.5]], "b": {"c": None, "d": None}}


@pytest.mark.parametrize(
    ("flow", "says"),
    [
        ("vegas:delay_preference=0.3", "none for vegas, which heeds none"),
        ("perigee:delay_preference=0.2", "none for perigee, which heeds none"),
        ("zenith:delay=0.2,delay_preference=0.9", "0 beside the policy's option delay = 0.2"),
    ],
)
def test_a_preference_that_would_not_act_is_refused(flow, says):
    done = called("run", "dumbbell", "--set", "duration_s=1", "--flow", flow)
    assert (done.returncode, done.stdout) == (2, "")
    assert says in done.stderr


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (("--set", "links.0.rate_mbps=50", "--set", "links.bottleneck.rate_mbps=20"), "is the same field"),
        (("--set", "links.00.rate_mbps=50"), "links.00: unknown name '00'"),
        (
            ("--set", "sim.ecn=classic", "--set", "sim={}"),
            "sim: 'a value' is not allowed; allowed: before sim.ecn, which it would undo",
        ),
        (("--set", "rate_mbps=20\nbase_rtt_ms=500"), "allowed: one value, in one line"),
        (("--set", "seed=7", "--seed", "8"), "--seed: 8 is not allowed; allowed: not beside --set seed"),
        (("--set", "flows.0.controller=reno", "--flow", "cubic"), "--set: 'flows.0.controller' is not allowed"),
        (("--set", "controller=bbr3", "--flow", "cubic"), "--set: 'controller' is not allowed"),
        (("--set", 'flows=[{controller="reno"}]', "--flow", "cubic"), "--set: 'flows' is not allowed"),
        (("--flow", "cubic:hystart=off,hystart=both"), "each parameter once"),
        (("--flow", "udp:rate_mbps=5,rate_mbps=50"), "each parameter once"),
        (("--policy", "zenith:delay=0.2,delay=1"), "each parameter once"),
    ],
)
def test_what_would_undo_another_option_is_refused(given, says):
    done = called("run", "dumbbell", *given)
    assert done.returncode == 2
    assert says in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("given", [("--flow", "reno"), ("--flow", "reno", "--flow", "cubic")])
def test_a_number_of_flows_stands_beside_their_controllers(given):
    flows = json.loads(run("dumbbell", "--set", "flows=2", "--set", "duration_s=1", *given, "--json"))["flows"]
    assert [flow["controller"] for flow in flows] == [given[1], given[-1]]


def test_a_run_of_less_than_a_second_has_a_point():
    assert json.loads(run("dumbbell", "--set", "duration_s=0.5", "--json"))["flows"][0]["sent_packets"] > 0
