"""docs/ablations.md: its tables have the variants of the benchmark, and the pictures are drawn from them."""

import re
from pathlib import Path

from benches import policy_ablations as ablations

PAGE = Path(__file__).parents[2] / "docs" / "ablations.md"


def test_the_tables_have_every_variant_and_every_column() -> None:
    heads, rows = ablations.table(PAGE, "perigee")
    assert heads == [
        f"{c.suite}, {ablations.HEADS[s]}" for s, c in zip(ablations.SHOWN, ablations.COLUMNS, strict=True)
    ]
    labels = [variant.label for variant in ablations.VARIANTS["perigee"].values()]
    assert list(rows) == labels
    assert all(cell.low - 0.005 <= cell.mean <= cell.high + 0.005 for cells in rows.values() for cell in cells)
    _, _, settings = PAGE.read_text(encoding="utf-8").partition("| variant | setting |\n|---|---|\n")
    assert re.findall(r"^\| ([^|]+) \|", settings.partition("\n\n")[0], re.MULTILINE) == labels


def test_the_variants_of_zenith_are_known() -> None:
    heads, rows = ablations.table(PAGE, "zenith")
    assert heads == ablations.table(PAGE, "perigee")[0]
    known = [variant.label for variant in ablations.VARIANTS["zenith"].values()]
    assert [label for label in known if label in rows] == list(rows)
    assert [next(iter(rows)), list(rows)[-1]] == [known[0], known[-1]]
    assert all(cell.low - 0.005 <= cell.mean <= cell.high + 0.005 for cells in rows.values() for cell in cells)


def test_the_picture_is_drawn_from_the_page(tmp_path: Path) -> None:
    heads = "| variant | inter-rtt, goodput ratio | extremes, delay inflation |\n|---|---|---|"
    rows = "| base | 0.840 (0.71–0.91) | 1.064 (1.05–1.07) |\n| other | 0.765 (0.76–0.78) | 1.072 (1.05–1.08) |"
    page = tmp_path / "page.md"
    page.write_text(f"<!-- zenith-ablations -->\n{heads}\n{rows}\n<!-- /zenith-ablations -->\n", encoding="utf-8")
    (tmp_path / "images").mkdir()
    assert ablations.table(page, "zenith")[1]["other"][0] == (0.765, 0.76, 0.78)
    assert ablations.draw(page, "zenith").stat().st_size > 1000
