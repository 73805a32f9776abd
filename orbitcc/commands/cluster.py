"""`orbitcc cluster`: the nodes of a Ray cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from orbitcc.commands.options import AsJson, WholeSentences, print_json, table

if TYPE_CHECKING:
    from orbitcc.parallel.cluster import Node

app = typer.Typer(
    cls=WholeSentences,
    help="Check the nodes of a Ray cluster.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

TRIALS = 3
"""The cell is run so often on each node; the fastest counts, because the first one also imports."""


@app.callback()
def _commands() -> None:
    pass


@app.command()
def check(
    address: Annotated[str, typer.Argument(metavar="[ADDRESS]", help="HOST:PORT, auto or local.")] = "auto",
    as_json: AsJson = False,
) -> None:
    """Print the cores, memory and versions of every node, and the speed at which it simulates one run.

    Exit code 2: a node has no OrbitCC, or another version than this machine.
    """
    from orbitcc.parallel import cluster

    where = cluster.find(address)
    cluster.start(where)
    try:
        found = cluster.nodes()
        speeds = {node.id: _speed(node) for node in found if node.cores and not cluster.difference(node.versions)}
    finally:
        cluster.ray_module().shutdown()
    if as_json:
        rows = [
            {
                "node": node.host,
                "cores": node.cores,
                "memory_gb": round(node.memory_gb, 1),
                "versions": dict(node.versions),
                "speed": speeds.get(node.id),
            }
            for node in found
        ]
        print_json(rows)
    else:
        _print(found, speeds)
    cluster.compare(found)


def _speed(node: Node) -> float:
    """Simulated seconds per second of a Cubic flow over a LEO path of 300 s, on one core of a node."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    from orbitcc.common import provenance
    from orbitcc.eval import contenders, suites
    from orbitcc.eval.runner import Task, execute
    from orbitcc.parallel import cluster

    suite = suites.get("responsiveness")
    (cell, *_), (cubic,) = suite.cases("quick", 1), contenders.line_up(["cubic"], [])
    task, there = Task(suite, cell, cubic, provenance.version(), None), NodeAffinitySchedulingStrategy(node.id, False)
    took = []
    for _ in range(TRIALS):
        row, _ = cluster.result(cluster.submit(execute, task, num_cpus=0, scheduling_strategy=there))
        took.append(row["elapsed_s"])
    return round(cell.scenario.duration_s / max(min(took), 1e-3), 1)


def _print(found: list[Node], speeds: dict[str, float]) -> None:
    from rich.console import Console

    from orbitcc.common.names import terminal
    from orbitcc.parallel import cluster

    listed = table("node", "cores", "memory", "versions", "simulated s/s")
    listed.columns[3].no_wrap = False
    for node in found:
        other = cluster.difference(node.versions)
        speed = f"{speeds[node.id]:,.0f}" if node.id in speeds else ""
        versions = terminal(other) or "as here"
        listed.add_row(terminal(node.host), str(node.cores), f"{node.memory_gb:.1f} GB", versions, speed)
    console = Console(highlight=False)
    console.print(listed)
    here = ", ".join(f"{key} {value}" for key, value in cluster.versions().items())
    console.print(f"here: {here}", markup=False)
