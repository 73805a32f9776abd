"""`orbitcc bench`: how fast the simulator and the environments are on this machine."""

from __future__ import annotations

import functools
import itertools
import multiprocessing
import resource
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from orbitcc.commands import bench_envs
from orbitcc.commands.measurement import REPEATS, Measurement, median
from orbitcc.commands.options import print_json

if TYPE_CHECKING:
    from orbitcc.envs.description.scenario import Scenario

INTERVAL_MS = 30
PACKET_BYTES = 1514


def bench(as_json: Annotated[bool, typer.Option("--json", help="Print the table as JSON.")] = False) -> None:
    """Measure the simulator's speed: CPU time per delivered packet, environment steps per second."""
    results: list[Measurement] = []
    for row in ROWS:
        results.append(row(results))
        if not as_json:
            print(f"  {results[-1].what}: {_value(results[-1])}", file=sys.stderr, flush=True)
    if as_json:
        print_json({"rows": [{**asdict(r), "met": r.met} for r in results]})
        return
    _print(results)


def _ns_per_packet(scenario: Scenario, *, per_hop: bool = False) -> float:
    """CPU nanoseconds per packet delivered to a receiver, or per packet a link delivered."""
    from orbitcc import _sim

    text = scenario.compile()

    def measure() -> float:
        simulation = _sim.Simulation(text)
        began = time.process_time_ns()
        simulation.run()
        spent = time.process_time_ns() - began
        if per_hop:
            return spent / (sum(link["delivered_bytes"] for link in simulation.link_totals()) / PACKET_BYTES)
        return spent / (sum(flow["received_bytes"] for flow in simulation.flow_totals()) / scenario.sim.mss_bytes)

    return median(measure)


def _one(_: list[Measurement], controller: str, name: str, target: float, noise: bool = True) -> Measurement:
    value = _ns_per_packet(_dumbbell(noise).with_controller(controller))
    return Measurement(f"1 {name} flow, 100 Mbit/s, 50 ms{_note(noise)}", value, "ns/packet", target, 45)


def _one_agent(_: list[Measurement], noise: bool = True) -> Measurement:
    scenario = _dumbbell(noise)
    value = median(lambda: 1e9 / _Driven(scenario).run()["packets_per_cpu_s"])
    return Measurement(f"1 agent-driven flow, same link{_note(noise)}", value, "ns/packet", 80, 45)


def _quic(_: list[Measurement]) -> Measurement:
    scenario = _dumbbell(noise=True).with_controller("quinn-cubic")
    return Measurement("1 flow of QUIC, quinn's Cubic, same link", _ns_per_packet(scenario), "ns/packet", 2500)


def _dumbbell(noise: bool) -> Scenario:
    from orbitcc.envs import scenarios

    scenario = scenarios.get("dumbbell")
    return scenario if noise else scenario.override("sim.noise", "false")


def _note(noise: bool) -> str:
    """Jitter at the sending host is on by default."""
    return "" if noise else ", hosts without jitter"


def _ten_cubic(_: list[Measurement]) -> Measurement:
    from orbitcc.envs import scenarios
    from orbitcc.envs.description.scenario import Flow

    scenario = scenarios.get("dumbbell").with_flows([Flow.parse("cubic") for _ in range(10)])
    return Measurement("10 Cubic flows, same link", _ns_per_packet(scenario), "ns/packet", 120, 70)


def _parking_lot(_: list[Measurement]) -> Measurement:
    from orbitcc.envs import scenarios

    scenario = scenarios.get("parking-lot", bottlenecks=6, interruption_every_s=0).with_controller("cubic")
    value = _ns_per_packet(scenario, per_hop=True)
    return Measurement("7 Cubic flows, parking lot of 6 hops", value, "ns/packet-hop", 120, 80)


def _geo(results: list[Measurement]) -> Measurement:
    from orbitcc.envs import scenarios

    value = _ns_per_packet(scenarios.get("geo-ideal").with_controller("cubic")) / results[0].value
    return Measurement("1 Cubic flow, GEO, against row 1", value, "x", 1.3, 1.1)


