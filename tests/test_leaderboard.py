"""The leaderboard: page and table agree, its origin is stated, and the comparison says what it claims."""

import datetime
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from benches import labels
from benches.leaderboard import board as boards
from benches.leaderboard import origin
from benches.leaderboard import page as pages
from benches.leaderboard.__main__ import main
from benches.leaderboard.board import Entry
from orbitcc.eval import suites

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "leaderboard.md"
STAMP = origin.Stamp("2026-11-23", "`0123456789ab`", "0.1.0+sim.01234567", "quick", "python -m benches.leaderboard")


class Tables(HTMLParser):
    """The tables of a page: the metrics of the columns, and rows of cells."""

    def __init__(self, text):
        super().__init__()
        self.tables, self.open, self.skipped = [], False, False
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        if tag == "table":
            self.tables.append(([], []))
        if tag == "th" and "data-metric" in dict(attributes):
            self.tables[-1][0].append(dict(attributes)["data-metric"])
        if tag == "tr":
            self.tables[-1][1].append([])
        if tag in ("th", "td"):
            self.tables[-1][1][-1].append("")
            self.open = True
        self.skipped = tag == "sup"

    def handle_endtag(self, tag):
        self.open = self.open and tag not in ("th", "td")
        self.skipped = self.skipped and tag != "sup"

    def handle_data(self, data):
        if self.open and not self.skipped:
            self.tables[-1][1][-1][-1] += data


@pytest.fixture(scope="module")
def text():
    return PAGE.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def entries():
    return boards.read_csv(boards.table_of(PAGE))


def entry(contender, suite, metric, value, runs=2):
    return Entry(contender, suite, metric, value, value, value, runs)


def board(suite, **rows):
    """Contender -> its medians, in the order of the suite's columns."""
    keys = [metric.key for metric in boards.columns(suite)]
    return {
        name.replace("_", "-"): {
            key: entry(name, suite, key, value, 0 if np.isnan(value) else 2)
            for key, value in zip(keys, values, strict=True)
        }
        for name, values in rows.items()
    }


def test_the_page_states_date_commit_and_version():
    stamp = origin.stated(PAGE)
    assert datetime.date.fromisoformat(stamp.date) >= datetime.date(2026, 11, 23)
    assert re.match(r"`[0-9a-f]{12}`( \(uncommitted changes in .+\))?$", stamp.commit)
    assert re.fullmatch(r"\d+\.\d+\.\d+\S*\+sim\.[0-9a-f]{8}", stamp.version)
    assert stamp.command.startswith("python -m benches.leaderboard")
    assert stamp.profile in ("quick", "reduced", "full")


def test_every_figure_of_the_page_is_in_the_table(text, entries):
    known = {(e.contender, f"{e.suite}/{e.metric}"): e.median for e in entries}
    metrics = {f"{suite}/{m.key}": m for suite in boards.suite_names() for m in suites.metrics_of(suite)}
    seen = set()
    beaten = {suite: boards.beaten_by(own, suite) for suite, own in boards.board_of(entries).items()}
    for columns, rows in Tables(text).tables[1:]:
        suites_shown = {column.partition("/")[0] for column in columns}
        front = {name for suite in suites_shown for name, n in beaten[suite].items() if n == 0}
        assert {row[0].removesuffix(" ◆") for row in rows[2:]} == front | {"cubic"}
        for name, _, *cells in rows[2:]:
            for column, cell in zip(columns, cells, strict=True):
                value = known[name.removesuffix(" ◆"), column]
                metric = metrics[column]
                said = "–" if np.isnan(value) else f"{(100 if metric.percent else 1) * value:.{metric.decimals}f}"
                assert cell == said, (name, column)
                seen.add((name, column))
    asked = [question for question in pages.WORDS.questions if question.table]
    expected = {f"{suite}/{metric.key}" for q in asked for suite in q.suites for metric in boards.columns(suite)}
    assert {column for _, column in seen} == expected


