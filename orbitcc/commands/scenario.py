"""`orbitcc scenario`: show a scenario, export it to a file, draw it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orbitcc.commands.options import Changes, WholeSentences, table
from orbitcc.commands.options import ScenarioName as Name

if TYPE_CHECKING:
    from orbitcc.envs.description.scenario import Scenario

app = typer.Typer(
    cls=WholeSentences,
    help="Show a scenario, export it to a TOML file, or draw it.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Seed = Annotated[
    int | None, typer.Option(help="Seed: the world drawn from a distribution, or the noise of a scenario.")
]


@app.command()
def show(scenario: Name, changes: Changes = None, seed: Seed = None) -> None:
    """Print the links and flows of a scenario, and the parameters of a named one."""
    from rich.console import Console

    from orbitcc.common.names import terminal
    from orbitcc.common.numbers import counted
    from orbitcc.envs.scenarios import SCENARIOS

    loaded, console = load(scenario, changes, seed), Console()
    if scenario in SCENARIOS:
        console.print(f"[bold]{scenario}[/bold]: {SCENARIOS[scenario].description}", highlight=False)
        console.print(_parameters(scenario))
    console.print(
        f"[bold]{terminal(loaded.name)}[/bold] · {loaded.duration_s:g} s · seed {loaded.seed} · "
        f"{counted(len(loaded.links), 'link')} · {counted(len(loaded.flows), 'flow')}",
        highlight=False,
    )
    console.print(_links(loaded))
    console.print(_flows(loaded))


@app.command()
def export(
    scenario: Name,
    out: Annotated[Path, typer.Option(help="Write the scenario to this TOML file.")],
    changes: Changes = None,
    seed: Seed = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing --out.")] = False,
) -> None:
    """Write a scenario with every field to a TOML file for `orbitcc run`."""
    from orbitcc.common.errors import FileError
    from orbitcc.common.files import check_ending

    check_ending("--out", out, ".toml")
    if out.exists() and not overwrite:
        raise FileError("--out", str(out), "a file that does not exist yet, or --overwrite")
    print(f"scenario: {load(scenario, changes, seed).save(out)}")


@app.command()
def plot(
    scenario: Name,
    out: Annotated[Path, typer.Option(help="Write the picture to this .png, .pdf or .svg file.")],
    changes: Changes = None,
    seed: Seed = None,
) -> None:
    """Draw a scenario over time: rate, base RTT, loss, outages and flows."""
    from orbitcc.common.files import atomic_write_bytes, check_place
    from orbitcc.eval.figures import base as figures
    from orbitcc.eval.figures.scenario import draw_scenario
    from orbitcc.eval.figures.style import LIGHT

    file_format = figures.check_name(out)
    check_place(out)
    drawn = draw_scenario(load(scenario, changes, seed), LIGHT)
    print(f"picture: {atomic_write_bytes(out, figures.render(drawn, file_format))}")


def load(name: str, changes: list[str] | None, seed: int | None) -> Scenario:
    import numpy as np

    from orbitcc.commands import run
    from orbitcc.common.errors import OrbitccError
    from orbitcc.envs.description.scenario import Scenario

    if seed is not None and not 0 <= seed <= 2**53:
        raise OrbitccError("--seed", seed, "a whole number in [0, 2^53]")
    loaded = run.load(name, changes or [])
    if not isinstance(loaded, Scenario):
        return loaded.sample(np.random.default_rng(1 if seed is None else seed))
    return loaded if seed is None else loaded.with_seed(seed)


class _Nothing:
    """A value that no parameter accepts, so that the error lists the allowed values."""

    def __repr__(self) -> str:
        return "nothing"


def allowed(name: str, parameter: str) -> str:
    """The allowed values of a parameter of a named scenario, in words."""
    from orbitcc.common.errors import OrbitccError
    from orbitcc.envs import scenarios

    try:
        scenarios.get(name, **{parameter: _Nothing()})
    except OrbitccError as error:
        return error.allowed
    return ""


def _parameters(name: str) -> Any:

    from orbitcc.common.names import terminal
    from orbitcc.envs import scenarios

    made = table(["parameter", "default", "allowed"])
    for key, default in scenarios.SCENARIOS[name].params.items():
        shown = f"{default:g}" if isinstance(default, float) else str(default)
        made.add_row(f"[cyan]{key}[/cyan]", terminal(shown), terminal(allowed(name, key)))
    return made


def _links(scenario: Scenario) -> Any:

    from orbitcc.common.names import terminal

    made = table(["link", "rate, Mbit/s", "delay, ms", "loss", "queue", "outages", "handovers"])
    for link in scenario.links:
        for way, label in ((link, link.name), (link.backward(), "  back")):
            extras = [f"+ {way.jitter.kind} jitter of {way.jitter.mean_ms:g}"] if way.jitter is not None else []
            extras += [f"+ gate of {way.gate_ms:g}"] if way.gate_ms else []
            made.add_row(
                terminal(label),
                _schedule(way.rate_mbps),
                " ".join([_schedule(way.delay_ms), *extras]),
                _schedule(way.loss),
                _queue(way.queue),
                str(len(link.outages)) if way is link else "",
                str(len(link.path_changes())) if way is link else "",
            )
    return made


def _flows(scenario: Scenario) -> Any:

    from orbitcc.common.names import terminal
    from orbitcc.common.numbers import counted

    made = table(["flow", "controller", "path", "from, s", "to, s", "traffic", "base RTT at its start, ms"])
    for i, flow in enumerate(scenario.flows):
        names = [scenario.links[p].name for p in scenario.path_of(i, flow.start_s)]
        made.add_row(
            terminal(flow.name),
            terminal(str(flow.controller)),
            terminal(" → ".join(names) + (f" (+ {counted(len(flow.reroutes), 'reroute')})" if flow.reroutes else "")),
            f"{flow.start_s:g}",
            f"{flow.stop_s if flow.stop_s is not None else scenario.duration_s:g}",
            flow.traffic.kind,
            f"{scenario.base_rtt_ms(i, flow.start_s):.1f}",
        )
    return made


def _schedule(value: Any) -> str:
    """One value, or the range of a schedule."""
    from orbitcc.envs.description.model import points_of

    points = [v for _, v in points_of(value)]
    if not points:
        return "unlimited"
    if not all(isinstance(v, int | float) for v in points):
        return ", ".join(dict.fromkeys(v.kind if hasattr(v, "kind") else f"{v:g}" for v in points))
    low, high = min(points), max(points)
    return f"{low:.4g}" if len(points) == 1 else f"{low:.4g} to {high:.4g} in {len(points)} points"


def _queue(queue: Any) -> str:
    limit = getattr(queue, "limit_bytes", None)
    size = f"{queue.limit_packets} packets" if limit is None else f"{limit / 1e3:.4g} kB"
    return f"{queue.kind.replace('_', ' ')}, {size}"
