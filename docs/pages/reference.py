"""Reference pages: scenario files and recipes from their models, modules from their docstrings."""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import itertools
import re
import types
import typing
from collections.abc import Callable, Iterator
from typing import Any

import orbitcc
from orbitcc import _sim
from orbitcc.envs.description.model import Model
from orbitcc.envs.description.scenario import ControllerSpec, Scenario
from orbitcc.envs.environments import presets
from orbitcc.eval import heldout_metrics, suites
from orbitcc.eval.assessment import criteria
from orbitcc.training import recipe
from orbitcc.training.learners import ALGORITHMS

MODULES = {
    "orbitcc.envs.environments": (
        "single",
        "vector",
        "parallel",
        "batched_parallel",
        "flow_vector",
        "presets",
        "config",
        "rllib",
        "sb3",
    ),
    "orbitcc.envs.description": ("scenario", "flows", "links", "sim_settings"),
    "orbitcc.common": ("errors",),
    "orbitcc.envs": ("scenarios", "controllers"),
    "orbitcc.envs.backends": ("simulator", "captures"),
    "orbitcc.agents": ("checkpoint", "model_card", "python_policy", "data.decisions", "data.minari"),
    "orbitcc.eval": ("runner", "results", "metrics", "statistics", "papers", "scoring"),
    "orbitcc.training": ("recipe", "loop", "logbook", "seeds", "tune"),
}
"""Package -> its modules with a page in the API reference."""


def code(text: Any) -> str:
    """As code in a cell of a table."""
    return f"`{str(text).replace('|', chr(92) + '|')}`"


def prose(text: str) -> str:
    """A docstring's words as Markdown: roles become code."""
    text = re.sub(r":[a-z:]+:`~?([^`]+)`", r"`\1`", text)
    return text.replace("``", "`")


# -- models ---------------------------------------------------------------------------------------------------------


def allowed(annotation: Any, metadata: Any) -> str:
    """What a field takes, in words: range and unit, names, or a table."""
    for item in metadata:
        function = getattr(item, "func", None)
        if isinstance(function, functools.partial):
            return _checked(function)
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return allowed(args[0], args[1:])
    if origin is typing.Literal:
        return ", ".join(code(repr(arg) if isinstance(arg, str) else arg) for arg in args)
    if origin in (typing.Union, types.UnionType):
        return " or ".join(dict.fromkeys("nothing" if a is type(None) else allowed(a, ()) for a in args))
    if origin is tuple:
        inner = allowed(args[0], ())
        return (f"a list of {inner}".replace("[a table]", "[tables]")) if args[1:] == (...,) else "a list"
    if origin is dict:
        return "a table"
    if annotation is Model:
        return "a table"
    if annotation is ControllerSpec:
        return "a controller, `NAME[:param=value,...]`, or [a table](#controllerspec)"
    if inspect.isclass(annotation) and issubclass(annotation, Model):
        return f"[a table](#{annotation.__name__.lower()})"
    words = {str: "text", bool: "`true` or `false`", int: "a whole number", float: "a number"}
    return words.get(annotation, code(getattr(annotation, "__name__", annotation)))


def _checked(function: Any) -> str:
    known = function.keywords
    if "item" in known:
        item = known["item"]
        inner = _checked(item) if isinstance(item, functools.partial) else "one value"
        return f"{inner}, or a schedule `[[time_s, value], ...]`"
    if "low" not in known:
        return "a table"
    opening = "(" if known.get("above") else "["
    unit = f" {known['unit']}" if known.get("unit") else ""
    kind = "whole, " if known.get("whole") else ""
    return f"{kind}{opening}{known['low']:g}, {known['high']:g}]{unit}"


def models(first: type[Model]) -> list[type[Model]]:
    """The model and all it is made of, each once, outermost first."""
    found: list[type[Model]] = []

    def visit(annotation: Any) -> None:
        if inspect.isclass(annotation) and issubclass(annotation, Model) and annotation not in found:
            found.append(annotation)
            for field in annotation.model_fields.values():
                visit(field.annotation)
                for item in field.metadata:
                    visit_checks(getattr(item, "func", None))
        for arg in typing.get_args(annotation):
            visit(arg)

    def visit_checks(function: Any) -> None:
        for cell in getattr(function, "__closure__", None) or ():
            kinds = cell.cell_contents
            for model in kinds.values() if isinstance(kinds, dict) else ():
                visit(model)

    visit(first)
    return found


def model_section(model: type[Model], level: int = 2) -> str:
    """Heading, words and table of the fields of a model."""
    words = prose(inspect.cleandoc(model.__doc__)) if model.__doc__ and model.__doc__ != Model.__doc__ else ""
    lines = [f"({model.__name__.lower()})=", f"{'#' * level} {model.__name__}", "", _described(words), ""]
    lines += ["| field | default | allowed | |", "|---|---|---|---|"]
    for name, field in model.model_fields.items():
        default = "required" if field.is_required() else _default(field.get_default(call_default_factory=True))
        told = prose(field.description or "").replace("|", "\\|")
        lines.append(f"| `{name}` | {default} | {allowed(field.annotation, field.metadata)} | {told} |")
    return "\n".join([*lines, ""])


