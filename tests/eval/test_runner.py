"""Results: nothing is lost, nothing runs twice, the number of workers does not matter."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from orbitcc.agents import checkpoint
from orbitcc.common.errors import OrbitccError
from orbitcc.envs import backends, scenarios
from orbitcc.envs.description.flows import Flow
from orbitcc.eval import contenders, runner, suites
from orbitcc.eval.comparison import differences
from orbitcc.eval.figures.by_suite import figures_of
from orbitcc.eval.results import Results, key_of
from orbitcc.eval.runner import run_suite
from orbitcc.parallel import progress

MAIN = "import sys; from orbitcc.cli import main; sys.exit(main())"


def run(out: Path, *, controllers: tuple[str, ...] = ("cubic", "reno"), runs: int = 3, **options) -> Results:
    line_up = contenders.line_up(controllers, [])
    return run_suite(suites.get("responsiveness"), line_up, out_dir=out, runs=runs, quiet=True, **options)


def lines_of(results: Results) -> list[dict]:
    return [json.loads(line) for line in results.jsonl.read_text(encoding="utf-8").splitlines()]


def test_every_contender_has_every_run(results):
    assert len(results.rows) == 6
    for values in results.values("goodput_over_optimal").values():
        assert len(values) == 3
        assert all(0.2 < v < 0.96 for v in values)


def test_the_table_is_the_same_for_any_number_of_workers(results, tmp_path):
    parallel = run(tmp_path, workers=3)
    assert (tmp_path / "runs.csv").read_bytes() == (results.out_dir / "runs.csv").read_bytes()
    assert sorted(map(key_of, lines_of(parallel))) == sorted(map(key_of, lines_of(results)))


def test_the_same_command_gives_the_same_series(results, tmp_path):
    again = run(tmp_path, workers=1)
    for label, recording in results.recordings().items():
        other = again.recordings()[label]
        assert (recording.flows["goodput_mbps"] == other.flows["goodput_mbps"]).all()


def test_a_folder_goes_on_with_its_own_settings_alone_and_is_compared_by_its_plan(tmp_path):
    def evaluate(runs: int, **settings) -> Results:
        suite = suites.get("responsiveness", settings)
        line_up = contenders.line_up(["cubic", "reno"], [])
        return run_suite(suite, line_up, out_dir=tmp_path, runs=runs, quiet=True, resume=True)

    evaluate(2)
    for settings in ({"buffer_bytes": 400_000}, {"transport": "quic"}):
        with pytest.raises(OrbitccError, match="these settings; it has none"):
            evaluate(2, **settings)
    fewer = evaluate(1)
    (found,) = {d.change.n for d in differences(tmp_path, tmp_path)}
    assert (found, len(fewer.rows), len(lines_of(fewer))) == (1, 2, 4)


def test_contenders_meet_the_same_scenarios(results):
    met = {c.label: [r["scenario"] for r in results.rows if r["contender"] == c.key] for c in results.contenders}
    assert met["cubic"] == met["reno"]
    assert len(set(met["cubic"])) == 3


def test_a_larger_results_adds_to_a_smaller_one(tmp_path):
    small = run(tmp_path, controllers=("cubic",), runs=1, workers=1)
    first = small.jsonl.read_bytes()
    larger = run(tmp_path, controllers=("cubic", "reno"), runs=2, workers=1, resume=True)
    assert larger.jsonl.read_bytes().startswith(first)
    assert len(lines_of(larger)) == 4


def test_a_finished_results_runs_nothing_again(tmp_path):
    done = run(tmp_path, controllers=("reno",), runs=2, workers=1)
    before, table = done.jsonl.read_bytes(), (tmp_path / "runs.csv").read_bytes()
    run(tmp_path, controllers=("reno",), runs=2, workers=1, resume=True)
    assert done.jsonl.read_bytes() == before
    assert (tmp_path / "runs.csv").read_bytes() == table


def test_a_torn_last_line_is_cut_off_and_its_run_repeated(tmp_path):
    done = run(tmp_path, controllers=("reno",), runs=2, workers=1)
    whole, table = done.jsonl.read_bytes(), (tmp_path / "runs.csv").read_bytes()
    done.jsonl.write_bytes(whole[:-40])
    run(tmp_path, controllers=("reno",), runs=2, workers=1, resume=True)
    assert len(lines_of(done)) == 2
    assert (tmp_path / "runs.csv").read_bytes() == table


def test_runs_of_another_version_are_not_mixed_in(tmp_path):
    done = run(tmp_path, controllers=("reno",), runs=1, workers=1)
    old = lines_of(done)[0]
    done.jsonl.write_text(json.dumps({**old, "version": "0.0.0", "metrics": {"goodput_over_optimal": 9.0}}) + "\n")
    again = run(tmp_path, controllers=("reno",), runs=1, workers=1, resume=True)
    assert again.rows[0]["metrics"] == old["metrics"]
    assert len(lines_of(again)) == 2


RESULTS = """
import sys
from orbitcc.parallel import progress
from orbitcc.eval import contenders, runner, suites
from orbitcc.eval.comparison import differences
from orbitcc.eval.runner import run_suite
line_up = contenders.line_up(["cubic"], [])
run_suite(suites.get("responsiveness"), line_up, out_dir=sys.argv[1], runs=10, workers=2)
"""


def test_a_killed_results_continues_to_the_same_table(tmp_path):
    out = tmp_path / "killed"
    process = subprocess.Popen([sys.executable, "-c", RESULTS, str(out)], stderr=subprocess.DEVNULL)
    _wait_for_runs(process, out / "runs.jsonl", 2)
    workers = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text(encoding="utf-8").split()
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    kept = (out / "runs.jsonl").read_bytes()
    kept = kept[: kept.rfind(b"\n") + 1]
    assert 2 <= kept.count(b"\n") < 10
    assert not (out / "runs.csv").exists()
    assert not any(_runs(pid) for pid in workers), "workers outlive their killed parent"

    run(out, controllers=("cubic",), runs=10, workers=1, resume=True)
    run(tmp_path / "whole", controllers=("cubic",), runs=10, workers=1)
    assert (out / "runs.csv").read_bytes() == (tmp_path / "whole" / "runs.csv").read_bytes()
    continued = (out / "runs.jsonl").read_bytes()
    assert continued.startswith(kept)
    keys = [key_of(json.loads(line)) for line in continued.splitlines()]
    assert len(keys) == len(set(keys)) == 10


@pytest.mark.parametrize("background", [False, True], ids=["terminal", "background"])
def test_ctrl_c_leaves_a_folder_to_resume(background, tmp_path):
    """In the background, shells start commands with SIGINT ignored."""
    arguments = [sys.executable, "-c", MAIN, "eval", "responsiveness", "--controller", "cubic", "--runs", "50"]
    process = subprocess.Popen(
        [*arguments, "--workers", "2", "--out", str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN if background else signal.SIG_DFL),
    )
    _wait_for_runs(process, tmp_path / "runs.jsonl", 2)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: the whole group
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "--resume" in errors
    assert "Traceback" not in errors
    assert 2 <= len((tmp_path / "runs.jsonl").read_text(encoding="utf-8").splitlines()) < 50


def test_a_folder_with_runs_is_not_overwritten(results):
    with pytest.raises(OrbitccError, match="--resume"):
        run(results.out_dir, workers=1)


def test_two_processes_do_not_write_to_one_folder(results):
    import fcntl

    with results.jsonl.open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(OrbitccError, match="no other evaluation"):
            run(results.out_dir, resume=True)


def test_a_foreign_runs_file_is_refused_with_its_line(tmp_path):
    (tmp_path / "runs.jsonl").write_text('{"suite": "responsiveness"}\n')
    with pytest.raises(OrbitccError, match="line 1"):
        run(tmp_path, resume=True)
    assert (tmp_path / "runs.jsonl").read_text(encoding="utf-8") == '{"suite": "responsiveness"}\n'


@pytest.mark.parametrize(
    ("options", "field"),
    [({"runs": 0}, "runs"), ({"runs": 51}, "runs"), ({"workers": 0}, "workers"), ({"profile": "fulll"}, "profile")],
)
def test_wrong_options_name_their_field(tmp_path, options, field):
    with pytest.raises(OrbitccError) as caught:
        run(tmp_path, **options)
    assert caught.value.field == field
    assert not (tmp_path / "runs.jsonl").exists()


def _wait_for_runs(process: subprocess.Popen, path: Path, count: int) -> None:
    deadline = time.monotonic() + 120
    while not path.exists() or path.read_bytes().count(b"\n") < count:
        assert time.monotonic() < deadline, "no run finished in time"
        assert process.poll() is None, "the results ended before it could be stopped"
        time.sleep(0.005)


def _runs(pid: str) -> bool:
    """Whether a process is still there; a zombie is not. Waits a little for it to leave."""
    for _ in range(100):
        try:
            state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()[0]
        except OSError:
            return False
        if state == "Z":
            return False
        time.sleep(0.05)
    return True


def test_how_long_the_rest_will_take_is_told(capsys, monkeypatch):
    monkeypatch.setattr(progress, "LINE_EVERY_S", 0.0)
    with progress.Progress("suite", 3, done=1) as bar:
        bar._began -= 10.0
        bar.advance()
    told = capsys.readouterr().err
    assert "suite: 3 runs (1 finished earlier)" in told
    assert "suite: 67%, 2/3 runs, 10 s left" in told


DAMAGE = {
    "suite": 5, "scenario": [], "contender": {}, "controller": None, "version": 1.5, "seed": "1", "point": [],
    "params": {"path": []}, "metrics": {"goodput_over_optimal": "x"}, "elapsed_s": "fast",
}  # fmt: skip


@pytest.mark.parametrize("field", DAMAGE)
def test_a_row_with_a_field_of_another_type_is_named(field, results, tmp_path):
    first, *others = results.jsonl.read_text(encoding="utf-8").splitlines()
    row = json.loads(first) | {field: DAMAGE[field]}
    (tmp_path / "runs.jsonl").write_text("\n".join([json.dumps(row), *others]) + "\n")
    for use in (lambda: run(tmp_path, resume=True), lambda: differences(tmp_path, results.out_dir)):
        with pytest.raises(OrbitccError, match=rf"line 1.*{field} must be"):
            use()


def test_a_row_of_another_point_is_made_again(results, tmp_path):
    shutil.copytree(results.out_dir, tmp_path / "copy")
    first, *others = (tmp_path / "copy" / "runs.jsonl").read_text(encoding="utf-8").splitlines()
    row = json.loads(first) | {"point": {"other": 1}, "metrics": {}}
    (tmp_path / "copy" / "runs.jsonl").write_text("\n".join([json.dumps(row), *others]) + "\n")
    again = run(tmp_path / "copy", controllers=("cubic", "reno"), runs=3, workers=1, resume=True)
    assert again.write_csv().read_text(encoding="utf-8") == results.write_csv().read_text(encoding="utf-8")


def test_runs_of_another_backend_are_not_continued(results, tmp_path):
    shutil.copytree(results.out_dir, tmp_path / "copy")
    file = tmp_path / "copy" / "runs.jsonl"
    (version,) = {row["version"] for row in results.rows}
    file.write_text(file.read_text(encoding="utf-8").replace(version, f"{version}.emulator"), encoding="utf-8")
    before = {path.name: path.read_bytes() for path in (tmp_path / "copy").glob("*.*")}
    with pytest.raises(OrbitccError, match="one backend per folder"):
        run(tmp_path / "copy", controllers=("cubic", "reno"), runs=3, workers=1, resume=True)
    assert {path.name: path.read_bytes() for path in (tmp_path / "copy").glob("*.*")} == before


def test_what_a_killed_process_left_is_gone_after_resuming(results, tmp_path):
    shutil.copytree(results.out_dir, tmp_path / "copy")
    (tmp_path / "copy" / "figures").mkdir(exist_ok=True)
    left = [tmp_path / "copy" / ".runs.csv.abc.tmp", tmp_path / "copy" / "figures" / ".front.png.abc.tmp"]
    for path in left:
        path.write_text("half")
    run(tmp_path / "copy", controllers=("cubic", "reno"), runs=3, workers=1, resume=True)
    assert not [path for path in left if path.exists()]


def test_time_series_that_were_changed_are_not_drawn_and_made_again(results, tmp_path):
    shutil.copytree(results.out_dir, tmp_path / "copy")
    made = replace(results, out_dir=tmp_path / "copy")
    path, other = (made.series_path(c, made.shown()[0]) for c in made.contenders)
    sound = path.read_bytes()
    assert [len(row["series"]) for row in made.rows if "series" in row] == [16] * 2 * len(made.shown())
    path.write_bytes(other.read_bytes())  # a recording that can be read, of another contender
    with pytest.raises(OrbitccError, match=rf"file {path}: must be as the run of runs.jsonl wrote it: --resume"):
        figures_of(made)
    rows = len(lines_of(made))
    run(made.out_dir, workers=1, resume=True)
    assert path.read_bytes() == sound
    assert len(lines_of(made)) == rows + 1
    other.unlink()
    assert made.recordings().keys() == {"cubic"}


def test_nothing_is_left_of_results_that_are_refused(tmp_path, monkeypatch):
    def refuse(task):
        raise OrbitccError("scenario", "x", "another")

    monkeypatch.setattr(runner, "execute", refuse)
    with pytest.raises(OrbitccError, match="another"):
        run(tmp_path / "new", workers=1)
    assert list(tmp_path.iterdir()) == []


def test_a_formula_in_a_name_is_text_in_the_table(results, tmp_path):
    named = [replace(c, label="=cmd()") for c in results.contenders[:1]]
    rows = [{**row, "point": {"=x": "@y"}, "contender": named[0].key} for row in results.rows[:1]]
    text = replace(results, contenders=named, rows=rows, out_dir=tmp_path).write_csv().read_text(encoding="utf-8")
    assert "'=x" in text
    assert "'@y" in text


KILLED = """
import os, signal, sys
from pathlib import Path
from orbitcc.eval import contenders, runner, suites

