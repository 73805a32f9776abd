"""`orbitcc eval`, `demo` and `bench` as people call them."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from orbitcc.cli import main
from orbitcc.commands import bench_envs, measurement

MAIN = "import sys; from orbitcc.cli import main; main()"


@pytest.fixture
def orbitcc(monkeypatch, capsys, tmp_path):
    """Calls the command line in this process; gives exit code, stdout and stderr."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["orbitcc", *arguments])
        try:
            main()
            code = 0
        except SystemExit as stop:
            code = int(stop.code or 0)
        out, err = capsys.readouterr()
        return code, out, err

    return call


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["eval", "responsivness"], ["suite", "did you mean 'responsiveness'"]),
        (["eval", "responsiveness", "--controller", "cubik"], ["did you mean 'cubic'"]),
        (["eval", "responsiveness", "--controller", "cubic:hystart=sometimes"], ["hystart", "off"]),
        (["eval", "responsiveness", "--controller", "cubic@20s"], ["--controller"]),
        (["eval", "responsiveness", "--controller", "reno", "--controller", "reno"], ["once"]),
        (["eval", "responsiveness", "--policy", "no/such/folder"], ["no/such/folder"]),
        (["eval", "responsiveness", "--profile", "fast"], ["profile", "quick, reduced, full"]),
        (["eval", "responsiveness", "--runs", "51"], ["runs", "1 to 50"]),
        (["eval", "responsiveness", "--workers", "0"], ["workers"]),
        (["eval", "responsiveness", "--resume"], ["--out"]),
        (["eval", "responsiveness", "--runs", "many"], ["--runs: 'many'", "a whole number"]),
        (["eval", "responsiveness", "--controller", "policy"], ["--controller", "--policy FOLDER"]),
        (["eval", "responsiveness", "--controller", "udp"], ["udp.traffic.kind"]),
    ],
)
def test_wrong_arguments_end_with_one_line_and_code_2(orbitcc, arguments, words):
    code, out, err = orbitcc(*arguments)
    assert code == 2
    assert out == ""
    assert err.startswith("error: ")
    assert len(err.strip().splitlines()) == 1
    assert all(word in err for word in words)
    assert not Path("results").exists()


def test_a_folder_that_cannot_be_written_ends_with_code_2(orbitcc, tmp_path):
    (tmp_path / "file").write_text("in the way")
    code, _, err = orbitcc("eval", "responsiveness", "--out", str(tmp_path / "file" / "results"))
    assert code == 2
    assert "writable" in err


def test_eval_prints_medians_and_where_the_report_is(orbitcc, tmp_path):
    code, out, _ = orbitcc("eval", "responsiveness", "--controller", "reno", "--runs", "2", "--workers", "1")
    assert code == 0
    assert "reno" in out
    (folder,) = (tmp_path / "results").iterdir()
    assert {p.name for p in folder.iterdir()} >= {"report.html", "runs.csv", "runs.jsonl", "results.json"}
    assert f"results/{folder.name}/report.html" in out.replace("\n", "")


def test_eval_json_is_the_table(orbitcc, tmp_path, checkpoint_folder):
    code, out, err = orbitcc(
        *("eval", "responsiveness", "--controller", "cubic:hystart=off", "--policy", str(checkpoint_folder)),
        *("--runs", "2", "--workers", "2", "--out", "here", "--json"),
    )
    assert code == 0
    assert "outside its training range" in err
    table = json.loads(out)
    cubic, idle = table["contenders"]
    assert (cubic["contender"], cubic["params"]) == ("cubic:hystart=off", {"hystart": "off"})
    assert idle["contender"] == "idle-policy"
    for entry in (cubic, idle):
        for key in ("goodput_over_optimal", "delay_inflation", "retransmission_rate"):
            assert (entry[key]["low"], entry[key]["high"], entry[key]["runs"]) == (None, None, 2)
    # ten packets per round trip, for ever, are no match
    assert idle["goodput_over_optimal"]["median"] < cubic["goodput_over_optimal"]["median"]
    lines = (tmp_path / "here" / "runs.csv").read_text(encoding="utf-8").splitlines()
    assert len(lines) == 5
    assert lines[0].startswith("suite,scenario,seed,contender,controller,parameters,version,goodput_over_optimal,")
    assert ",hystart=off," in lines[1]


def test_demo_without_learners_or_a_checkpoint_says_so_and_shows_the_baselines(orbitcc, monkeypatch, tmp_path):
    from orbitcc.agents.runs import folders
    from orbitcc.commands import demo

    monkeypatch.setattr(folders, "SHIPPED", tmp_path / "none")
    monkeypatch.setattr(demo, "LEARNERS", ("no_such_learner",))
    code, out, err = orbitcc("demo", "--out", "shown")
    assert code == 0
    assert "no_such_learner is not installed, so the demo trains nothing" in err
    assert "zenith is not installed" in err
    assert "cubic" in out
    for suite in ("responsiveness", "intra-rtt"):
        assert (tmp_path / "shown" / suite / "report.html").stat().st_size > 100_000


def test_an_interrupted_demo_says_how_to_go_on_with_the_same(orbitcc, monkeypatch):
    from orbitcc.eval import runner

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(runner, "run_suite", interrupted)
    code, _, err = orbitcc("demo", "--shipped", "--out", "shown")
    assert (code, err.splitlines()[-1].endswith("Continue with: orbitcc demo --shipped --out shown")) == (130, True)


