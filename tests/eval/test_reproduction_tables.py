"""The tables that benches write into the documents."""

import re
from pathlib import Path

import pytest

from benches.pages import replace
from orbitcc.common.errors import FileError
from orbitcc.eval import papers


def test_only_what_stands_between_the_marks_is_replaced(tmp_path):
    document = tmp_path / "page.md"
    document.write_text("before\n<!-- leo -->\nold\n<!-- /leo -->\nafter\n")
    replace(document, {"leo": "new"})
    assert document.read_text(encoding="utf-8") == "before\n<!-- leo -->\nnew\n<!-- /leo -->\nafter\n"


@pytest.mark.parametrize("text", ["no marks\n", "<!-- leo -->\nnever closed\n", "<!-- /leo --> <!-- leo -->\n"])
def test_a_document_without_marks_stays_as_it_is(text, tmp_path):
    document = tmp_path / "page.md"
    document.write_text(text)
    with pytest.raises(FileError, match="a document with <!-- leo -->"):
        replace(document, {"leo": "new"})
    assert document.read_text(encoding="utf-8") == text


def test_the_page_has_the_marks_that_the_command_fills():
    text = (Path(__file__).parents[2] / "docs" / "reproduction.md").read_text(encoding="utf-8")
    for mark in ("leo", "geo", "c4", "leo-medians"):
        assert text.count(f"<!-- {mark} -->") == text.count(f"<!-- /{mark} -->") == 1


def test_the_page_has_every_claim_with_its_criterion_or_why_nobody_can_decide_it():
    text = (Path(__file__).parents[2] / "docs" / "reproduction.md").read_text(encoding="utf-8")
    (closed,) = re.findall(r"^- (G01a, .*): PCC is closed source", text, re.MULTILINE)
    for paper in papers.PAPERS.values():
        for claim in paper.claims:
            if claim.key in closed.split(", "):
                assert "vivace" in claim.expected
                continue
            row = f"| {claim.key} | {claim.said} | {claim.expected} |"
            assert text.count(f"\n{row}") == 1, row


def test_the_counts_in_the_text_are_those_of_the_tables():
    root = Path(__file__).parents[2]
    page = (root / "docs/reproduction.md").read_text(encoding="utf-8")
    for paper, title in (("leo", "LEO paper"), ("geo", "GEO papers")):
        counted = r"(\d+) independent: (\d+) hold, (\d+) fail, (\d+) within noise(?:; (\d+) calibrated: (\d+) hold)?"
        n, hold, fail, noise, calibrated, fit = re.search(rf"<!-- {paper} -->\n{counted}", page).groups()
        some = f"{noise} {'is' if noise == '1' else 'are'} within noise"
        said = f"{hold} of {n} claims of the {title} hold, {fail} fail and {some}"
        assert said in " ".join(page.split()), said
        assert calibrated is None or f"{fit} of {calibrated} calibrated" in " ".join(page.split())
