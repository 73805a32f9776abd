"""The leaderboard: page and table agree, its origin is stated, and the comparison says what it claims."""

import datetime
import json
import re
import shutil
import subprocess
import sys
from dataclasses import replace
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
from orbitcc.envs.orbits.trace_set import opened
from orbitcc.eval import suites
from tests.envs import trace_folders

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
        self.skipped = tag in ("sup", "small")

    def handle_endtag(self, tag):
        self.open = self.open and tag not in ("th", "td")
        self.skipped = self.skipped and tag not in ("sup", "small")

    def handle_data(self, data):
        if self.open and not self.skipped:
            self.tables[-1][1][-1][-1] += data.rstrip()


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
    for columns, rows in (table for table in Tables(text).tables if table[0]):
        suites_shown = {column.partition("/")[0] for column in columns}
        front = {name for suite in suites_shown for name, n in beaten[suite].items() if n == 0}
        named = {row[0].removesuffix(" ◆") for row in rows[2:]}
        assert named == front | {"cubic", pages.KNOWING}
        for name, _, *cells in rows[2:]:
            for column, cell in zip(columns, cells, strict=True):
                value = known["oracle" if name == pages.KNOWING else name.removesuffix(" ◆"), column]
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
    text = pages.page_text({suite: rows}, {}, STAMP)
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


def test_the_share_of_the_possible_is_a_ratio_in_the_better_direction():
    # Goodput / optimal, delay inflation, retransmission rate; by hand: 0.9 / 0.95, 1.02 / 1.5, 0.002 / 0.001.
    knowing = list(board("responsiveness", oracle=(0.95, 1.02, 0.002))["oracle"].values())
    possible = boards.possible_of(knowing)
    rows = board("responsiveness", a=(0.9, 1.5, 0.001), b=(0.96, 1.0, 0.0), c=(float("nan"),) * 3)
    got = {name: [boards.share(e, possible) for e in cells.values()] for name, cells in rows.items()}
    assert got["a"] == pytest.approx([0.947368, 0.68, 2.0], abs=1e-6)
    assert got["b"][:2] == pytest.approx([1.010526, 1.02], abs=1e-6), "better than the oracle: above 1"
    assert np.isnan([got["b"][2], *got["c"]]).all(), "nothing divided by 0, nothing of what is missing"
    assert [boards.share(e, possible) for e in knowing] == [1.0, 1.0, 1.0]


def test_there_is_no_share_of_a_target_of_nothing_or_without_an_oracle():
    def shares(suite, values, of):
        possible = boards.possible_of(board(suite, oracle=of)["oracle"].values())
        return [boards.share(e, possible) for e in board(suite, a=values)["a"].values()]

    ratio, own, total = shares("cubic-friendliness", (0.4, 0.3, 0.9), (0.5, 0.5, 0.9))
    assert (ratio, total) == pytest.approx((0.8, 1.0))
    assert np.isnan(own), "0.5 is the target of the own share"
    assert np.isnan(shares("delay-jump", (1.0, 0.9, 1.1), (0.0, 0.95, 1.0))[0]), "the oracle recovers in 0 s"
    assert np.isnan(boards.share(entry("a", "responsiveness", "goodput_over_optimal", 0.9), {}))
    jain = {"efficiency": {"jain": entry("oracle", "efficiency", "jain", 1.0)}}
    assert np.isnan(boards.share(entry("a", "efficiency", "jain", 0.9), jain)), "nobody is compared by it here"


def knowing_board():
    """Medians of a suite, and what the page says of them."""
    rows = board(
        "extremes", bbr=(0.9, 1.2, 0.01), cubic=(0.96, 1.5, 0.02), vegas=(0.2, 1.0, 0.0), zenith=(0.93, 1.1, 0.0)
    )
    rows |= board("extremes", oracle=(0.95, 1.05, 0.0))
    return [e for cells in rows.values() for e in cells.values()]


def test_the_oracle_is_neither_ranked_nor_on_a_front():
    entries = knowing_board()
    ranked = boards.board_of(entries)
    assert "oracle" not in ranked["extremes"]
    assert boards.beaten_by(ranked["extremes"], "extremes") == {"bbr": 1, "cubic": 0, "vegas": 3, "zenith": 0}
    text = pages.page_text(ranked, boards.possible_of(entries), STAMP)
    assert "4 contenders in 1 experiments" in text
    assert "on the Pareto front: cubic, zenith]" in text
    overview, _ = Tables(text).tables
    assert [row[0] for row in overview[1][1:]] == ["cubic", "zenith ◆", "bbr", "vegas"]


