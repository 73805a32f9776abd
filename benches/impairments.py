"""The figures of access network, GEO link, weather, hotspots and micro-benchmarks in docs/links.md.

`python -m benches.impairments [NAME ...]`, from the top of the repository.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

import orbitcc  # noqa: F401  (registers the controllers)
from benches.pictures import write
from orbitcc.envs import scenarios
from orbitcc.envs.backends.simulator import Recording, simulate
from orbitcc.envs.description.links import Direction, Link
from orbitcc.envs.description.ranges import Span
from orbitcc.envs.description.scenario import Scenario
from orbitcc.envs.impairments import hotspots
from orbitcc.envs.impairments.access import AccessOverlay
from orbitcc.envs.impairments.effects import Effect, Way, impaired
from orbitcc.envs.impairments.geo import LEAST_RTT_MS, GeoImpairments
from orbitcc.envs.impairments.hotspots import Hotspot
from orbitcc.envs.impairments.probe import probe
from orbitcc.envs.impairments.series import Array, Series
from orbitcc.envs.impairments.weather import Fades, Rain, Weather
from orbitcc.eval.figures.run import draw_run
from orbitcc.eval.figures.scenario import draw_scenario
from orbitcc.eval.figures.style import LIGHT, Theme, mix

FOLDER = Path("docs/images/links")
WEEK_S = 7 * 86_400.0
SWING, FRAMES, FIXED = "#0072B2", "#D55E00", "#8A8F98"
RUNS = 12
PUBLISHED_S = {"both": (9.0, 16.0, 22.0), "off": (6.0, 8.0, 11.0)}
"""Download times of 1, 5 and 30 MB with and without HyStart (Peters et al.)."""
PUBLISHED_SHARES = ((625.0, 1.01e-3), (1500.0, 1e-5))
"""Shares of RTTs above a value in ms: 0.1 % in 625-1500 and 0.001 % in 1700-2200 (Claypool et al.)."""


def _heading(figure: Figure, text: str) -> None:
    figure.text(0.012, 0.965, text, fontsize=13, weight="bold", va="center")


def _legend(figure: Figure, entries: Mapping[str, str], y: float = 0.965) -> None:
    """Coloured labels at the right of the heading."""
    x = 0.986
    for words, colour in reversed(entries.items()):
        figure.text(x, y, f"▬ {words}", color=colour, weight="bold", va="center", ha="right")
        x -= 0.021 + 0.0083 * len(words)


def _note(ax: Axes, text: str, theme: Theme) -> None:
    ax.text(1.0, 1.02, text, transform=ax.transAxes, ha="right", va="bottom", fontsize=8, color=theme.muted)


# -- GEO -----------------------------------------------------------------------------------------------------------


def _geo_link(process: str, duration_s: float, seed: int = 1) -> Link:
    half = LEAST_RTT_MS / 2
    plain = Link(name="satellite", rate_mbps=None, delay_ms=half, handovers=(), reverse=Direction(delay_ms=half))
    impairments = GeoImpairments(swing_probability=float(process == "swing"), loss_scale=Span(low=0, high=0))
    return impaired(plain, impairments.draw_apart(seed, duration_s))


def geo_probes(theme: Theme) -> Figure:
    """RTTs of probes under both processes: some seconds, and the distribution over a week."""
    with mpl.rc_context(theme.rc()):
        figure = Figure(figsize=(10, 3.9))
        left, right = figure.subplots(1, 2, gridspec_kw={"width_ratios": [1.15, 1], "wspace": 0.16})
        figure.subplots_adjust(left=0.052, right=0.986, top=0.80, bottom=0.13)
        _heading(figure, "A GEO link without load")
        _legend(figure, {"frames of 50 ms": FRAMES, "swing": SWING})
        for process, colour in (("frames", FRAMES), ("swing", SWING)):
            rng = np.random.default_rng(3)
            t = np.arange(0, 8, 0.02) + 0.01 * rng.random(400)
            left.plot(t, probe(_geo_link(process, 60.0, 5), t, rng), "o", markersize=2.2, color=colour, alpha=0.8)
            sent = np.arange(0, WEEK_S, 0.2)
            rtt = np.sort(probe(_geo_link(process, WEEK_S), sent + 0.05 * rng.random(sent.size), rng))
            share = 1 - np.arange(rtt.size) / rtt.size
            few = np.unique(np.geomspace(1, rtt.size, 1500).astype(int))  # a figure does not need three million points
            right.plot(rtt[-few], share[-few], color=colour)
        for ms, above in PUBLISHED_SHARES:
            right.plot([ms], [above], "D", color=theme.ink, markersize=6, zorder=5)
        right.axvline(597, color=theme.edge, linewidth=0.9, linestyle=(0, (2, 2)))
        right.text(606, 2.0, "median 597", fontsize=8, color=theme.muted, va="center")
        left.set_title("RTT of probes sent every 20 ms, ms")
        left.set_xlabel("time, s")
        left.set_xlim(0, 8)
        right.set_title("Share of probes in a week with a larger RTT")
        right.text(640, 1.6e-3, "published: 0.1 % above 625 ms", fontsize=8, color=theme.ink, va="center")
        right.text(1470, 6.5e-6, "0.001 % above 1500 ms", fontsize=8, color=theme.ink, va="center", ha="right")
        right.set_yscale("log")
        right.set_ylim(5e-7, 4)
        right.set_xlim(550, 2250)
        right.set_xlabel("RTT, ms")
    return figure


def _downloads(process: str, hystart: str) -> tuple[list[Recording], Array]:
    """Runs of the profile, and the mean times at which 1 to 30 MB had arrived."""
    runs = [
        simulate(
            scenarios.get("geo-viasat-2021", run=k, rtt=process, controller=f"cubic:hystart={hystart}", duration_s=45),
            record_interval_s=0.05,
        )
        for k in range(1, RUNS + 1)
    ]
    times = [_arrivals_s(run) for run in runs]
    return runs, np.mean(times, axis=0)


def _arrivals_s(run: Recording) -> Array:
    mbytes = np.cumsum(run.flows["goodput_mbps"][:, 0]) * 0.05 / 8
    return run.t_s[np.searchsorted(mbytes, np.arange(1, 31))]


def geo_hystart(theme: Theme) -> Figure:
    """Why only one process ends slow start early, and download times of both beside the published ones."""
    with mpl.rc_context(theme.rc()):
        figure = Figure(figsize=(10, 4.4))
        left, right = figure.subplots(1, 2, gridspec_kw={"width_ratios": [1, 1.15], "wspace": 0.16})
        figure.subplots_adjust(left=0.052, right=0.986, top=0.82, bottom=0.12)
        _heading(figure, "HyStart over the GEO link")
        _legend(figure, {"frames of 50 ms": FRAMES, "swing": SWING})
        for process, colour in (("gate", FRAMES), ("sine_ar1", SWING)):
            for hystart, dashes in (("both", "solid"), ("off", (0, (1.2, 1.4)))):
                runs, times = _downloads(process, hystart)
                right.plot(np.arange(1, 31), times, color=colour, linestyle=dashes, linewidth=2)
                if hystart == "both":
                    _rounds(left, runs[1], colour)
        for hystart, marker in (("both", "o"), ("off", "s")):
            right.plot((1, 5, 30), PUBLISHED_S[hystart], marker, color=theme.ink, markersize=6, zorder=5)
        right.text(29.4, 20.6, "with HyStart", ha="right", fontsize=9, color=theme.muted)
        right.text(29.4, 7.9, "without HyStart (dotted)", ha="right", fontsize=9, color=theme.muted)
        right.set_title("Download time of an object, s")
        _note(right, "circles and squares: published", theme)
        right.set_ylim(0, 25)
        right.set_xlim(0, 30.6)
        right.set_xlabel("size, MB")
        left.set_title("RTT of the first packet of each round, ms")
        left.set_xlabel("time, s")
        left.set_xlim(0, 12)
        left.set_ylim(675, 745)
    return figure


def _rounds(ax: Axes, run: Recording, colour: str) -> None:
    """One RTT per round trip, and the time at which the threshold is set."""
    rtt, threshold = run.flows["rtt_ms"][:, 0], run.flows["ssthresh_packets"][:, 0]
    end = float(run.t_s[np.argmax(np.isfinite(threshold))])
    at = [float(run.t_s[np.argmax(np.isfinite(rtt))])]
    while at[-1] < min(12, end + 2):
        at.append(at[-1] + rtt[np.searchsorted(run.t_s, at[-1])] / 1e3)
    picks = np.searchsorted(run.t_s, at)
    ax.plot(run.t_s[picks], rtt[picks], "o-", color=colour, markersize=4, linewidth=1.2)
    ax.axvline(end, color=colour, linewidth=1.2, linestyle=(0, (2, 2)))
    side = "left" if end < 6 else "right"
    ax.text(end + (0.15 if end < 6 else -0.15), 680, "slow start ends", color=colour, fontsize=8, va="center", ha=side)


def geo_run(theme: Theme) -> Figure:
    return draw_run(simulate(scenarios.get("geo-viasat-2020", run=1), record_interval_s=0.2), theme)


# -- access network ------------------------------------------------------------------------------------------------


def access(theme: Theme) -> Figure:
    """A minute of an access link: RTTs of probes, the rate, and two slot edges in detail."""
    rng = np.random.default_rng(17)
    back = Direction(rate_mbps=15.0, delay_ms=5.0)
    plain = Link(name="access", rate_mbps=150.0, delay_ms=5.0, handovers=(), reverse=back)
    overlay = AccessOverlay(slot_sd_ms=Span(low=8, high=8), loss=Span(low=1e-3, high=1e-3))
    link = impaired(plain, [overlay.draw(rng, 60.0, 150.0)])
    t = np.arange(0, 60, 0.004)
    rtt = probe(link, t, rng)
    edges = {mode: next(o.at_s for o in link.outages if o.mode == mode) for mode in ("hold", "drop")}
    with mpl.rc_context(theme.rc()):
        figure = Figure(figsize=(10, 6.6))
        grid = figure.add_gridspec(3, 2, hspace=0.55, wspace=0.1, height_ratios=[1.1, 0.8, 1.2])
        figure.subplots_adjust(left=0.052, right=0.986, top=0.89, bottom=0.07)
        _heading(figure, "A LEO access link without load")
        upper = figure.add_subplot(grid[0, :])
        _probes(upper, link, t, rtt, (0.0, 60.0), theme)
        upper.set_title("RTT of probes sent every 4 ms, ms")
        _note(upper, "red strokes: lost probes; red bands: interruptions", theme)
        rates = figure.add_subplot(grid[1, :], sharex=upper)
        rates.fill_between(t, 0, Series.of(link.rate_mbps).at(t), color=mix(theme.edge, theme.page, 0.35), linewidth=0)
        rates.set_title("Rate, Mbit/s")
        rates.set_ylim(bottom=0)
        titles = {"hold": "Interruption, packets held", "drop": "Interruption, packets dropped"}
        for k, (mode, edge) in enumerate(edges.items()):
            ax = figure.add_subplot(grid[2, k])
            _probes(ax, link, t, rtt, (edge - 0.2, edge + 0.8), theme)
            ax.set_title(titles[mode])
            ax.set_xlabel("time, s")
    return figure


def _probes(ax: Axes, link: Link, t: Array, rtt: Array, window_s: tuple[float, float], theme: Theme) -> None:
    inside = (t >= window_s[0]) & (t <= window_s[1])
    size = 1.2 if window_s[1] - window_s[0] > 10 else 2.4
    ax.plot(t[inside], rtt[inside], "o", markersize=size, color=SWING, markeredgewidth=0)
    lost = inside & np.isnan(rtt)
    top = 1.08 * np.nanmax(rtt[inside])
    ax.plot(t[lost], np.full(lost.sum(), top), "|", markersize=6, color=theme.outage)
    for outage in link.outages:
        ax.axvspan(outage.at_s, outage.at_s + outage.duration_ms / 1e3, color=theme.outage, alpha=0.18, linewidth=0)
    ax.set_xlim(window_s)
    ax.set_ylim(0, 1.06 * top)


def access_run(theme: Theme) -> Figure:
    scenario = scenarios.get("leo-access", controller="bbr3", profile="before-2024", duration_s=60)
    return draw_run(simulate(scenario, record_interval_s=0.05), theme)


# -- weather and hotspots --------------------------------------------------------------------------------------------


def rain(theme: Theme) -> Figure:
    """Attenuation by fades and by rain, and the remaining share of the rate."""
    kinds = {
        "fades (10 x faster than nature)": Fades(per_h=6, speedup=Span(low=10, high=10)),
        "rain (20 x faster), starting at the\nattenuation exceeded 0.03 % of the time": Rain(
            start_percent=0.03, beta_per_s=Span(low=4e-3, high=4e-3)
        ),
    }
    with mpl.rc_context(theme.rc()):
        figure = Figure(figsize=(10, 4.8))
        axes = figure.subplots(2, 2, sharex=True, sharey="row", gridspec_kw={"hspace": 0.32, "wspace": 0.08})
        figure.subplots_adjust(left=0.052, right=0.986, top=0.83, bottom=0.1)
        _heading(figure, "Rain on a link with a clear-sky signal of 12.5 dB")
        t = np.linspace(0, 300, 6001)
        for k, (words, process) in enumerate(kinds.items()):
            rng = np.random.default_rng((11, 15)[k])
            attenuation = process.attenuation_db(rng, 300.0)
            effect = Weather().effect(rng, attenuation, 12.5, 300.0)
            upper, lower = axes[:, k]
            upper.fill_between(t, 0, attenuation.at(t), color=SWING, alpha=0.25, linewidth=0)
            upper.plot(t, attenuation.at(t), color=SWING)
            share = effect.forward.rate.at(t) if effect.forward.rate is not None else np.ones(t.size)
            for outage in effect.outages:
                share[(t >= outage.at_s) & (t < outage.at_s + outage.duration_ms / 1e3)] = 0
            lower.fill_between(t, 0, share, color=theme.area, linewidth=0)
            lower.plot(t, share, color=theme.muted)
            if effect.forward.loss is not None:
                steps = effect.forward.loss.t_s[effect.forward.loss.values > 0]
                lower.plot(steps, np.full(steps.size, 1.06), "|", color=theme.outage, markersize=7)
            upper.text(0.01, 0.97, words, transform=upper.transAxes, va="top", fontsize=8.5, color=theme.muted)
            upper.set_ylim(0, 23)
            lower.set_ylim(0, 1.12)
            lower.set_xlim(0, 300)
            lower.set_xlabel("time, s")
        axes[0, 0].set_title("Attenuation, dB")
        axes[1, 0].set_title("Share of the rate")
        _note(axes[1, 1], "red strokes: packets lost at a step down", theme)
        axes[1, 0].yaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{100 * share:.0f} %"))
    return figure


def crowds(theme: Theme) -> Figure:
    """One flow and two hotspots: one with unresponsive traffic, one that cuts the rate."""
    spots = [Hotspot(20.0, 34.0, 1.5, 0.6, cut=False), Hotspot(45.0, 55.0, 1.5, 0.6, cut=True)]
    plain = scenarios.get("dumbbell", controller="bbr3", duration_s=70, buffer_bdp=2)
    scenario = Scenario(
        name="crowds",
        duration_s=70,
        links=(impaired(plain.links[0], [Effect(forward=Way(rate=hotspots.rate_factor(spots)))]),),
        flows=(*plain.flows, *hotspots.traffic(spots, 0, 100.0, 70.0)),
    )
    run = simulate(scenario, record_interval_s=0.25)
    with mpl.rc_context(theme.rc()):
        figure = Figure(figsize=(10, 3.1))
        ax = figure.subplots()
        figure.subplots_adjust(left=0.052, right=0.986, top=0.80, bottom=0.15)
        _heading(figure, "Two hotspots, Mbit/s")
        _legend(figure, {"BBRv3": "#E69F00", "unresponsive traffic": theme.muted})
        times = np.linspace(0, 70, 4000)
        capacity = Series.of(scenario.links[0].rate_mbps).at(times)
        ax.fill_between(times, 0, capacity, color=theme.area, linewidth=0)
        ax.plot(times, capacity, color=theme.edge, linewidth=1.2)
        middle = run.t_s - run.t_s[0] / 2
        ax.plot(middle, run.flows["goodput_mbps"][:, 1:].sum(axis=1), color=theme.muted)
        ax.plot(middle, run.flows["goodput_mbps"][:, 0], color="#E69F00", linewidth=1.8)
        ax.set_xlim(0, 70)
        ax.set_ylim(0, 115)
        ax.text(27, 106, "traffic", ha="center", fontsize=9, color=theme.muted)
        ax.text(50, 106, "rate cut", ha="center", fontsize=9, color=theme.muted)
        ax.set_xlabel("time, s")
    return figure


# -- micro-benchmarks ----------------------------------------------------------------------------------------------


def reconfigurations(theme: Theme) -> Figure:
    return draw_scenario(scenarios.get("leo-responsiveness", loss=True), theme)


def crossing(theme: Theme) -> Figure:
    return draw_run(simulate(scenarios.get("double-dumbbell"), record_interval_s=1.0), theme)


PICTURES: Mapping[str, Callable[[Theme], Figure]] = {
    "geo-probes": geo_probes,
    "geo-hystart": geo_hystart,
    "geo-run": geo_run,
    "access": access,
    "access-run": access_run,
    "rain": rain,
    "crowds": crowds,
    "reconfigurations": reconfigurations,
    "crossing": crossing,
}


if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[1:] or PICTURES:
        write(PICTURES[name](LIGHT), FOLDER / f"{name}.png")
