"""Paths over satellites: computed from geometry, logged by LeoEM, or read from a file."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from orbitcc.common.errors import OrbitccError
from orbitcc.envs.description.flows import ControllerChoice, Flow
from orbitcc.envs.description.links import MAX_DELAY_MS, MAX_RATE_MBPS, Link, Outage
from orbitcc.envs.description.model import MAX_TIME_S, Points, mean_over, number, value_at
from orbitcc.envs.description.queues import DropTailBytes
from orbitcc.envs.description.scenario import Scenario, SimSettings
from orbitcc.envs.orbits import formats, leoem, trace_set
from orbitcc.envs.orbits.constellation import SHELLS
from orbitcc.envs.orbits.elements import ShellChoice, chosen_shell
from orbitcc.envs.orbits.routing import PathSpec, find_path
from orbitcc.envs.scenarios.leo_paper import TBF_BURST_BYTES
from orbitcc.envs.scenarios.micro import CUBIC, buffer_bytes

INTERRUPTION_MS = (45, 120)
"""Length of the outage at a handover: uniform in whole milliseconds, both ends included (the LEO paper)."""
LEOEM_RATE_MBPS, LEOEM_ACCESS_MBPS = 100.0, 150.0
"""Rate of the hosts' links and of links between satellites, and rate of the first and last hop (the paper's LeoEM)."""
STEP_S = 1e-6
"""A jump of an interpolated delay takes so long."""
LEOEM_PACKET_BYTES = 1500
"""Size of the packets in which the paper states its buffers."""


def leo_path(
    source: str = "San Diego",
    target: str = "New York",
    shell: ShellChoice = SHELLS["starlink1"],
    tle: str = "",
    mode: Literal["isl", "bp", "bp1"] = "isl",
    selection: Literal["shortest", "elevation", "sticky", "random"] = "shortest",
    run: Annotated[int, number(0, 2**53, whole=True)] = 1,
    start_s: Annotated[float, number(0, MAX_TIME_S, "s")] = 0.0,
    min_elevation_deg: Annotated[float, number(0, 89, "deg")] = 25.0,
    interruption: Literal["drop", "hold", "none"] = "drop",
    rate_mbps: Annotated[float, number(0.01, MAX_RATE_MBPS, "Mbit/s")] = 100.0,
    return_rate_mbps: Annotated[float | None, number(0.01, MAX_RATE_MBPS, "Mbit/s", optional=True)] = None,
    buffer_bdp: Annotated[float, number(0.001, 1e4)] = 1.0,
    flows: Annotated[int, number(1, 1000, whole=True)] = 1,
    gap_s: Annotated[float, number(0, MAX_TIME_S, "s")] = 0.0,
    controller: ControllerChoice = CUBIC,
    duration_s: Annotated[float, number(1, MAX_TIME_S, "s")] = 300.0,
) -> Scenario:
    """A path between two places over a shell of satellites, by exact geometry: one bottleneck with the path's delay.

    Each run places the satellites differently; `start_s` moves them on. `selection` is the rule that selects the
    serving satellites. When the satellite that serves an end changes, the path has an outage of 45 to 120 ms. Packets
    that are queued or arrive during the outage are lost (`drop`) or wait (`hold`). Without a route, all packets
    are lost. The buffer is in multiples of the rate times the median base RTT. With `tle`, a file of orbital elements,
    the satellites are those of the file, `start_s` after its newest epoch; runs then differ in the phase of the slots.
    """
    shell = chosen_shell(shell, tle)
    spec = PathSpec(
        source=source, target=target, shell=shell, mode=mode, selection=selection, start_s=start_s,
        min_elevation_deg=min_elevation_deg,
    )  # fmt: skip
    trace = find_path(spec, duration_s, run)
    if all(slot.outage for slot in trace.slots):
        raise OrbitccError("target", target, f"a place with a route from {source} (shell {shell.name}, mode {mode})")
    if interruption != "none":
        draw = random.Random(run)
        trace = trace.with_interruptions(lambda: draw.randint(*INTERRUPTION_MS)).holding(interruption == "hold")
    queue = DropTailBytes(limit_bytes=buffer_bytes(rate_mbps, trace.statistics().rtt_ms[2], buffer_bdp))
    return Scenario(
        name="leo-path",
        description=spec.name,
        duration_s=duration_s,
        seed=run,
        links=(trace.link(rate_mbps=rate_mbps, return_rate_mbps=return_rate_mbps, queue=queue),),
        flows=_flows(flows, gap_s, controller),
    )


def path_trace(
    file: str = "",
    bandwidth_file: str | None = None,
    path: Annotated[int | None, number(1, trace_set.MOST_PATHS, whole=True, optional=True)] = None,
    rate_mbps: Annotated[float | None, number(0.01, MAX_RATE_MBPS, "Mbit/s", optional=True)] = None,
    return_rate_mbps: Annotated[float | None, number(0.01, MAX_RATE_MBPS, "Mbit/s", optional=True)] = None,
    base_rtt_ms: Annotated[float | None, number(0.1, MAX_DELAY_MS, "ms", optional=True)] = None,
    buffer_bdp: Annotated[float, number(0.001, 1e4)] = 1.0,
    ordering: Literal["fifo", "overtaking"] = "overtaking",
    flows: Annotated[int, number(1, 1000, whole=True)] = 1,
    gap_s: Annotated[float, number(0, MAX_TIME_S, "s")] = 0.0,
    controller: ControllerChoice = CUBIC,
    duration_s: Annotated[float | None, number(1, MAX_TIME_S, "s", optional=True)] = None,
) -> Scenario:
    """A path from a file: CSV, a log of LeoEM (.log), a trace set, or delays of LeoReplayer with `bandwidth_file`.

    path: number of the path in a trace set (.npz), from 1, which is the default.
    base_rtt_ms: of a path in a trace set for which no delay was measured; None: 50.
    rate_mbps: None is the rate in the file, or 100 if the file has none.
    duration_s: None is the length of the file; a longer run repeats the file.
    The buffer is in multiples of the mean rate times the median base RTT.
    """
    if not file:
        raise OrbitccError("file", file, "the name of a file, e.g. one written by `orbitcc path --out`")
    if file.endswith(".npz"):
        found = trace_set.opened(file)
        if bandwidth_file is not None:
            raise OrbitccError("bandwidth_file", bandwidth_file, f"none beside a trace set ({file})")
        path = 1 if path is None else path
        if path > len(found.entries):
            raise OrbitccError("path", path, f"1 to {len(found.entries)}, the paths of {file}")
        trace = found.measured(path - 1).trace()
        if trace.has_delays and base_rtt_ms is not None:
            raise OrbitccError("base_rtt_ms", base_rtt_ms, "none for a path whose delay was measured")
        trace = trace if trace.has_delays else trace.with_rtt(50.0 if base_rtt_ms is None else base_rtt_ms)
    else:
        for field, given in (("path", path), ("base_rtt_ms", base_rtt_ms)):
            if given is not None:
                raise OrbitccError(
                    field, given, f"none for a file of one path; it is for trace sets (.npz), not {file}"
                )
        trace = formats.load(file) if bandwidth_file is None else formats.load_replayer(file, bandwidth_file)
    if duration_s is not None:
        trace = trace.lasting(duration_s)
    if all(slot.outage for slot in trace.slots):
        raise OrbitccError("file", file, "a path that has a route at some time")
    if rate_mbps is None and trace.rate_points is None:
        rate_mbps = LEOEM_RATE_MBPS
    own = trace.rate_points[0] if trace.rate_points is not None else 0.0
    mean_mbps = mean_over(own, trace.duration_s) if rate_mbps is None else rate_mbps
    queue = DropTailBytes(limit_bytes=buffer_bytes(mean_mbps, trace.statistics().rtt_ms[2], buffer_bdp))
    return Scenario(
        name="path-trace",
        description=trace.name,
        duration_s=trace.duration_s,
        links=(
            trace.link(rate_mbps=rate_mbps, return_rate_mbps=return_rate_mbps, queue=queue, ordering=ordering),
        ),
        flows=_flows(flows, gap_s, controller),
    )  # fmt: skip


def leoem_path(
    path: str = "sd-ny-bp",
    run: Annotated[int, number(0, 2**53, whole=True)] = 1,
    interruption: Literal["paper", "original", "none"] = "paper",
    buffer_packets: Annotated[int | None, number(1, 1e9, "packets", whole=True, optional=True)] = None,
    shaper: Literal["exact", "tbf"] = "exact",
    transient_ms: Annotated[float, number(0, 900, "ms")] = 0.0,
    transient_share: Annotated[float, number(0.01, 10)] = 0.72,
    flows: Annotated[int, number(1, 100, whole=True)] = 1,
    gap_s: Annotated[float, number(0, MAX_TIME_S, "s")] = 100.0,
    controller: ControllerChoice = CUBIC,
    duration_s: Annotated[float, number(1, MAX_TIME_S, "s")] = 300.0,
) -> Scenario:
    """A path of LeoEM as in the LEO paper's experiments (Mazilu et al. 2026): one flow, or several that start in turn.

    interruption: how long a handover at an end takes that hop down. `paper`: 45 to 120 ms; `original`: LeoEM's rule,
    3 (old + new delay of the hop).
    buffer_packets: packets of 1500 bytes in front of every link; None: the paper's value for this path.
    shaper: links with an exact rate, or LeoEM's token buckets of 15 kB.
    transient_ms: LeoEM writes the delays of a new route hop by hop, so for some time old and new ones mix. For so long
    after each change of the route, the delay is transient_share of its value (0.72: 35.5 ms on a path of 49.3 ms).
    The logs last 300 s and are repeated after that.

    LeoEM has a link for every hop. Here only the links where packets wait or are lost are kept: each host's own link
    (100 Mbit/s), the first hop (150 Mbit/s), all links between as one with the delay of the whole path (100 Mbit/s),
    and the last hop (150 Mbit/s). A handover at an end therefore loses the packets that arrive at that hop while it is
    down, but not the packets already on it. When LeoEM replaces another link, the packets on that link are lost. The
    logs do not say which link it is, so the packets that enter the path during the mean delay of one hop are lost; the
    queue is lost only if the first hop changes, too.
    """
    chosen = leoem.get(path)
    trace = chosen.trace.lasting(duration_s)
    queue = DropTailBytes(limit_bytes=LEOEM_PACKET_BYTES * (buffer_packets or chosen.buffer_packets))
    burst = TBF_BURST_BYTES if shaper == "tbf" else 0
    hops = sum(chosen.nodes) / 2 - 1
    draw = random.Random(run)
    down: dict[str, list[Outage]] = {"src": [], "dst": [], "between": []}
    for slot in trace.slots:
        for end, change in (("src", slot.access_fwd_change), ("dst", slot.access_rev_change)):
            if change and interruption != "none":
                original_ms = chosen.original_ms[slot.start_s % leoem.SECONDS, end]
                ms = draw.randint(*INTERRUPTION_MS) if interruption == "paper" else original_ms
                down[end].append(Outage(at_s=slot.start_s, duration_ms=ms))
        if slot.mid_change:
            hop_ms = float(trace.delays_ms(slot.start_s)[0]) / hops
            flush: Literal["none", "queue"] = "queue" if slot.access_fwd_change else "none"
            down["between"].append(Outage(at_s=slot.start_s, duration_ms=hop_ms, flush=flush))
    longest_ms = {o.at_s: o.duration_ms for o in sorted((*down["src"], *down["dst"]), key=lambda o: o.duration_ms)}
    handovers = tuple(h.changed(duration_ms=longest_ms.get(h.at_s, 0.0)) for h in trace.handovers())

    def link(name: str, rate_mbps: float, outages: list[Outage]) -> Link:
        return Link(
            name=name, rate_mbps=rate_mbps, burst_bytes=burst, queue=queue, outages=tuple(outages), handovers=()
        )

    uplinks = [link(f"uplink-{k}", LEOEM_RATE_MBPS, []) for k in range(flows)]
    path_link = trace.link("path", rate_mbps=LEOEM_RATE_MBPS, queue=queue)
    if transient_ms:
        changes = [slot.start_s for slot in trace.slots[1:]]
        path_link = path_link.changed(
            delay_ms=_with_dips(path_link.delay_ms, changes, transient_ms / 1e3, transient_share),
            reverse=path_link.backward().changed(
                delay_ms=_with_dips(path_link.backward().delay_ms, changes, transient_ms / 1e3, transient_share)
            ),
        )
    most = 22 * queue.limit_bytes
    return Scenario(
        name="leoem",
        description=chosen.name,
        duration_s=duration_s,
        seed=run,
        links=(
            *uplinks,
            link("first-hop", LEOEM_ACCESS_MBPS, down["src"]),
            path_link.changed(burst_bytes=burst, outages=tuple(down["between"]), handovers=handovers),
            link("last-hop", LEOEM_ACCESS_MBPS, down["dst"]),
        ),
        flows=tuple(
            flow.changed(path=(f"uplink-{k}", "first-hop", "path", "last-hop"))
            for k, flow in enumerate(_flows(flows, gap_s, controller))
        ),
        sim=SimSettings(rmem_bytes=(10_240, 87_380, most), wmem_bytes=(10_240, 87_380, most)),
    )


def _with_dips(points: Any, changes: Sequence[float], length_s: float, share: float) -> Points:
    """Delays that are interpolated, with a share of their value for some time after each change."""
    found = list(points)
    for start_s in changes:
        end_s = start_s + length_s
        before, first, last = (value_at(points, t, interpolate=True) or 0.0 for t in (start_s - STEP_S, start_s, end_s))
        dip = [(start_s - STEP_S, before), (start_s, share * first), (end_s, share * last), (end_s + STEP_S, last)]
        found = [p for p in found if not start_s - STEP_S <= p[0] <= end_s + STEP_S] + dip
    return tuple(sorted(found))


def _flows(count: int, gap_s: float, controller: ControllerChoice) -> tuple[Flow, ...]:
    return tuple(Flow(controller=controller, start_s=k * gap_s) for k in range(count))
