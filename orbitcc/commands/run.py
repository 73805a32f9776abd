"""`orbitcc run`: one run of a scenario."""

from __future__ import annotations

import math
import re
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orbitcc.commands.options import (
    AsJson,
    Backend,
    Changes,
    Policies,
    Programs,
    ScenarioName,
    Servers,
    Trust,
    chosen_backend,
    complete_controller,
    order_of,
    print_json,
    table,
)
from orbitcc.common.names import plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from orbitcc.envs.backends.simulator import Recording
    from orbitcc.envs.description.flows import ControllerSpec, Flow
    from orbitcc.envs.description.scenario import Scenario, ScenarioDistribution

FLOW_KEYS = (
    "name",
    "controller",
    "goodput_mbps",
    "srtt_ms",
    "srtt_p95_ms",
    "base_rtt_ms",
    "delay_inflation",
    "sent_packets",
    "retransmitted_packets",
    "lost_packets",
    "rtos",
    "received_datagrams",
    "delay_p50_ms",
    "delay_p95_ms",
    "delay_p99_ms",
    "late_share",
)
LINK_KEYS = ("name", "utilisation", "queue_bytes_mean", "queue_bytes_max", "dropped_packets", "lost_packets")
PLAIN_PROGRESS_EVERY_S = 5.0
MIN_PLOT_INTERVAL_S = 0.01
_EVENTS = re.compile(r"\b(outages|handovers|reroutes)\b")
"""In a change of a scenario that sets events."""


def run(
    ctx: typer.Context,
    scenario: ScenarioName,
    flow: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME[:param=value,...][@start]",
            help="The controller of the scenario's flows, and with @start their start; the rest stays. One is for all "
            "flows of the contender or, without any, for all except udp; N are for N flows, in order; k for a scenario "
            "of one flow make k copies of it. Repeatable, also with --policy; then the order of all of them counts.",
            autocompletion=complete_controller,
        ),
    ] = None,
    policy: Policies = None,
    program: Programs = None,
    server: Servers = None,
    changes: Changes = None,
    seed: Annotated[int | None, typer.Option(help="Seed of noise and losses. Default: the scenario's.")] = None,
    interval: Annotated[
        float | None,
        typer.Option(help="Seconds between two points of the time series. Default: 1, with --plot 0.2 % of the run."),
    ] = None,
    series: Annotated[Path | None, typer.Option(help="Write the time series to this .csv or .npz file.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Write a picture of the run to this file.")] = None,
    pcap: Annotated[
        Path | None, typer.Option(help="Write the senders' packets to this .pcap file (Wireshark).")
    ] = None,
    qlog: Annotated[Path | None, typer.Option(help="Write the flows' events to this .qlog file (qvis).")] = None,
    as_json: AsJson = False,
    backend: Backend = None,
    trust: Trust = None,
) -> None:
    """Run a scenario and print what each flow and link achieved."""
    from orbitcc.common.errors import OrbitccError
    from orbitcc.common.files import check_ending, check_place
    from orbitcc.emulator.programs import specs
    from orbitcc.envs import backends

    programs = specs(program or [], server or [])
    backend = chosen_backend(backend, programs)
    play = backends.runner(backend)
    for path in filter(None, (series, plot, pcap, qlog)):
        check_place(path)
    if series is not None:
        check_ending("--series", series, ".csv", ".npz")
    captures = {key: path for key, path in (("pcap", pcap), ("qlog", qlog)) if path is not None}
    for key, path in captures.items():
        check_ending(f"--{key}", path, f".{key}")
        if backend != "simulator":
            raise OrbitccError(f"--{key}", str(path), "a simulated run (of real packets, tcpdump makes captures)")
    if captures:  # whose temporary files are removed by an exception
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    if plot is not None:
        from orbitcc.eval.figures.base import check_name
        from orbitcc.eval.figures.run import plot_run

        check_name(plot)
    order = order_of(ctx, "flow", "policy", "program")
    chosen = prepare(scenario, flow or [], policy or [], changes or [], seed, order=order, programs=programs)
    if interval is None:
        longest = min(1.0, chosen.duration_s)
        interval = longest if plot is None else max(MIN_PLOT_INTERVAL_S, min(longest, chosen.duration_s / 500))
    try:
        with RunProgress(chosen.name) as progress:
            recording = play(chosen, record_interval_s=interval, progress=progress, **captures)
    except OrbitccError as error:
        raise (error.at("--interval") if error.field == "interval" else error) from None
    if series is not None:
        (recording.save_csv if series.suffix == ".csv" else recording.save)(series)
    if plot is not None:
        plot_run(recording, plot)
    for name, at_s in recording.closed_connections():
        print(
            f"warning: {plain(name)}: its connection was closed at {at_s:.1f} s; its figures end there", file=sys.stderr
        )
    if as_json:
        print_json(as_dict(recording))
    else:
        print_tables(recording)


