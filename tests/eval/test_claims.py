"""Claims: each holds in one world and fails just beyond every one of its limits (claims.toml beside this file)."""

import json
import tomllib
from pathlib import Path

import numpy as np
import pytest

from orbitcc.envs.errors import OrbitccError
from orbitcc.eval import claims, papers, suites
from orbitcc.eval.claims import Evidence
from orbitcc.eval.claims.evidence import t_test
from orbitcc.eval.contenders import Contender
from orbitcc.eval.results import Results
from orbitcc.eval.statistics import pooled

LEO, GEO = claims.load("leo"), claims.load("geo")
CLAIMS = {claim.key: claim for claim in (*LEO, *GEO)}
KNOWN = tomllib.loads(Path(__file__).with_name("claims.toml").read_text(encoding="utf-8"))
SKEWED = -np.log(1 - (np.arange(80) + 0.5) / 80)
SKEWED = (SKEWED - SKEWED.mean()) / SKEWED.std(ddof=1)
SECONDS = (100.0, 50.0, 50.0)


def over_runs(suite, metric, who, value):
    """The values of the runs: the statistic of most claims about the suite has the given value, others have not."""
    if suite == "geo-download":
        mean, sd = value if isinstance(value, list) else (value, 0.05 * value)
        return mean + sd * SKEWED
    if suite in ("hystart", "buffers"):
        return value * np.array([0.9, 0.95, 1.15])  # the mean
    if metric.endswith("_sd"):
        return value * np.ones(3)
    if metric in ("goodput_ratio", "long_ratio"):
        return value * np.array([0.9, 1.15, 1.05] if who == "leocc" else [1.1, 0.9, 0.9])  # the mean over seconds
    return value * np.array([1.0, 1.05, 0.9] if metric == "goodput_share" else [0.9, 1.0, 1.3])  # the median


def chosen(point, where):
    """Whether a point has the levels of a rule such as `base_rtt_ms=20,40; buffer_bdp=1`."""
    levels = {f: f"{x:g}" if isinstance(x, int | float) else x for f, x in point.items()}
    return all(levels[factor] in allowed.split(",") for factor, allowed in (w.split("=") for w in where))


def world(only=None, profile="full", change="", factor=1.0, base=KNOWN["base"]):
    """Suite -> results in the base world, in which the values of one rule are multiplied by a factor."""
    cells = {}
    for table, rules in base.items():
        suite, metric = table.split(" ")
        if only is not None and suite not in only:
            continue
        points = suites.get(suite).points("full")
        for rule, given in rules.items():
            who, *where = rule.split("; ")
            at = [i for i, point in enumerate(points) if chosen(point, where)]
            values = given if isinstance(given, list) and suite != "geo-download" else [given] * len(at)
            for i, value in zip(at, values, strict=True):
                cells.setdefault(suite, {}).setdefault((who, i), {})[metric] = value
    if change:
        rule, *where = change.split("; ")
        suite, metric, who, *part = rule.split(" ")
        for (own, i), values in cells[suite].items():
            if own == who and metric in values and chosen(suites.get(suite).points("full")[i], where):
                old = values[metric]
                new = [old[0], old[1] * factor] if part else [old[0] * factor, old[1]] if isinstance(old, list) else 0
                values[metric] = new or old * factor
    return {suite: results(suite, by_cell, profile) for suite, by_cell in cells.items()}


def results(suite, by_cell, profile="full"):
    """by_cell: (contender, number of the point) -> metric -> value."""
    line_up = [Contender(who, who) for who in dict.fromkeys(who for who, _ in by_cell)]
    points = suites.get(suite).points("full")
    rows = []
    for (who, i), values in by_cell.items():
        samples = {metric: over_runs(suite, metric, who, value) for metric, value in values.items()}
        samples |= {"seconds": np.array(SECONDS)} if any(m.endswith("_sd") for m in values) else {}
        for run in range(len(next(iter(samples.values())))):
            row = {"scenario": str(points[i]), "point": dict(points[i]), "seed": run + 1, "contender": who}
            rows.append({**row, "metrics": {metric: float(x[run]) for metric, x in samples.items()}})
    kept = suites.get(suite).points(profile)
    rows = [row for row in rows if row["point"] in kept]
    return Results(suites.get(suite), line_up, profile, 3, None, "test", rows=rows)


def suites_of(claim):
    return {v.suite for c in (claim, *claim.claims) for v in c.values.values() if v.suite}


