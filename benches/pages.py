"""Tables that benches write into pages of the documentation, between two marks."""

from __future__ import annotations

from pathlib import Path

from orbitcc.envs.files import atomic_write_text, read_text


def insert(page: Path, mark: str, table: str) -> None:
    """Replace what stands between `<!-- MARK -->` and `<!-- end of MARK -->`. Raises ValueError without these."""
    begin, end = f"<!-- {mark} -->", f"<!-- end of {mark} -->"
    before, found, rest = read_text(page).partition(begin)
    _, closed, after = rest.partition(end)
    if not (found and closed):
        raise ValueError(f"{page}: no {begin} and {end}")
    atomic_write_text(page, f"{before}{begin}\n{table.strip()}\n{end}{after}")
    print(page)
