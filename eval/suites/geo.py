"""The GEO papers' experiments: downloads over a Viasat link, HyStart on and off, socket buffers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from orbitcc.common.errors import OrbitccError
from orbitcc.envs.description.flows import ControllerSpec
from orbitcc.envs.description.scenario import Scenario
from orbitcc.envs.impairments.probe import probe
from orbitcc.eval import metrics
from orbitcc.eval.suites.base import Case, Point, Suite

if TYPE_CHECKING:
    from orbitcc.envs.backends.simulator import Recording
    from orbitcc.eval.contenders import Contender

Array = NDArray[np.float64]

OBJECT_BYTES = 10**9
"""Size of the downloads in the papers."""
START_UP_BYTES = 50_000_000
"""The start-up phase, as defined by Claypool et al."""
MARKS_MB = (1, 2, 5, 10, 20, 30, 50)
STEADY_FROM_S = 45.0
"""Cubic's steady state in the text of Claypool et al. ("post 45 seconds")."""
RTT_PERCENTILES = (5, 10, 25, 50, 75, 90, 95)
TIMEOUT_S = 400.0
UNBOUNDED_PACKETS = 1e6
"""A slow-start threshold above this counts as not set; no window becomes as large."""
WEEK_S, PROBES_PER_S = 7 * 86_400.0, 5
FIRST_RUN = 1000
"""The links were calibrated on runs 1 to 60; results come from other runs."""


class GeoDownload(Suite):
    """Claypool et al.: 80 downloads of 1 GB per algorithm."""

    name = "geo-download"
    scenario = "geo-viasat-2020"

    def case(self, point: Point, seed: int) -> Case:
        scenario = self.build(rtt="sine_ar1", run=FIRST_RUN + seed, duration_s=TIMEOUT_S)
        return Case(seed, _downloads(scenario), point)

    def measure(self, case: Case, recording: Recording) -> dict[str, float]:
        return download_values(recording)


class GeoPep(GeoDownload):
    """The downloads through a terrestrial link and the satellite link, with and without a proxy between them."""

    name = "geo-pep"
    scenario = "geo-pep"

    def grid(self, profile: str) -> Sequence[Point]:
        return [{"connection": connection} for connection in ("end-to-end", "proxy", "sparse-acks")]

    def case(self, point: Point, seed: int) -> Case:
        scenario = self.build(connection=point["connection"], run=FIRST_RUN + seed, duration_s=TIMEOUT_S)
        first = scenario.flows[0].changed(traffic={"kind": "bytes", "bytes": OBJECT_BYTES})
        return Case(seed, scenario.with_flows([first, *scenario.flows[1:]]), point)

    def enter(self, case: Case, contender: Contender) -> Scenario:
        """The contender sends over the satellite link; the server of a split connection keeps Cubic."""
        last = case.scenario.flows[-1]
        return contender.take(case.scenario, lambda flow: flow is last)

    def measure(self, case: Case, recording: Recording) -> dict[str, float]:
        return download_values(recording, flow=-1)


class GeoDownload2021(GeoDownload):
    """The same downloads over the link of May 2021."""

    name = "geo-download-2021"
    scenario = "geo-viasat-2021"


class GeoProbes(Suite):
    """Claypool et al.: five probes per second over the quiet link, for a week."""

    name = "geo-probes"
    scenario = "geo-viasat-2020"

    def case(self, point: Point, seed: int) -> Case:
        quiet = {"start_delay_ms": 0.0, "rate_sd": 0.0}  # neither concerns a small probe between others
        scenario = self.build(rtt="sine_ar1", run=FIRST_RUN + seed, duration_s=WEEK_S, **quiet)
        only = {"kind": "bytes", "bytes": 1}
        return Case(seed, scenario.with_flows([flow.changed(traffic=only) for flow in scenario.flows]), point)

    def enter(self, case: Case, contender: Contender) -> Scenario:
        """Probes are no flows of a contender: only Cubic, for the form, is taken."""
        if contender.controller != "cubic":
            raise OrbitccError("contender", contender.label, "cubic: this suite measures the path, whoever sends")
        return super().enter(case, contender)

    def measure(self, case: Case, recording: Recording) -> dict[str, float]:
        """Of the sampler of probes, which agrees with packets (tests/envs/test_geo.py)."""
        sent = np.arange(int(WEEK_S * PROBES_PER_S)) / PROBES_PER_S
        rtt = probe(recording.scenario.links[0], sent, np.random.default_rng(FIRST_RUN + case.seed))
        back = rtt[~np.isnan(rtt)]
        return {
            "rtt_mean_ms": float(back.mean()),
            "rtt_sd_ms": float(back.std()),
            "rtt_median_ms": float(np.median(back)),
            "rtt_min_ms": float(back.min()),
            "rtt_max_ms": float(back.max()),
            "rtt_560_625": float(np.mean((back > 560) & (back <= 625))),
            "rtt_625_1500": float(np.mean((back > 625) & (back <= 1500))),
            "lost": float(np.isnan(rtt).mean()),
            "lost_alone": _lost_alone(np.isnan(rtt)),
        }