def _step_overhead(results: list[Measurement]) -> Measurement:
    """A batch of 256 nearly idle worlds, minus what its packets cost."""
    from orbitcc.envs import scenarios

    scenario = scenarios.get("dumbbell", rate_mbps=1, base_rtt_ms=30)
    per_packet = results[1].value

    def measure() -> float:
        done = _Driven(scenario, worlds=256).run()
        return (done["cpu_s"] * 1e9 - done["packets"] * per_packet) / done["steps"] / 1e3

    return Measurement("one env step, without the cost of its packets", median(measure), "µs", 1.0, 0.3)


def _replacement(_results: list[Measurement], pooled: bool = False) -> Measurement:
    """Draw a world from a training distribution, compile it, put it in place of a finished one."""
    import numpy as np

    from orbitcc import _sim
    from orbitcc.envs import scenarios
    from orbitcc.envs.scenarios.distribution import PathDistribution

    drawn, rng = scenarios.distribution("train-orbits" if pooled else "train-mixed"), np.random.default_rng(1)
    if isinstance(drawn, PathDistribution):
        drawn = drawn.changed(pool_size=256)
        for _ in range(2000):  # until each of them has been used
            drawn.sample(rng).compile()
    worlds = _sim.Worlds(
        [drawn.sample(rng).compile()], max_agents=drawn.max_agents, interval_ns=INTERVAL_MS * 1_000_000, threads=1
    )

    def measure() -> float:
        began = time.process_time_ns()
        for _ in range(200):
            worlds.reset(0, drawn.sample(rng).compile())
        return (time.process_time_ns() - began) / 200 / 1e3

    what = "new world with a path from a precomputed pool" if pooled else "new world"
    return Measurement(f"{what}: sample, translate for the simulator, reset", median(measure), "µs", 200)


def _fresh_path(_results: list[Measurement]) -> Measurement:
    """300 s over Starlink's first shell of 1,584 satellites, a new one each time; the slowest of the modes."""
    from orbitcc.envs.orbits.routing import PathSpec, find_path

    def median_ms(spec: PathSpec) -> float:
        seeds = itertools.count()

        def measure() -> float:
            began = time.process_time_ns()
            find_path(spec, 300.0, next(seeds))
            return (time.process_time_ns() - began) / 1e6

        return median(measure)

    specs = [PathSpec.build({"source": "San Diego", "target": "New York", "mode": m}) for m in ("isl", "bp", "bp1")]
    value = max(median_ms(spec) for spec in specs)
    return Measurement("new path of 300 s over 1,584 satellites", value, "ms", 50)


def _memory(_results: list[Measurement], transport: str = "tcp", target: float = 128) -> Measurement:
    # in a process of its own: what earlier rows freed would be used again and not be seen
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        value = pool.submit(_memory_kb, transport).result()
    return Measurement(f"memory per world{'' if transport == 'tcp' else ' of QUIC'}", value, "KB", target)


def _memory_kb(transport: str) -> float:
    """Growth of this process over worlds at work."""
    from orbitcc.envs import scenarios

    worlds = 256 if transport == "tcp" else 64
    _Driven(scenarios.get("dumbbell"), worlds=2, transport=transport).run()
    before = _resident_bytes()
    driven = _Driven(scenarios.get("dumbbell"), worlds=worlds, transport=transport)
    driven.run()
    return (_resident_bytes() - before) / worlds / 1024


def _resident_bytes() -> int:
    """Memory the process holds now (Linux; elsewhere its peak so far)."""
    try:
        with open("/proc/self/statm", encoding="ascii") as statm:
            return int(statm.read().split()[1]) * resource.getpagesize()
    except OSError:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024


