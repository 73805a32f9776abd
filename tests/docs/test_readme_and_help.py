"""README shows figures that its command writes and pictures that are there; glossary and help texts are whole."""

import re
import subprocess
from pathlib import Path

import typer

from orbitcc.cli import app

ROOT = Path(__file__).parents[2]


def test_help_texts_are_never_cut() -> None:
    def walk(command, path):
        yield path, command
        for name, child in getattr(command, "commands", {}).items():
            yield from walk(child, [*path, name])

    for path, command in walk(typer.main.get_command(app), []):
        context = command.make_context("orbitcc", ["--help"], resilient_parsing=True)
        context.terminal_width = context.max_content_width = 100
        text = command.get_help(context)
        body = text.partition("\n")[2]
        assert not re.search(r"\w\.\.\.$", body, re.MULTILINE), path


def test_terms_of_the_glossary_are_one_line_each() -> None:
    rows = re.findall(
        r"^\| ([^|]+) \| ([^|]+) \|$", (ROOT / "docs/glossary.md").read_text(encoding="utf-8"), re.MULTILINE
    )[1:]
    names = [name for name, _ in rows]
    assert names[1:] == sorted(names[1:], key=str.lower)
    assert {"policy", "checkpoint", "contender", "training range", "safety filter", "claim", "slot"} <= set(names)


def test_the_readme_is_short_and_has_the_table_that_its_command_writes() -> None:
    from benches.readme import COLUMNS, FIRST_RUN, ROWS

    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) < 150
    for shown in ROWS.values():
        (cells,) = re.findall(rf"^\| {shown} \| (.*) \|$", text, re.MULTILINE)
        assert len(re.findall(r"\d\.\d{3}", cells)) == len(COLUMNS), shown
    (command,) = re.findall(r"orbitcc eval SUITE (.*?)\n\n", text, re.DOTALL)
    assert f"--set first_run={FIRST_RUN}" in command
    assert all(f" {contender}" in command for contender in ROWS)
    assert all(f"`{suite}`" in text for suite, _, _ in COLUMNS)


def test_pictures_of_the_readme_exist_and_are_small() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for target in re.findall(r"\]\(((?:docs|\.\.)[^)#]*)\)", text):
        if not target.startswith(".."):
            assert (ROOT / target).exists(), target
    assert (ROOT / "docs/images/handovers.webp").stat().st_size < 2e6
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False).stdout
    assert not tracked or "docs/images/handovers.webp" in tracked
