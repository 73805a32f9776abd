"""How old the tables and pictures of the documentation are: `python -m benches`, from the top of the repository.

A line for each row of tables.toml: the commit that last changed the table, how many commits since then changed what it
measures, and the command that makes it again. The leaderboard states the commit at which it was measured.
"""

from __future__ import annotations

import re
from pathlib import Path

from benches.leaderboard.origin import age, git
from orbitcc.common.errors import FileError
from orbitcc.common.files import read_toml
from orbitcc.envs.description.model import Model

ROOT = Path(__file__).resolve().parents[1]
ALWAYS = "sim/core/src"


class Table(Model):
    """A row of tables.toml."""

    page: str
    part: str
    command: str
    measures: tuple[str, ...]

    def picture(self, root: Path) -> Path | None:
        """The picture, or the folder of pictures, that the part is; None: it is text of the page."""
        path = root / "docs" / "images" / self.part
        return path if path.exists() else None

    def lines(self, root: Path) -> tuple[int, int]:
        """The first and the last line of the part, from 1; the whole section of a heading.

        Raises:
            FileError: the page has no such part.
        """
        lines = (root / self.page).read_text(encoding="utf-8").splitlines()
        if self.part.startswith("#"):
            begin, level = self.part, self.part.split(" ")[0]
            ends = [i for i, line in enumerate(lines) if line.startswith("#") and line.split(" ")[0] <= level]
        else:
            begin = f"<!-- {self.part} -->"
            ends = [i for i, line in enumerate(lines) if line == f"<!-- /{self.part} -->"]
        if begin not in lines:
            raise FileError("page", self.page, f"a page with the line {begin}")
        first = lines.index(begin)
        return first + 1, next((i for i in ends if i > first), len(lines))

    def commit(self, root: Path) -> str | None:
        """The commit that last changed the part; None outside a checkout."""
        picture = self.picture(root)
        if picture is not None:
            return git(root, "log", "-1", "--format=%H", "--", str(picture)) or None
        first, last = self.lines(root)
        told = git(root, "blame", "--porcelain", f"-L{first},{last}", "--", self.page)
        commits = set(re.findall(r"^[0-9a-f]{40}", told or "", re.MULTILINE))
        return git(root, "rev-list", "--topo-order", "-1", *commits) if commits else None

    def age(self, root: Path) -> str:
        """One line."""
        commit = self.commit(root)
        since = git(root, "rev-list", "--count", f"{commit}..HEAD", "--", ALWAYS, *self.measures) if commit else None
        day = git(root, "log", "-1", "--format=%as", commit) if commit else None
        newer = f"{day or 'unknown'}; commits to the measured code since then: {since or 'unknown'}"
        return f"{self.page}, {self.part}: {newer}; {self.command}"


def tables() -> list[Table]:
    """All rows of tables.toml."""
    return [Table.build(row) for row in read_toml(str(Path(__file__).with_name("tables.toml")))["tables"]]


def main() -> None:
    for table in tables():
        print(table.age(ROOT))
    print(age(ROOT / "docs" / "leaderboard.md"))


if __name__ == "__main__":
    main()
