"""The register of tables and pictures that commands make (benches/tables.toml)."""

import re
import shutil
from pathlib import Path

import pytest

from benches.__main__ import Table, tables
from benches.leaderboard.origin import git
from orbitcc.common.errors import FileError

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "docs" / "policies").glob("*.md"))]
BY_HAND = {"render.png", "badges"}
"""Drawn by the code on their page, or written once."""
FINAL = {
    "baselines", "constellation-unused.png", "fitting",
    "links", "preferences.png", "astraea.png", "perigee-actions.png",
}  # fmt: skip
"""Pictures of experiments that are over; the programs are at the tag `experiments-0.1`."""


def test_every_row_exists() -> None:
    for table in tables():
        if table.picture(ROOT) is None:
            first, last = table.lines(ROOT)
            assert last > first, table.part
        for path in table.measures:
            assert (ROOT / path).exists(), path
        module = re.match(r"python -m ([\w.]+)", table.command)
        assert (
            module is None or (ROOT / module[1].removeprefix("orbitcc.").replace(".", "/")).with_suffix(".py").exists()
        )


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_table_and_picture_has_a_row(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    name = str(page.relative_to(ROOT))
    marked = set(re.findall(r"^<!-- ([a-z][\w -]*) -->$", text, re.MULTILINE))
    pictures = set(re.findall(r"images/([\w.-]+)", text)) - BY_HAND - FINAL
    if name == "docs/leaderboard.md":  # it states its own age
        marked, pictures = set(), set()
    known = {table.part for table in tables() if table.page == name}
    assert marked - known == set()
    assert pictures - {table.part for table in tables()} == set()


@pytest.mark.skipif(
    shutil.which("git") is None,
    reason="it makes a git repository of its own; it runs where git is installed, as on every checkout",
)
def test_the_age_counts_commits_since_the_table_changed(tmp_path: Path) -> None:
    page, code = tmp_path / "docs" / "page.md", tmp_path / "sim" / "core" / "src" / "lib.rs"
    table = Table(page="docs/page.md", part="one", command="make one", measures=("eval",))

    def commit(path: Path, text: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        who = ("-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false")
        assert git(tmp_path, "add", ".") is not None
        assert git(tmp_path, *who, "commit", "-q", "-m", "change") is not None

    def since() -> str:
        found = re.search(r"since then: (\w+);", table.age(tmp_path))
        assert found is not None
        return found[1]

    page.parent.mkdir()
    page.write_text("<!-- one -->\n|1|\n<!-- /one -->\n", encoding="utf-8")
    assert since() == "unknown"
    assert git(tmp_path, "init", "-q") is not None
    commit(page, "# A\n<!-- one -->\n|1|\n<!-- /one -->\n")
    assert since() == "0"
    commit(code, "1")
    commit(tmp_path / "eval" / "metrics.py", "1")
    commit(tmp_path / "training" / "ppo.py", "1")
    assert since() == "2"
    commit(page, "# B, more words\n<!-- one -->\n|1|\n<!-- /one -->\n")
    assert since() == "2", "the table is as it was"
    commit(page, "# B, more words\n<!-- one -->\n|2|\n<!-- /one -->\n")
    assert since() == "0"
    with pytest.raises(FileError, match="two"):
        table.changed(part="two").age(tmp_path)


def test_a_section_ends_at_the_next_heading_of_its_level(tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text("# A\n## B\n1\n### C\n2\n## D\n3\n", encoding="utf-8")
    lines = {
        part: Table(page="page.md", part=part, command="", measures=()).lines(tmp_path)
        for part in ("## B", "### C", "## D")
    }
    assert lines == {"## B": (2, 5), "### C": (4, 5), "## D": (6, 7)}
