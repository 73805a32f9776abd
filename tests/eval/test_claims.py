"""Claims: each holds in one world and fails just beyond every one of its limits (claims.toml beside this file)."""

import json
import tomllib
from pathlib import Path

import numpy as np
import pytest

from orbitcc.common.errors import OrbitccError
from orbitcc.eval import claims, papers, suites
from orbitcc.eval.claims import ClaimResult, Evidence
from orbitcc.eval.contenders import Contender
from orbitcc.eval.quantities.evidence import Labelled, t_test
from orbitcc.eval.quantities.limits import Comparison
from orbitcc.eval.results import Results
from orbitcc.eval.statistics import pooled

LEO, GEO, C4 = (claims.load(name) for name in ("leo", "geo", "c4"))
CLAIMS = {claim.key: claim for claim in (*LEO, *GEO, *C4)}
KNOWN = tomllib.loads(Path(__file__).with_name("claims.toml").read_text(encoding="utf-8"))
SKEWED = -np.log(1 - (np.arange(80) + 0.5) / 80)
SKEWED = (SKEWED - SKEWED.mean()) / SKEWED.std(ddof=1)
SECONDS = (100.0, 50.0, 50.0)


def over_runs(suite, metric, who, value):
    """The values of the runs: the statistic of most claims about the suite has the given value, others have not."""
    if suite == "geo-download":
        mean, sd = value if isinstance(value, list) else (value, 0.05 * value)
        return mean + sd * SKEWED
    if suite in ("geo-probes", "hystart", "buffers", "c4-tests"):
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
    line_up = [Contender(who, who, family=who) for who in dict.fromkeys(who for who, _ in by_cell)]
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
    assert len(GEO) == 82
    assert len(C4) == 11
    assert all(known["limits"] for known in KNOWN["claims"].values())


@pytest.mark.parametrize("key", CLAIMS)
def test_a_claim_holds_on_one_side_of_each_limit_alone(key):
    claim, known = CLAIMS[key], KNOWN["claims"][key]
    measured, met = claim.measure(Evidence(world(suites_of(claim))))
    assert (measured, met.tolist()) == (known["measured"], [True])
    unmet = set()
    for change, inside, outside, *given in known["limits"]:
        base = dict(KNOWN["base"])
        if given:  # where another limit would be met instead
            table, rule, value = given
            base[table] = {**base[table], rule: value}
        for factor, holds in ((inside, True), (outside, False)):
            evidence = Evidence(world(suites_of(claim), change=change, factor=factor, base=base))
            assert claim.measure(evidence)[1].tolist() == [holds], (change, factor)
        values = claim.check(evidence)[0]
        unmet |= {i for i, condition in enumerate(claim.conditions) if not condition.is_met(values)[0]}
    assert unmet == set(range(len(claim.conditions)))  # none can pass by construction


def test_claims_about_closed_programs_are_undecidable_and_no_others():
    everything = world()
    outcomes = {key: claim.judge(everything) for key, claim in CLAIMS.items()}
    closed = {key for key in CLAIMS if key[0] == "G" and key[-1] == "a"}
    assert {key for key, outcome in outcomes.items() if outcome.verdict == "undecidable"} == closed
    assert outcomes["G01a"].measured.startswith("vivace 112.6 ± ")
    assert outcomes["G01a"].reason.startswith("PCC is closed")


def verdict(text, *values, **claim):
    """The verdict of a claim `G of cubic <text>` when the runs have these values of G."""
    given = GOOD.replace("at_least = 0.9", text)
    path = next(i for i, point in enumerate(suites.get("leoem-single").points("full")) if point["path"] == "sd-sha-isl")
    found = results("leoem-single", {("cubic", path): {"goodput_share": 1.0}})
    first = found.rows[0]
    found.rows = [{**first, "seed": k, "metrics": {"goodput_share": x}} for k, x in enumerate(values)]
    return claims.read(given)[0].judge({"leoem-single": found})


