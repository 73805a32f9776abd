"""The reports in a real browser: no errors, and a table that sorts. `.ci/run` installs Chromium where it can."""

import re
import shutil
import subprocess

import pytest

from orbitcc.eval import claims, papers
from orbitcc.eval.report import write_report
from orbitcc.eval.report.paper import write_paper_report

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="Chromium is not installed: `make system` brings it, `.ci/run` calls it"
)

SORT = """<script>
const head = document.querySelectorAll("table.sortable th[scope=col]")[1];
const column = () => [...document.querySelectorAll("table.sortable tbody")][0].rows;
head.click();
const up = [...column()].map((row) => row.cells[1].dataset.value).join(" ");
head.click();
const down = [...column()].map((row) => row.cells[1].dataset.value).join(" ");
document.title = `up ${up} down ${down}`;
</script>"""


def opened(page, tmp_path):
    """The DOM after loading, and what the console said."""
    done = subprocess.run(
        [
            CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}",
            "--enable-logging=stderr", "--virtual-time-budget=3000", "--dump-dom", page.as_uri(),
        ],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    return done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line]


def test_a_suites_report_opens_without_errors(results, tmp_path):
    dom, console = opened(write_report(results), tmp_path)
    assert console == []
    assert "<h1>Responsiveness on a LEO path</h1>" in dom


def test_a_papers_tables_sort(tmp_path):
    paper = papers.Paper(
        "small", "A small paper", "nobody", {"rate-step": ("bbr3", "reno", "cubic")},
        [c for c in claims.load("leo") if c.key == "F20"], [papers.Score("Regain", "rate-step", "regain_s")],
    )  # fmt: skip
    all_results = papers.run_paper(paper, [], out_dir=tmp_path, profile="quick", workers=1, done=write_report)
    page = write_paper_report(paper, all_results, papers.judge(paper, all_results), tmp_path, "orbitcc reproduce small")
    clicked = tmp_path / "clicked.html"
    clicked.write_text(page.read_text(encoding="utf-8").replace("</body>", SORT + "</body>"))
    dom, console = opened(clicked, tmp_path)
    assert console == []
    title = re.search(r"<title>up (.*) down (.*)</title>", dom)
    up, down = ([float(x) for x in part.split()] for part in title.groups())
    assert len(up) == 3
    assert up == sorted(up)
    assert down == sorted(down, reverse=True)
