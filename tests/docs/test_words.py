"""README and docs use the glossary's terms; README shows figures that the docs have."""

import re
import subprocess
from pathlib import Path

import pytest

from orbitcc.cli import app
from orbitcc.commands.list_ import KINDS, _entries

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    path
    for path in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").rglob("*.md")]
    if "generated" not in path.parts
)
REPLACED = {
    r"\benvelopes?\b": "training range",
    r"\bguards?\b": "safety filter",
    r"\bfindings?\b": "claim",
    r"\b(?<!Optuna )stud(y|ies)\b": "paper",
    r"\bcampaigns?\b": "results",
    r"\bpieces?\b": "observation, action or reward function",
    r"\bscorecards?\b": "held-out evaluation",
    r"assessment cards?\b": "assessment",
    r"--agent\b": "--policy",
    r"agent:path": "policy:path",
    r"list checkpoints": "list policies",
    r"scenario list\b": "list scenarios",
    r"\brooms\b|\bthis room\b": "package or module",
    r"\bslots? (per|of an environment)\b|\bon slots\b|\.slots\b": "agent index, or one sub-environment per flow",
    r"\bis paid for\b|\bare paid for\b": "reward",
    r"what becomes of": "a plain sentence",
    r"there is one reality": "a plain sentence",
    r"forgotten by nothing": "a plain sentence",
    r"\bonly told of\b": "a plain sentence",
}
"""Terms that nobody outside the project uses -> what to write."""
BIBLIOGRAPHY = re.compile(r"An Experimental Study of Congestion Control|Minari|`study`")


def violations(text: str) -> list[str]:
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        plain = BIBLIOGRAPHY.sub("", line)
        for pattern, instead in REPLACED.items():
            if match := re.search(pattern, plain, re.IGNORECASE):
                found.append(f"line {number}: {match.group(0)!r}, write: {instead}")
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_pages_use_the_terms_of_the_glossary(page: Path) -> None:
    assert not violations(page.read_text(encoding="utf-8"))


def test_the_check_finds_what_it_looks_for() -> None:
    assert violations("Guards keep it inside its envelope.") != []
    assert violations("`orbitcc run dumbbell --agent perigee`") != []
    assert violations("Mazilu et al., An Experimental Study of Congestion Control in LEO Satellite Networks") == []
    assert violations("A slot lasts 15 seconds.") == []


@pytest.mark.parametrize("kind", KINDS)
def test_listed_descriptions_use_them_too(kind: str) -> None:
    for entry in _entries(kind):
        assert not violations(entry["description"]), entry["name"]


def test_help_texts_use_them_too_and_are_never_cut() -> None:
    import typer

    def walk(command, path):
        yield path, command
        for name, child in getattr(command, "commands", {}).items():
            yield from walk(child, [*path, name])

    for path, command in walk(typer.main.get_command(app), []):
        context = command.make_context("orbitcc", ["--help"], resilient_parsing=True)
        context.terminal_width = context.max_content_width = 100
        text = command.get_help(context)
        assert not violations(text.replace("--policy, --agent", "")), path
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
