"""Writes generated text into pages of the documentation, between two marks."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from orbitcc.common.errors import FileError
from orbitcc.common.files import atomic_write_text


def between(document: Path, name: str) -> str:
    """The text between the marks of this name. Raises FileError if marks are missing."""
    begin, end = f"<!-- {name} -->\n", f"\n<!-- /{name} -->"
    _, found, rest = document.read_text(encoding="utf-8").partition(begin)
    text, closed, _ = rest.partition(end)
    if not (found and closed):
        raise FileError("document", str(document), f"a document with {begin.strip()} and, after it, {end.strip()}")
    return text


def replace(document: Path, parts: Mapping[str, str]) -> None:
    """Put each text between its marks. If marks are missing, raise FileError and leave the document unchanged."""
    text = document.read_text(encoding="utf-8")
    for name, content in parts.items():
        begin, end = f"<!-- {name} -->", f"<!-- /{name} -->"
        before, found, rest = text.partition(begin)
        _, closed, after = rest.partition(end)
        if not (found and closed):
            raise FileError("document", str(document), f"a document with {begin} and, after it, {end}")
        text = f"{before}{begin}\n{content}\n{end}{after}"
    atomic_write_text(document, text)