def prepare(
    source: str,
    flows: list[str],
    policies: list[str],
    changes: list[str],
    seed: int | None,
    *,
    order: Sequence[str] = (),
    programs: Sequence[ControllerSpec] = (),
) -> Scenario:
    """The scenario of the command line, with these controllers (`driven`). A distribution is sampled with the seed (1
    without one).

    order: "flow", "policy" or "program" for each of them; what it leaves out follows, flows first.
    """
    import numpy as np

    from orbitcc.agents.registry import policy_spec
    from orbitcc.common.errors import OrbitccError
    from orbitcc.envs.description.flows import Flow
    from orbitcc.envs.description.scenario import Scenario, ScenarioDistribution

    ways = {
        "flow": iter([Flow.parse(text) for text in flows]),
        "policy": iter([Flow(controller=policy_spec(text)) for text in policies]),
        "program": iter([Flow(controller=spec) for spec in programs]),
    }
    given = [*(next(ways[kind]) for kind in order), *ways["flow"], *ways["policy"], *ways["program"]]
    for key, value in ((key.strip(), value.strip()) for key, _, value in (text.partition("=") for text in changes)):
        if seed is not None and key == "seed":
            raise OrbitccError("--seed", seed, "not beside --set seed")
        undone = re.fullmatch(r"(flows\.[^.]+\.)?controller(\..+)?", key) or (key == "flows" and not value.isdigit())
        if given and undone:
            raise OrbitccError("--set", key, "not beside --flow, --policy or --program, which set the controllers")
    loaded = load(source, changes)
    _check_seed(seed)
    if isinstance(loaded, ScenarioDistribution):
        return driven(loaded.sample(np.random.default_rng(1 if seed is None else seed)), given, drawn=True)
    assert isinstance(loaded, Scenario)
    return seeded(driven(loaded, given), seed)


def seeded(scenario: Scenario, seed: int | None) -> Scenario:
    """The scenario with the seed of the command line, if there is one."""
    _check_seed(seed)
    return scenario if seed is None else scenario.with_seed(seed)


def _check_seed(seed: int | None) -> None:
    from orbitcc.common.errors import OrbitccError

    if seed is not None and not 0 <= seed <= 2**53:
        raise OrbitccError("--seed", seed, "a whole number in [0, 2^53]")


def load(source: str, changes: list[str]) -> Scenario | ScenarioDistribution:
    """The scenario or distribution of the command line. Raises OrbitccError, which says so of the name of a suite."""
    from orbitcc.common.errors import StateError, UnknownNameError
    from orbitcc.envs import scenarios

    try:
        loaded = scenarios.load(scenarios.named(source), settings(changes))
        given = source not in scenarios.SCENARIOS or any(map(_EVENTS.search, changes))
        for line in [*(too_late(loaded) if given else ()), *too_short(loaded)]:
            print(f"warning: {line}", file=sys.stderr)
        return loaded
    except UnknownNameError as error:
        from orbitcc.eval.suites import SUITES

        if error.field != "scenario" or source not in SUITES:
            raise
        own = getattr(SUITES[source], "scenario", "")
        single = f"; a single run of its scenario: `orbitcc run {own}`" if own else ""
        raise StateError("scenario", f"{source} is a suite: `orbitcc eval {source}`{single}") from None