def test_the_overview_follows_from_the_table(text, entries):
    board = boards.board_of(entries)
    beaten = {suite: boards.beaten_by(own, suite) for suite, own in board.items()}
    _, (_, *rows) = Tables(text).tables[0]
    for name, _, *cells in rows:
        for question, cell in zip(pages.WORDS.questions, cells, strict=True):
            assert cell == f"{pages.mean_of(question, beaten, name.removesuffix(' ◆')):.1f}", (name, question)


def test_no_nan_is_shown(text, entries):
    assert not re.search(r"\bnan\b", text, re.IGNORECASE)
    assert not re.search(r"\bnan\b", boards.table_of(PAGE).read_text(encoding="utf-8"), re.IGNORECASE)
    assert all(np.isnan(e.median) == (e.runs == 0) for e in entries)


def test_figures_of_the_page_are_there(text):
    pictures = re.findall(r"\]\((images/leaderboard-[a-z0-9-]+\.png)\)", text)
    assert len(pictures) == len(set(pictures)) >= 10
    assert {PAGE.parent / picture for picture in pictures} == set((PAGE.parent / "images").glob("leaderboard*.png"))


def test_a_missing_figure_is_a_dash_with_its_reason():
    suite = "responsiveness"
    rows = board(suite, bbr=(0.5, 1.2, 0.0), cubic=(0.4, float("nan"), 0.0))
    text = pages.page_text({suite: rows}, STAMP)
    assert "<td>–<sup>1</sup></td>" in text
    assert "<sup>1</sup> No run gives this value: no RTT was measured in the evaluated seconds." in text
    assert "nan" not in text.lower().split()
    assert boards.beaten_by(rows, suite) == {"bbr": 0, "cubic": 1}


def test_the_table_keeps_what_it_is_given(tmp_path):
    given = [entry("cubic", "inter-rtt", "goodput_ratio", 0.5), Entry("bbr", "inter-rtt", "x", *[float("nan")] * 3, 0)]
    (tmp_path / "a.csv").write_text(boards.csv_text(given), encoding="utf-8")
    first, second = boards.read_csv(tmp_path / "a.csv")
    assert first == given[0]
    assert np.isnan([second.median, second.low, second.high]).all()


def test_every_suite_belongs_to_one_question():
    asked = [suite for question in pages.WORDS.questions for suite in question.suites]
    assert sorted(asked) == sorted(boards.suite_names())


def test_better_means_as_good_in_all_and_better_in_one():
    # Goodput, delay inflation, retransmission rate.
    rows = board("responsiveness", a=(0.9, 1.1, 0.0), b=(0.85, 1.2, 0.0), c=(0.95, 1.5, 0.0), d=(0.8, 1.6, 0.1))
    assert boards.beaten_by(rows, "responsiveness") == {"a": 0, "b": 1, "c": 0, "d": 3}


def test_differences_that_are_too_small_are_none():
    rows = board("responsiveness", a=(0.900, 1.1, 0.0), b=(0.902, 1.3, 0.0))
    assert boards.beaten_by(rows, "responsiveness") == {"a": 0, "b": 1}


def test_low_delay_on_an_idle_link_is_no_merit():
    rows = board("responsiveness", a=(0.9, 1.5, 0.01), idle=(0.1, 1.0, 0.0), b=(0.89, 2.0, 0.01))
    assert boards.beaten_by(rows, "responsiveness") == {"a": 0, "idle": 2, "b": 1}


def test_a_share_is_best_at_its_ideal():
    # Goodput ratio, own share, goodput of all.
    rows = board("cubic-friendliness", fair=(0.9, 0.5, 0.95), taking=(0.9, 0.9, 0.95), yielding=(0.9, 0.1, 0.95))
    assert boards.beaten_by(rows, "cubic-friendliness") == {"fair": 0, "taking": 1, "yielding": 1}


