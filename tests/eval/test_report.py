"""The report: one valid file that needs nothing else, with numbers and pictures that are there."""

import base64
import dataclasses
import io
import re
from html.parser import HTMLParser

import matplotlib.image
import numpy as np
import pytest

from orbitcc.commands.eval_ import print_table
from orbitcc.envs import scenarios
from orbitcc.envs.description.flows import Flow
from orbitcc.eval import contenders, suites
from orbitcc.eval.front import front, idle, unused
from orbitcc.eval.report import about, leaders, pairs, write_report

VOID = {"meta", "img", "source", "br", "hr", "link", "input"}


class Page(HTMLParser):
    """Checks nesting, collects attributes and text."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict]] = []
        self.text = ""

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


@pytest.fixture(scope="module")
def page(results):
    path = write_report(results, ["a note <with> signs"])
    parsed = Page()
    parsed.raw = path.read_text(encoding="utf-8")
    parsed.feed(parsed.raw)
    return parsed


def test_every_tag_is_closed(page):
    assert page.open == []
    assert [tag for tag, _ in page.tags].count("h1") == 1


def test_the_page_needs_nothing_from_outside(page):
    text = re.sub(r"data:image/png;base64,[A-Za-z0-9+/=]+", "", page.raw)
    assert len(text) < 50_000  # all that is left when the pictures are out
    assert not re.search(r"https?:|//[a-z]|@import|url\(", text)
    for tag, attributes in page.tags:
        assert tag not in {"script", "link", "iframe"}
        for name in ("src", "srcset", "href"):
            if name in attributes:
                assert attributes[name].startswith("data:image/png;base64,")


def test_pictures_decode_and_show_something(page):
    sources = [a["src"] for tag, a in page.tags if tag == "img"] + [a["srcset"] for t, a in page.tags if t == "source"]
    assert len(sources) >= 6  # distribution, sending rate, two runs: light and dark
    for source in sources:
        picture = matplotlib.image.imread(io.BytesIO(base64.b64decode(source.split(",", 1)[1])), format="png")
        assert min(picture.shape[:2]) > 400
        assert picture[..., :3].std() > 0.02


def test_dark_pictures_are_dark_and_light_ones_light(page):
    for tag, key, dark in (("img", "src", False), ("source", "srcset", True)):
        for _, attributes in (t for t in page.tags if t[0] == tag):
            data = base64.b64decode(attributes[key].split(",", 1)[1])
            brightness = float(np.median(matplotlib.image.imread(io.BytesIO(data), format="png")[..., :3]))
            assert (brightness < 0.3) == dark


def test_pictures_have_alternative_texts(page):
    assert all(a.get("alt") for tag, a in page.tags if tag == "img")


def test_numbers_in_the_table_are_the_all_results(page, results):
    estimates = results.estimates()
    for label, own in estimates.items():
        assert label in page.text
        for metric in results.suite.metrics:
            assert metric.format(own[metric.key].median) in page.text


def test_the_page_says_how_it_was_made(page, results):
    assert "orbitcc eval responsiveness --runs 3" in page.text
    assert results.version in page.text


def test_notes_are_shown_as_text(page):
    assert "a note <with> signs" in page.text
    assert page.text.index("a note <with> signs") < page.text.index("Medians over")


def test_it_reads_on_a_phone_and_in_the_dark(page):
    assert any(a.get("name") == "viewport" for tag, a in page.tags if tag == "meta")
    assert "prefers-color-scheme: dark" in page.raw


def test_few_runs_crown_nobody(page, results):
    assert "Fewer than 6 runs" in page.text
    assert "too few runs" in page.text
    assert all(leaders(results, metric) == [] for metric in results.suite.metrics)
    assert "nan" not in page.text
    assert not any("range" in attributes.get("class", "") for _, attributes in page.tags)


def written(made, tmp_path):
    """The text of the report of these results, and its classes with the text of each."""
    path = write_report(dataclasses.replace(made, out_dir=tmp_path))
    raw = path.read_text(encoding="utf-8")
    parsed = Page()
    parsed.feed(raw)
    return parsed.text, raw


def test_six_runs_have_intervals_and_table_and_words_name_the_same_as_best(results, tmp_path):
    rows = {"cubic": 0.9, "reno": 0.9, "vegas": 0.85}
    made = made_of(results, {label: (goodput, 1.2, 0.01) for label, goodput in rows.items()}, runs=6)
    text, raw = written(made, tmp_path)
    assert "cubic and reno are tied best at about 0.900" in text
    cells = re.findall(r"<tr><th scope=row[^>]*>.*?</tr>", raw)[:3]
    assert ["tied best" in cell.split("Delay")[0] for cell in cells] == [True, True, False]
    assert "0.900 – 0.900" in text


def test_the_first_is_nobody_whom_another_beats_run_by_run(results):
    # reno has the lower median, and beats cubic in 7 of 8 runs
    goodputs = {"cubic": [0.3] * 4 + [0.7] * 4, "reno": [0.32] * 4 + [0.45, 0.72, 0.72, 0.72]}
    made = made_of(results, {"cubic": (0.5, 1.0, 0.0), "reno": (0.5, 1.0, 0.0)})
    for row in made.rows:
        row["metrics"]["goodput_over_optimal"] = goodputs[row["contender"]][row["seed"]]
    metric = made.suite.metrics[0]
    assert leaders(made, metric) == ["reno"]
    assert made.differences()["reno"][metric.key].low > 0


def test_a_fair_contender_that_leaves_a_fifth_of_the_link_unused_has_a_mark(results, tmp_path, capsys):
    suite = suites.get("intra-rtt")
    shares = {"cubic": (0.7, 0.95), "vegas": (0.99, 0.4)}
    rows = [
        {
            "scenario": str(point["base_rtt_ms"]), "point": dict(point), "contender": label, "seed": seed,
            "metrics": {"goodput_ratio": ratio, "goodput_share": share},
        }
        for label, (ratio, share) in shares.items() for point in suite.points("quick") for seed in range(1, 4)
    ]  # fmt: skip
    made = dataclasses.replace(
        results, suite=suite, contenders=contenders.line_up(list(shares), []), runs=3, rows=rows, profile="quick"
    )
    assert unused(made) == {"vegas": 0.4}
    text, raw = written(made, tmp_path)
    assert "vegas (uses 40 % of the link) is best with 0.990" in text
    assert raw.count('<span class="idle">uses 40 % of the link</span>') == 1
    print_table(made)
    shown = capsys.readouterr().out
    assert "0.990*" in shown
    assert "* uses less than 80 % of the link" in shown


def test_the_page_says_which_conditions_were_run(results):
    suite = suites.get("intra-rtt")
    quick, full = (dataclasses.replace(results, suite=suite, profile=profile) for profile in ("quick", "full"))
    assert about(quick).startswith("Conditions of this evaluation: base_rtt_ms 40, 120. The suite as a whole: ")
    assert about(full) == suite.description
    fixed = dataclasses.replace(results, suite=suites.get("intra-rtt", {"base_rtt_ms": 80}), profile="full")
    assert about(fixed).startswith("Conditions of this evaluation: base_rtt_ms 80. ")
    assert pairs(quick) == "3 runs per contender under each of 2 conditions, 6 in all"


def test_each_scenario_of_a_folder_has_rows_and_its_name(results, tmp_path, capsys):
    for name, rtt_ms in (("far", 90), ("near", 20)):
        scenario = scenarios.get("dumbbell", base_rtt_ms=rtt_ms, duration_s=1).with_flows(
            [Flow(controller="contender")]
        )
        scenario.save(tmp_path / f"{name}.toml")
    suite = suites.get(str(tmp_path))
    values = {"far": 0.3, "near": 0.9}
    rows = [
        {
            "suite": "worlds", "scenario": name, "point": {"world": name}, "contender": contender.key, "seed": 1,
            "metrics": {metric.key: value for metric in suite.metrics},
        }
        for contender in results.contenders for name, value in values.items()
    ]  # fmt: skip
    made = dataclasses.replace(results, suite=suite, rows=rows, runs=1, out_dir=tmp_path)
    print_table(made)
    out = capsys.readouterr().out
    table = out[out.index("far.toml") :]
    assert (table.index("0.300*") if "0.300*" in table else table.index("0.300")) < table.index("near.toml")
    assert table.index("near.toml") < table.index("0.900")
    assert "0.600" in out[: out.index("far.toml")]
    assert "without the first 10 s of the flow" in " ".join(out.split())
    assert about(made).startswith("Conditions of this evaluation: far.toml, near.toml. ")
    page = write_report(made).read_text(encoding="utf-8")
    each = page[page.index("<h2>Each scenario</h2>") :]
    assert each.index("<h3>far.toml</h3>") < each.index("0.300") < each.index("<h3>near.toml</h3>")
    assert "without the first 10 s of the flow" in page
    assert "<code>figures/</code> (these pictures).</p>" in page  # and no series/, where there is none


def test_who_is_best_has_a_mark_in_the_table_of_each_scenario(results, tmp_path):
    for name, rtt_ms in (("far", 90), ("near", 20)):
        scenarios.get("dumbbell", base_rtt_ms=rtt_ms, duration_s=1).with_flows([Flow(controller="contender")]).save(
            tmp_path / f"{name}.toml"
        )
    suite = suites.get(str(tmp_path))
    values = {("cubic", "far"): 0.95, ("reno", "far"): 0.9, ("cubic", "near"): 0.9, ("reno", "near"): 0.95}
    rows = [
        {
            "suite": "worlds", "scenario": name, "point": {"world": name}, "contender": label, "seed": seed,
            "metrics": {metric.key: value for metric in suite.metrics},
        }
        for (label, name), value in values.items() for seed in range(6)
    ]  # fmt: skip
    line_up = contenders.line_up(["cubic", "reno"], [])
    made = dataclasses.replace(results, suite=suite, contenders=line_up, rows=rows, runs=6, out_dir=tmp_path)
    page = write_report(made).read_text(encoding="utf-8")
    far, near = re.findall(r"<h3>\w+.toml</h3>.*?</table>", page, re.DOTALL)
    for table, best in ((far, 0), (near, 1)):
        cells = re.findall(r"<tr><th scope=row[^>]*>.*?</tr>", table)
        first = [cell.split("data-title")[1] for cell in cells]
        assert ['class="rank">best' in cell for cell in first] == [k == best for k in range(2)]


def test_backticks_in_the_words_of_a_suite_are_code(results, tmp_path):
    suite = suites.get("responsiveness-loss")
    assert "`responsiveness`" in suite.description
    _, raw = written(dataclasses.replace(results, suite=suite), tmp_path)
    assert "As <code>responsiveness</code>, with" in raw
    assert "`" not in raw.partition("</style>")[2]


@pytest.mark.parametrize("name", ["constellation-sharing", "responsiveness-shown", "geo-pep"])
def test_tables_on_the_terminal_fit_80_columns_and_show_every_figure_whole(results, name, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    suite = suites.get(name)
    line_up = contenders.line_up(["cubic", "leocc:trigger=global"], [])
    rows = [
        {
            "scenario": str(k), "point": dict(point), "contender": contender.key, "seed": seed,
            "metrics": {m.key: 0.123456 + 100 * seed for m in suite.metrics},
        }
        for contender in line_up for k, point in enumerate(suite.points("quick")) for seed in range(1, 8)
    ]  # fmt: skip
    made = dataclasses.replace(results, suite=suite, contenders=line_up, runs=7, rows=rows, profile="quick")
    print_table(made)
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 80
    assert "…" not in out
    for metric in suite.metrics:
        estimate = made.estimates()["cubic"][metric.key]
        assert f"{metric.format(estimate.low)} – {metric.format(estimate.high)}" in out


def test_the_best_median_leads_together_with_those_it_cannot_be_told_from(results):
    def row(contender, seed, goodput):
        return {
            "scenario": "s",
            "point": {},
            "contender": contender,
            "seed": seed,
            "metrics": {"goodput_over_optimal": goodput},
        }

    line_up = contenders.line_up(["cubic", "reno", "cubic:hystart=off"], [])
    rows = []
    for seed in range(8):
        path = 0.5 + 0.05 * seed  # some schedules are harder, for all alike
        rows += [row("cubic", seed, path), row("reno", seed, path - 0.02)]
        rows.append(row("cubic:hystart=off", seed, path + 0.001 * (-1) ** seed))
    made = dataclasses.replace(results, contenders=line_up, runs=8, rows=rows)
    first = leaders(made, results.suite.metrics[0])
    assert set(first) == {"cubic", "cubic:hystart=off"}


def made_of(results, medians, runs=8):
    """The results of runs with these goodputs, inflations and losses by label."""
    rows = [
        {
            "scenario": "s",
            "point": {},
            "contender": label,
            "seed": seed,
            "metrics": {"goodput_over_optimal": g, "delay_inflation": d, "retransmission_rate": r},
        }
        for label, (g, d, r) in medians.items()
        for seed in range(runs)
    ]
    return dataclasses.replace(results, contenders=contenders.line_up(list(medians), []), runs=runs, rows=rows)


def test_who_lacks_a_value_in_a_run_is_best_at_nothing_and_named(results, tmp_path, capsys):
    made = made_of(results, {"cubic": (0.95, 1.1, 0.0), "reno": (0.9, 1.2, 0.01), "vegas": (0.85, 1.3, 0.02)})
    for row in made.rows:
        if row["contender"] == "cubic" and row["seed"] >= 6:
            row["metrics"]["delay_inflation"] = None
    goodput, delay, _ = made.suite.metrics
    assert (leaders(made, goodput), leaders(made, delay)) == (["cubic"], ["reno"])
    assert front(made) == ["reno"]
    says = f"{delay.title}: cubic has a value in 6 of 8 runs"
    assert says in written(made, tmp_path)[0]
    print_table(made)
    assert says in " ".join(capsys.readouterr().out.split())
    alone = dataclasses.replace(made, contenders=made.contenders[:1])
    assert alone.gaps("delay_inflation") == {"cubic": (6, 8)}
    for row in made.rows:
        row["metrics"]["delay_inflation"] = None if row["seed"] >= 6 else 1.0
    assert made.gaps("delay_inflation") == {}, "nobody has a value there"


def test_who_leaves_the_link_idle_is_best_at_nothing_but_may_be_on_the_front(results):
    made = made_of(results, {"vegas": (0.3, 1.0, 0.0), "cubic": (0.9, 1.5, 0.01), "reno": (0.85, 1.6, 0.02)})
    _, delay, loss = made.suite.metrics
    assert leaders(made, delay) == ["cubic"]
    assert leaders(made, loss) == ["cubic"]
    assert front(made) == ["vegas", "cubic"]
    assert idle(made) == {"vegas"}


def test_nobody_is_on_the_front_who_is_beaten_or_of_whom_too_little_is_known(results):
    made = made_of(results, {"bbr3": (0.9, 1.1, 0.0), "cubic": (0.8, 1.5, 0.0), "reno": (0.9, 1.6, 0.0)})
    assert front(made) == ["bbr3"]
    assert front(dataclasses.replace(made, rows=made.rows[::2])) == []


def test_the_page_leads_with_goodput_against_delay(page):
    assert page.text.index("Goodput against delay") < page.text.index("Medians over")


@pytest.mark.parametrize("label", ["<script>alert(1)</script>", "$x_{$", "[/x]", "\x1b[2J", "=cmd()"])
def test_a_hostile_name_is_a_name_in_report_and_table(label, results, tmp_path, capsys):
    named = [dataclasses.replace(results.contenders[0], label=label), *results.contenders[1:]]
    shown = dataclasses.replace(results, contenders=named, out_dir=tmp_path)
    page = write_report(shown).read_text(encoding="utf-8")
    assert "<script>alert" not in page
    print_table(shown)
    assert "\x1b" not in capsys.readouterr().out
