"""What the GEO papers measured, as checks with tolerances.

Claypool, Chung, Claypool (CCNC and PAM 2021): 80 downloads of 1 GB per algorithm; Peters, Zhao, Chung, Claypool (Netdev
0x15, 2021): HyStart and socket buffers. Figures are means over runs.

The PCC of these papers is closed, and how the controller that stands for it starts was calibrated on their downloads.
So what they say of it is apart, in rows whose keys end in a, and undecidable; its figures are given all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise

import numpy as np

from orbitcc.eval.claims.base import Check, Evidence, Missing, listed, load, t_test, within

OPEN = ("bbr", "cubic", "hybla")
PCC = ("vivace",)
ALL = (*OPEN, *PCC)
BONFERRONI = 0.05 / 3
PUBLISHED_RUNS = 80
"""Of each algorithm."""

PAM = "PAM 2021"
CCNC = "CCNC 2021"
NETDEV = "Netdev 2021"

PUBLISHED: dict[str, dict[str, float]] = {
    "steady_mbps": {"bbr": 112.9, "cubic": 123.3, "hybla": 130.1, "vivace": 112.6},
    "steady_rtt_ms": {"bbr": 780, "cubic": 821, "hybla": 958, "vivace": 685},
    "steady_power": {"bbr": 145, "cubic": 150, "hybla": 136, "vivace": 164},
    "start_up_mbps": {"bbr": 23.1, "cubic": 16.6, "hybla": 40.8, "vivace": 20.3},
    "start_up_rtt_ms": {"bbr": 917, "cubic": 757, "hybla": 799, "vivace": 806},
    "start_up_power": {"bbr": 25, "cubic": 22, "hybla": 51, "vivace": 25},
    "time_50mb_s": {"bbr": 17.3, "cubic": 24.1, "hybla": 9.8, "vivace": 19.7},
}
SPREAD = {
    "steady_mbps": {"bbr": 12.2, "cubic": 17.0, "hybla": 17.2, "vivace": 17.9},
    "steady_rtt_ms": {"bbr": 125.1, "cubic": 206.4, "hybla": 142.1, "vivace": 73.1},
    "start_up_mbps": {"bbr": 1.8, "cubic": 0.3, "hybla": 2.9, "vivace": 1.6},
    "start_up_rtt_ms": {"bbr": 42.9, "cubic": 22.3, "hybla": 130.8, "vivace": 15.1},
}


def of_closed(check: Check) -> Check:
    """A check of what the papers say of PCC: its figures, without a verdict."""

    def figures(r: Evidence) -> tuple[str, bool]:
        measured, _ = check(r)
        raise Missing("PCC is closed; what stands for it was calibrated on these papers", measured)

    return figures


def _means(r: Evidence, metric: str, schemes: Sequence[str] = OPEN) -> dict[str, float]:
    return {who: r.mean("geo-download", who, metric) for who in schemes}


def table(metric: str, tolerance: float, schemes: Sequence[str], r: Evidence) -> tuple[str, bool]:
    """Every scheme within a share of its published mean."""
    own = _means(r, metric, schemes)
    far = {who: own[who] / PUBLISHED[metric][who] - 1 for who in schemes}
    said = ", ".join(f"{who} {own[who]:.1f} ({100 * far[who]:+.0f} %)" for who in schemes)
    return said, all(abs(x) <= tolerance for x in far.values())


def spread(
    metric: str, low: float, high: float, schemes: Sequence[str], r: Evidence, *, least: str = "", most: str = ""
) -> tuple[str, bool]:
    """Standard deviations within factors of the published ones; whose is the least, whose the most."""
    own = {who: float(r.values("geo-download", who, metric).std(ddof=1)) for who in schemes}
    holds = all(within(own[who] / SPREAD[metric][who], low, high) for who in schemes)
    holds = holds and least in ("", min(own, key=lambda who: own[who]))
    return listed(own, 1), holds and most in ("", max(own, key=lambda who: own[who]))


def ordered(
    metric: str, expected: Sequence[str], digits: int, r: Evidence, *, by_at_least: float = 0.0
) -> tuple[str, bool]:
    """Means rise in this order; the last is so much above the last but one."""
    own = _means(r, metric, expected)
    values = list(own.values())
    rises = all(a < b for a, b in pairwise(values))
    return listed(own, digits), rises and values[-1] - values[-2] >= by_at_least


def extremes(
    metric: str, digits: int, schemes: Sequence[str], r: Evidence, *, least: str = "", most: str = ""
) -> tuple[str, bool]:
    """Whose mean is the least, whose the most."""
    own = _means(r, metric, schemes)
    holds = least in ("", min(own, key=lambda who: own[who]))
    return listed(own, digits), holds and most in ("", max(own, key=lambda who: own[who]))


def _all_runs(r: Evidence, who: str, metric: str) -> np.ndarray:
    """As many as were published: what is significant depends on how many there are."""
    values = r.values("geo-download", who, metric)
    if values.size < PUBLISHED_RUNS:
        raise Missing(f"needs {PUBLISHED_RUNS} downloads each (the full profile)")
    return values


def steady_alike(r: Evidence) -> tuple[str, bool]:
    x = _means(r, "steady_mbps", (*PCC, "bbr", "cubic"))
    return listed(x, 1), x["vivace"] < x["cubic"] and abs(x["bbr"] / x["vivace"] - 1) <= 0.08


def steady_tests(schemes: Sequence[str], r: Evidence) -> tuple[str, bool]:
    cubic = _all_runs(r, "cubic", "steady_mbps")
    said, holds = [], True
    for who in schemes:
        sign = -1 if who == "hybla" else 1
        t, p, d = t_test(cubic, _all_runs(r, who, "steady_mbps"))
        said.append(f"{who}: t {t:.1f}, p {p:.2g}, d {d:.1f}")
        large = within(d, 0.2, 0.8) if who == "hybla" else d >= 0.5
        holds = holds and t * sign > 0 and p < BONFERRONI and large
    return "; ".join(said), holds


def start_tests(schemes: Sequence[str], r: Evidence) -> tuple[str, bool]:
    cubic = _all_runs(r, "cubic", "start_up_mbps")
    said, holds = [], True
    for who in schemes:
        t, _, d = t_test(_all_runs(r, who, "start_up_mbps"), cubic)
        said.append(f"{who}: t {t:.0f}, d {d:.1f}")
        holds = holds and t > 10 and d > 2
    return "; ".join(said), holds


DOWNLOADS = {
    "hybla": (4.0, 4.5, 8.0),
    "vivace": (4.0, 7.0, 16.0),
    "bbr": (7.0, 10.0, 15.5),
    "cubic": (9.0, 13.0, 22.5),
}
"""Seconds for 1, 5 and 30 MB."""


def downloads(who: str, r: Evidence) -> tuple[str, bool]:
    own = [r.mean("geo-download", who, f"time_{mb}mb_s") for mb in (1, 5, 30)]
    near = all(abs(x - p) <= max(0.2 * p, 1.5) for x, p in zip(own, DOWNLOADS[who], strict=True))
    published = " / ".join(f"{p:g}" for p in DOWNLOADS[who])
    return f"{' / '.join(f'{x:.1f}' for x in own)} s (published {published})", near


def retransmitting(schemes: Sequence[str], r: Evidence) -> tuple[str, bool]:
    none = {who: 1 - r.mean("geo-download", who, "resent_any") for who in schemes}
    holds = all(share <= 0.45 if who in ("bbr", "cubic") else share >= 0.5 for who, share in none.items())
    return f"runs without any: {listed(none)}", holds


def bbr_spread(r: Evidence) -> tuple[str, bool]:
    low, high = (_means(r, metric, ALL) for metric in ("p10_mbps", "p90_mbps"))
    holds = min(low, key=lambda w: low[w]) == "bbr" and max(high, key=lambda w: high[w]) == "bbr"
    return f"10th {listed(low, 0)}; 90th {listed(high, 0)}", holds


def cubic_ramp(r: Evidence) -> tuple[str, bool]:
    at = r.mean("geo-download", "cubic", "at_100_mbps_s")
    return f"{at:.1f} s", within(at, 25, 36)


def crossover(r: Evidence) -> tuple[str, bool]:
    first = {mb: [r.mean("geo-download", who, f"time_{mb}mb_s") for who in ("vivace", "bbr")] for mb in (10, 30)}
    said = ", ".join(f"{mb} MB PCC {pcc:.1f}, BBR {bbr:.1f} s" for mb, (pcc, bbr) in first.items())
    return said, first[10][0] <= first[10][1] and first[30][0] >= first[30][1]


def cubic_spikes(r: Evidence) -> tuple[str, bool]:
    most = float(r.values("geo-download", "cubic", "rtt_max_ms").max())
    return f"{most / 1e3:.1f} s", most >= 1600


def cubic_slow_start(r: Evidence) -> tuple[str, bool]:
    x = r.mean("geo-download", "cubic", "slow_start_s")
    return f"{x:.1f} s", x <= 5.0


def bbr_dips(r: Evidence) -> tuple[str, bool]:
    every, length = (r.mean("geo-download", "bbr", f"dip_{part}_s") for part in ("every", "length"))
    return f"every {every:.1f} s, for {length:.1f} s", within(every, 9.0, 13.0) and within(length, 0.8, 1.8)


def bbr_cruise(r: Evidence) -> tuple[str, bool]:
    mbps, rtt_ms = (r.mean("geo-download", "bbr", metric) for metric in ("p50_mbps", "rtt_p50_ms"))
    return f"medians {mbps:.0f} Mbit/s, {rtt_ms:.0f} ms", within(mbps / 140, 0.9, 1.1) and within(
        rtt_ms / 750, 0.85, 1.15
    )


def medians(r: Evidence) -> tuple[str, bool]:
    x = _means(r, "p50_mbps")
    return listed(x, 1), max(x.values()) <= 1.1 * min(x.values())


def slow_rtts(r: Evidence) -> tuple[str, bool]:
    share = float(np.mean(list(_means(r, "slow_rtt_share", ALL).values())))
    return f"{100 * share:.1f} %", within(share, 0.02, 0.10)


def hybla_ramp(r: Evidence) -> tuple[str, bool]:
    x = _means(r, "early_resent_rate")
    said = ", ".join(f"{who} {100 * share:.2f} %" for who, share in x.items())
    return f"first 30 s: {said}", x["hybla"] <= 0.005 and x["hybla"] < x["bbr"]


def _hystart(r: Evidence, metric: str) -> dict[str, float]:
    return {mode: r.mean("hystart", "cubic", metric, hystart=mode) for mode in ("both", "off")}


def hystart_time(
    metric: str, published: tuple[float, float], ratios: tuple[float, float], r: Evidence
) -> tuple[str, bool]:
    x = _hystart(r, metric)
    near = all(abs(own / p - 1) <= 0.2 for own, p in zip((x["both"], x["off"]), published, strict=True))
    ratio = x["both"] / x["off"]
    return f"on {x['both']:.1f}, off {x['off']:.1f} s, ratio {ratio:.2f}", near and within(ratio, *ratios)


def hystart_steady(r: Evidence) -> tuple[str, bool]:
    x = _hystart(r, "steady_at_s")
    return f"on {x['both']:.1f}, off {x['off']:.1f} s", abs(x["both"] / 35 - 1) <= 0.25 and abs(
        x["off"] / 15 - 1
    ) <= 0.25


def hystart_total(r: Evidence) -> tuple[str, bool]:
    x = _hystart(r, "time_1gb_s")
    near = abs(x["both"] / 125 - 1) <= 0.2 and abs(x["off"] / 100 - 1) <= 0.2
    return f"on {x['both']:.0f}, off {x['off']:.0f} s", near and within(x["both"] - x["off"], 15, 35)


def hystart_start_up(r: Evidence) -> tuple[str, bool]:
    x = _hystart(r, "first_30_s_mbps")
    return f"off over on {x['off'] / x['both']:.2f}", within(x["off"] / x["both"], 1.6, 2.6)


def hystart_loss(r: Evidence) -> tuple[str, bool]:
    x = _hystart(r, "retransmission_rate")
    return f"on {100 * x['both']:.2f} %, off {100 * x['off']:.2f} %", abs(x["both"] - x["off"]) <= 0.005


def hystart_alike(one: str, other: str, r: Evidence) -> tuple[str, bool]:
    x = {mode: r.mean("hystart", "cubic", "first_30_s_mbps", hystart=mode) for mode in (one, other)}
    return f"first 30 s: {listed(x, 1)} Mbit/s", abs(x[one] / x[other] - 1) <= 0.1


def hystart_pair(r: Evidence) -> tuple[str, bool]:
    x = [r.mean("hystart", "cubic", m, hystart="both+both") for m in ("jain_15_s", "jain_steady")]
    return f"Jain {x[0]:.2f} / {x[1]:.2f}", min(x) >= 0.95


def hystart_mixed(r: Evidence) -> tuple[str, bool]:
    early, late, ratio = (
        r.mean("hystart", "cubic", m, hystart="both+off") for m in ("jain_15_s", "jain_steady", "early_ratio")
    )
    start = within(early, 0.50, 0.65) or within(ratio, 3, 8)
    return f"Jain {early:.2f} / {late:.2f}, {ratio:.0f} times as much", start and late >= 0.95


def hystart_mixed_length(r: Evidence) -> tuple[str, bool]:
    at = r.mean("hystart", "cubic", "fair_at_s", hystart="both+off")
    return f"{at:.0f} s", within(at, 30, 55)


def hystart_peak(r: Evidence) -> tuple[str, bool]:
    x = r.mean("hystart", "cubic", "peak_mbps", hystart="both")
    return f"{x:.0f} Mbit/s", within(x, 108, 132)


def _buffer(r: Evidence, rmem: str, wmem: str, tuned: str) -> float:
    return r.mean("buffers", "cubic", "goodput_mbps", rmem=rmem, wmem=wmem, autotuning=tuned)


def buffers_on(cells: Mapping[tuple[str, str], tuple[float, float]], r: Evidence) -> tuple[str, bool]:
    own = {cell: _buffer(r, *cell, "on") for cell in cells}
    said = ", ".join(f"{rmem}/{wmem} {value:.1f}" for (rmem, wmem), value in own.items())
    return f"{said} Mbit/s", all(within(own[cell], *band) for cell, band in cells.items())


def buffers_off(r: Evidence) -> tuple[str, bool]:
    x = {rmem: [_buffer(r, rmem, wmem, "off") for wmem in ("default", "60 MB")] for rmem in "ABCD"}
    on = [_buffer(r, "D", wmem, "on") for wmem in ("default", "60 MB")]
    small = all(within(v, 0.6, 1.0) for v in x["A"] + x["C"])
    doubled = all(within(b / a, 1.9, 2.1) for a, b in zip(x["A"], x["B"], strict=True))
    same = all(abs(d / o - 1) <= 0.05 for d, o in zip(x["D"], on, strict=True))
    return ", ".join(f"{k} {np.mean(v):.2f}" for k, v in x.items()) + " Mbit/s", small and doubled and same


def buffers_growth(r: Evidence) -> tuple[str, bool]:
    pairs = {
        s: [r.mean("buffers", "cubic", f"cwnd_{s}_s", rmem="D", wmem="60 MB", autotuning=t) for t in ("on", "off")]
        for s in (3, 4, 5)
    }
    said = ", ".join(f"{s} s {on:.0f} / {off:.0f}" for s, (on, off) in pairs.items())
    return f"cwnd {said}", all(abs(on / off - 1) <= 0.1 for on, off in pairs.values())


def _apart(key: str, check: Callable[[Sequence[str], Evidence], tuple[str, bool]]) -> dict[str, Check]:
    """The same check of the open schemes and, apart, of PCC."""
    return {key: partial(check, OPEN), f"{key}a": of_closed(partial(check, PCC))}


CHECKS: dict[str, Check] = {
    **_apart("G01", partial(table, "steady_mbps", 0.10)),
    "G02": partial(ordered, "steady_mbps", ("bbr", "cubic", "hybla"), 1),
    "G02a": of_closed(steady_alike),
    **_apart("G03", partial(spread, "steady_mbps", 0.4, 1.5)),
    "G04": partial(steady_tests, ("bbr", "hybla")),
    "G04a": of_closed(partial(steady_tests, PCC)),
    **_apart("G05", partial(table, "steady_rtt_ms", 0.15)),
    "G06": partial(ordered, "steady_rtt_ms", ("bbr", "cubic", "hybla"), 0, by_at_least=80.0),
    "G06a": of_closed(partial(extremes, "steady_rtt_ms", 0, ALL, least="vivace")),
    "G07": partial(spread, "steady_rtt_ms", 0.5, 2.0, OPEN, most="cubic"),
    "G07a": of_closed(partial(spread, "steady_rtt_ms", 0.5, 2.0, ALL, least="vivace")),
    **_apart("G08", partial(table, "steady_power", 0.12)),
    "G09": partial(extremes, "steady_power", 0, OPEN, least="hybla"),
    "G09a": of_closed(partial(extremes, "steady_power", 0, ALL, most="vivace")),
    **_apart("G10", partial(table, "start_up_mbps", 0.12)),
    "G11": partial(ordered, "start_up_mbps", ("cubic", "bbr", "hybla"), 1),
    "G11a": of_closed(partial(ordered, "start_up_mbps", ("cubic", "vivace", "bbr"), 1)),
    "G12": partial(start_tests, ("bbr", "hybla")),
    "G12a": of_closed(partial(start_tests, PCC)),
    **_apart("G13", partial(table, "start_up_rtt_ms", 0.15)),
    "G14": partial(extremes, "start_up_rtt_ms", 0, OPEN, least="cubic", most="bbr"),
    **_apart("G15", partial(table, "start_up_power", 0.20)),
    "G16": partial(downloads, "hybla"),
    "G17a": of_closed(partial(downloads, "vivace")),
    "G18": partial(downloads, "bbr"),
    "G19": partial(downloads, "cubic"),
    "G20": partial(ordered, "time_5mb_s", ("hybla", "bbr", "cubic"), 1),
    "G20a": of_closed(partial(ordered, "time_5mb_s", ("hybla", "vivace", "bbr"), 1)),
    **_apart("G21", retransmitting),
    "G22": bbr_spread,
    "G23": cubic_ramp,
    "G24": partial(spread, "start_up_mbps", 0.0, 3.0, OPEN, least="cubic"),
    "G24a": of_closed(partial(spread, "start_up_mbps", 0.0, 3.0, PCC)),
    "G25": partial(spread, "start_up_rtt_ms", 1 / 3, 3.0, OPEN, most="hybla"),
    "G25a": of_closed(partial(spread, "start_up_rtt_ms", 1 / 3, 3.0, PCC)),
    **_apart("G26", partial(table, "time_50mb_s", 0.12)),
    "G27a": of_closed(crossover),
    "G28": cubic_spikes,
    "G29": cubic_slow_start,
    "G30": bbr_dips,
    "G31": bbr_cruise,
    "G32": medians,
    "G33": slow_rtts,
    "G34": hybla_ramp,
    "H01": partial(hystart_time, "time_1mb_s", (9.0, 6.0), (1.25, 2.0)),
    "H02": partial(hystart_time, "time_5mb_s", (16.0, 8.0), (1.6, 2.6)),
    "H03": partial(hystart_time, "time_30mb_s", (22.0, 11.0), (1.6, 2.6)),
    "H04": hystart_steady,
    "H05": hystart_total,
    "H06": hystart_start_up,
    "H07": hystart_loss,
    "H08": partial(hystart_alike, "train", "off"),
    "H09": partial(hystart_alike, "delay", "both"),
    "H10": hystart_pair,
    "H11": hystart_mixed,
    "H12": hystart_mixed_length,
    "H13": hystart_peak,
    "H14": partial(hystart_time, "time_5mb_s", (14.0, 7.0), (1.6, 2.6)),
    "B01": partial(buffers_on, {(rmem, w): (25, 45) for rmem in "AB" for w in ("default", "60 MB")}),
    "B02": partial(buffers_on, {(rmem, "default"): (28, 56) for rmem in "CD"}),
    "B03": partial(buffers_on, {("C", "60 MB"): (50, 90)}),
    "B04": partial(buffers_on, {("D", "60 MB"): (0.9 * 120, 144)}),
    "B05": buffers_off,
    "B06": buffers_growth,
}

CLAIMS = load("geo.toml", CHECKS)
