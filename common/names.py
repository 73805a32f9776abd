"""Names and texts of others, as a terminal, a figure or a table shows them: always literally."""

from __future__ import annotations

import csv
import io
import re
import unicodedata
from collections.abc import Iterable
from typing import Any

_HIDDEN = {"Cc", "Cf", "Cs", "Zl", "Zp"}
"""Categories of Unicode: control and format characters, lone surrogates, separators of lines and paragraphs."""
_LONGEST = 100
"""Letters of a name in a figure."""
_FORMULA = re.compile(r"[=+\-@\t\r]")


def plain(text: object) -> str:
    """The text with control characters (and others that only change how text is shown) as escapes, e.g. `\\x1b`."""
    words = str(text)
    if words.isascii() and words.isprintable():
        return words
    return "".join(
        letter.encode("unicode_escape").decode() if unicodedata.category(letter) in _HIDDEN else letter
        for letter in words
    )


def terminal(text: object) -> str:
    """As `plain`, for the markup of rich: brackets are brackets."""
    from rich.markup import escape

    return escape(plain(text))


def figure(text: object) -> str:
    """As `plain`, for matplotlib: dollar signs begin no formula, and what is very long is cut."""
    words = plain(text)
    return (words if len(words) <= _LONGEST else f"{words[: _LONGEST - 1]}…").replace("$", r"\$")


def csv_text(rows: Iterable[Iterable[Any]]) -> str:
    """Rows of cells as CSV text. Text that a spreadsheet would take for a formula gets a leading apostrophe."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([_cell(value) for value in row] for row in rows)
    return text.getvalue().encode("utf-8", "backslashreplace").decode()


def _cell(value: Any) -> Any:
    if isinstance(value, str) and _FORMULA.match(value) and not _is_number(value):
        return f"'{value}"
    return value


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