def too_late(loaded: Scenario | ScenarioDistribution) -> list[str]:
    """A line about events of a scenario after its end, if it has any. Schedules may well be longer than a run."""
    from orbitcc.envs.description.scenario import Scenario

    if not isinstance(loaded, Scenario):
        return []
    events: list[tuple[str, float]] = []
    for i, link in enumerate(loaded.links):
        events += [(f"links.{i}.outages.{k}", outage.at_s) for k, outage in enumerate(link.outages)]
        events += [(f"links.{i}.handovers.{k}", handover.at_s) for k, handover in enumerate(link.handovers or ())]
    for i, flow in enumerate(loaded.flows):
        events += [(f"flows.{i}.reroutes.{k}", reroute.at_s) for k, reroute in enumerate(flow.reroutes)]
    late = [(where, at_s) for where, at_s in events if at_s >= loaded.duration_s]
    if not late:
        return []
    (where, at_s), more = late[0], f" (and {len(late) - 1} more)" if len(late) > 1 else ""
    return [f"{where}: at_s = {at_s:g} is after the end, duration_s = {loaded.duration_s:g}, so it never happens{more}"]


def too_short(loaded: Scenario | ScenarioDistribution) -> list[str]:
    """A line about flows of a scenario that last no longer than they may start late, if it has any."""
    from orbitcc.envs.description.compile import start_jitter_s
    from orbitcc.envs.description.scenario import Scenario

    if not isinstance(loaded, Scenario) or not loaded.flows:
        return []
    late_s = start_jitter_s(loaded)
    lasts = [min(flow.stop_s or math.inf, loaded.duration_s) - flow.start_s for flow in loaded.flows]
    short = [i for i, span_s in enumerate(lasts) if span_s <= late_s]
    if not short:
        return []
    more = f" (and {len(short) - 1} more)" if len(short) > 1 else ""
    begins = f"it starts up to {1e3 * late_s:.3g} ms late (sim.start_jitter_ms)"
    return [f"flows.{short[0]}: {begins} and lasts {1e3 * lasts[short[0]]:.3g} ms, so it may send nothing{more}"]


def driven(scenario: Scenario, given: Sequence[Flow], *, drawn: bool = False) -> Scenario:
    """The scenario with the controllers of these flows, and whatever else their texts name (a start).

    They are for the contender's flows; where there are none, for all but the unresponsive `udp` flows. One is for all
    of them, and N are for N, in order. If there is a single flow to drive, and the scenario is not drawn, k make k
    copies of it.

    Raises OrbitccError for another number, and for a contender's flow without a controller.
    """
    from orbitcc.common.errors import OrbitccError
    from orbitcc.common.numbers import counted
    from orbitcc.envs.controllers import CONTENDER, EXTERNAL
    from orbitcc.envs.description.scenario import given_name

    flows = list(scenario.flows)
    chosen = [i for i, flow in enumerate(flows) if flow.controller.name == EXTERNAL]
    what = f"the {counted(len(chosen), 'learning flow')} this seed draws"
    what = what if drawn else f"the contender's {counted(len(chosen), 'flow')}"
    if chosen and not given:
        if drawn:
            allowed = "a controller for the learning flows of a drawn scenario, e.g. --flow cubic"
            raise OrbitccError("--flow", "(none)", allowed)
        allowed = "a controller that runs by itself, with --flow NAME or --policy POLICY"
        raise OrbitccError(f"flows.{chosen[0]}.controller", CONTENDER, allowed)
    if not chosen:
        chosen = list(scenario.driven)
        what = f"the {counted(len(chosen), 'flow')} of {scenario.name}" + (
            " except udp" if len(chosen) < len(flows) else ""
        )
    if given and not chosen:
        raise OrbitccError("--flow", str(given[0].controller), f"nothing, because {scenario.name} has only udp flows")
    if len(chosen) == 1 and not drawn and given:
        only = chosen[0]
        chosen += range(len(flows), len(flows) + len(given) - 1)
        kept = given_name(flows[only])
        flows += [flows[only].changed(name=kept and f"{kept}-{k}") for k in range(1, len(given))]
    if given and len(given) not in (1, len(chosen)):
        raise OrbitccError("--flow", counted(len(given), "flow"), f"1 for all, or one for each of {what}, in order")
    for k, i in enumerate(chosen if given else ()):
        new, old = given[k % len(given)], flows[i]
        named = {field: getattr(new, field) for field in new.model_fields_set}
        if "delay_preference" in named:
            _check_preference(new)
        try:
            flows[i] = old.changed(**{"name": given_name(old), **named})
        except OrbitccError as error:
            raise error.under(f"flows.{i}") from None
        if new.controller.name == EXTERNAL:
            raise OrbitccError("--flow", CONTENDER, "a controller that runs by itself, e.g. cubic")
    return scenario.with_flows(flows) if given else scenario


