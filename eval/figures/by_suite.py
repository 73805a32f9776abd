"""The figures of each suite in a report, in order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, singledispatch
from typing import TYPE_CHECKING

from orbitcc.eval.figures import base, geo, grid, run
from orbitcc.eval.figures.front import draw_front
from orbitcc.eval.figures.style import Theme, lines_of
from orbitcc.eval.front import front, trade
from orbitcc.eval.results import Results
from orbitcc.eval.suites.base import Suite
from orbitcc.eval.suites.common import RATIO
from orbitcc.eval.suites.geo import MARKS_MB, RTT_PERCENTILES, Buffers, GeoDownload, Hystart
from orbitcc.eval.suites.leoem import LeoemFairness, LeoemSingle
from orbitcc.eval.suites.links import Extremes, GeoSharing, LeoAccess
from orbitcc.eval.suites.responsiveness import (
    PAYLOAD,
    SHOWCASE_RUN,
    SHOWCASE_WINDOW_S,
    Responsiveness,
    ResponsivenessLoss,
    ResponsivenessShown,
)
from orbitcc.eval.suites.sharing import (
    CrossPath,
    CubicCrowd,
    CubicFriendliness,
    Efficiency,
    InterRtt,
    IntraRtt,
    ParkingLot,
)
from orbitcc.eval.suites.transients import DelayJump, HardHandover, RateStep

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

    from orbitcc.envs.backends.simulator import Recording


@dataclass(frozen=True)
class Figure:
    """A figure of the results, drawn once per theme. folded: the page shows its title, a click shows the figure."""

    slug: str
    title: str
    caption: str
    draw: Callable[[Theme], Canvas]
    folded: bool = False


def figures_of(results: Results) -> Sequence[Figure]:
    """The figures of finished results: goodput against delay first."""
    return [*_front(results), *figures_of_suite(results.suite, results)]


def _front(results: Results) -> list[Figure]:
    metrics = trade(results)
    if metrics is None or len(results.contenders) < 2:
        return []
    goodput, delay = metrics
    return [
        Figure(
            "front",
            "Goodput against delay",
            "Medians over all runs, with the ellipse of one standard deviation; up and to the left is better. Ringed "
            "and joined: who is on the front, where nobody has more goodput at no more delay.",
            lambda theme: draw_front(results, goodput, delay, front(results), theme),
        )
    ]


@singledispatch
def figures_of_suite(suite: Suite, results: Results) -> Sequence[Figure]:
    """The figures of a suite's results, by the suite's class; `@figures_of_suite.register` adds those of another."""
    return ()


def _sending_rates(results: Results, shown: Mapping[str, Recording], what: str) -> Figure:
    start, end = SHOWCASE_WINDOW_S
    return Figure(
        "sending-rate",
        "Sending rate under changing bandwidth",
        f"{what}, seconds {start:.0f}–{end:.0f}, as in the paper's Figure 3: what each contender sends (1-s means) "
        "over the bandwidth there was (shaded), and the base RTT below. A dotted line marks a reconfiguration.",
        lambda theme: base.draw_sending_rate(shown, lines_of(results), SHOWCASE_WINDOW_S, theme),
    )


def _flow_figures(results: Results, caption: str) -> list[Figure]:
    """Goodput of every flow over time in the case that is shown, one panel per contender."""
    shown = results.recordings()
    if not shown:
        return []
    return [
        Figure(
            "goodput-over-time",
            "Goodput over time",
            f"{caption} 1-s means of every flow over the bandwidth of the link.",
            lambda theme: grid.draw_goodputs(shown, lines_of(results), theme),
        )
    ]


@figures_of_suite.register
def _(suite: LeoemSingle, results: Results) -> Sequence[Figure]:
    maps = [
        Figure(
            f"map-{metric.key.replace('_', '-')}",
            f"{metric.title} by path",
            f"Median over {results.runs} runs; {metric.better} is better. As the paper's Figure 1.",
            partial(grid.draw_map, results, metric, "path"),
        )
        for metric in suite.metrics
    ]
    return [*maps, *_flow_figures(results, "San Diego to New York by bent pipe, the path of the paper's Figure 2.")]


@figures_of_suite.register
def _(suite: LeoemFairness, results: Results) -> Sequence[Figure]:
    return [
        Figure(
            "map-goodput-ratio",
            "Goodput ratio by path",
            "Mean over the seconds of all runs, 1 is fair. As the paper's Figure 1d.",
            lambda theme: grid.draw_map(results, RATIO, "path", theme),
        ),
        *_flow_figures(results, "San Diego to New York by bent pipe, as the paper's Figure 2."),
    ]


@figures_of_suite.register
def _responsiveness(suite: Responsiveness, results: Results) -> Sequence[Figure]:
    ecdf = Figure(
        "ecdf",
        "Goodput over all runs",
        f"Share of the {results.runs} runs in which a contender got at most this part of the optimal bandwidth. "
        "Further right is better; a steep curve means that the path matters little. The thin line marks the "
        "ceiling that packet headers leave.",
        lambda theme: base.draw_ecdf(
            results.values("goodput_over_optimal"), lines_of(results), "goodput / optimal", theme, ceiling=PAYLOAD
        ),
    )
    shown = results.recordings()
    if not shown:
        return [ecdf]
    close = [
        Figure(
            f"run-{number}",
            f"One run up close: {label}",
            f"Run {suite.first_run + SHOWCASE_RUN - 1}, first second to last: goodput under the bandwidth there "
            "was, pacing rate, smoothed and base RTT, congestion window, bottleneck queue. Red marks are "
            "interruptions.",
            partial(run.draw_run, recording, lines=lines_of(results)),
            folded=True,
        )
        for number, (label, recording) in enumerate(shown.items(), start=1)
    ]
    return [ecdf, _sending_rates(results, shown, f"Run {suite.first_run + SHOWCASE_RUN - 1}"), *close]


@figures_of_suite.register
def _(suite: ResponsivenessLoss, results: Results) -> Sequence[Figure]:
    """Without the runs up close, which `responsiveness` has: they take their time to draw."""
    return [figure for figure in _responsiveness(suite, results) if not figure.folded]


@figures_of_suite.register
def _(suite: ResponsivenessShown, results: Results) -> Sequence[Figure]:
    shown = results.recordings()
    return [_sending_rates(results, shown, "With loss" if suite.loss else "Without loss")] if shown else []


@figures_of_suite.register
def _(suite: InterRtt, results: Results) -> Sequence[Figure]:
    curves = Figure(
        "goodput-ratio",
        "Goodput ratio against the RTT of the joining flow",
        "Mean and standard deviation over the seconds of all runs; 1 is fair. As the paper's Figure 4, one panel "
        "per buffer.",
        lambda theme: grid.draw_curves(
            results, RATIO, "base_rtt_ms", "base RTT of the joining flow, ms", theme, panels="buffer_bdp"
        ),
    )
    return [curves, *_flow_figures(results, "First and joining flow.")]


@figures_of_suite.register
def _(suite: IntraRtt, results: Results) -> Sequence[Figure]:
    curves = Figure(
        "goodput-ratio",
        "Goodput ratio against RTT",
        "Mean and standard deviation over the seconds of all runs; 1 is fair. As the paper's Figure 5.",
        lambda theme: grid.draw_curves(results, RATIO, "base_rtt_ms", "base RTT, ms", theme),
    )
    return [curves, *_flow_figures(results, "First and second flow.")]


@figures_of_suite.register
def _(suite: ParkingLot, results: Results) -> Sequence[Figure]:
    metric = suite.metrics[0]
    return [
        Figure(
            "long-flow",
            "The long flow's part against RTT",
            "Mean and standard deviation over the seconds of all runs, one panel per number of bottlenecks. Lines: "
            "max-min fair (1) and proportionally fair (1 over the bottlenecks). As the paper's Figure 6.",
            lambda theme: grid.draw_curves(
                results,
                metric,
                "base_rtt_ms",
                "base RTT, ms",
                theme,
                panels="bottlenecks",
                marks=lambda n: {"max-min": 1.0, "proportional": 1 / float(n)},
            ),
        )
    ]


@figures_of_suite.register
def _(suite: Efficiency, results: Results) -> Sequence[Figure]:
    return [
        Figure(
            "ellipses",
            "Utilisation against delay",
            "Up and to the left is better: mean over the runs, and the ellipse of one standard deviation; the "
            "light mark is what is left without retransmissions. As the paper's Figure 7.",
            lambda theme: grid.draw_ellipses(results, "delay_ratio", "goodput_share", "flows", theme),
        ),
        *_flow_figures(results, "Five flows."),
    ]


@figures_of_suite.register
def _(suite: CubicFriendliness, results: Results) -> Sequence[Figure]:
    metric = suite.metrics[1]
    curves = Figure(
        "own-share",
        "The contender's share beside Cubic",
        "Mean over the runs; 0.5 is fair, above it the contender takes more. One panel per buffer.",
        lambda theme: grid.draw_curves(
            results,
            metric,
            "base_rtt_ms",
            "base RTT, ms",
            theme,
            panels="buffer_bdp",
            marks=lambda _: {"fair": 0.5},
        ),
    )
    return [curves, *_flow_figures(results, "The contender, and Cubic.")]


@figures_of_suite.register
def _(suite: CubicCrowd, results: Results) -> Sequence[Figure]:
    curves = Figure(
        "own-over-fair",
        "The contender's share against the number of flows",
        "Mean over the runs, bars from the least to the most; 1 is fair, above it the contender takes more.",
        lambda theme: grid.draw_curves(
            results, suite.metrics[0], "flows", "flows, all but one Cubic", theme, marks=lambda _: {"fair": 1.0}
        ),
    )
    return [curves, *_flow_figures(results, "The contender, and two Cubic flows.")]


@figures_of_suite.register
def _(suite: CrossPath, results: Results) -> Sequence[Figure]:
    curves = Figure(
        "jain",
        "Fairness right after the change",
        "Jain's index of the four flows in the seconds after two of them came over; one panel per RTT.",
        lambda theme: grid.draw_curves(
            results, suite.metrics[0], "buffer_bdp", "buffer, BDP", theme, panels="base_rtt_ms"
        ),
    )
    return [curves, *_flow_figures(results, "40 ms, one BDP of buffer: after 80 s the second pair comes over.")]


@figures_of_suite.register
def _(suite: LeoAccess, results: Results) -> Sequence[Figure]:
    return _flow_figures(results, f"Run {suite.first_run}.")


@figures_of_suite.register
def _(suite: Extremes, results: Results) -> Sequence[Figure]:
    return _flow_figures(results, "500 Mbit/s.")


@figures_of_suite.register
def _(suite: GeoSharing, results: Results) -> Sequence[Figure]:
    return _flow_figures(results, "Cubic, and the contender.")


@figures_of_suite.register
def _(suite: HardHandover, results: Results) -> Sequence[Figure]:
    curves = Figure(
        "goodput",
        "Goodput against the length of the interruptions",
        "Mean over the runs.",
        lambda theme: grid.draw_curves(results, suite.metrics[0], "interruption_ms", "interruption, ms", theme),
    )
    return [curves, *_flow_figures(results, "Interruptions of 120 ms.")]


@figures_of_suite.register
def _(suite: RateStep, results: Results) -> Sequence[Figure]:
    return _flow_figures(results, "After 20 s the rate doubles.")


@figures_of_suite.register
def _(suite: DelayJump, results: Results) -> Sequence[Figure]:
    curves = Figure(
        "regain",
        "Time to regain the link against the RTT before the jump",
        "Mean over the runs, one panel per factor.",
        lambda theme: grid.draw_curves(
            results, suite.metrics[0], "base_rtt_ms", "base RTT before, ms", theme, panels="factor"
        ),
    )
    return [curves, *_flow_figures(results, "From 20 to 60 ms after 20 s.")]


@figures_of_suite.register
def _(suite: GeoDownload, results: Results) -> Sequence[Figure]:
    boxes = [
        Figure(
            slug,
            title,
            "Boxes hold half of the runs, whiskers 95 %; the dot is the mean.",
            partial(geo.draw_boxes, results, columns),
        )
        for slug, title, columns in (
            ("steady", "Steady state", ("steady_mbps", "steady_rtt_ms", "steady_power")),
            ("start-up", "Start-up", ("start_up_mbps", "start_up_rtt_ms", "start_up_power")),
            (
                "steady-throughput",
                "Steady throughput, second by second: percentiles of a run, and its mean",
                ("p10_mbps", "p50_mbps", "p90_mbps", "steady_mbps"),
            ),
            ("steady-retransmissions", "Retransmissions in steady state", ("retransmission_rate",)),
        )
    ]
    rtts = Figure(
        "steady-rtt",
        "Distribution of steady RTTs",
        "What share of a run's RTTs is at most this; means over the runs of the 5th to the 95th percentile.",
        partial(geo.draw_rtts, results, RTT_PERCENTILES),
    )
    times = Figure(
        "download-time",
        "Download time against the size of the object",
        "Mean over the runs, from the request to the last byte; bands hold 95 % of the runs.",
        partial(geo.draw_download_times, results, MARKS_MB),
    )
    shown = results.recordings()
    stacks = [
        Figure(
            "stacks",
            "One download of each, second by second",
            "Throughput, smoothed RTT and retransmitted packets of the first run.",
            partial(geo.draw_stacks, shown, lines_of(results)),
        )
    ]
    return [*(stacks if shown else []), *boxes, rtts, times]


@figures_of_suite.register
def _(suite: Hystart, results: Results) -> Sequence[Figure]:
    return [
        Figure(
            "download-time",
            "Download time against the size of the object",
            "Mean over the runs, from the request to the last byte, for each setting of HyStart.",
            partial(geo.draw_settings, results, "hystart", MARKS_MB),
        ),
        *_flow_figures(results, "One flow with HyStart, one without."),
    ]


@figures_of_suite.register
def _(suite: Buffers, results: Results) -> Sequence[Figure]:
    return [
        Figure(
            "buffers",
            "Goodput by buffer setting",
            "Median over the runs, Mbit/s.",
            partial(geo.draw_buffers, results),
        )
    ]