class Hystart(Suite):
    """Peters et al.: Cubic with HyStart on, off, or with one of its conditions, alone and in competing pairs."""

    name = "hystart"
    scenario = "geo-viasat-2021"

    def grid(self, profile: str) -> Sequence[Point]:
        pairs = ("both+both", "both+off")
        return [{"hystart": mode} for mode in ("both", "off", "train", "delay", "nomax", "dynamic", *pairs)]

    def case(self, point: Point, seed: int) -> Case:
        modes = str(point["hystart"]).split("+")
        scenario = self.build(
            rtt="sine_ar1",
            run=FIRST_RUN + seed,
            flows=len(modes),
            duration_s=TIMEOUT_S if len(modes) == 1 else 120.0,
        )
        return Case(seed, _downloads(scenario) if len(modes) == 1 else scenario, point)

    def enter(self, case: Case, contender: Contender) -> Scenario:
        if contender.controller != "cubic" or "hystart" in contender.params:
            raise OrbitccError(
                "controller", contender.label, "cubic without the parameter hystart, which the suite varies"
            )
        modes = str(case.point["hystart"]).split("+")
        flows = [
            flow.changed(
                controller=ControllerSpec(name="cubic", params={**contender.params, "hystart": mode}),
                name=f"{contender.label}, hystart={mode}-{i}",
            )
            for i, (flow, mode) in enumerate(zip(case.scenario.flows, modes, strict=True))
        ]
        return case.scenario.with_flows(flows)

    def measure(self, case: Case, recording: Recording) -> dict[str, float]:
        if len(recording.scenario.flows) == 1:
            return download_values(recording)
        goodput = recording.flows["goodput_mbps"]
        early, start_up, late = (metrics.window(recording.t_s, a, b + 1e-6) for a, b in ((0, 15), (0, 30), (55, 115)))
        first, second = (float(goodput[start_up, i].mean()) for i in (0, 1))
        pair = np.sort([np.convolve(_by_second(goodput[:, i]), np.ones(5) / 5, mode="valid") for i in (0, 1)], axis=0)
        fair = np.flatnonzero((pair[0] >= pair[1] / 2) & (pair[1] > 10.0))
        return {
            "jain_15_s": metrics.jain(goodput[early].mean(axis=0)),
            "jain_steady": metrics.jain(goodput[late].mean(axis=0)),
            "start_up_ratio": second / first if first > 0 else float("nan"),
            # First time at which the slower flow has half of the faster one's goodput over 5 s.
            "fair_at_s": float(fair[0]) if fair.size else recording.scenario.duration_s,
        }


RMEM_BYTES: Mapping[str, tuple[int, int, int]] = {
    "A": (4096, 131_072, 6_291_456),
    "B": (4096, 262_144, 6_291_456),
    "C": (4096, 131_072, 12_582_912),
    "D": (60_000_000,) * 3,
}
WMEM_BYTES: Mapping[str, tuple[int, int, int]] = {"default": (4096, 16_384, 4_194_304), "60 MB": (60_000_000,) * 3}
RECOMMENDED_BYTES: Mapping[str, int] = {"2.6 MB": 2_621_440, "26 MB": 26_214_400}
"""The maximum that the paper recommends for both buffers: as printed, below the default, and with a digit more."""