def _check_preference(flow: Flow) -> None:
    """OrbitccError where nothing heeds the preference of a flow that a text gives."""
    from orbitcc.agents import checkpoint, python_policy
    from orbitcc.common.errors import OrbitccError
    from orbitcc.envs import controllers
    from orbitcc.envs.controllers import EXTERNAL

    name = flow.controller.name
    path = str(flow.controller.params.get("path", name))
    heeds = name == EXTERNAL or python_policy.is_python_policy(path)
    if not heeds and controllers.get(name).kind == "policy":
        heeds = checkpoint.observes_preference(checkpoint.load(path).card)
    if not heeds:
        raise OrbitccError(
            "--flow", f"delay_preference={flow.delay_preference:g}", f"none for {path}, which heeds none"
        )


def settings(changes: list[str]) -> dict[str, str]:
    from orbitcc.common.errors import OrbitccError

    settings = {}
    for change in changes:
        key, equals, value = change.partition("=")
        if not equals or not key.strip():
            raise OrbitccError("--set", change, "KEY=VALUE, e.g. links.0.rate_mbps=50")
        settings[key.strip()] = value
    return settings


def as_dict(recording: Recording) -> dict[str, Any]:
    """The figures for `--json`."""
    controllers = [flow.controller.name for flow in recording.scenario.flows]
    flows = [{**total, "controller": name} for total, name in zip(recording.flow_totals, controllers, strict=True)]
    return {
        "flows": [{key: flow[key] for key in FLOW_KEYS} for flow in flows],
        "links": [{key: link[key] for key in LINK_KEYS} for link in recording.link_totals],
        **({} if recording.emulation is None else {"emulation": recording.emulation}),
    }