def _default(value: Any) -> str:
    if type(value) is Model:
        return "those of the algorithm"
    if isinstance(value, Model):
        return f"[its own](#{type(value).__name__.lower()})"
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return code(str(value).lower())
    return code(f"{value:g}" if isinstance(value, float) else list(value) if isinstance(value, tuple) else repr(value))


def scenario_page() -> str:
    parts = [model_section(model) for model in models(Scenario)]
    return "\n".join(
        [
            "# Scenario files",
            "",
            "All fields of a scenario in TOML, generated from the models that check them. Times are in seconds from",
            "the start. A value of a schedule holds from its time on. `orbitcc scenario export NAME` writes a file",
            "to begin with, and `orbitcc scenario show FILE` checks a file.",
            "",
            *parts,
        ]
    )


def recipe_page() -> str:
    classes = dict.fromkeys(model for model in models(recipe.Recipe) if model is not Model)
    for kind in ALGORITHMS.values():
        classes.update(dict.fromkeys(models(kind.options)))
    classes.update(dict.fromkeys([heldout_metrics.Weights]))
    rows = []
    for name, kind in ALGORITHMS.items():
        model, heeded = kind.options.__name__, ", ".join(code(field) for field in ("hidden", *kind.network))
        rows.append(f"| `{name}` | [{model}](#{model.lower()}) | {heeded} | {', '.join(map(code, kind.activations))} |")
    head = [
        "# Recipes",
        "",
        "All settings of `orbitcc train`, generated from the models that check a recipe. [Training](../training.md)",
        "explains their use. `--set` changes any of them, for example `--set learner.lr=1e-4`.",
        "",
        "| `algorithm` | table `[learner]` | fields of `[network]` | `network.activation` |",
        "|---|---|---|---|",
        *rows,
        "",
    ]
    return "\n".join([*head, *(model_section(model) for model in classes)])


def observation_page() -> str:
    """Every native observation, index by index."""
    head = [
        "# Observations",
        "",
        "The features of one interval of every native observation. With ten features, *index mod 10* means that",
        "feature 0 stands at the indices 0, 10, 20 and so on: once for every interval of the history.",
        "[Presets](../presets.md) explains them.",
        "",
    ]
    return "\n".join([*head, *(f"## {name}\n\n{presets.describe(name)}\n" for name in _sim.FUNCTIONS["observation"])])


def limits_page() -> str:
    """The limits of the assessment by RFC 9743 and their reasons."""
    lines = [
        "# Limits of the assessment",
        "",
        "Often there are two limits for a result: an absolute one, and a multiple of Cubic's value in the same world.",
        "Meeting either one is enough. A metric that misses the limits of *concern* fails.",
        "[Assessment](../assessment.md) explains the criteria; `eval/assessment/criteria.toml` has the limits.",
        "",
        "| § | key | metric | limits | reason |",
        "|---|---|---|---|---|",
    ]
    for c in criteria():
        lines += [f"| {c.section} | {c.key} | {f.title} | {f.limits} | {f.reason} |" for f in c.figures]
        if c.not_applicable:
            lines.append(f"| {c.section} | {c.key} | – | not applicable | {c.not_applicable} |")
    return "\n".join([*lines, ""])


def suite_page() -> str:
    """Every suite with its metrics."""
    lines = [
        "# Suites",
        "",
        "The experiments of `orbitcc eval` with their metrics. `orbitcc list suites` prints their names.",
        "",
    ]
    for name in suites.names():
        suite = suites.get(name)
        about = [f"## {name}", "", f"**{suite.title}.** {suite.description}", "", f"*Source: {suite.source}*", ""]
        lines += [*about, "| metric | best | definition |", "|---|---|---|"]
        lines += [f"| {m.title} | {m.ideal:g} | {m.definition} |" for m in suites.metrics_of(name)]
        lines.append("")
    return "\n".join(lines)


# -- modules --------------------------------------------------------------------------------------------------------

_HEAD = re.compile(r"^(Args|Returns|Raises|Yields|Attributes):$")
_ENTRY = re.compile(r"^    (\*{0,2}[\w ,.()\[\]]+): (.*)$")


def _described(text: str) -> str:
    """Lines like `name: what it is` at the start of a docstring's paragraphs become lists, sections get headings."""
    out: list[str] = []
    section = False
    for line in text.splitlines():
        if match := _HEAD.match(line):
            out += ["", f"**{match[1]}**", ""]
            section = True
        elif section and (entry := _ENTRY.match(line)):
            out.append(f"- `{entry[1]}`: {entry[2]}")
        elif section and line.startswith("    "):
            out.append(f"  {line.strip()}" if out[-1].startswith(("-", "  ")) else f"- {line.strip()}")
        else:
            section = False
            known = re.match(r"^([a-z_][\w, ]{0,40}): (.+)$", line)
            out.append(
                f"- `{known[1]}`: {known[2]}" if known and not line.endswith("::") else line.strip() if known else line
            )
    return prose("\n".join(out))


