"""Single links: a measured access network, extreme links, scenarios of a folder, and a GEO link with two flows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from orbitcc.common.errors import FileError
from orbitcc.envs.controllers import CONTENDER, EXTERNAL
from orbitcc.envs.description.flows import ControllerSpec, Flow
from orbitcc.envs.description.scenario import Scenario
from orbitcc.envs.scenarios.folder import load_files
from orbitcc.eval import metrics
from orbitcc.eval.suites.base import Case, Point, Suite
from orbitcc.eval.suites.common import ratio_values

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from orbitcc.envs.backends.simulator import Recording
    from orbitcc.eval.contenders import Contender

AGENT = ControllerSpec(name=EXTERNAL)
START_S = 10.0


def _is_contenders(flow: Flow) -> bool:
    return flow.controller.name == EXTERNAL


def counted(recording: Recording, judged: int) -> NDArray[np.bool_]:
    """The samples [T] that count for a flow: without its first 10 s, or half of its time if that is less.

    Its time ends when it stops, or when its transfer is complete. None counts of a flow that has less than a sample,
    and a shorter sample at the end of the run does not count.
    """
    flow, finished_s = recording.scenario.flows[judged], recording.flow_totals[judged]["finished_s"]
    ends_s = (recording.scenario.duration_s, flow.stop_s, finished_s)
    end_s = min(at_s for at_s in ends_s if at_s is not None)
    begins_s = flow.start_s + min(START_S, (end_s - flow.start_s) / 2)
    whole = np.diff(recording.t_s, prepend=0.0) > recording.t_s[0] - 1e-6
    return whole & metrics.window(recording.t_s, begins_s, end_s + 2e-9)  # with a sample that ends with the flow


def fair_mbps(recording: Recording, judged: int) -> float:
    """What a flow could have, in the mean over the samples that count for it; NaN without any, and if no link of its
    path has a rate.

    In each sample it is the rate of a link, less what constant-rate flows of `udp` send over it, divided by the number
    of the other flows that use it then; of the links of its path, that with the least.
    """
    scenario, step_s, found = recording.scenario, float(recording.t_s[0]), []
    active, rates = recording.flows["active"] > 0, recording.links["capacity_mbps"]
    udp = np.array([flow.controller.name == "udp" for flow in scenario.flows])
    sizes = [getattr(flow.traffic, "packet_bytes", None) or scenario.sim.packet_bytes for flow in scenario.flows]
    sent = recording.flows["sent_packets"] * np.array(sizes) * 8e-6 / step_s
    for k in np.flatnonzero(counted(recording, judged)):
        begins_s = float(recording.t_s[k]) - step_s
        paths = [set(scenario.path_of(i, begins_s)) for i in range(len(scenario.flows))]
        shares = []
        for link in paths[judged]:
            here = np.array([link in path for path in paths]) & active[k]
            here[judged] = True
            rest = max(0.0, rates[k, link] - float(sent[k, here & udp].sum()))
            shares.append(rest / int((here & ~udp).sum()))
        found.append(min(shares))
    return float(np.mean(found)) if found and np.isfinite(found).all() else float("nan")


def slowest_link(
    recording: Recording, judged: int, after: NDArray[np.bool_]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Rate delivered and capacity [T] of the slowest link of a flow's path, in these samples; each path has its own."""
    scenario, flow = recording.scenario, recording.scenario.flows[judged]
    delivered, rates = (recording.links[name][after] for name in ("delivered_mbps", "capacity_mbps"))
    begins_s = recording.t_s[after] - recording.t_s[0]
    changes_s = [flow.start_s, *(reroute.at_s for reroute in flow.reroutes)]
    which = np.searchsorted(changes_s, begins_s + 1e-9, side="right") - 1
    links = np.empty(len(which), dtype=int)
    for k in np.unique(which):
        here = which == k
        path = scenario.path_of(judged, changes_s[max(int(k), 0)])
        links[here] = min(path, key=lambda link: float(rates[here, link].mean()))
    every = np.arange(len(links))
    return delivered[every, links], rates[every, links]


def link_values(recording: Recording, judged: int = 0) -> dict[str, float]:
    """Metrics of one flow, and of the slowest link of its path, in the samples that count; NaN without any."""
    after = counted(recording, judged)
    if not after.any():
        return dict.fromkeys(("utilisation", "delay_inflation", "retransmission_rate", "goodput_mbps"), float("nan"))
    delivered, capacity = slowest_link(recording, judged, after)
    flow = {name: series[after, judged] for name, series in recording.flows.items()}
    sent = float(flow["sent_packets"].sum())
    inflation = flow["srtt_ms"] / flow["base_rtt_ms"]  # NaN without samples: after a connection of QUIC was closed
    return {
        "utilisation": metrics.utilisation(delivered, capacity) if np.isfinite(capacity).all() else float("nan"),
        "delay_inflation": max(1.0, float(np.nanmean(inflation))) if np.isfinite(inflation).any() else float("nan"),
        "retransmission_rate": metrics.retransmission_rate(float(flow["retransmitted_packets"].sum()), sent),
        "goodput_mbps": float(flow["goodput_mbps"].mean()),
    }