def test_every_claim_has_a_world_where_it_holds_and_limits():
    assert list(KNOWN["claims"]) == list(CLAIMS)
    assert len(LEO) == 47
    assert len(GEO) == 73
    assert all(known["limits"] for known in KNOWN["claims"].values())


@pytest.mark.parametrize("key", CLAIMS)
def test_a_claim_holds_on_one_side_of_each_limit_alone(key):
    claim, known = CLAIMS[key], KNOWN["claims"][key]
    assert claim.measure(Evidence(world(suites_of(claim)))) == (known["measured"], True)
    for change, inside, outside, *given in known["limits"]:
        base = dict(KNOWN["base"])
        if given:  # where another limit would be met instead
            table, rule, value = given
            base[table] = {**base[table], rule: value}
        for factor, holds in ((inside, True), (outside, False)):
            evidence = Evidence(world(suites_of(claim), change=change, factor=factor, base=base))
            assert claim.measure(evidence)[1] == holds, (change, factor)


def test_verdicts():
    everything = Evidence(world())
    verdicts = {key: claim.judge(everything).verdict for key, claim in CLAIMS.items()}
    closed = {key for key in CLAIMS if key[0] == "G" and key[-1] == "a"}
    assert {key for key, verdict in verdicts.items() if verdict == "undecidable"} == closed
    assert {key for key, verdict in verdicts.items() if verdict == "holds"} == set(CLAIMS) - closed
    assert CLAIMS["G01a"].judge(everything).measured == "vivace 112.6 (+0 %)"
    assert CLAIMS["G01a"].judge(everything).reason.startswith("PCC is closed")


def test_without_runs_every_claim_is_undecidable_and_says_why():
    for claim in CLAIMS.values():
        outcome = claim.judge(Evidence({}))
        assert (outcome.verdict, outcome.measured) == ("undecidable", "–"), claim.key
        assert outcome.reason.startswith("needs "), claim.key


def test_claims_about_astraea_ask_for_it():
    everything = world()
    for own in everything.values():
        own.contenders = [c for c in own.contenders if c.controller != "astraea"]
    reasons = {claim.key: claim.judge(Evidence(everything)).reason for claim in LEO}
    asking = {key for key, reason in reasons.items() if reason == "needs a trained Astraea"}
    assert asking == {"F04a", "F11", "F15", "F16a", "F17", "F18", "F26", "F32", "F35", "F39", "F44"}


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        ("F01", "needs runs of leoem-single at path = sea-ny-isl (a larger profile)"),
        ("F28", "needs runs of inter-rtt at buffer_bdp = 4.0, base_rtt_ms = 40 (a larger profile)"),
        ("F35", "needs runs of intra-rtt with another base_rtt_ms (a larger profile)"),
    ],
)
def test_a_small_profile_decides_nothing_about_other_points(key, reason):
    quick = world(suites_of(CLAIMS[key]), profile="quick")
    assert CLAIMS[key].judge(Evidence(quick)).reason == reason


def test_what_is_significant_asks_for_as_many_runs_as_were_published():
    few = world({"geo-download"})
    few["geo-download"].rows = [row for row in few["geo-download"].rows if row["seed"] <= 10]
    assert CLAIMS["G04"].judge(Evidence(few)).reason == "needs 80 downloads each (the full profile)"


def test_a_run_without_any_goodput_is_left_out():
    fair = world({"leoem-fairness"}, change="leoem-fairness goodput_ratio vivace", factor=0.0)
    for row in fair["leoem-fairness"].rows:
        known = row["seed"] != 2
        row["metrics"] = {"goodput_ratio": 0.9 if known else None, "goodput_ratio_sd": 0.1, "seconds": 99.0}
    assert CLAIMS["F14"].judge(Evidence(fair)).measured == "R 0.90"


def test_ratios_are_pooled_over_seconds():
    a, b = np.array([0.2, 0.4, 0.6]), np.array([0.9])
    mean, sd = pooled([a.mean(), b.mean()], [a.std(), b.std()], [3, 1])
    everything = np.concatenate((a, b))
    assert (mean, sd) == pytest.approx((everything.mean(), everything.std()))


