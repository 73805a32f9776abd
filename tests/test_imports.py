"""Rules about imports: one name for each module, nothing lower imports something higher, light commands stay light."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ROOMS = ("envs", "emulator", "agents", "baselines", "eval", "training", "checkpoints")
LAYERS = {"envs": 0, "emulator": 0, "baselines": 1, "agents": 1, "eval": 2, "training": 3, "commands": 4, "cli": 4}
SOURCES = sorted(
    path
    for folder in (*ROOMS, "orbitcc", "tests", "examples", "benches")
    for path in (ROOT / folder).rglob("*.py")
    if not (folder == "orbitcc" and path.relative_to(ROOT).parts[1] in ROOMS)
)


def layer(path):
    """How high in the house a file is; None for tests, examples and the package itself."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return LAYERS.get(parts[1] if parts[0] == "orbitcc" else parts[0])


def imported(path):
    """(module name, line) of every import in a file, also inside functions."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno} is a relative import"
            if node.module == "orbitcc":
                yield from ((f"orbitcc.{alias.name}", node.lineno) for alias in node.names)
            else:
                yield node.module, node.lineno


def test_sources_are_found():
    assert {path.relative_to(ROOT).parts[0] for path in SOURCES} >= {"envs", "baselines", "orbitcc", "tests"}


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_rooms_are_imported_only_through_orbitcc(path):
    wrong = [f"{path}:{line} {name}" for name, line in imported(path) if name.partition(".")[0] in ROOMS]
    assert not wrong


@pytest.mark.parametrize(
    "path",
    [path for path in SOURCES if layer(path) is not None],
    ids=lambda path: str(path.relative_to(ROOT)),
)
def test_nothing_lower_imports_something_higher(path):
    own = layer(path)
    for name, line in imported(path):
        if name.startswith("orbitcc."):
            other = LAYERS.get(name.split(".")[1], 0)
            assert other <= own, f"{path}:{line} imports {name}"


def run_python(code, *args):
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code, *args], capture_output=True, text=True, timeout=300, check=False
    )


def test_each_class_exists_once():
    found = run_python(
        "import orbitcc, sys; print([m for m in sys.modules if m.partition('.')[0] in sys.argv[1:]])", *ROOMS
    )
    assert found.stdout.strip() == "[]", found.stderr


LIGHT = """
import sys
from orbitcc.cli import main
try:
    main()
except SystemExit as stop:
    assert not stop.code, stop.code
heavy = sorted({"torch", "ray", "stable_baselines3", "tensorboard"} & set(sys.modules))
assert not heavy, heavy
"""


@pytest.mark.parametrize(
    "args",
    [
        ["--help"],
        ["list"],
        ["run", "dumbbell", "--set", "duration_s=1", "--json"],
        ["eval", "responsiveness", "--controller", "reno", "--runs", "1", "--workers", "1"],
    ],
    ids=lambda args: args[0],
)
def test_light_commands_import_neither_torch_nor_ray(args, tmp_path):
    if args[0] == "eval":
        args = [*args, "--out", str(tmp_path / "out")]
    done = run_python(LIGHT, *args)
    assert done.returncode == 0, done.stderr