def test_names_overlap_neither_each_other_nor_points():
    points = 200 + np.array([[3.0 * (i % 4), 3.0 * (i // 4)] for i in range(12)])
    sizes = np.tile([80.0, 14.0], (12, 1))
    box = np.array([0.0, 0.0, 420.0, 360.0])
    middles = labels.place(points, sizes, box)
    assert (middles == labels.place(points, sizes, box)).all()
    low, high = middles - sizes / 2, middles + sizes / 2
    assert (low >= box[:2]).all()
    assert (high <= box[2:]).all()
    apart = (low[:, None] >= high[None] - 1e-9).any(axis=-1) | (low[None] >= high[:, None] - 1e-9).any(axis=-1)
    assert apart[~np.eye(12, dtype=bool)].all()
    assert not ((points[None] > low[:, None]) & (points[None] < high[:, None])).all(axis=-1).any()


def test_the_age_of_the_page_is_told():
    done = subprocess.run([sys.executable, "-m", "benches"], cwd=ROOT, capture_output=True, text=True, check=True)
    told = r".*docs/leaderboard\.md: commit [0-9a-f]{12}, \d{4}-\d\d-\d\d; commits since then .+: (\d+|unknown)"
    assert re.fullmatch(told, done.stdout.splitlines()[-1])


def test_outside_a_checkout_the_age_is_unknown(tmp_path):
    copy = shutil.copy(PAGE, tmp_path)
    assert origin.age(Path(copy)).endswith(": unknown")


@pytest.mark.skipif(
    shutil.which("git") is None,
    reason="it makes a git repository of its own; it runs where git is installed, as on every checkout",
)
def test_the_age_counts_commits_that_changed_what_the_figures_depend_on(tmp_path):
    def change(*paths):
        for path in paths:
            file = tmp_path / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(file.read_text(encoding="utf-8") + "more\n" if file.exists() else "some\n")
        who = ("-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false")
        assert origin.git(tmp_path, "add", ".") is not None
        assert origin.git(tmp_path, *who, "commit", "-q", "-m", "change") is not None

    assert origin.git(tmp_path, "init", "-q") is not None
    change("eval/metrics.py")
    stamp = origin.Stamp(STAMP.date, origin.commit(tmp_path), STAMP.version, "quick", STAMP.command)
    rows = board("inter-rtt", cubic=(0.5, 0.9), bbr=(0.6, 0.9))
    page = tmp_path / "docs" / "leaderboard.md"
    page.parent.mkdir()
    page.write_text(pages.page_text({"inter-rtt": rows}, stamp), encoding="utf-8")
    assert origin.stated(page) == stamp
    change("docs/leaderboard.csv", "benches/leaderboard/board.py")
    assert origin.age(page).endswith(": 0")
    change("README.md")
    assert origin.age(page).endswith(": 0")
    change("eval/suites/geo.py")
    assert origin.age(page).endswith(": 1")
    (tmp_path / "eval" / "metrics.py").write_text("changed\n")
    assert origin.commit(tmp_path).endswith("(uncommitted changes in eval/metrics.py)")


@pytest.mark.slow
def test_the_page_is_made_and_made_again_from_its_table(tmp_path):
    page = tmp_path / "leaderboard.md"
    main([str(tmp_path / "results"), "--suites", "delay-jump", "--page", str(page)])
    text = page.read_text(encoding="utf-8")
    assert "## Does it recover from outages and sudden changes?" in text
    assert "perigee ◆" in text
    assert (tmp_path / "images" / "leaderboard-delay-jump.png").stat().st_size > 3000
    main(["--redraw", str(page)])
    assert page.read_text(encoding="utf-8") == text


def test_a_trace_set_on_the_disk_adds_a_suite_and_a_question():
    """Two contenders on measured paths, one of them better in both metrics."""
    rows = [("cubic", 0.9, 1.8), ("zenith", 0.95, 1.1)]
    entries = [
        boards.Entry(who, "traces", metric, value, value, value, 6)
        for who, goodput, rtt in rows
        for metric, value in (("goodput_share", goodput), ("rtt_over_base", rtt), ("retransmission_rate", 0.0))
    ]
    board = boards.board_of(entries)
    assert pages.on_page(board) == ["traces"]
    assert [axis.key for axis in boards.trade("traces")] == ["goodput_share", "rtt_over_base"]
    assert boards.beaten_by(board["traces"], "traces") == {"cubic": 1, "zenith": 0}
    text = pages.page_text(board, STAMP)
    assert "## Does it work on measured paths?" in text
    assert "`traces` (6 runs)" in text