def test_verdicts_of_distributions_with_known_answer():
    # nine of ten runs above the limit: the median of ten draws is below in about 0.2 % of resamples
    assert verdict("at_least = 0.9", *[0.95] * 9, 0.1).verdict == "holds"
    assert verdict("at_least = 0.9", *[0.95] * 10).share == 1.0
    assert verdict("at_least = 0.9", *[0.1] * 9, 0.95).verdict == "fails"
    assert verdict("at_least = 0.9", *[0.1] * 10).share == 0.0
    # three runs, one below: the median is below if that one is drawn at least twice: 3 (1/3)^2 (2/3) + (1/3)^3 = 7/27
    one_low = verdict("at_least = 0.9", 0.95, 0.96, 0.1)
    assert one_low.verdict == "within noise"
    assert one_low.share == pytest.approx(20 / 27, abs=0.03)
    assert verdict("at_least = 0.9", 0.95, 0.96, 0.1) == one_low  # seeded
    # a mean 0.1 standard errors above the limit: met with a probability of Phi(0.1) = 0.54
    values = 0.9 + 0.01 * np.linspace(-1, 1, 41)
    error = values.std() / np.sqrt(41)
    close = verdict(f"at_least = {0.9 - 0.1 * error}", *values)
    assert close.verdict == "within noise"
    two = verdict("at_least = 0.9", 0.95, 0.96)
    assert (two.verdict, two.reason) == ("undecidable", "needs 3 runs (a larger profile)")


def test_what_is_no_number_or_not_there_is_undecidable():
    ratio = verdict('minus = "g", per = 0, at_least = 0.9', *[0.95] * 6)  # 0 / 0
    assert (ratio.verdict, ratio.reason) == ("undecidable", "g is no number in these runs")
    level = verdict("highest = 'sea-ny-isl'", *[0.95] * 6)
    assert (level.verdict, level.reason) == ("undecidable", "needs the level sea-ny-isl")
    found = claims.read(GOOD.replace('of = "g"', 'of = "g[bbr3]"'))[0].judge(world({"leoem-single"}))
    assert (found.verdict, found.reason) == ("undecidable", "needs the level 'bbr3'")


def test_runs_that_lack_a_value_are_counted_beside_the_figure():
    partly = verdict("at_least = 0.9", *[0.95] * 9, None, None)
    assert (partly.verdict, partly.measured) == ("holds", "G 0.95 ± 0.00 (cubic in 9 of 11 runs)")


def test_an_interval_follows_each_figure():
    # the median of resamples of 0.80 and 0.90 in equal parts is either, or their mean: half the interval is 0.05
    assert verdict("at_least = 0.9", *[0.80, 0.90] * 20).measured == "G 0.85 ± 0.05"


def test_a_level_is_the_highest_where_the_other_labels_are_the_same():
    goodputs = {("cubic", 20): 3.0, ("vivace", 20): 2.0, ("cubic", 40): 4.0, ("vivace", 40): 5.0}
    found = Labelled({(("contender", c), ("base_rtt_ms", rtt)): np.array([x]) for (c, rtt), x in goodputs.items()})
    cubic = Comparison(of="x", highest="cubic").compare(found, {})
    assert cubic.numbers == {(("base_rtt_ms", 20),): [1], (("base_rtt_ms", 40),): [0]}
    at_40 = Comparison(of="x", highest="40").compare(found, {})
    assert at_40.numbers == {(("contender", "cubic"),): [1], (("contender", "vivace"),): [1]}


def test_runs_of_different_contenders_are_drawn_together():
    # in every run the order is that of the claim, though the schedules of runs differ by much more
    above = {"leocc": 0.003, "bbr3": 0.002, "satcp": 0.001, "cubic": 0.0, "vivace": -0.001}
    found = world({"responsiveness"})
    for row in found["responsiveness"].rows:
        row["metrics"] = {"goodput_over_optimal": 0.5 + 0.1 * row["seed"] + above.get(row["contender"], 0.0)}
    assert CLAIMS["F16"].judge(found).share == 1.0


def test_calibrated_claims_are_counted_apart():
    assert not any(outcome.calibrated for _, outcome in papers.judge(papers.get("leo"), world()))
    fitted = CLAIMS["F17"].model_copy(update={"calibrated": "fitted to it"}).judge(world())
    assert (fitted.verdict, fitted.calibrated) == ("holds", "fitted to it")
    assert papers.counts([(CLAIMS["F17"], ClaimResult("", "holds", calibrated="why"))] * 2
                         + [(CLAIMS["F01"], ClaimResult("", "within noise"))]
                         + [(CLAIMS["F01"], ClaimResult("", "undecidable"))]) == (
        "1 independent: 0 hold, 0 fail, 1 within noise; 2 calibrated: 2 hold, 0 fail, 0 within noise; 1 undecidable"
    )  # fmt: skip


