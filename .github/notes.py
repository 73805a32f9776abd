"""The notes of a release: the section of CHANGELOG.md about a version. `python .github/notes.py v0.2.0` prints it.

It ends with an error where the tag is not the version of pyproject.toml, or where there is no such section.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]


def section(changelog: str, version: str) -> str:
    """The text below the heading `## VERSION`, up to the next one."""
    found = re.search(rf"^## {re.escape(version)}(?: [^\n]*)?\n(.*?)(?=^## |\Z)", changelog, re.MULTILINE | re.DOTALL)
    text = found[1].strip() if found else ""
    if not text:
        raise SystemExit(f"CHANGELOG.md says nothing about {version}")
    return text


def main(tag: str) -> None:
    """Print the notes of this tag."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    if tag != f"v{version}":
        raise SystemExit(f"the tag {tag} is not v{version}, the version of pyproject.toml")
    print(section((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), version))


if __name__ == "__main__":
    main(sys.argv[1])