class LeoAccess(Suite):
    """A Starlink-like access link as measured before 2024."""

    name = "leo-access"
    scenario = "leo-access"
    fixed = ("profile",)
    profile: ClassVar[str] = "before-2024"

    def case(self, point: Point, seed: int) -> Case:
        return Case(seed, self.build(run=seed, profile=self.profile), point)

    def measure(self, case: Case, recording: Recording) -> dict[str, float]:
        return link_values(recording)


class LeoAccessSince2024(LeoAccess):
    """A Starlink-like access link with the effects measured since 2024."""

    name = "leo-access-2024"
    profile = "since-2024"


class Extremes(Suite):
    """Links with extreme rate, RTT or buffer."""

    name = "extremes"
    scenario = "dumbbell"

    def grid(self, profile: str) -> Sequence[Point]:
        usual = {"link_mbps": 100.0, "base_rtt_ms": 50.0, "buffer_bdp": 1.0}
        others: tuple[Point, ...] = (
            {"link_mbps": 500.0},
            {"link_mbps": 2.0},
            {"base_rtt_ms": 5.0},
            {"base_rtt_ms": 300.0},
            {"buffer_bdp": 8.0},
            {"buffer_bdp": 0.2},
        )
        return [{**usual, **other} for other in others]

    def case(self, point: Point, seed: int) -> Case:
        rate_mbps, base_ms, products = (float(point[name]) for name in ("link_mbps", "base_rtt_ms", "buffer_bdp"))
        limit = max(int(rate_mbps * base_ms * 125 * products), 15_140)
        scenario = self.build(base_rtt_ms=base_ms, duration_s=60.0)
        scenario = scenario.override("links.0.rate_mbps", rate_mbps)
        scenario = scenario.override("links.0.queue", {"kind": "drop_tail_bytes", "limit_bytes": limit})
        return Case(seed, scenario.with_seed(seed), point)

    def measure(self, case: Case, recording: Recording) -> dict[str, float]:
        return link_values(recording)


class FolderSuite(Suite):
    """The scenarios of a folder, one point each; the contender drives the flows with the controller `contender`.

    The metrics are those of the first of these flows.
    """

    name = "worlds"
    scenario = "dumbbell"
    by = "world"

    def level(self, value: Any) -> str:
        return f"{value}.toml"

    def __init__(self, folder: str) -> None:
        super().__init__()
        files = load_files(folder)
        first: dict[str, Path] = {}
        for path, scenario in files.items():
            same = first.setdefault(scenario.model_dump_json(exclude={"name"}), path)
            if same is not path:
                raise FileError(str(path), path.name, f"another world than {same.name}: copies are no independent runs")
        self.worlds = {path.stem: scenario for path, scenario in files.items()}
        for path, scenario in files.items():
            if not any(map(_is_contenders, scenario.flows)):
                given = ", ".join(dict.fromkeys(str(flow.controller) for flow in scenario.flows))
                raise FileError(f"{path}, flows", given, f'controller = "{CONTENDER}" for the flows to evaluate')

    def grid(self, profile: str) -> Sequence[Point]:
        return [{"world": name} for name in self.worlds]

    def case(self, point: Point, seed: int) -> Case:
        return Case(seed, self.worlds[str(point["world"])].with_seed(seed), point)

    def enter(self, case: Case, contender: Contender) -> Scenario:
        return contender.take(case.scenario, _is_contenders)

    def shows(self, case: Case) -> bool:
        return False

    def measure(self, case: Case, recording: Recording) -> dict[str, float]:
        judged = next(i for i, flow in enumerate(case.scenario.flows) if _is_contenders(flow))
        values, fair = link_values(recording, judged), fair_mbps(recording, judged)
        own = values["goodput_mbps"] / fair if fair > 0 else float("nan")
        return {"goodput_over_fair": own, **values, "fair_mbps": fair}


class GeoSharing(Suite):
    """A contender beside Cubic, Hybla and a flow of its own kind on a GEO link."""

    name = "geo-sharing"
    scenario = "geo-viasat-2020"
    fixed = ("application_offset_s",)

    def grid(self, profile: str) -> Sequence[Point]:
        return [{"beside": name} for name in ("cubic", "hybla", "itself")]

    def case(self, point: Point, seed: int) -> Case:
        scenario = self.build(rtt="sine_ar1", run=1000 + seed, flows=2, duration_s=200.0)
        first = AGENT if point["beside"] == "itself" else ControllerSpec(name=str(point["beside"]))
        flows = [Flow(name="first", controller=first), Flow(name="contender", controller=AGENT, start_s=20.0)]
        return Case(seed, scenario.with_flows(flows), point)

    def enter(self, case: Case, contender: Contender) -> Scenario:
        return contender.take(case.scenario, _is_contenders)

    def measure(self, case: Case, recording: Recording) -> dict[str, float]:
        values = ratio_values(recording, 100.0, 200.0, recording.scenario.mean_capacity_mbps())
        return {**values, "own_share": values["second_share"]}