class Buffers(Suite):
    """Peters et al.: effect of socket buffers on a GEO path."""

    name = "buffers"
    scenario = "geo-viasat-2021"

    def grid(self, profile: str) -> Sequence[Point]:
        return [
            {"rmem": rmem, "wmem": wmem, "autotuning": tuned}
            for tuned in ("on", "off")
            for wmem in WMEM_BYTES
            for rmem in RMEM_BYTES
        ] + [{"rmem": name, "wmem": name, "autotuning": "on"} for name in RECOMMENDED_BYTES]

    def case(self, point: Point, seed: int) -> Case:
        scenario = self.build(rtt="sine_ar1", run=FIRST_RUN + seed)
        sim: Any = scenario.sim.changed(
            rmem_bytes=_sizes(RMEM_BYTES, str(point["rmem"]), "A"),
            wmem_bytes=_sizes(WMEM_BYTES, str(point["wmem"]), "default"),
            moderate_rcvbuf=point["autotuning"] == "on",
        )
        return Case(seed, scenario.changed(sim=sim), point)

    def measure(self, case: Case, recording: Recording) -> dict[str, float]:
        return {
            "goodput_mbps": metrics.mean_in_window(recording.t_s, recording.flows["goodput_mbps"][:, 0], 55.0, 115.001),
            **{
                f"cwnd_{s}_s": float(recording.flows["cwnd_packets"][np.searchsorted(recording.t_s, s), 0])
                for s in (3, 4, 5)
            },
        }


def _sizes(known: Mapping[str, tuple[int, int, int]], name: str, default: str) -> tuple[int, int, int]:
    """Minimum, initial and maximum size; of a recommended size only the maximum differs from the default."""
    return known.get(name) or (*known[default][:2], RECOMMENDED_BYTES[name])


def _downloads(scenario: Scenario) -> Scenario:
    """The same network with downloads of 1 GB."""
    return scenario.with_flows(
        [flow.changed(traffic={"kind": "bytes", "bytes": OBJECT_BYTES}) for flow in scenario.flows]
    )


def download_values(recording: Recording, flow: int = 0) -> dict[str, float]:
    """The metrics of a download from the request at 0 to the last byte, recorded every 0.1 s; `flow`: its position."""
    totals = recording.flow_totals[flow]
    return _download_values(recording.t_s, totals, {name: series[:, flow] for name, series in recording.flows.items()})


def _download_values(t: Array, totals: Mapping[str, Any], flow: Mapping[str, Array]) -> dict[str, float]:
    step = float(t[0])
    done_s = totals["finished_s"] or float(t[-1])
    received = np.cumsum(flow["goodput_mbps"]) * step * 125_000
    total = min(float(received[-1]), float(OBJECT_BYTES))
    half = float(np.interp(total / 2, received, t))
    start_up = float(np.interp(START_UP_BYTES, received, t))
    steady, early = (t > half) & (t <= done_s + step), t <= start_up
    seconds = _by_second(flow["goodput_mbps"][steady])
    resent = flow["retransmitted_packets"][steady]
    steady_mbps = total / 2 * 8e-6 / max(done_s - half, step)
    rtt_ms = {name: float(np.nanmean(flow["srtt_ms"][part])) for name, part in (("steady", steady), ("early", early))}
    start_up_mbps = START_UP_BYTES * 8e-6 / start_up
    return {
        "steady_mbps": steady_mbps,
        "steady_rtt_ms": rtt_ms["steady"],
        "steady_power": steady_mbps / rtt_ms["steady"] * 1e3,
        "start_up_mbps": start_up_mbps,
        "start_up_rtt_ms": rtt_ms["early"],
        "start_up_power": start_up_mbps / rtt_ms["early"] * 1e3,
        "first_30_s_mbps": float(np.interp(30.0, t, received)) * 8e-6 / 30.0,
        "retransmission_rate": metrics.retransmission_rate(
            float(resent.sum()), float(flow["sent_packets"][steady].sum())
        ),
        "resent_any": float(resent.any()),
        **{f"time_{mb}mb_s": float(np.interp(mb * 1e6, received, t)) for mb in MARKS_MB},
        "time_1gb_s": float(done_s),
        "steady_at_s": _steady_at_s(t, flow["goodput_mbps"], min(done_s, 115.0)),
        "peak_mbps": float(np.percentile(_by_second(flow["goodput_mbps"][t <= done_s]), 95)),
        "at_100_mbps_s": _at_100_mbps_s(flow["goodput_mbps"], float(done_s)),
        **{f"p{q}_mbps": float(np.percentile(seconds, q)) if seconds.size else float("nan") for q in (10, 50, 90)},
        **{f"rtt_p{q}_ms": float(np.nanpercentile(flow["rtt_ms"][steady], q)) for q in RTT_PERCENTILES},
        "slow_rtt_share": float(np.mean(flow["rtt_ms"][steady] >= 2000.0)),
        **_spikes(t, flow, float(done_s)),
        "early_resent_rate": metrics.retransmission_rate(
            float(flow["retransmitted_packets"][t <= 30.0].sum()), float(flow["sent_packets"][t <= 30.0].sum())
        ),
        "slow_start_s": _slow_start_s(t, flow),
        **_dips(t[steady], flow["delivery_mbps"][steady]),
    }