def test_the_page_shows_goodput_and_delay_as_shares_of_the_possible():
    entries = knowing_board()
    text = pages.page_text(boards.board_of(entries), boards.possible_of(entries), STAMP)
    row = next(line for line in text.splitlines() if "<code>extremes</code>" in line)  # the only suite of its question
    # Vegas, with 0.2 of the link, is not the best in delay. 0.96 / 0.95, 0.93 / 0.95, 1.05 / 1.2, 1.05 / 1.1.
    assert re.findall(r"<td[^>]*>(.*?)</td>", row) == [
        "0.950", "cubic 0.960 <small>(1.01)</small>", "0.930 <small>(0.98)</small>",
        "1.05×", "bbr 1.20× <small>(0.88)</small>", "1.10× <small>(0.95)</small>",
    ]  # fmt: skip
    alone = pages.page_text(boards.board_of(entries), {}, STAMP)
    assert "Share of the possible" not in alone
    assert "<small>" not in alone


def test_the_oracle_is_the_first_row_of_a_table():
    rows = board("responsiveness", cubic=(0.9, 1.5, 0.01), oracle=(0.95, 1.0, 0.0))
    entries = [e for cells in rows.values() for e in cells.values()]
    text = pages.page_text(boards.board_of(entries), boards.possible_of(entries), STAMP)
    _, (_, _, first, second) = next(table for table in Tables(text).tables if table[0])
    assert first == ["oracle (knows rate, RTT and rivals)", "–", "0.950", "1.00", "0.00"]
    assert second == ["cubic", "0.0", "0.900", "1.50", "1.00"]
    assert "0.900</b> <small>(0.95)</small>" in text


def test_shares_are_in_the_table_and_follow_from_it(tmp_path, entries):
    table = tmp_path / "a.csv"
    table.write_text(boards.csv_text(knowing_board()), encoding="utf-8")
    lines = table.read_text(encoding="utf-8").splitlines()
    assert lines[0].endswith(",runs,share_of_the_possible")
    assert "bbr,extremes,utilisation,0.9,0.9,0.9,2,0.9474" in lines
    assert "zenith,extremes,retransmission_rate,0,0,0,2," in lines
    assert boards.read_csv(table) == knowing_board()
    assert boards.table_of(PAGE).read_text(encoding="utf-8") == boards.csv_text(entries)


def test_rows_that_are_added_stand_behind_their_suites_in_the_place_of_earlier_ones():
    given = [
        entry(who, suite, "goodput_ratio", 0.5) for suite in ("inter-rtt", "intra-rtt") for who in ("bbr", "oracle")
    ]
    new = [entry("oracle", suite, "goodput_ratio", 0.9) for suite in ("geo-sharing", "inter-rtt")]
    found = boards.with_rows(given, new)
    assert [(e.contender, e.suite, e.median) for e in found] == [
        ("bbr", "inter-rtt", 0.5), ("oracle", "inter-rtt", 0.9),
        ("bbr", "intra-rtt", 0.5), ("oracle", "intra-rtt", 0.5),
    ]  # fmt: skip


def test_a_page_says_where_later_figures_come_from():
    later = replace(STAMP, later="oracle " + replace(STAMP, date="2026-12-01", version="0.2.0+sim.89abcdef").made)
    text = pages.page_text({"inter-rtt": board("inter-rtt", cubic=(0.5, 0.9))}, {}, later)
    assert (
        "; those of oracle on 2026-12-01 from commit `0123456789ab` with simulator version `0.2.0+sim.89abcdef`.\n"
        in text
    )
    assert origin.STATED.search(text)["later"] == later.later
    plain = pages.page_text({"inter-rtt": board("inter-rtt", cubic=(0.5, 0.9))}, {}, STAMP)
    assert origin.STATED.search(plain)["later"] is None


def test_notes_of_later_runs_add_up():
    once = STAMP.with_later(["oracle", "bbr"], "on 2026-12-01 from commit A")
    twice = once.with_later(["cubic"], "on 2026-12-02 from commit B")
    again = twice.with_later(["bbr"], "on 2026-12-03 from commit C")
    assert twice.later == "oracle, bbr on 2026-12-01 from commit A; those of cubic on 2026-12-02 from commit B"
    assert again.later == (
        "oracle on 2026-12-01 from commit A; those of cubic on 2026-12-02 from commit B; "
        "those of bbr on 2026-12-03 from commit C"
    )
    assert twice.with_later(["oracle", "bbr", "cubic"], "now").later == "oracle, bbr, cubic now"