def test_without_runs_every_claim_is_undecidable_and_says_why():
    for claim in CLAIMS.values():
        outcome = claim.judge({})
        assert (outcome.verdict, outcome.measured) == ("undecidable", "–"), claim.key
        assert outcome.reason.startswith("needs "), claim.key


def test_claims_about_astraea_ask_for_it():
    everything = world()
    for own in everything.values():
        own.contenders = [c for c in own.contenders if c.family != "astraea"]
    reasons = {claim.key: claim.judge(everything).reason for claim in LEO}
    asking = {
        key for key, reason in reasons.items() if reason.startswith("needs a policy with the observation astraea")
    }
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
    assert CLAIMS[key].judge(quick).reason == reason


def test_what_is_significant_asks_for_as_many_runs_as_were_published():
    few = world({"geo-download"})
    few["geo-download"].rows = [row for row in few["geo-download"].rows if row["seed"] <= 10]
    assert CLAIMS["G04"].judge(few).reason == "needs 80 downloads each (the full profile)"


def test_a_run_without_any_goodput_is_left_out():
    fair = world({"leoem-fairness"}, change="leoem-fairness goodput_ratio vivace", factor=0.0)
    for row in fair["leoem-fairness"].rows:
        known = row["seed"] != 2
        row["metrics"] = {"goodput_ratio": 0.9 if known else None, "goodput_ratio_sd": 0.1, "seconds": 99.0}
    assert CLAIMS["F14"].measure(Evidence(fair))[0] == "R 0.90"


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
        ("F26", "median U of astraea with loss within 15 % of median U of astraea without loss, ≤ 0.65"),
        ("F33", "largest over RTTs of abs(mean R: cubic − satcp) ≤ 0.1"),
        ("F45", "F02, F03, F07, F09 hold"),
        ("G06", "mean steady RTT: bbr < cubic, cubic < hybla, hybla − cubic ≥ 80"),
        ("G21", "1 − mean share of runs that retransmit: bbr ≤ 0.45, cubic ≤ 0.45, hybla ≥ 0.5"),
        ("H11", "mean Jain index in 15 s of cubic at HyStart both+off ≥ 0.5 and ≤ 0.65; mean goodput ratio in 30 s "
         "of cubic at HyStart both+off ≥ 3 and ≤ 8; mean Jain index at 55–115 s of cubic at HyStart both+off ≥ 0.95"),
    ],
)  # fmt: skip
def test_the_criterion_is_said_as_it_is_judged(key, criterion):
    assert CLAIMS[key].expected == criterion


def test_of_several_limits_one_is_enough_and_a_limit_may_be_a_multiple():
    found = {text: verdict(text, 0.94, 0.95, 0.96).verdict for text in (
        'at_least = [2.0, "0.5 * g"]', 'at_least = ["1.5 * g", 0.9]', 'at_least = ["1.5 * g", 1.0]',
        'at_most = [0.9, "1.5 * g"]', 'at_most = "0.5 * g"',
    )}  # fmt: skip
    assert list(found.values()) == ["holds", "holds", "fails", "holds", "fails"]
    said = claims.read(GOOD.replace("at_least = 0.9", 'at_least = [0.9, "0.5 * g"]'))[0].expected
    assert said == "median G of cubic at sd-sha-isl ≥ 0.9 or 0.5 × median G of cubic at sd-sha-isl"


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
        ("at_least = 0.9", "at_least = nan", "X.conditions.0.at_least"),
        ("{g:.2f}", "{g:zz}", "measured: g:zz is no format of a number"),
        ("at_least = 0.9", 'at_least = [0.9, "half * g"]', "X.conditions.0.at_least"),
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
    rows = json.loads(papers.write_claims(outcomes, tmp_path).read_text(encoding="utf-8"))
    assert rows[0]["key"] == "F20"
    page = write_paper_report(paper, all_results, outcomes, tmp_path, "orbitcc reproduce small").read_text(
        encoding="utf-8"
    )
    assert page.count("data:image/png") == 2
    assert "https:" not in page
    assert "http:" not in page
    again = papers.run_paper(paper, [], out_dir=tmp_path, profile="quick", workers=1, resume=True)
    assert again["rate-step"].rows == all_results["rate-step"].rows
