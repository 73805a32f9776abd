"""What the LEO paper found (Mazilu, Valentine, Wakeman, Parisis, IFIP Networking 2026), as checks.

Criteria are read as: G mean goodput over bandwidth, I delay inflation, R goodput ratio, U goodput over the optimum;
medians over runs, but R pooled over the seconds of all runs. Rows about the paper's learned policy stand apart.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from scipy import stats

from orbitcc.eval.claims.base import Check, Evidence, Missing, listed, load, within
from orbitcc.eval.suites.leoem import PATHS

CLASSICS = ("cubic", "satcp", "bbr3", "leocc", "vivace")
BENT_PIPE = ("sea-ny-bp", "sd-ny-bp")


def _by_path(r: Evidence, who: str, metric: str, suite: str = "leoem-single") -> dict[str, float]:
    return {path: r.median(suite, who, metric, path=path) for path in PATHS}


def _over_paths(r: Evidence, whos: tuple[str, ...], metric: str) -> dict[str, float]:
    return {who: float(np.mean(list(_by_path(r, who, metric).values()))) for who in whos}


def cubic_does_not_fill_a_bent_pipe(r: Evidence) -> tuple[str, bool]:
    g = _by_path(r, "cubic", "goodput_share")
    holds = g["sd-ny-bp"] <= 0.85 and g["sd-ny-bp"] < g["sd-sha-isl"] - 0.05
    return f"G sd-ny-bp {g['sd-ny-bp']:.2f}, sd-sha-isl {g['sd-sha-isl']:.2f}", holds


def satcp_beats_cubic_on_bent_pipes(r: Evidence) -> tuple[str, bool]:
    gain = {
        p: r.median("leoem-single", "satcp", "goodput_share", path=p)
        - r.median("leoem-single", "cubic", "goodput_share", path=p)
        for p in BENT_PIPE
    }
    return f"gain {listed(gain)}", min(gain.values()) > 0.03


def delay_inflation_of_cubic_and_satcp(r: Evidence) -> tuple[str, bool]:
    most = {who: max(_by_path(r, who, "delay_inflation").values()) for who in ("cubic", "satcp")}
    holds = within(most["cubic"], 1.8, 2.4) and within(most["satcp"], 1.9, 2.6) and most["satcp"] >= most["cubic"]
    return f"largest I {listed(most)}", holds


def _loss_based_retransmit_more(other: str, r: Evidence) -> tuple[str, bool]:
    rate = {who: _by_path(r, who, "retransmission_rate") for who in ("cubic", "satcp", other)}
    paths = {who: sum(rate[who][p] > rate[other][p] for p in PATHS) for who in ("cubic", "satcp")}
    means = {who: 100 * float(np.mean(list(v.values()))) for who, v in rate.items()}
    return f"mean % {listed(means)}; more on {paths['cubic']} and {paths['satcp']} of 6 paths", min(paths.values()) >= 4


def bbr3_slightly_below_satcp_with_less_delay(r: Evidence) -> tuple[str, bool]:
    g, i = (_over_paths(r, ("bbr3", "satcp"), m) for m in ("goodput_share", "delay_inflation"))
    return f"G {listed(g)}; I {listed(i)}", g["bbr3"] >= g["satcp"] - 0.12 and i["bbr3"] <= i["satcp"] - 0.4


def bbr3_keeps_a_stale_bdp(r: Evidence) -> tuple[str, bool]:
    s = r.median("delay-jump", "bbr3", "regain_s", base_rtt_ms=20, factor=3)
    return f"{s:.1f} s", within(s, 5, 15)


def leocc_fills_with_less_delay_than_satcp(r: Evidence) -> tuple[str, bool]:
    g, i = (_over_paths(r, ("leocc", "satcp"), m) for m in ("goodput_share", "delay_inflation"))
    return f"G {listed(g)}; I {listed(i)}", g["leocc"] >= g["satcp"] - 0.05 and i["leocc"] <= i["satcp"] - 0.3


def leocc_restarts_at_half_the_bdp(r: Evidence) -> tuple[str, bool]:
    share = r.median("delay-jump", "leocc", "restart_bdp", base_rtt_ms=20, factor=3)
    return f"cwnd right after the notification: {share:.2f} BDP", within(share, 0.35, 0.65)


def leocc_retransmits_most(r: Evidence) -> tuple[str, bool]:
    rate = {who: _by_path(r, who, "retransmission_rate") for who in CLASSICS}
    paths = sum(max(CLASSICS, key=lambda who: rate[who][p]) == "leocc" for p in PATHS)
    return f"highest on {paths} of 6 paths", paths >= 4


def vivace_does_not_fill_the_path(r: Evidence) -> tuple[str, bool]:
    g, i = (_over_paths(r, ("vivace", "bbr3"), m) for m in ("goodput_share", "delay_inflation"))
    return f"G {listed(g)}; I {listed(i)}", g["vivace"] < g["bbr3"] and abs(i["vivace"] - i["bbr3"]) <= 0.3


def astraea_poor_on_all_paths(r: Evidence) -> tuple[str, bool]:
    g = {who: _by_path(r, who, "goodput_share") for who in (*CLASSICS, "astraea")}
    lowest = sum(min(g, key=lambda who: g[who][p]) == "astraea" for p in PATHS)
    inflation = _over_paths(r, ("astraea",), "delay_inflation")["astraea"]
    mean = float(np.mean(list(g["astraea"].values())))
    holds = mean <= 0.6 and lowest >= 5 and inflation <= 1.15
    return f"G {mean:.2f}, lowest on {lowest} of 6 paths, I {inflation:.2f}", holds


def cubic_flows_share_bent_pipes(r: Evidence) -> tuple[str, bool]:
    ratio = {p: r.pooled("leoem-fairness", "cubic", "goodput_ratio", path=p)[0] for p in BENT_PIPE}
    total = {p: r.median("leoem-fairness", "cubic", "goodput_share", path=p) for p in BENT_PIPE}
    return f"R {listed(ratio)}; G {listed(total)}", min(ratio.values()) >= 0.6 and max(total.values()) < 0.9


def bbr3_and_leocc_fair_on_all_paths(r: Evidence) -> tuple[str, bool]:
    pooled = {
        who: {p: r.pooled("leoem-fairness", who, "goodput_ratio", path=p) for p in PATHS} for who in ("bbr3", "leocc")
    }
    least = {who: min(mean for mean, _ in by_path.values()) for who, by_path in pooled.items()}
    calmer = sum(pooled["leocc"][p][1] <= pooled["bbr3"][p][1] for p in PATHS)
    return f"least R {listed(least)}; LeoCC calmer on {calmer} of 6", min(least.values()) >= 0.7 and calmer >= 4


def vivace_fair_on_stable_paths(r: Evidence) -> tuple[str, bool]:
    mean, _ = r.pooled("leoem-fairness", "vivace", "goodput_ratio", path="sd-sha-isl")
    return f"R {mean:.2f}", mean >= 0.8


def astraea_fair_on_one_path(r: Evidence) -> tuple[str, bool]:
    own = {p: r.pooled("leoem-fairness", "astraea", "goodput_ratio", path=p)[0] for p in PATHS}
    cv = {
        who: float(np.mean(list(_by_path(r, who, "goodput_cv", "leoem-fairness").values())))
        for who in (*CLASSICS, "astraea")
    }
    holds = max(own, key=lambda p: own[p]) == "sd-sha-isl" and min(cv, key=lambda who: cv[who]) == "astraea"
    return f"R {listed(own)}; variation of goodput {listed(cv)}", holds


def _median_u(r: Evidence, whos: tuple[str, ...], suite: str = "responsiveness") -> dict[str, float]:
    return {who: r.median(suite, who, "goodput_over_optimal") for who in whos}


def leocc_best_under_change(r: Evidence) -> tuple[str, bool]:
    u = _median_u(r, CLASSICS)
    holds = u["leocc"] > u["bbr3"] >= u["cubic"] and u["satcp"] > u["cubic"] and u["vivace"] < u["bbr3"]
    return f"U {listed(u, 3)}", holds


def astraea_last_under_change(r: Evidence) -> tuple[str, bool]:
    u = _median_u(r, (*CLASSICS, "astraea"))
    return f"U {listed(u, 3)}", min(u, key=lambda who: u[who]) == "astraea"


def astraea_half_of_the_optimum(r: Evidence) -> tuple[str, bool]:
    u = r.median("responsiveness", "astraea", "goodput_over_optimal")
    return f"U {u:.2f}", within(u, 0.35, 0.65)


def astraea_collapses_above_the_least_rtt(r: Evidence) -> tuple[str, bool]:
    low, high = (r.median("responsiveness", "astraea", key) for key in ("u_at_least_rtt", "u_above_twice_least_rtt"))
    return f"U {low:.2f} at the least RTT, {high:.2f} above twice of it", low >= 0.85 and high <= 0.5


def bbr3_adapts_to_a_rise_after_12_s(r: Evidence) -> tuple[str, bool]:
    s = r.median("responsiveness-shown", "bbr3", "regain_150_s")
    return f"{s:.0f} s", within(s, 6, 15)


def bbr3_probes_after_3_s(r: Evidence) -> tuple[str, bool]:
    s = r.median("rate-step", "bbr3", "regain_s")
    return f"{s:.1f} s", within(s, 0.5, 5)


def _loss_effect(r: Evidence, who: str) -> tuple[float, float]:
    """Median U without and with loss."""
    key = "goodput_over_optimal"
    return r.median("responsiveness", who, key), r.median("responsiveness-loss", who, key)


def cubic_collapses_with_loss(r: Evidence) -> tuple[str, bool]:
    without, lossy = _loss_effect(r, "cubic")
    return f"U {without:.2f} without, {lossy:.2f} with loss", lossy <= 0.4 * without


def satcp_no_help_against_loss(r: Evidence) -> tuple[str, bool]:
    u = _median_u(r, ("satcp", "cubic"), "responsiveness-loss")
    return f"U {listed(u)}", abs(u["satcp"] - u["cubic"]) <= 0.1


def bbr3_worse_with_loss(r: Evidence) -> tuple[str, bool]:
    without, lossy = _loss_effect(r, "bbr3")
    return f"U {without:.3f} without, {lossy:.3f} with loss", lossy <= without - 0.03


def leocc_unaffected_by_loss(r: Evidence) -> tuple[str, bool]:
    without, lossy = _loss_effect(r, "leocc")
    return f"U {without:.3f} without, {lossy:.3f} with loss", lossy >= 0.93 * without


def vivace_tracks_under_loss(r: Evidence) -> tuple[str, bool]:
    without, lossy = _loss_effect(r, "vivace")
    return f"U {without:.3f} without, {lossy:.3f} with loss", lossy >= 0.9 * without


def astraea_unaffected_by_loss_but_poor(r: Evidence) -> tuple[str, bool]:
    without, lossy = _loss_effect(r, "astraea")
    return f"U {without:.3f} without, {lossy:.3f} with loss", abs(lossy / without - 1) <= 0.15


def _inter(r: Evidence, who: str) -> dict[tuple[int, float], float]:
    cells = r.cells("inter-rtt", "base_rtt_ms", "buffer_bdp")
    return {(c["base_rtt_ms"], c["buffer_bdp"]): r.pooled("inter-rtt", who, "goodput_ratio", **c)[0] for c in cells}


def cubic_half_with_different_rtts(r: Evidence) -> tuple[str, bool]:
    far = {who: [v for (x, _), v in _inter(r, who).items() if x >= 60] for who in ("cubic", "satcp")}
    medians = {who: float(np.median(v)) for who, v in far.items()}
    apart = float(np.median(np.abs(np.subtract(far["cubic"], far["satcp"]))))
    return f"median R {listed(medians)}; apart by {apart:.2f}", within(medians["cubic"], 0.3, 0.7) and apart <= 0.15


def bbr3_favours_the_larger_rtt(r: Evidence) -> tuple[str, bool]:
    said, holds = [], True
    for q in (1.0, 4.0):
        xs = r.levels("inter-rtt", "base_rtt_ms", buffer_bdp=q)
        if len(xs) < 3:
            raise Missing(f"needs more RTTs with {q:g} BDP (a larger profile)")
        share = {x: r.median("inter-rtt", "bbr3", "second_share", base_rtt_ms=x, buffer_bdp=q) for x in xs}
        ratio = [r.pooled("inter-rtt", "bbr3", "goodput_ratio", base_rtt_ms=x, buffer_bdp=q)[0] for x in xs]
        rho = float(stats.spearmanr(xs, ratio).statistic)
        least = min(s for x, s in share.items() if x >= 80)
        said.append(f"{q:g} BDP: share of the long flow {least:.2f} or more, rank correlation {rho:.2f}")
        holds = holds and least > 0.5 and rho <= -0.6
    return "; ".join(said), holds


def bbr3_fairer_with_a_small_buffer(r: Evidence) -> tuple[str, bool]:
    cells = _inter(r, "bbr3")
    if not {0.2, 1.0} <= {q for _, q in cells}:
        raise Missing("needs buffers of 0.2 and 1 BDP (a larger profile)")
    mean = {q: float(np.mean([v for (_, own), v in cells.items() if own == q])) for q in (0.2, 1.0)}
    return f"mean R {listed({f'{q:g} BDP': v for q, v in mean.items()})}", mean[0.2] > mean[1.0]


def leocc_less_fair_than_bbr3(r: Evidence) -> tuple[str, bool]:
    leocc, bbr3 = _inter(r, "leocc"), _inter(r, "bbr3")
    share = float(np.mean([leocc[c] < bbr3[c] for c in leocc]))
    return f"LeoCC lower in {100 * share:.0f} % of cells", share >= 0.6


def vivace_least_fair_with_different_rtts(r: Evidence) -> tuple[str, bool]:
    mean = {who: float(np.mean(list(_inter(r, who).values()))) for who in CLASSICS}
    runs = np.concatenate(
        [
            r.values("inter-rtt", "vivace", "second_share", **c)
            for c in r.cells("inter-rtt", "base_rtt_ms", "buffer_bdp")
            if c["base_rtt_ms"] >= 60
        ]
    )
    short = float(np.mean(runs < 0.5))
    holds = min(mean, key=lambda who: mean[who]) == "vivace" and short >= 0.9
    return f"mean R {listed(mean)}; the short flow has more in {100 * short:.0f} % of runs", holds


def astraea_fairest_with_different_rtts(r: Evidence) -> tuple[str, bool]:
    cells = {who: _inter(r, who) for who in (*CLASSICS, "astraea")}
    best = float(np.mean([max(cells, key=lambda who: cells[who][c]) == "astraea" for c in cells["astraea"]]))
    far = min(v for (x, _), v in cells["astraea"].items() if x >= 160)
    return f"best in {100 * best:.0f} % of cells; {far:.2f} or more beyond 160 ms", best >= 0.8 and far >= 0.7


def _intra(r: Evidence, who: str) -> dict[int, tuple[float, float]]:
    return {x: r.pooled("intra-rtt", who, "goodput_ratio", base_rtt_ms=x) for x in r.levels("intra-rtt", "base_rtt_ms")}


def cubic_and_satcp_equal_with_one_rtt(r: Evidence) -> tuple[str, bool]:
    cubic, satcp = _intra(r, "cubic"), _intra(r, "satcp")
    apart = max(abs(cubic[x][0] - satcp[x][0]) for x in cubic)
    return f"apart by {apart:.2f} at most", apart <= 0.1


def leocc_fair_vivace_varies_most(r: Evidence) -> tuple[str, bool]:
    own = {who: _intra(r, who) for who in CLASSICS}
    leocc = float(np.mean([m for m, _ in own["leocc"].values()]))
    spread = {who: float(np.mean([s for _, s in v.values()])) for who, v in own.items()}
    holds = leocc >= 0.75 and max(spread, key=lambda who: spread[who]) == "vivace"
    return f"LeoCC R {leocc:.2f}; spread {listed(spread)}", holds


def astraea_fair_except_at_high_rtt(r: Evidence) -> tuple[str, bool]:
    own = {x: m for x, (m, _) in _intra(r, "astraea").items()}
    near = min(m for x, m in own.items() if x <= 140)
    far = max(m for x, m in own.items() if x >= 180)
    return f"R {near:.2f} or more up to 140 ms, {far:.2f} beyond 180", near >= 0.85 and far <= near - 0.1


def _long(r: Evidence, who: str, n: int) -> dict[int, tuple[float, float]]:
    xs = r.levels("parking-lot", "base_rtt_ms", bottlenecks=n)
    return {x: r.pooled("parking-lot", who, "long_ratio", bottlenecks=n, base_rtt_ms=x) for x in xs}


def _proportional(r: Evidence, whos: tuple[str, ...], tolerance: float) -> tuple[str, bool]:
    said, holds = [], True
    for who in whos:
        for n in (3, 6):
            own = _long(r, who, n)
            near = sum(abs(m * n - 1) <= tolerance for m, _ in own.values())
            said.append(
                f"{who} {n}: {np.mean([m for m, _ in own.values()]):.2f}, near 1/{n} at {near} of {len(own)} RTTs"
            )
            holds = holds and near > len(own) / 2
    return "; ".join(said), holds


def cubic_and_satcp_near_proportional(r: Evidence) -> tuple[str, bool]:
    return _proportional(r, ("cubic", "satcp"), 0.5)


def bbr3_and_leocc_proportional(r: Evidence) -> tuple[str, bool]:
    said, holds = _proportional(r, ("bbr3", "leocc"), 0.6)
    spread = {
        who: float(np.mean([s for n in (3, 6) for _, s in _long(r, who, n).values()])) for who in ("leocc", "bbr3")
    }
    return f"{said}; spread {listed(spread)}", holds and spread["leocc"] >= spread["bbr3"]


def vivace_below_proportional(r: Evidence) -> tuple[str, bool]:
    three, six = ([m for m, _ in _long(r, "vivace", n).values()] for n in (3, 6))
    below = sum(m < 1 / 3 for m in three)
    holds = below > len(three) / 2 and max(six) <= 0.08
    return f"3: below 1/3 at {below} of {len(three)} RTTs; 6: {min(six):.2f} to {max(six):.2f}", holds


def astraea_proportional_within_its_range(r: Evidence) -> tuple[str, bool]:
    near = min(m for x, (m, _) in _long(r, "astraea", 3).items() if x <= 120)
    far = max(m for x, (m, _) in _long(r, "astraea", 6).items() if x >= 140)
    return f"3: {near:.2f} or more up to 120 ms; 6: {far:.2f} at most from 140 ms", near >= 0.25 and far <= 0.08


def _efficiency(r: Evidence, who: str, metric: str) -> dict[int, float]:
    return {n: r.median("efficiency", who, metric, flows=n) for n in (5, 10, 20)}


def cubic_and_satcp_full_with_most_delay(r: Evidence) -> tuple[str, bool]:
    said, holds = [], True
    for who in ("cubic", "satcp"):
        g, delay = (_efficiency(r, who, m) for m in ("goodput_share", "delay_ratio"))
        said.append(f"{who} G {listed(g)}, delay {listed(delay)}")
        trend = max(delay.values()) / min(delay.values())
        holds = holds and min(g.values()) >= 0.9 * 0.9564 and min(delay.values()) >= 4.5 and trend <= 1.25
    return "; ".join(said), holds


def bbr3_delay_ratio(r: Evidence) -> tuple[str, bool]:
    delay = _efficiency(r, "bbr3", "delay_ratio")
    return f"delay ratio {listed(delay)}", all(within(v, 2.0, 3.0) for v in delay.values())


def leocc_as_bbr3_but_more_variable(r: Evidence) -> tuple[str, bool]:
    leocc, bbr3 = (_efficiency(r, who, "delay_ratio") for who in ("leocc", "bbr3"))
    apart = abs(float(np.mean([leocc[n] - bbr3[n] for n in leocc])))
    area = {who: float(np.mean([_area(r, who, n) for n in (5, 10, 20)])) for who in ("leocc", "bbr3")}
    return f"apart by {apart:.2f}; ellipse {listed(area, 5)}", apart <= 0.5 and area["leocc"] > area["bbr3"]


def _area(r: Evidence, who: str, n: int) -> float:
    """Of the ellipse of one standard deviation."""
    points = r.together("efficiency", who, ("delay_ratio", "goodput_share"), flows=n)
    return float(np.pi * np.sqrt(max(np.linalg.det(np.cov(points)), 0.0)))


def vivace_gains_with_flows(r: Evidence) -> tuple[str, bool]:
    g = _efficiency(r, "vivace", "goodput_share")
    return f"G {listed(g, 3)}", g[5] < g[10] <= g[20]


def astraea_smallest_queue(r: Evidence) -> tuple[str, bool]:
    delay = {who: _efficiency(r, who, "delay_ratio") for who in (*CLASSICS, "astraea")}
    lowest = all(min(delay, key=lambda who: delay[who][n]) == "astraea" for n in (5, 10, 20))
    growth = (delay["astraea"][20] - 1) / (delay["astraea"][5] - 1)
    return f"delay ratio {listed(delay['astraea'])}", lowest and within(growth, 2, 5)


def interruption_aware_schemes_gain(r: Evidence) -> tuple[str, bool]:
    parts = {
        "F02": satcp_beats_cubic_on_bent_pipes,
        "F03": delay_inflation_of_cubic_and_satcp,
        "F07": leocc_fills_with_less_delay_than_satcp,
        "F09": leocc_retransmits_most,
    }
    held = {key: check(r)[1] for key, check in parts.items()}
    return ", ".join(f"{key} {'holds' if ok else 'fails'}" for key, ok in held.items()), all(held.values())


CHECKS: dict[str, Check] = {
    "F01": cubic_does_not_fill_a_bent_pipe,
    "F02": satcp_beats_cubic_on_bent_pipes,
    "F03": delay_inflation_of_cubic_and_satcp,
    "F04": partial(_loss_based_retransmit_more, "bbr3"),
    "F04a": partial(_loss_based_retransmit_more, "astraea"),
    "F05": bbr3_slightly_below_satcp_with_less_delay,
    "F06": bbr3_keeps_a_stale_bdp,
    "F07": leocc_fills_with_less_delay_than_satcp,
    "F08": leocc_restarts_at_half_the_bdp,
    "F09": leocc_retransmits_most,
    "F10": vivace_does_not_fill_the_path,
    "F11": astraea_poor_on_all_paths,
    "F12": cubic_flows_share_bent_pipes,
    "F13": bbr3_and_leocc_fair_on_all_paths,
    "F14": vivace_fair_on_stable_paths,
    "F15": astraea_fair_on_one_path,
    "F16": leocc_best_under_change,
    "F16a": astraea_last_under_change,
    "F17": astraea_half_of_the_optimum,
    "F18": astraea_collapses_above_the_least_rtt,
    "F19": bbr3_adapts_to_a_rise_after_12_s,
    "F20": bbr3_probes_after_3_s,
    "F21": cubic_collapses_with_loss,
    "F22": satcp_no_help_against_loss,
    "F23": bbr3_worse_with_loss,
    "F24": leocc_unaffected_by_loss,
    "F25": vivace_tracks_under_loss,
    "F26": astraea_unaffected_by_loss_but_poor,
    "F27": cubic_half_with_different_rtts,
    "F28": bbr3_favours_the_larger_rtt,
    "F29": bbr3_fairer_with_a_small_buffer,
    "F30": leocc_less_fair_than_bbr3,
    "F31": vivace_least_fair_with_different_rtts,
    "F32": astraea_fairest_with_different_rtts,
    "F33": cubic_and_satcp_equal_with_one_rtt,
    "F34": leocc_fair_vivace_varies_most,
    "F35": astraea_fair_except_at_high_rtt,
    "F36": cubic_and_satcp_near_proportional,
    "F37": bbr3_and_leocc_proportional,
    "F38": vivace_below_proportional,
    "F39": astraea_proportional_within_its_range,
    "F40": cubic_and_satcp_full_with_most_delay,
    "F41": bbr3_delay_ratio,
    "F42": leocc_as_bbr3_but_more_variable,
    "F43": vivace_gains_with_flows,
    "F44": astraea_smallest_queue,
    "F45": interruption_aware_schemes_gain,
}

CLAIMS = load("leo.toml", CHECKS)