@pytest.mark.slow
def test_demo_trains_with_rllib_and_its_policy_beats_cubic_and_bbr3(tmp_path):
    pytest.importorskip("ray.rllib")
    words = [sys.executable, "-c", MAIN, "demo", "--out", "shown", "--json"]
    done = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path, timeout=600)
    assert done.returncode == 0, done.stderr
    table = {c["contender"]: c for c in json.loads(done.stdout)["responsiveness"]["contenders"]}
    for other in ("cubic", "bbr3"):
        assert table["my-policy"]["goodput_over_optimal"]["median"] > table[other]["goodput_over_optimal"]["median"]
        assert table["my-policy"]["delay_inflation"]["median"] < table[other]["delay_inflation"]["median"]
    assert (tmp_path / "shown" / "curves.png").stat().st_size > 50_000
    again = subprocess.run([*words[:-1]], capture_output=True, text=True, cwd=tmp_path, timeout=300)
    assert again.returncode == 0, again.stderr
    assert "beside cubic: as much goodput, a shorter delay" in again.stdout
    assert "beside bbr3: more goodput, a shorter delay" in again.stdout
    assert "tensorboard --logdir shown" in again.stdout


def test_eval_needs_no_learning_framework(tmp_path):
    program = f"""
import sys
sys.argv = ["orbitcc", "eval", "responsiveness", "--runs", "1", "--workers", "1", "--out", {str(tmp_path / "out")!r}]
from orbitcc.cli import main
from orbitcc.commands import bench_envs, measurement
try:
    main()
except SystemExit as stop:
    assert not stop.code
print("loaded:", sorted({{"torch", "ray", "stable_baselines3", "tensorboard"}} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "loaded: []" in done.stdout


@pytest.mark.slow
def test_bench_measures_every_row(orbitcc, monkeypatch):
    for module in (measurement, bench_envs):
        monkeypatch.setattr(module, "REPEATS", 1)  # one measurement, not the median of several
    code, out, _ = orbitcc("bench", "--json")
    assert code == 0
    rows = json.loads(out)["rows"]
    assert len(rows) >= 6
    for row in rows:
        value, target = row["value"], row["target"]
        assert value > 0
        reached = target is None or (value >= target if row["higher_is_better"] else value <= target)
        assert row["met"] == reached


EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "python_policy.py"


def test_a_policy_in_python_is_run_and_evaluated_like_any_other(tmp_path):
    """From the working directory, by two processes; a changed source is run again, the same one is not."""
    shutil.copy(EXAMPLE, tmp_path)
    script = "import sys; sys.path.pop(0); from orbitcc.cli import main; main()"  # as a console script, without ''

    def orbitcc(*arguments: str) -> subprocess.CompletedProcess:
        return subprocess.run(
            [sys.executable, "-c", script, *arguments], capture_output=True, text=True, cwd=tmp_path, check=False
        )

    ran = orbitcc("run", "dumbbell", "--set", "duration_s=20", "--policy", "python_policy:make", "--json")
    assert ran.returncode == 0, ran.stderr
    (flow,) = json.loads(ran.stdout)["flows"]
    assert flow["goodput_mbps"] > 80
    evaluate = (
        *("eval", "responsiveness", "--policy", "python_policy:make", "--controller", "reno"),
        *("--profile", "quick", "--runs", "1", "--out", "out", "--json", "--workers"),
    )
    first, again = orbitcc(*evaluate, "2"), orbitcc(*evaluate, "1", "--resume")
    assert first.returncode == 0, first.stderr
    _, delay = json.loads(first.stdout)["contenders"]
    assert (delay["contender"], delay["controller"]) == ("python_policy:make", "policy")
    assert delay["params"] == {"path": "python_policy:make"}
    assert 0.3 < delay["goodput_over_optimal"]["median"] < 1
    assert delay["delay_inflation"]["median"] < 2
    assert (again.returncode, len(runs(tmp_path / "out"))) == (0, 2)
    alone = orbitcc(*evaluate[:-4], "--out", "alone", "--json", "--workers", "1")
    assert metrics(tmp_path / "alone") == metrics(tmp_path / "out"), alone.stderr

    source = (tmp_path / "python_policy.py").read_text(encoding="utf-8")
    (tmp_path / "python_policy.py").write_text(source + "\n# changed\n")
    assert orbitcc(*evaluate, "2", "--resume").returncode == 0
    assert len(runs(tmp_path / "out")) == 3
    (tmp_path / "python_policy.py").write_text(source.replace("np.tanh(", "np.tann("))
    broken = orbitcc(*evaluate[:-4], "--out", "broken", "--workers", "2")
    assert broken.returncode == 2
    (line,) = broken.stderr.strip().splitlines()[-1:]
    assert line.startswith("error: policy: 'python_policy:make'")
    assert "has no attribute 'tann'" in line
    compared = orbitcc("compare", "alone", "out", "--json")
    table = json.loads(compared.stdout)
    assert {d["contender"].partition("#")[0] for d in table} == {"python_policy:make", "reno"}
    assert all(d["runs"] == 1 and d["difference"] == 0 for d in table)


def runs(folder: Path) -> list[dict]:
    return [json.loads(line) for line in (folder / "runs.jsonl").read_text(encoding="utf-8").splitlines()]


def metrics(folder: Path) -> dict:
    return {(row["contender"], row["seed"]): row["metrics"] for row in runs(folder)}


@pytest.mark.slow
def test_the_table_fits_80_columns_beside_a_long_name(orbitcc, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    words = ["responsiveness", "--runs", "6", "--controller", "leocc:trigger=global"]
    code, out, err = orbitcc("eval", *words, "--controller", "cubic")
    assert code == 0, err
    table = [line for line in out.splitlines() if line[:1] in "│┃└┏"]
    assert max(map(len, table)) <= 80
    assert all(line[-1] in "│┃┘┓" for line in table)
    assert out.count(" % – ") == 2  # nothing is cut