class _Driven:
    """Worlds with one flow each, driven from outside at a window of 1.2 BDP."""

    def __init__(self, scenario: Scenario, worlds: int = 1, transport: str = "tcp") -> None:
        import numpy as np

        from orbitcc import _sim
        from orbitcc.envs.description.scenario import Flow

        driven = scenario.with_flows([Flow.parse("external")]).over(transport)
        self.steps = int(driven.duration_s * 1e3 / INTERVAL_MS) - 1
        if worlds > 1:
            self.steps = 100
        self.worlds = _sim.Worlds(
            [driven.with_seed(seed).compile() for seed in range(1, worlds + 1)],
            max_agents=1,
            interval_ns=INTERVAL_MS * 1_000_000,
            threads=1,
            observation='"astraea"' if transport == "tcp" else '"ratios"',  # QUIC does not tell all of it
        )
        bdp = driven.capacity_mbps() * driven.base_rtt_ms() * 1e3 / 8 / PACKET_BYTES
        for index in range(worlds):
            self.worlds.set_cwnd(index, 0, max(4.0, 1.2 * bdp), driven.capacity_mbps() * 1e6)
        shape = (worlds, 1)
        self.hold = np.zeros((*shape, self.worlds.action_dim), np.float32)
        self.obs = np.zeros((*shape, self.worlds.observation_dim), np.float32)
        self.reward = np.zeros(shape, np.float32)
        self.status = np.zeros(shape, np.uint8)
        self.mss = driven.sim.mss_bytes

    def run(self) -> dict[str, float]:
        """All steps, each holding the window; how much CPU time they took and how many packets they delivered."""
        began = time.process_time_ns()
        for _ in range(self.steps):
            self.worlds.step(self.hold, self.obs, self.reward, self.status)
        cpu_s = (time.process_time_ns() - began) / 1e9
        count = self.worlds.num_worlds
        received = sum(self.worlds.flow_totals(i)[0]["received_bytes"] for i in range(count))
        packets = received / self.mss
        return {
            "cpu_s": cpu_s,
            "packets": packets,
            "steps": float(self.steps * count),
            "packets_per_cpu_s": packets / cpu_s,
        }


PACKET_ROWS: tuple[Callable[[list[Measurement]], Measurement], ...] = (
    functools.partial(_one, controller="cubic", name="Cubic", target=80),
    functools.partial(_one, controller="cubic", name="Cubic", target=80, noise=False),
    functools.partial(_one, controller="bbr3", name="BBRv3", target=80),
    functools.partial(_one, controller="vivace", name="Vivace", target=100),
    _one_agent,
    functools.partial(_one_agent, noise=False),
    _ten_cubic,
    _parking_lot,
)
ROWS: tuple[Callable[[list[Measurement]], Measurement], ...] = (
    *PACKET_ROWS,
    _geo,
    _step_overhead,
    *bench_envs.ROWS,
    _replacement,
    functools.partial(_replacement, pooled=True),
    _fresh_path,
    _memory,
    _quic,
    functools.partial(_memory, transport="quic", target=1_000),
)


def _value(result: Measurement) -> str:
    number = f"{result.value:,.0f}" if result.value >= 1000 else f"{result.value:.3g}"
    return f"{number} {result.unit}"


def _print(results: list[Measurement]) -> None:
    from rich.console import Console
    from rich.table import Table

    title = f"CPU time on this machine (or wall time where it says so), medians of {REPEATS}"
    table = Table(title=title, title_justify="left", title_style="bold", header_style="bold", border_style="dim")
    table.add_column("what")
    for heading in ("measured", "target (ambition)"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("")
    for r in results:
        ambition = "" if r.ambition is None else f" ({r.ambition:,g})"
        target = "" if r.target is None else f"{'≥' if r.higher_is_better else '≤'} {r.target:,g}{ambition}"
        verdict = "" if r.target is None else "[green]met[/green]" if r.met else "[red]missed[/red]"
        table.add_row(r.what, f"[bold]{_value(r)}[/bold]", target, verdict)
    Console().print(table)