def public(module: types.ModuleType) -> Iterator[tuple[str, Any]]:
    for name, item in vars(module).items():
        own = getattr(item, "__module__", None) == module.__name__
        if own and not name.startswith("_") and (inspect.isclass(item) or inspect.isfunction(item)):
            yield name, item


def constants(module: types.ModuleType) -> Iterator[tuple[str, str]]:
    """Public constants of a module and the strings that document them."""
    body = ast.parse(inspect.getsource(module)).body
    for statement, text in itertools.pairwise(body):
        target = statement.target if isinstance(statement, ast.AnnAssign) else None
        if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
            (target,) = statement.targets
        documented = isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant)
        if isinstance(target, ast.Name) and re.fullmatch(r"[A-Z]\w*[A-Z]", target.id) and documented:
            assert isinstance(text, ast.Expr)
            assert isinstance(text.value, ast.Constant)
            yield target.id, inspect.cleandoc(str(text.value.value))


def signature(name: str, item: Callable[..., Any]) -> str:
    try:
        made = inspect.signature(item)
    except (TypeError, ValueError):
        return name
    parameters = [p.replace(annotation=inspect.Parameter.empty) for p in made.parameters.values() if p.name != "self"]
    text = str(made.replace(parameters=parameters, return_annotation=inspect.Signature.empty))
    return f"{name}{re.sub(r'<[^>]*>', '...', text)}"


def source(module: str, name: str) -> str:
    """Where users import a name from: the package itself, if it is public there."""
    return "orbitcc" if name in orbitcc.__all__ else module


def module_page(name: str) -> str:
    module = importlib.import_module(name)
    lines = [f"# {name}", "", _described(prose(inspect.getdoc(module) or "")), ""]
    for title, text in constants(module):
        lines += [f"## {title}", "", "```python", f"from {source(name, title)} import {title}", "```", ""]
        lines += [_members_doc(text), ""]
    for title, item in public(module):
        lines += [
            f"## {title}",
            "",
            "```python",
            f"from {source(name, title)} import {title}",
            "",
            signature(title, item),
            "```",
            "",
        ]
        lines += [_members_doc(inspect.getdoc(item) or ""), ""]
        if inspect.isclass(item):
            for member, function in vars(item).items():
                raw = function.fget if isinstance(function, property) else getattr(function, "__func__", function)
                if member.startswith("_") or not inspect.isfunction(raw) or not raw.__doc__:
                    continue
                shown = member if isinstance(function, property) else signature(member, raw)
                lines += [f"**{code(shown)}**", "", _members_doc(inspect.getdoc(raw) or ""), ""]
    return "\n".join(lines)


def _members_doc(text: str) -> str:
    """A docstring inside a page: its own headings become bold."""
    text = re.sub(r"^#+ (.+)$", r"**\1**", text, flags=re.MULTILINE)
    return _described(text)


def _linked(name: str) -> str:
    """A public name, with a link to its page if it has one."""
    item = getattr(orbitcc, name)
    if inspect.ismodule(item):
        return f"`{name}`"
    module = getattr(item, "__module__", "orbitcc.envs.environments.presets")
    twin = name.islower() and hasattr(importlib.import_module(module), name.capitalize())  # preset, after Preset
    return f"[`{name}`]({module}.md#{name.lower()}{'-1' if twin else ''})"


def _first_line(name: str) -> str:
    """The first sentence of what documents a public name."""
    item = getattr(orbitcc, name)
    text = inspect.getdoc(item) if callable(item) or inspect.ismodule(item) else None
    documented = text or dict(constants(importlib.import_module("orbitcc.envs.environments.presets"))).get(name, "")
    lines = [line for line in prose(documented).splitlines() if line.strip() and not line.startswith("#")]
    paragraph = " ".join(itertools.takewhile(str.strip, lines))
    return paragraph.split(". ")[0].rstrip(".").replace("|", "\\|")


def api_pages() -> dict[str, str]:
    """File name -> text, with an index."""
    pages = {}
    for package, modules in MODULES.items():
        for short in modules:
            name = f"{package}.{short}"
            pages[name] = module_page(name)
    index = [
        "# API reference",
        "",
        "Generated from the docstrings of the modules that users import.",
        "",
        "| name | what it is |",
        "|---|---|",
        *(f"| {_linked(name)} | {_first_line(name)} |" for name in orbitcc.__all__ if not name.startswith("__")),
        "",
        "All these names are imported from `orbitcc`. The modules in full:",
        "",
        "```{toctree}",
        ":maxdepth: 1",
        "",
    ]
    return {"index": "\n".join([*index, *pages, "```", ""]), **pages}
