"""Programs that generate pages of the documentation."""

from pathlib import Path


def write_changed(path: Path, text: str) -> None:
    """Write a page, unless it has this text already: Sphinx reads what is newer again."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")
