"""Every `orbitcc` command in README and docs exists with these options, and names what exists."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

import orbitcc  # noqa: F401  (registers the controllers)
from orbitcc.agents.runs.folders import shipped
from orbitcc.cli import app
from orbitcc.commands.options import ADDRESS
from orbitcc.envs import controllers
from orbitcc.envs.scenarios import DISTRIBUTIONS, SCENARIOS
from orbitcc.eval import suites
from orbitcc.training import recipe

ROOT = Path(__file__).parents[2]
PAGES = [
    path
    for path in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
    if "generated" not in path.parts
]
COMMAND = typer.main.get_command(app)
CONTEXT = COMMAND.make_context("orbitcc", ["--help"], resilient_parsing=True)
NAMES = {
    "run": {*SCENARIOS, *DISTRIBUTIONS},
    "mininet": {*SCENARIOS},
    "show": {*SCENARIOS, *DISTRIBUTIONS, *shipped()},
    "export": {*SCENARIOS, *DISTRIBUTIONS},
    "plot": {*SCENARIOS, *DISTRIBUTIONS},
    "filter": set(shipped()),
    "eval": set(suites.names()),
    "train": set(recipe.names()),
    "tune": set(recipe.names()),
    "reproduce": {"leo", "geo", "c4"},
    "assess": {*controllers.names(), *shipped()},
    "search": {*controllers.names(), *shipped()},
}
"""What the first argument of a command may be called, if it is not a file, a module or a placeholder."""


def commands(text: str) -> Iterator[list[str]]:
    """The words after `orbitcc` of every command line in code blocks and code spans."""
    blocks = re.findall(r"```(?:sh|bash|console|text)?\n(.*?)```", text, re.DOTALL)
    blocks += re.findall(r"((?:^    .*\n)+)", text, re.MULTILINE)
    for block in blocks:
        for line in block.replace("\\\n", " ").splitlines():
            if found := re.match(r"\s*(?:\$ )?(?:sudo )?(?:[\w./]*/)?orbitcc ([a-z].*)$", line):
                yield words(found.group(1))
    for span in re.findall(r"`orbitcc ([a-z][^`]*)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL)):
        yield words(span)


def words(line: str) -> list[str]:
    line = re.sub(r"\s#.*$", "", line.replace("...", "").replace("…", ""))
    return shlex.split(re.split(r"\s[|>&]|\s2>", line)[0])


def problems(line: list[str]) -> Iterator[str]:
    node, rest = COMMAND, list(line)
    while rest and hasattr(node, "commands"):
        if not (rest[0].islower() and rest[0].replace("-", "").isalpha()):
            return  # `orbitcc COMMAND`
        if rest[0] not in node.commands:
            yield f"no command {rest[0]!r}"
            return
        node = node.commands[rest.pop(0)]
    options = {name: option for option in node.params for name in (*option.opts, *option.secondary_opts)}
    positional, k = [], 0
    rest = rest[: rest.index("--")] if "--" in rest else rest  # the words of another command follow
    while k < len(rest):
        word = rest[k]
        if word.startswith("-"):
            name = word.partition("=")[0]
            if name not in options and name not in ("--help", "-h"):
                yield f"{node.name} has no option {name}"
            elif name == "--ray":
                k += bool(ADDRESS.fullmatch("".join(rest[k + 1 : k + 2])))
            elif "=" not in word and name in options and not getattr(options[name], "is_flag", False):
                k += 1
        else:
            positional.append(word)
        k += 1
    known = NAMES.get(str(node.name))
    if known and positional:
        first = positional[0].partition(":")[0]
        if (
            first.islower()
            and not re.search(r"[./|]", positional[0])
            and ":" not in positional[0]
            and first not in known
        ):
            yield f"{node.name}: nothing is called {first!r}"


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_commands_of_a_page_exist(page: Path) -> None:
    found = list(commands(page.read_text(encoding="utf-8")))
    assert [(line, wrong) for line in found for wrong in problems(line)] == []


def test_commands_of_the_cluster_files_exist() -> None:
    texts = [path.read_text(encoding="utf-8") for path in (ROOT / "examples" / "cluster").iterdir()]
    found = [line for text in texts for line in commands(f"```sh\n{text}```")]
    assert [(line, wrong) for line in found for wrong in problems(line)] == []
    assert {(line[0], "--ray" in line) for line in found} == {("cluster", False), ("reproduce", True)}


def test_the_check_sees_commands_and_what_is_wrong_with_them() -> None:
    text = (
        "    orbitcc run dumbel --flow cubic\n\n"
        "```sh\norbitcc eval responsiveness --agnt x  # why\n```\nand `orbitcc lst`"
    )
    assert [wrong for line in commands(text) for wrong in problems(line)] == [
        "eval has no option --agnt",
        "run: nothing is called 'dumbel'",
        "no command 'lst'",
    ]
    assert sum(len(list(commands(page.read_text(encoding="utf-8")))) for page in PAGES) > 100