def die(task):
    os.kill(os.getpid(), signal.SIGKILL)

if __name__ == "__main__":
    runner.execute = die
    line_up = contenders.line_up(["cubic"], [])
    try:
        runner.run_suite(suites.get("efficiency"), line_up, out_dir=sys.argv[1], runs=2, workers=2, quiet=True)
    except ValueError as error:
        print(type(error).__name__, error)
"""


def test_a_killed_worker_is_one_line(tmp_path):
    (tmp_path / "program.py").write_text(KILLED)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    words = [sys.executable, "program.py", str(tmp_path / "out")]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, cwd=tmp_path, env=environment)
    assert "StateError workers: a worker process was killed" in done.stdout, done.stderr
    assert "--resume" in done.stdout


def test_a_contender_that_cannot_run_over_a_transport_is_refused_before_anything_is_written(tmp_path):
    suite, both = suites.get("intra-rtt", {"transport": "quic"}), contenders.line_up(["cubic", "bbr3"], [])
    with pytest.raises(
        OrbitccError, match=r"^bbr3\.flows\.0\.controller\.name: 'bbr3' .*hosts with transport quic cannot serve"
    ):
        run_suite(suite, both, out_dir=tmp_path / "out", profile="quick", quiet=True)
    assert not (tmp_path / "out").exists()


def test_a_policy_that_changes_while_it_is_evaluated_is_refused(tmp_path, monkeypatch):
    mine, suite = tmp_path / "mine", suites.get("responsiveness")
    shutil.copytree(checkpoint.load("perigee").path, mine)
    line_up = contenders.line_up([], [str(mine)])
    simulated = backends.runner("simulator")

    def trained_anew(*args, **more):
        recording = simulated(*args, **more)
        shutil.copytree(checkpoint.load("apogee").path, mine, dirs_exist_ok=True)
        return recording

    monkeypatch.setattr(runner.backends, "runner", lambda name: trained_anew)
    task = runner.Task(suite, suite.cases("quick", 1)[0], line_up[0], "1", None)
    with pytest.raises(OrbitccError, match="its files were changed while it was evaluated"):
        runner.execute(task)


def test_a_policy_of_a_scenario_that_changes_is_refused(tmp_path, monkeypatch):
    mine = tmp_path / "mine"
    shutil.copytree(checkpoint.load("perigee").path, mine)
    flows = [Flow(controller="external"), Flow.parse(f"policy:path={mine}")]
    world = scenarios.get("dumbbell", duration_s=1).with_flows(flows)
    (tmp_path / "worlds").mkdir()
    world.save(tmp_path / "worlds" / "one.toml")
    suite = suites.get(str(tmp_path / "worlds"))
    case = suite.cases("quick", 1)[0]
    task = runner.Task(suite, case, contenders.line_up(["cubic"], [])[0], "1", None)
    before = case.digest
    assert runner.execute(task)[0]["scenario"] == before
    shutil.copytree(checkpoint.load("apogee").path, mine, dirs_exist_ok=True)
    with pytest.raises(OrbitccError, match="files of a policy that its scenarios name were changed"):
        runner.execute(task)
