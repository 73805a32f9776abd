"""`orbitcc path`: base RTT, handovers and map of a path over satellites."""

from __future__ import annotations

import math
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orbitcc.commands.options import print_json, table

if TYPE_CHECKING:
    from orbitcc.envs.orbits.routing import Route
    from orbitcc.envs.orbits.trace import PathTrace, Slot

MAX_CHANGES = 40
"""Number of route changes that are printed; the file of --out has them all."""
OPTIONS = {"source": "--from", "target": "--to", "min_elevation_deg": "--min-elevation", "start_s": "--start"}
"""Fields of a path -> options with another name."""


def path(
    ctx: typer.Context,
    source: Annotated[
        str | None,
        typer.Option("--from", help="A city, e.g. 'New York' (`orbitcc list places`), or latitude,longitude."),
    ] = None,
    target: Annotated[str | None, typer.Option("--to", help="A city, or latitude,longitude.")] = None,
    shell: Annotated[
        str | None,
        typer.Option(help="starlink1 (default), kuiper1, oneweb, leoem, or a TOML table: '{planes=24, ...}'."),
    ] = None,
    tle: Annotated[
        str | None, typer.Option(help="Satellites as they fly: a file of orbital elements (TLE, 3LE, OMM JSON or CSV).")
    ] = None,
    mode: Annotated[
        str,
        typer.Option(
            help="isl: links between satellites; bp: bent pipe over gateways; bp1: one satellite, then fibre."
        ),
    ] = "isl",
    selection: Annotated[
        str, typer.Option(help="Selection of the serving satellites: shortest, elevation, sticky or random.")
    ] = "shortest",
    seed: Annotated[
        int, typer.Option(help="Seed of the satellites' positions, the start of the slots and random selections.")
    ] = 1,
    start: Annotated[
        float,
        typer.Option(
            help="Time of the constellation at the start of the path, in seconds; with --tle since its newest epoch."
        ),
    ] = 0.0,
    min_elevation: Annotated[float, typer.Option(help="Lowest elevation of serving satellites, in degrees.")] = 25.0,
    name: Annotated[
        str | None,
        typer.Option("--path", help="Show a known path instead: leoem-sd-ny-bp and others, or a .csv or .log file."),
    ] = None,
    duration: Annotated[
        float | None, typer.Option(help="Length in seconds; default: 300, or the length of --path.")
    ] = None,
    at: Annotated[float, typer.Option(help="Time of the map in seconds.")] = 0.0,
    plot: Annotated[Path | None, typer.Option(help="Write a figure of the path to this file.")] = None,
    out: Annotated[
        Path | None, typer.Option(help="Write the path to this .csv file, or to a .log file in LeoEM's format.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the results as JSON.")] = False,
) -> None:
    """Compute a path between two places over a satellite constellation and print its delay over time."""
    from orbitcc.common.errors import OrbitccError
    from orbitcc.common.files import check_place
    from orbitcc.common.numbers import checked_number
    from orbitcc.envs.description.model import MAX_TIME_S
    from orbitcc.envs.orbits import formats

    for file in filter(None, (plot, out)):
        check_place(file)
    if out is not None:
        formats.check_name(out)
    if plot is not None:
        from orbitcc.eval.figures.base import check_name
        from orbitcc.eval.figures.path import plot_path

        check_name(plot)
    try:
        checked_number(duration, 1, MAX_TIME_S, "s", optional=True)
    except OrbitccError as error:
        raise error.at("--duration") from None
    route: Route | None = None
    if name is not None:
        if source is not None or target is not None:
            raise OrbitccError("--path", name, "either --path, or --from and --to, not both")
        for field in ("shell", "tle", "mode", "selection", "seed", "start", "min_elevation"):
            source_of = ctx.get_parameter_source(field)  # of the click that typer brings
            if source_of is not None and source_of.name == "COMMANDLINE":
                allowed = "none beside --path, which is a known path"
                raise OrbitccError(f"--{field.replace('_', '-')}", ctx.params[field], allowed)
        trace = _known(name)
        trace = trace if duration is None else trace.lasting(duration)
    else:
        route = _computed(
            {"source": source, "target": target, "shell": shell, "tle": tle, "mode": mode, "selection": selection,
             "start_s": start, "min_elevation_deg": min_elevation}, seed, duration or 300.0,
        )  # fmt: skip
        trace = route.trace()
    if not 0 <= at <= trace.duration_s:
        raise OrbitccError("--at", at, f"a time within the path, 0 to {trace.duration_s:g} s")
    if out is not None:
        formats.save(trace, out)
    if plot is not None:
        plot_path(trace, plot, route=route, at_s=at)
    if as_json:
        print_json(as_dict(trace, route))
    else:
        _print(trace, route)


def _known(name: str) -> PathTrace:
    from orbitcc.envs.orbits import formats, leoem

    if Path(name).suffix.lower() in (".csv", ".log"):
        return formats.load(name)
    return leoem.get(name, "--path").with_original_interruptions()


