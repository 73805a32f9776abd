"""Rules about imports: one name for each module, nothing lower imports something higher, light commands stay light."""

import ast
import graphlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("common", "parallel", "envs", "emulator", "agents", "baselines", "eval", "training", "checkpoints")
LAYERS = {
    "common": 0, "envs": 1, "emulator": 1, "baselines": 2, "agents": 2, "parallel": 3, "eval": 4, "training": 5,
    "commands": 6, "cli": 6,
}  # fmt: skip
INSIDE = {
    "envs": {
        "controllers": 0, "description": 1, "orbits": 2,
        "fitting": 3, "impairments": 3, "traces": 4, "scenarios": 4, "backends": 5, "environments": 6,
    },
    "eval": {
        "metrics": 0, "heldout_metrics": 0, "statistics": 0, "contenders": 0, "journal": 0, "suites": 1, "results": 2,
        "trace": 2, "extrapolation": 3, "runner": 3, "comparison": 3, "front": 3, "quantities": 3, "path_model": 3,
        "figures": 4, "claims": 4, "papers": 5, "scoring": 5, "assessment": 5, "search": 5, "zoo": 5, "report": 6,
    },
}  # fmt: skip
"""How high the packages inside a package are."""
BESIDE = {"emulator": ("envs", "backends")}
"""Rooms that are as high as one inside another: what is above that may import them, what is below may not."""
SOURCES = sorted(
    path
    for folder in (*PACKAGES, "orbitcc", "tests", "examples", "benches")
    for path in (ROOT / folder).rglob("*.py")
    if not (folder == "orbitcc" and path.relative_to(ROOT).parts[1] in PACKAGES)
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
def test_packages_are_imported_only_through_orbitcc(path):
    wrong = [f"{path}:{line} {name}" for name, line in imported(path) if name.partition(".")[0] in PACKAGES]
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


def place_inside(package, parts):
    """Which part of a package a module is, or stands beside; None where it is elsewhere."""
    if parts[0] in BESIDE and BESIDE[parts[0]][0] == package:
        return BESIDE[parts[0]][1]
    return parts[1] if parts[0] == package and len(parts) > 1 else None


@pytest.mark.parametrize("package", INSIDE)
def test_packages_inside_a_package_are_imported_one_way(package):
    known = INSIDE[package]
    for path in SOURCES:
        own = place_inside(package, path.relative_to(ROOT).with_suffix("").parts)
        if own in (None, "__init__"):
            continue
        assert own in known, f"{path} stands in no package of {package}/"
        for name, line in imported(path):
            root, *parts = name.split(".")
            other = place_inside(package, parts) if root == "orbitcc" and parts else None
            if other is not None:
                assert known[other] <= known[own], f"{path}:{line} imports {name}"


def module_of(path):
    parts = path.relative_to(ROOT).with_suffix("").parts
    parts = parts if parts[0] == "orbitcc" else ("orbitcc", *parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def test_no_modules_import_each_other_in_a_ring():
    """Also what is imported inside functions and for annotations alone counts."""
    modules = {module_of(path): path for path in SOURCES if layer(path) is not None}
    needs = {module: set() for module in modules}
    for module, path in modules.items():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                needs[module] |= {alias.name for alias in node.names} & modules.keys()
            elif isinstance(node, ast.ImportFrom):
                wanted = {f"{node.module}.{alias.name}" for alias in node.names}
                inner = wanted & modules.keys()
                needs[module] |= inner | ({node.module} & modules.keys() if inner != wanted else set())
    try:
        tuple(graphlib.TopologicalSorter(needs).static_order())
    except graphlib.CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


def run_python(code, *args):
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code, *args], capture_output=True, text=True, timeout=300, check=False
    )


def test_each_class_exists_once():
    found = run_python(
        "import orbitcc, sys; print([m for m in sys.modules if m.partition('.')[0] in sys.argv[1:]])", *PACKAGES
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

COUNT = """
import sys
before = set(sys.modules)
from orbitcc.cli import main
try:
    main()
except SystemExit as stop:
    assert not stop.code, stop.code
print(*sorted({name.partition(".")[0] for name in set(sys.modules) - before}), file=sys.stderr)
print(len(set(sys.modules) - before), file=sys.stderr)
"""


@pytest.mark.parametrize(
    ("args", "without", "modules"),
    [
        (["--help"], {"numpy", "scipy", "pydantic", "gymnasium", "rich", "matplotlib", "safetensors"}, 220),
        (["run", "dumbbell", "--set", "duration_s=1", "--json"], {"scipy", "gymnasium", "rich", "safetensors"}, 700),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_commands_import_no_more_than_they_need(args, without, modules):
    """What a command imports is most of what a user waits for: 0.2 and 0.9 CPU seconds where this was written."""
    done = run_python(COUNT, *args)
    *_, found, count = done.stderr.strip().splitlines()
    assert done.returncode == 0, done.stderr
    assert not without & set(found.split())
    assert int(count) <= modules


@pytest.mark.parametrize(
    "order",
    [
        "import gymnasium, orbitcc",
        "import orbitcc, gymnasium",
        "import orbitcc, importlib.util as i; i.find_spec('gymnasium'); import gymnasium",  # as torchrl asks
    ],
)
def test_ids_are_there_whichever_is_imported_first(order):
    done = run_python(f"{order}\nassert 'orbitcc/Dumbbell-v0' in gymnasium.registry")
    assert done.returncode == 0, done.stderr


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


def test_a_script_beside_a_clone_imports_the_package(tmp_path):
    clone = tmp_path / "orbitcc"  # as Python sees a clone of the repository: a folder without __init__.py
    (clone / "orbitcc").mkdir(parents=True)
    (clone / "orbitcc" / "__init__.py").touch()
    (tmp_path / "script.py").write_text("import orbitcc as o; print(o.__file__); print(o.CongestionEnv.__name__)")
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    told = subprocess.run(
        [sys.executable, "script.py"], cwd=tmp_path, env=env, capture_output=True, text=True, check=True
    ).stdout
    file, name = told.splitlines()
    assert (Path(file).resolve(), name) == (ROOT / "orbitcc" / "__init__.py", "CongestionEnv")
