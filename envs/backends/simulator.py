"""One run of a scenario in the simulator, from start to end."""

from __future__ import annotations

import io
import json
import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orbitcc.common.errors import FileError, OrbitccError
from orbitcc.common.files import (
    DAMAGED_ARRAYS,
    atomic_write_bytes,
    atomic_write_text,
    load_arrays,
    parse_json,
    parse_toml,
)
from orbitcc.common.names import csv_text
from orbitcc.common.numbers import checked_number
from orbitcc.envs.backends.captures import Captures
from orbitcc.envs.controllers import CONTENDER
from orbitcc.envs.description.compile import ns
from orbitcc.envs.description.refusals import refusal
from orbitcc.envs.description.scenario import ControllerSpec, Scenario

FORMAT_VERSION = 1
MOST_VALUES = 500_000_000
"""Numbers in the series of a recording, of eight bytes each."""
PARTS = 200
"""A run is simulated in this many parts; progress is reported and interrupts are handled between them."""

LONGEST_CAPTURED_NS = 1_000_000_000
"""Captures are written to their files at least once in this much simulated time."""

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Recording:
    """The recording of a run.

    t_s: [T] the end of each interval. flows, links: name of a series -> [T, F] or [T, L] (see docs/architecture.md);
    a level (delay, window) of a flow that is not there is NaN. flow_totals, link_totals: figures over the whole run.
    emulation: what an emulated run says of itself (lateness, overruns, processor time), None for a simulated one.
    """

    scenario: Scenario
    t_s: Array
    flows: dict[str, Array]
    links: dict[str, Array]
    flow_totals: list[dict[str, Any]]
    link_totals: list[dict[str, Any]]
    emulation: dict[str, Any] | None = None

    @property
    def flow_names(self) -> tuple[str, ...]:
        return self.scenario.flow_names

    @property
    def link_names(self) -> tuple[str, ...]:
        return self.scenario.link_names

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write everything to an .npz file."""
        return atomic_write_bytes(path, self.to_bytes())

    def closed_connections(self) -> list[tuple[str, float]]:
        """The flows of QUIC whose hosts closed the connection in the run, and when, s."""
        found = zip(self.scenario.flows, self.flow_totals, strict=True)
        return [
            (flow.name, total["stop_s"])
            for flow, total in found
            if flow.transport is not None
            and total["finished_s"] is None
            and total["stop_s"] is not None
            and total["stop_s"] < (flow.stop_s or math.inf)
        ]

    def to_bytes(self) -> bytes:
        """The content of the file that `save` writes."""
        about = {
            "format": FORMAT_VERSION,
            "scenario": self.scenario.to_toml(),
            "flow_totals": self.flow_totals,
            "link_totals": self.link_totals,
            "emulation": self.emulation,
        }
        arrays: dict[str, Any] = {
            "about": np.array(json.dumps(about)),
            "t_s": self.t_s,
            **{f"flow/{name}": series for name, series in self.flows.items()},
            **{f"link/{name}": series for name, series in self.links.items()},
        }
        buffer = io.BytesIO()
        np.savez_compressed(buffer, **arrays)
        return buffer.getvalue()

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Recording:
        """Read what `save` wrote; FileError for anything else."""
        from orbitcc._sim import FLOW_SERIES, LINK_SERIES

        wanted = "a recording written by OrbitCC (.npz)"
        groups = {"flow/": FLOW_SERIES, "link/": LINK_SERIES}
        known = {"about", "t_s", *(group + name for group, names in groups.items() for name in names)}
        arrays = load_arrays(path, known, wanted)
        try:
            about = parse_json(str(arrays["about"]), own=True)
            if about["format"] != FORMAT_VERSION:
                raise ValueError(f"it has another format than {FORMAT_VERSION}")
            found = Recording(
                scenario=_recorded(about["scenario"]),
                t_s=arrays["t_s"],
                flows={k.removeprefix("flow/"): v for k, v in arrays.items() if k.startswith("flow/")},
                links={k.removeprefix("link/"): v for k, v in arrays.items() if k.startswith("link/")},
                flow_totals=about["flow_totals"],
                link_totals=about["link_totals"],
                emulation=about.get("emulation"),
            )
            found._check()
        except DAMAGED_ARRAYS as error:
            raise FileError("file", str(path), f"{wanted} ({_reason(error)})") from None
        return found

    def _check(self) -> None:
        """ValueError unless series and totals have the types and the shapes that `simulate` gives them."""
        from orbitcc._sim import FLOW_SERIES, LINK_SERIES

        needed_of_flows = [name for name in FLOW_SERIES if name not in _NOT_OF_KERNELS]
        t = self.t_s
        if t.dtype != np.float64 or t.ndim != 1 or not t.size or not np.isfinite(t).all() or (np.diff(t) <= 0).any():
            raise ValueError("t_s must be increasing times")
        for group, needed, names in (
            (self.flows, needed_of_flows, self.flow_names), (self.links, LINK_SERIES, self.link_names),
        ):  # fmt: skip
            for name in (*needed, *group):
                if name not in group or group[name].dtype != np.float64 or group[name].shape != (t.size, len(names)):
                    raise ValueError(f"{name} must be numbers of shape [{t.size}, {len(names)}]")
        for totals, numbers, names in (
            (self.flow_totals, _FLOW_TOTALS, self.flow_names), (self.link_totals, _LINK_TOTALS, self.link_names),
        ):  # fmt: skip
            if not isinstance(totals, list) or len(totals) != len(names):
                raise ValueError(f"there must be totals of {len(names)} flows or links")
            for total in totals:
                if not all(_is_number(total[key]) for key in numbers) or not isinstance(total["name"], str):
                    raise ValueError("totals must be numbers")
        for total in self.flow_totals:
            _check_times(total)
        if self.emulation is not None and not all(_is_number(self.emulation["lateness"][key]) for key in _LATENESS):
            raise ValueError("lateness must be numbers")

    def save_csv(self, path: str | os.PathLike[str]) -> Path:
        """Write the series as CSV: one row per interval, a column `flow.series` or `link.series` for each.

        Where a flow and a link have the same name, a series that both have is `link.NAME.series` of the link.
        """
        columns: dict[str, Array] = {"t_s": self.t_s}
        for names, group in ((self.flow_names, self.flows), (self.link_names, self.links)):
            for i, name in enumerate(names):
                for key, series in group.items():
                    column = f"{name}.{key}"
                    while column in columns:
                        column = f"link.{column}"
                    columns[column] = series[:, i]
        rows = ([_cell(v) for v in row] for row in np.column_stack(list(columns.values())))
        return atomic_write_text(path, csv_text([list(columns), *rows]))


_NOT_OF_KERNELS = ("rtt_ms", "lost_packets")
"""Series of flows that an emulated run may lack."""
UNKNOWN_TO_UDP = ("retransmitted_packets", "lost_packets")
"""Totals and series that a sender of datagrams does not know; NaN."""
_FLOW_TOTALS = (
    "start_s", "goodput_mbps", "received_bytes", "srtt_ms", "srtt_p95_ms", "base_rtt_ms", "delay_inflation",
    "sent_packets", "retransmitted_packets", "lost_packets", "rtos",
)  # fmt: skip
_LINK_TOTALS = (
    "utilisation", "capacity_mbps", "queue_bytes_mean", "queue_bytes_max", "dropped_packets", "lost_packets",
)  # fmt: skip

_LATENESS = ("p50_us", "p99_us", "max_us", "share_above_1_ms")


def _is_number(value: Any) -> bool:
    return isinstance(value, float) or (isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63)


def _check_times(total: dict[str, Any]) -> None:
    """ValueError unless the ends of a flow and its downloads (asked for, bytes, seconds) are numbers or missing."""
    downloads = [value for download in total["objects"] for value in _triple(download)]
    if not all(value is None or _is_number(value) for value in (total["stop_s"], total["finished_s"], *downloads)):
        raise ValueError("the ends of flows and downloads must be numbers")


def _triple(download: Any) -> tuple[Any, Any, Any]:
    at, size, seconds = download
    if not (_is_number(at) and _is_number(size)):
        raise ValueError("downloads must be numbers")
    return at, size, seconds


def _reason(error: BaseException) -> str:
    return str(error) if isinstance(error, ValueError) and str(error) else f"{type(error).__name__}: {error}"


def _recorded(text: str) -> Scenario:
    """The scenario of a recording. Policies in Python become the placeholder `contender`: no file can name code."""
    data = parse_toml(text)
    for flow in data["flows"]:
        if ControllerSpec.build(flow["controller"]).names_code:
            flow["controller"] = CONTENDER
    return Scenario.from_dict(data)


def begun(scenario: Scenario, record_interval_s: float = 1.0, *, capture: bool = False) -> Any:
    """The native simulation before its first event. Raises OrbitccError for what the simulator cannot run."""
    from orbitcc import _sim

    for field in scenario.unsupported("simulator"):
        raise OrbitccError(
            field, CONTENDER, "a controller that runs by itself in place of this placeholder (choose one)"
        )
    try:
        return _sim.Simulation(
            scenario.compile(),
            record_interval_ns=ns(record_interval_s),
            policies=scenario.policies(),
            capture=capture,
        )
    except OrbitccError:
        raise
    except ValueError as error:
        raise refusal(scenario, error, "the simulator takes") from None


def simulate(
    scenario: Scenario,
    seed: int | None = None,
    record_interval_s: float = 1.0,
    progress: Callable[[float], None] | None = None,
    pcap: str | os.PathLike[str] | None = None,
    qlog: str | os.PathLike[str] | None = None,
) -> Recording:
    """Run `scenario` (with `seed`, if given, instead of its own) and record it every `record_interval_s` seconds.

    progress is called with the simulated share of the run, 0..1. pcap, qlog: files that capture what passes the
    senders' hosts (:class:`orbitcc.envs.backends.captures.Captures`). Raises OrbitccError for a flow that waits for
    actions from outside (the controller `external`), which only an environment can give.
    """
    if seed is not None:
        scenario = scenario.with_seed(seed)
    from orbitcc._sim import FLOW_SERIES, LINK_SERIES

    columns = len(scenario.flows) * len(FLOW_SERIES) + len(scenario.links) * len(LINK_SERIES)
    try:
        checked_number(
            record_interval_s, max(1e-3, scenario.duration_s * columns / MOST_VALUES), scenario.duration_s, "s"
        )
    except OrbitccError as error:
        raise error.at("interval") from None
    captures = Captures(scenario, pcap, qlog)
    simulation = begun(scenario, record_interval_s, capture=captures.wanted)
    end = simulation.duration_ns
    parts = max(PARTS, math.ceil(end / LONGEST_CAPTURED_NS)) if captures.wanted else PARTS
    with captures:
        for part in range(1, parts + 1):
            simulation.run_until(end * part // parts)
            if captures.wanted:
                captures.take(simulation)
            if progress is not None:
                progress(part / parts)
    series, totals = simulation.recording(), simulation.flow_totals()
    for i, flow in enumerate(scenario.flows):
        if flow.controller.name == "udp":
            totals[i].update(dict.fromkeys(UNKNOWN_TO_UDP, math.nan))
            for key in UNKNOWN_TO_UDP:
                series["flows"][key][:, i] = math.nan
    return Recording(
        scenario=scenario,
        t_s=series["t_s"],
        flows=series["flows"],
        links=series["links"],
        flow_totals=totals,
        link_totals=simulation.link_totals(),
    )


def _cell(value: float) -> str:
    return "" if np.isnan(value) else f"{value:.9g}"