def _computed(fields: dict[str, Any], seed: int, duration_s: float) -> Route:
    from orbitcc.commands.run import RunProgress
    from orbitcc.common.errors import MissingError, OrbitccError
    from orbitcc.envs.description.flows import parse_value
    from orbitcc.envs.orbits.elements import Elements
    from orbitcc.envs.orbits.routing import PathSpec, find_route

    for field in ("source", "target"):
        if fields[field] is None:
            raise MissingError(OPTIONS[field])
    if not 0 <= seed <= 2**53:
        raise OrbitccError("--seed", seed, "a whole number in [0, 2^53]")
    shell, tle = fields.pop("shell"), fields.pop("tle")
    if shell is not None and tle is not None:
        raise OrbitccError("--tle", tle, "either --tle or --shell, not both")
    try:
        chosen = Elements(tle=tle) if tle is not None else parse_value("starlink1" if shell is None else shell)
        with RunProgress("path") as progress:
            return find_route(PathSpec(**fields, shell=chosen), duration_s, seed, progress)
    except OrbitccError as error:
        first, *rest = error.field.split(".")
        raise error.at(".".join((OPTIONS.get(first, f"--{first}"), *rest))) from None


def as_dict(trace: PathTrace, route: Route | None) -> dict[str, Any]:
    """The results for `--json`."""
    return {
        "name": trace.name,
        "duration_s": trace.duration_s,
        **asdict(trace.statistics()),
        "great_circle_rtt_ms": None if route is None else _great_circle_rtt_ms(route),
        "slots": [
            {**asdict(slot), "rtt_ms": None if slot.outage else float(trace.base_rtt_ms(slot.start_s))}
            for slot in trace.slots
        ],
    }


def _great_circle_rtt_ms(route: Route) -> float:
    from orbitcc.envs.orbits.constellation import LIGHT_KM_PER_S
    from orbitcc.envs.orbits.places import great_circle_km

    return 2e3 * great_circle_km(*route.network.ground[:2]) / LIGHT_KM_PER_S


def _print(trace: PathTrace, route: Route | None) -> None:
    from rich.console import Console

    from orbitcc.common.names import terminal

    console = Console()
    found = trace.statistics()
    console.print(f"[bold]{terminal(trace.name)}[/bold] · {trace.duration_s:g} s", highlight=False)
    shown = table("", "minimum", "5 %", "median", "90 %", "95 %", "maximum")
    least, low, median, high, most = found.rtt_ms
    shown.add_row("base RTT, ms", _shown(least), _shown(low), _shown(median), "", _shown(high), _shown(most))
    jump, jump_90, jump_max = found.jump_ms
    shown.add_row("RTT step at a route change, ms", "", "", _shown(jump), _shown(jump_90), "", _shown(jump_max))
    slope, slope_95, slope_max = found.slope_ms_per_s
    shown.add_row(
        "RTT slope between changes, ms/s", "", "", _shown(slope, 3), "", _shown(slope_95, 3), _shown(slope_max, 3)
    )
    console.print(shown)
    words = [f"{found.changes} route changes, {found.access_changes} of them at an end"]
    if found.changes:
        words.append(f"one every {found.mean_interval_s:.1f} s")
    if found.hops:
        words.append("{} to {} hops".format(*found.hops) if found.hops[0] < found.hops[1] else f"{found.hops[0]} hops")
    if found.outage_share > 0:
        words.append(f"no route for {100 * found.outage_share:.1f} % of the time")
    if route is not None:
        words.append(f"great circle {_great_circle_rtt_ms(route):.1f} ms")
    console.print(" · ".join(words), highlight=False, soft_wrap=True)
    console.print(_changes(trace))


def _changes(trace: PathTrace) -> Any:
    """A table with one row per route."""
    from orbitcc.common.names import terminal

    made = table(["time, s", "RTT, ms", "changed hop", *(["route"] if any(slot.nodes for slot in trace.slots) else [])])
    for column in made.columns[:2]:
        column.justify = "right"
    made.columns[2].no_wrap = True
    before: Slot | None = None
    shown = [s for s in trace.slots if s.start_s == 0 or s.change or s.outage]
    for slot in shown[:MAX_CHANGES]:
        if slot.outage and before is not None and before.outage:
            continue
        rtt = "–" if slot.outage else _shown(float(trace.base_rtt_ms(slot.start_s)))
        cells = [f"{slot.start_s:.1f}", rtt, _words(slot), terminal(" › ".join(slot.nodes))]
        made.add_row(*cells[: len(made.columns)])
        before = slot
    if len(shown) > MAX_CHANGES:
        made.add_row("…", "", f"{len(shown) - MAX_CHANGES} more (--out)")
    return made


def _words(slot: Slot) -> str:
    if slot.outage:
        return "no route"
    named = (
        ("first hop", slot.access_fwd_change),
        ("last hop", slot.access_rev_change),
        ("middle", slot.mid_change),
    )
    words = ", ".join(word for word, change in named if change and slot.start_s > 0)
    return f"{words} ({slot.interruption_ms:g} ms)" if words and slot.interruption_ms else words


def _shown(value: float, decimals: int = 1) -> str:
    return f"{value:.{decimals}f}" if math.isfinite(value) else "–"