def _lost_alone(lost: NDArray[np.bool_]) -> float:
    """The share of lost probes whose neighbours arrived."""
    padded = np.concatenate(([False], lost, [False]))
    return float((lost & ~padded[:-2] & ~padded[2:]).sum() / lost.sum()) if lost.any() else float("nan")


def _slow_start_s(t: Array, flow: Mapping[str, Array]) -> float:
    """Time from the first packet to the first slow-start threshold."""
    sent, bounded = (
        np.flatnonzero(part) for part in (flow["sent_packets"] > 0, flow["ssthresh_packets"] < UNBOUNDED_PACKETS)
    )
    return float(t[bounded[0]] - t[sent[0]]) if sent.size and bounded.size else float("nan")


def _spikes(t: Array, flow: Mapping[str, Array], done_s: float) -> dict[str, float]:
    """From 45 s on: the largest RTT, and the largest share of packets of a second that are retransmissions."""
    late = (t > STEADY_FROM_S) & (t <= done_s)
    sent, resent = (_by_second(flow[f"{name}_packets"][late]) for name in ("sent", "retransmitted"))
    return {
        "spike_rtt_ms": float(np.nanmax(flow["rtt_ms"][late])) if late.any() else float("nan"),
        "spike_resent": float(np.max(resent[sent > 0] / sent[sent > 0])) if sent.any() else float("nan"),
    }


def _dips(t: Array, delivered_mbps: Array) -> dict[str, float]:
    """Interval and length of dips: at least half a second with less than half of the median delivery rate."""
    low = delivered_mbps < np.nanmedian(delivered_mbps) / 2
    edges = np.flatnonzero(np.diff(np.concatenate(([False], low, [False])).astype(int)))
    spans = [(a, b) for a, b in zip(edges[::2], edges[1::2], strict=True) if b - a >= 5]
    if len(spans) < 2:
        return {"dip_every_s": float("nan"), "dip_length_s": float("nan")}
    step = float(t[1] - t[0])
    return {
        "dip_every_s": float(np.median(np.diff([a for a, _ in spans]))) * step,
        "dip_length_s": float(np.median([b - a for a, b in spans])) * step,
    }


def _steady_at_s(t: Array, goodput: Array, end_s: float) -> float:
    """First time at which the mean over 5 s is 90 % of that over the last half of [0, end_s]."""
    per = round(5.0 / float(t[0]))
    reference = 0.9 * float(goodput[(t > end_s / 2) & (t <= end_s)].mean())
    means = np.convolve(goodput, np.ones(per) / per, mode="valid")
    enough = np.flatnonzero(means >= reference)
    return float(t[enough[0]] - t[0]) if enough.size else float(end_s)


def _at_100_mbps_s(goodput: Array, end_s: float) -> float:
    """First second with a mean of 100 Mbit/s."""
    enough = np.flatnonzero(_by_second(goodput) >= 100.0)
    return float(enough[0]) if enough.size else end_s


def _by_second(values: Array) -> Array:
    """Means of ten samples each, that is, per second."""
    whole = values.shape[0] // 10
    means: Array = values[: whole * 10].reshape(whole, 10).mean(axis=1)
    return means
