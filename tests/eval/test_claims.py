"""Claims: every one has a claim and a check, and a check tells holds from fails from undecidable."""

import json

import numpy as np
import pytest

from orbitcc.eval import contenders, papers, suites
from orbitcc.eval.claims import Evidence, geo, leo
from orbitcc.eval.claims.base import t_test
from orbitcc.eval.results import Results
from orbitcc.eval.statistics import pooled

LEO_KEYS = {f"F{n:02d}" for n in range(1, 46)} | {"F04a", "F16a"}
ASTRAEA = {"F04a", "F11", "F15", "F16a", "F17", "F18", "F26", "F32", "F35", "F39", "F44"}


def results(suite, values, *, profile="full", controllers=papers.LEO_LINE_UP):
    """The results whose rows hold what `values(contender, point)` gives."""
    chosen = suites.get(suite)
    line_up = contenders.line_up(controllers, [])
    rows = [
        {
            "suite": suite,
            "scenario": str(point),
            "point": dict(point),
            "seed": seed,
            "contender": c.key,
            "metrics": values(c.controller, point),
        }
        for seed in (1, 2, 3)
        for point in chosen.points(profile)
        for c in line_up
    ]
    return Results(chosen, line_up, profile, 3, None, "test", rows=rows)


def judged(key, *all_results):
    (claim,) = (f for f in (*leo.CLAIMS, *geo.CLAIMS) if f.key == key)
    return claim.judge(Evidence({c.suite.name: c for c in all_results}))


def test_every_claim_has_a_claim_a_criterion_and_a_check():
    assert {f.key for f in leo.CLAIMS} == LEO_KEYS
    assert set(leo.CHECKS) == LEO_KEYS
    assert {f.key for f in geo.CLAIMS} == set(geo.CHECKS)
    for claim in (*leo.CLAIMS, *geo.CLAIMS):
        assert claim.statement, claim.key
        assert claim.source, claim.key
        assert claim.expected, claim.key


@pytest.mark.parametrize("claims", [leo.CLAIMS, geo.CLAIMS])
def test_without_runs_every_claim_is_undecidable_and_says_why(claims):
    for claim in claims:
        outcome = claim.judge(Evidence({}))
        assert outcome.verdict == "undecidable", claim.key
        assert outcome.reason.startswith("needs "), claim.key


@pytest.mark.filterwarnings("ignore:An input array is constant")
def test_claims_about_astraea_ask_for_it():
    everything = {name: results(name, lambda who, point: dict.fromkeys(MEASURED, 1.0)) for name in papers.LEO_SUITES}
    reasons = {f.key: f.judge(Evidence(everything)).reason for f in leo.CLAIMS}
    assert {key for key, reason in reasons.items() if reason == "needs a trained Astraea"} == ASTRAEA


MEASURED = (
    "goodput_share", "delay_inflation", "retransmission_rate", "goodput_ratio", "goodput_ratio_sd", "seconds",
    "second_share", "long_ratio", "long_ratio_sd", "goodput_over_optimal", "regain_s", "regain_150_s", "restart_bdp",
    "delay_ratio", "goodput_cv", "u_at_least_rtt", "u_above_twice_least_rtt",
)  # fmt: skip


@pytest.mark.parametrize(("bent_pipe", "verdict"), [(0.7, "holds"), (0.9, "fails")])
def test_cubic_on_the_bent_pipe(bent_pipe, verdict):
    single = results("leoem-single", lambda who, p: {"goodput_share": bent_pipe if p["path"] == "sd-ny-bp" else 0.95})
    outcome = judged("F01", single)
    assert outcome.verdict == verdict
    assert f"{bent_pipe:.2f}" in outcome.measured


@pytest.mark.parametrize(
    ("slope", "share", "verdict"), [(-0.002, 0.8, "holds"), (0.002, 0.8, "fails"), (-0.002, 0.4, "fails")]
)
def test_bbr3_and_the_rtt_of_the_joining_flow(slope, share, verdict):
    def values(_, point):
        ratio = 0.5 + slope * point["base_rtt_ms"]
        return {"goodput_ratio": ratio, "goodput_ratio_sd": 0.1, "seconds": 100.0, "second_share": share}

    assert judged("F28", results("inter-rtt", values)).verdict == verdict
    few = results("inter-rtt", values, profile="quick")
    assert judged("F28", few).verdict == "undecidable"


def test_loss_based_schemes_are_held_against_bbr3_alone():
    rate = {"cubic": 0.02, "satcp": 0.03, "bbr3": 0.01, "vivace": 0.05, "leocc": 0.05}
    assert judged("F04", results("leoem-single", lambda who, _: {"retransmission_rate": rate[who]})).verdict == "holds"
    rate["bbr3"] = 0.025
    assert judged("F04", results("leoem-single", lambda who, _: {"retransmission_rate": rate[who]})).verdict == "fails"


def test_criteria_take_medians_over_runs():
    single = results("leoem-single", lambda who, p: {"goodput_share": 0.8 if p["path"] == "sd-ny-bp" else 0.95})
    for row in single.rows:
        if row["seed"] == 3:
            row["metrics"] = {"goodput_share": 1.3}
    assert judged("F01", single).measured == "G sd-ny-bp 0.80, sd-sha-isl 0.95"