def test_what_cannot_be_run_again_is_said_in_a_line(tmp_path, capsys):
    with pytest.raises(SystemExit, match="it must be a page"):
        main([str(tmp_path), "--again", str(tmp_path / "missing.md")])
    with pytest.raises(SystemExit):
        main([str(tmp_path), "--again", str(PAGE), "--profile", "full"])
    assert "--profile is that of the page with --again" in capsys.readouterr().err
    for name in ("nosuch", "os:system"):
        with pytest.raises(SystemExit, match=f"--only: .*{name}"):
            main([str(tmp_path), "--again", str(PAGE), "--only", name])


def test_later_figures_are_made_as_the_page_was(tmp_path):
    page = tmp_path / "leaderboard.md"
    entries = [
        e for cells in board("delay-jump", bbr=(0.5, 0.93, 1.1), cubic=(8.0, 0.9, 1.3)).values() for e in cells.values()
    ]
    command = "python -m benches.leaderboard results --suites delay-jump --first-run 7 \\\n    --page leaderboard.md"
    stamp = replace(STAMP, command=command)
    page.write_text(pages.page_text(boards.board_of(entries), {}, stamp), encoding="utf-8")
    boards.table_of(page).write_text(boards.csv_text(entries), encoding="utf-8")
    main([str(tmp_path / "results"), "--again", str(page), "--only", "bbr", "oracle", "--workers", "1"])
    row, _ = (tmp_path / "results" / "delay-jump" / "runs.jsonl").read_text(encoding="utf-8").splitlines()
    assert json.loads(row)["seed"] == 7
    after = origin.stated(page)
    assert replace(after, later="") == stamp
    assert after.later.startswith(f"bbr, oracle on {datetime.date.today().isoformat()} from commit ")
    found = boards.read_csv(boards.table_of(page))
    keys = ("regain_s", "goodput_after", "delay_inflation")
    assert [(e.contender, e.metric) for e in found] == [
        (who, key) for who in ("cubic", "bbr", "oracle") for key in keys
    ]
    assert found[:3] == [e for e in entries if e.contender == "cubic"]
    assert found[3] != entries[0], "a figure of bbr that was run again"
    assert found[-2].median == pytest.approx(1448 / 1514, abs=0.005)
    text = page.read_text(encoding="utf-8")
    assert "<code>delay-jump</code>" in text
    main(["--redraw", str(page)])
    assert page.read_text(encoding="utf-8") == text


def test_a_page_states_its_trace_set_and_no_other_is_mixed_with_it(tmp_path, monkeypatch):
    monkeypatch.setattr("benches.leaderboard.__main__.controllers.names", lambda _: ["cubic", "bbr"])
    monkeypatch.setattr("benches.leaderboard.__main__.VARIANTS", ())
    monkeypatch.setattr("benches.leaderboard.__main__.checkpoint.shipped", list)
    page, held = tmp_path / "page.md", opened(trace_folders.shared()).digest
    main([str(tmp_path / "results"), "--suites", "--traces", str(trace_folders.shared()), "--page", str(page)])
    text = page.read_text(encoding="utf-8")
    assert f"--digest {held}\n" in text
    page.write_text(text.replace(f"--digest {held}", "--digest 0123456789abcdef"), encoding="utf-8")
    with pytest.raises(SystemExit, match=f"has the digest {held}; it must be the same set"):
        main([str(tmp_path / "again"), "--again", str(page), "--only", "bbr"])
    assert not (tmp_path / "again").exists()


def test_nothing_is_added_to_a_page_that_does_not_say_how_it_was_made(tmp_path):
    page = tmp_path / "leaderboard.md"
    page.write_text("# Leaderboard\n")
    with pytest.raises(SystemExit, match="does not state its commit and version"):
        main([str(tmp_path / "results"), "--again", str(page)])
    assert not (tmp_path / "results").exists()


def test_later_figures_need_a_folder_for_their_results(capsys):
    with pytest.raises(SystemExit):
        main(["--again", str(PAGE)])
    assert "name the folder of the results" in capsys.readouterr().err


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
    page.write_text(pages.page_text({"inter-rtt": rows}, {}, stamp), encoding="utf-8")
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
    text = pages.page_text(board, {}, STAMP)
    assert "## Does it work on measured paths?" in text
    assert "`traces` (6 runs)" in text