def print_tables(recording: Recording) -> None:
    """One table of flows, one of links."""
    from rich.console import Console

    from orbitcc.common.names import terminal
    from orbitcc.envs.controllers import PROGRAM
    from orbitcc.envs.description.scenario import stem

    scenario, console = recording.scenario, Console()
    console.print(
        f"[bold]{terminal(scenario.name)}[/bold] · {scenario.duration_s:g} s · seed {scenario.seed}", highlight=False
    )
    flows = table(
        "flow", "goodput\nMbit/s", "srtt\nms", "p95\nms", "base\nms", "÷\nbase", "sent", "re-sent", "lost", "RTOs"
    )
    for flow, total in zip(scenario.flows, recording.flow_totals, strict=True):
        only_path = flow.controller.params.keys() == {"path"} or flow.controller.name == PROGRAM
        controller = stem(flow.controller) if only_path else str(flow.controller)
        named_after_it = flow.name.rpartition("-")[0] == controller
        flows.add_row(
            terminal(flow.name) if named_after_it else f"{terminal(flow.name)} [dim]{terminal(controller)}[/dim]",
            _shown(total["goodput_mbps"], 2),
            *(_shown(total[key], 1) for key in ("srtt_ms", "srtt_p95_ms", "base_rtt_ms")),
            _shown(total["delay_inflation"], 2),
            *(_shown(total[key], 0) for key in ("sent_packets", "retransmitted_packets", "lost_packets", "rtos")),
        )
    console.print(flows)
    if any(total["objects"] for total in recording.flow_totals):
        console.print(_downloads(recording))
    links = table("link", "utilisation", "mean queue kB", "largest", "dropped by queue", "lost on the way")
    for total in recording.link_totals:
        links.add_row(
            terminal(total["name"]),
            "no rate" if math.isinf(total["capacity_mbps"]) else _shown(100 * total["utilisation"], 1, " %"),
            _shown(total["queue_bytes_mean"] / 1e3, 1),
            _shown(total["queue_bytes_max"] / 1e3, 1),
            str(total["dropped_packets"]),
            str(total["lost_packets"]),
        )
    console.print(links)
    if any(math.isinf(total["capacity_mbps"]) for total in recording.link_totals):
        console.print("no rate: the link is unlimited, so that it has no queue", style="dim", highlight=False)
    for i, flow in enumerate(recording.scenario.flows):
        if flow.transport is None:
            continue
        allowed_mbps = flow.transport.stream_window_bytes * 8e-3 / max(recording.scenario.base_rtt_ms(i), 1e-3)
        if allowed_mbps < recording.scenario.mean_capacity_mbps(i):
            text = f"{terminal(flow.name)}: its stream window allows {allowed_mbps:.1f} Mbit/s (stream_window_bytes)"
            console.print(text, style="dim", highlight=False)
    if recording.emulation is not None:
        for one in recording.emulation.get("programs", ()):
            console.print(
                f"{terminal(one['name'])} (flow {one['flow']}): its data come from the {one['data_from']}, "
                f"{one['data_bytes'] / 1e6:.1f} MB; {one['returned_bytes'] / 1e6:.1f} MB went the other way",
                highlight=False,
            )
        late = recording.emulation["lateness"]
        console.print(
            f"emulated: packets left {late['p50_us']:.0f} µs late at the median, {late['p99_us']:.0f} µs at the 99th "
            f"percentile, {late['max_us'] / 1e3:.1f} ms at most; {100 * late['share_above_1_ms']:.2f} % more than 1 ms",
            highlight=False,
        )


def _downloads(recording: Recording) -> Table:
    """A table of the downloads of traffic `objects`."""
    import numpy as np

    from orbitcc.common.names import terminal

    listed = table("downloads", "asked for", "complete", "median\ns", "p95\ns", "median\nkB")
    for name, total in zip(recording.flow_names, recording.flow_totals, strict=True):
        objects = total["objects"]
        if not objects:
            continue
        seconds = [s for _, _, s in objects if s is not None]
        times = (f"{np.quantile(seconds, q):.3f}" for q in (0.5, 0.95)) if seconds else ("–", "–")
        kilobytes = np.median([b for _, b, _ in objects]) / 1e3
        listed.add_row(terminal(name), str(len(objects)), str(len(seconds)), *times, f"{kilobytes:.1f}")
    return listed


def _shown(value: float, decimals: int, unit: str = "") -> str:
    return f"{value:.{decimals}f}{unit}" if math.isfinite(value) else "–"


class RunProgress:
    """On stderr: a bar on a terminal once a run takes longer than a second, elsewhere a line every few seconds."""

    def __init__(self, title: str) -> None:
        self.title = title
        self._began = self._last = time.monotonic()
        self._bar: Any = None

    def __enter__(self) -> RunProgress:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def __call__(self, share: float) -> None:
        now = time.monotonic()
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], completed=share)
        elif sys.stderr.isatty():
            if now - self._began > 1.0:
                from rich.console import Console
                from rich.progress import Progress

                from orbitcc.common.names import terminal

                self._bar = Progress(console=Console(stderr=True), transient=True)
                self._bar.start()
                self._bar.add_task(terminal(self.title), total=1.0, completed=share)
        elif now - self._last >= PLAIN_PROGRESS_EVERY_S:
            self._last = now
            print(f"{plain(self.title)}: {share:.0%} done", file=sys.stderr, flush=True)
