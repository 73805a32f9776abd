"""orbitcc/_sim.pyi describes the native module as it is."""

import ast
import inspect
from pathlib import Path

import pytest

from orbitcc import _sim

STUB = ast.parse((Path(__file__).parents[2] / "orbitcc" / "_sim.pyi").read_text(encoding="utf-8"))


def stated(body: list[ast.stmt]) -> dict[str, ast.stmt]:
    """Public names of a module or class in the stub; `__init__` and `__new__` count as the signature of the class."""
    found = {}
    for node in body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found[node.target.id] = node
        elif isinstance(node, ast.ClassDef | ast.FunctionDef):
            found[node.name] = node
    return {name: node for name, node in found.items() if not name.startswith("_")}


def public(owner: object) -> set[str]:
    return {name for name in vars(owner) if not name.startswith("_")}


def parameters(node: ast.FunctionDef) -> list[str]:
    arguments = node.args
    names = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    return [argument.arg for argument in names if argument.arg not in ("self", "cls")]


def real_parameters(function: object) -> list[str] | None:
    try:
        return [name for name in inspect.signature(function).parameters if name not in ("self", "cls")]
    except (TypeError, ValueError):
        return None


def test_the_stub_names_what_the_module_has() -> None:
    assert set(stated(STUB.body)) == public(_sim)


@pytest.mark.parametrize("name", [n for n, node in stated(STUB.body).items() if isinstance(node, ast.ClassDef)])
def test_classes_have_the_members_of_the_stub(name: str) -> None:
    node, real = stated(STUB.body)[name], getattr(_sim, name)
    assert set(stated(node.body)) == public(real)
    for member, declared in stated(node.body).items():
        if isinstance(declared, ast.FunctionDef) and callable(getattr(real, member)):
            known = real_parameters(getattr(real, member))
            assert known is None or known == parameters(declared), f"{name}.{member}"
    made = next((n for n in node.body if isinstance(n, ast.FunctionDef) and n.name in ("__init__", "__new__")), None)
    known = real_parameters(real)
    if made is not None and known is not None:
        assert known == parameters(made), name


@pytest.mark.parametrize("name", [n for n, node in stated(STUB.body).items() if isinstance(node, ast.FunctionDef)])
def test_functions_have_the_parameters_of_the_stub(name: str) -> None:
    known = real_parameters(getattr(_sim, name))
    assert known is not None
    assert known == parameters(stated(STUB.body)[name])