def test_the_t_test_is_the_papers():
    # Cubic 123.3 +- 17.0 against BBR 112.9 +- 12.2 Mbit/s, 80 runs each: t(158) = 4.44, d = 0.7
    def sample(mean, sd):
        x = np.linspace(-1, 1, 80)
        return mean + sd * x / x.std(ddof=1)

    t, p, d = t_test(sample(123.3, 17.0), sample(112.9, 12.2))
    assert t == pytest.approx(4.44, abs=0.02)
    assert p < 1e-4
    assert d == pytest.approx(0.70, abs=0.01)


@pytest.mark.parametrize(
    ("key", "criterion"),
    [
        ("F01", "median G of cubic: sd-ny-bp ≤ 0.85, sd-ny-bp − sd-sha-isl < −0.05"),
        ("F04a", "number of paths with (median retransmission rate: cubic > astraea) ≥ 4; "
         "number of paths with (median retransmission rate: satcp > astraea) ≥ 4"),
        ("F26", "median U of astraea with loss within 15 % of median U of astraea without loss"),
        ("F33", "largest over RTTs of abs(mean R: cubic − satcp) ≤ 0.1"),
        ("F45", "F02, F03, F07, F09 hold"),
        ("G06", "mean steady RTT: bbr < cubic, cubic < hybla, hybla − cubic ≥ 80"),
        ("G21", "1 − mean share of runs that retransmit: bbr ≤ 0.45, cubic ≤ 0.45, hybla ≥ 0.5"),
        ("H11", "mean Jain index in 15 s of cubic at HyStart both+off ≥ 0.5 and ≤ 0.65, or mean goodput ratio in 15 s "
         "of cubic at HyStart both+off ≥ 3 and ≤ 8; mean Jain index at 55–115 s of cubic at HyStart both+off ≥ 0.95"),
    ],
)  # fmt: skip
def test_the_criterion_is_said_as_it_is_judged(key, criterion):
    assert CLAIMS[key].expected == criterion


GOOD = """
words = { metrics = { goodput_share = "G" }, factors = { path = ["{}", "paths"] } }
[[claim]]
key = "X"
statement = "Cubic fills a path"
source = "I"
measured = "G {g:.2f}"
conditions = [{ of = "g", at_least = 0.9 }]
values = { g = { suite = "leoem-single", metric = "goodput_share", who = "cubic", at = { path = "sd-sha-isl" } } }
"""


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("at_least =", "at_lest =", "X.conditions.0.at_lest"),
        ("at_least = 0.9", 'at_least = "h"', "h is no value"),
        (", at_least = 0.9", "", "needs conditions, each with `of` and a limit"),
        ("{g:.2f}", "{h:.2f}", "h is no value"),
        ("leoem-single", "leoem-singel", "leoem-singel"),
        ("path = \"sd", "paths = \"sd", "at: paths is unknown; allowed: path"),
        ('metric = "goodput_share", ', "", "needs either of, or numbers, or suite, metric and who"),
        ('who = "cubic"', 'who = "cubic", statistic = "mode"', "statistic: mode is unknown; allowed: median"),
        ('who = "cubic"', 'who = "cubic", statistic = "t"', "against"),
    ],
)  # fmt: skip
def test_a_wrong_field_is_named(old, new, said):
    assert claims.read(GOOD)[0].expected == "median G of cubic at sd-sha-isl ≥ 0.9"
    with pytest.raises(OrbitccError) as error:
        claims.read(GOOD.replace(old, new))
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_a_small_paper_is_run_judged_and_reported(tmp_path):
    paper = papers.Paper(
        "small", "A small paper", "nobody", {"rate-step": ("bbr3", "reno")},
        [CLAIMS["F20"], CLAIMS["F21"]], [papers.Score("Regain", "rate-step", "regain_s")],
    )  # fmt: skip
    from orbitcc.eval.report import write_report
    from orbitcc.eval.report.paper import write_paper_report

    all_results = papers.run_paper(paper, [], out_dir=tmp_path, profile="quick", workers=1, done=write_report)
    outcomes = papers.judge(paper, all_results)
    assert [o.verdict for _, o in outcomes] == ["holds", "undecidable"]
    rows = json.loads(papers.write_claims(outcomes, tmp_path).read_text())
    assert rows[0]["key"] == "F20"
    page = write_paper_report(paper, all_results, outcomes, tmp_path, "orbitcc reproduce small").read_text()
    assert page.count("data:image/png") == 2
    assert "https:" not in page
    assert "http:" not in page
    again = papers.run_paper(paper, [], out_dir=tmp_path, profile="quick", workers=1, resume=True)
    assert again["rate-step"].rows == all_results["rate-step"].rows