def test_cells_of_equal_rtt_count_too():
    def values(who, point):
        ratio = 0.5 if point["base_rtt_ms"] == 20 and who == "leocc" else 0.1 if who == "leocc" else 0.2
        return {"goodput_ratio": ratio, "goodput_ratio_sd": 0.1, "seconds": 99.0}

    assert judged("F30", results("inter-rtt", values)).measured == "LeoCC lower in 90 % of cells"


def test_a_run_without_any_goodput_is_left_out():
    fair = results("leoem-fairness", lambda *_: {"goodput_ratio": 0.9, "goodput_ratio_sd": 0.1, "seconds": 99.0})
    for row in fair.rows:
        if row["seed"] == 2:
            row["metrics"] = {"goodput_ratio": None, "goodput_ratio_sd": None, "seconds": 0.0}
    assert judged("F14", fair).measured == "R 0.90"


def test_ratios_are_pooled_over_seconds():
    a, b = np.array([0.2, 0.4, 0.6]), np.array([0.9])
    mean, sd = pooled([a.mean(), b.mean()], [a.std(), b.std()], [3, 1])
    everything = np.concatenate((a, b))
    assert (mean, sd) == pytest.approx((everything.mean(), everything.std()))


def geo_results(values, runs=80):
    """Downloads: `values(controller, rank)` with rank from -1 to 1 over the runs."""
    chosen, line_up = suites.get("geo-download"), contenders.line_up(papers.GEO_LINE_UP, [])
    rows = [
        {
            "suite": "geo-download", "scenario": str(i), "point": {}, "seed": i, "contender": c.key,
            "metrics": values(c.controller, 2 * i / (runs - 1) - 1),
        }
        for i in range(runs)
        for c in line_up
    ]  # fmt: skip
    return Results(chosen, line_up, "full", runs, None, "test", rows=rows)


def test_what_is_significant_asks_for_as_many_runs_as_were_published():
    def steady(who, rank):
        return {"steady_mbps": geo.PUBLISHED["steady_mbps"][who] + 25 * rank}

    assert judged("G04", geo_results(steady)).verdict == "holds"
    assert judged("G04", geo_results(steady, runs=10)).reason == "needs 80 downloads each (the full profile)"


@pytest.mark.parametrize(("cubic", "verdict"), [(206.4, "holds"), (130.0, "fails")])
def test_the_spread_of_steady_rtt_is_largest_for_cubic(cubic, verdict):
    spread = {**geo.SPREAD["steady_rtt_ms"], "cubic": cubic}
    downloads = geo_results(lambda who, rank: {"steady_rtt_ms": 800 + np.sqrt(3) * spread[who] * rank})
    assert judged("G07", downloads).verdict == verdict


@pytest.mark.parametrize(("bbr", "crosses"), [((9.0, 15.0), True), ((7.0, 15.0), False), ((9.0, 17.0), False)])
def test_pcc_and_bbr_cross_between_10_and_30_mb_but_that_decides_nothing(bbr, crosses):
    times = {"vivace": (8.0, 16.0), "bbr": bbr}
    downloads = geo_results(
        lambda who, _: dict(zip(("time_10mb_s", "time_30mb_s"), times.get(who, (1.0, 2.0)), strict=True))
    )
    measured, holds = geo.crossover(Evidence({"geo-download": downloads}))
    assert holds == crosses
    outcome = judged("G27a", downloads)
    assert (outcome.measured, outcome.verdict) == (measured, "undecidable")
    assert outcome.reason.startswith("PCC is closed")


@pytest.mark.parametrize(("hybla", "verdict"), [(958, "holds"), (890, "fails"), (810, "fails")])
def test_steady_rtts_rise_from_bbr_to_hybla_by_enough(hybla, verdict):
    rtt = {"bbr": 780, "cubic": 821, "hybla": hybla, "vivace": 2000}
    assert judged("G06", geo_results(lambda who, _: {"steady_rtt_ms": rtt[who]})).verdict == verdict


@pytest.mark.parametrize(("mbps", "verdict"), [(112.9, "holds"), (90.0, "fails")])
def test_the_verdict_on_a_table_does_not_hang_on_pcc(mbps, verdict):
    own = {**geo.PUBLISHED["steady_mbps"], "bbr": mbps, "vivace": 200.0}
    assert judged("G01", geo_results(lambda who, _: {"steady_mbps": own[who]})).verdict == verdict


def test_the_t_test_is_the_papers():
    # Cubic 123.3 +- 17.0 against BBR 112.9 +- 12.2 Mbit/s, 80 runs each: t(158) = 4.44, d = 0.7
    def sample(mean, sd):
        x = np.linspace(-1, 1, 80)
        return mean + sd * x / x.std(ddof=1)

    t, p, d = t_test(sample(123.3, 17.0), sample(112.9, 12.2))
    assert t == pytest.approx(4.44, abs=0.02)
    assert p < 1e-4
    assert d == pytest.approx(0.70, abs=0.01)


def test_a_small_paper_is_run_judged_and_reported(tmp_path):
    paper = papers.Paper(
        "small", "A small paper", "nobody", {"rate-step": ("bbr3", "reno")},
        [f for f in leo.CLAIMS if f.key in ("F20", "F21")], [papers.Score("Regain", "rate-step", "regain_s")],
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
