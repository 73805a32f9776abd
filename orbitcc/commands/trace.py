"""`orbitcc trace`: what a policy observes and decides over time."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from orbitcc.commands.options import (
    POLICY_FORMS,
    Changes,
    ScenarioName,
    Trust,
    complete_controller,
    complete_policy,
    table,
)

if TYPE_CHECKING:
    from orbitcc.eval.trace import Trace


def trace(
    policy: Annotated[
        str,
        typer.Argument(
            metavar="POLICY",
            help=f"{POLICY_FORMS[0].upper()}{POLICY_FORMS[1:].partition(', then')[0]}.",
            autocompletion=complete_policy,
        ),
    ],
    scenario: ScenarioName,
    flow: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME[:param=value,...][@start]",
            help="The controller of a further flow: with k, the policy and these drive k + 1 flows of the scenario, in "
            "order, or copies of a single one, as in `orbitcc run`. None: the policy drives all. Repeatable.",
            autocompletion=complete_controller,
        ),
    ] = None,
    changes: Changes = None,
    seed: Annotated[int | None, typer.Option(help="Seed of noise and losses. Default: the scenario's.")] = None,
    csv: Annotated[Path | None, typer.Option(help="Write a row per decision to this .csv file.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Write a picture to this file.")] = None,
    trust: Trust = None,
) -> None:
    """Show what each input of a policy adds to its action: a table, and with --plot a picture over time."""
    from orbitcc.commands.run import prepare
    from orbitcc.common.files import check_ending, check_place
    from orbitcc.eval.trace import trace as traced

    for path in filter(None, (csv, plot)):
        check_place(path)
    if csv is not None:
        check_ending("--csv", csv, ".csv")
    if plot is not None:
        from orbitcc.eval.figures.base import check_name
        from orbitcc.eval.figures.trace import plot_trace

        check_name(plot)
    made = traced(prepare(scenario, flow or [], [policy], changes or [], seed, order=["policy"]), policy)
    if csv is not None:
        made.save_csv(csv)
    if plot is not None:
        plot_trace(made, plot)
    print_trace(made)


def print_trace(trace: Trace) -> None:
    """Mean and standard deviation of each input, of what it adds to the action, and of the weights of the experts."""
    from rich.console import Console

    from orbitcc.common.names import terminal
    from orbitcc.common.numbers import counted

    console = Console(highlight=False)
    who, flow, where = (terminal(name) for name in (trace.policy, trace.flow, trace.scenario.name))
    console.print(f"{who}: {counted(len(trace.actions), 'decision')} of {flow} in {where}")
    console.print(f"action: mean {trace.actions.mean():+.3f}, standard deviation {trace.actions.std():.3f}")
    shown = table("input", "mean", "deviation", "adds, mean", "deviation")
    for k, label in enumerate(trace.labels):
        columns = (trace.inputs[:, k], trace.contributions[:, k])
        shown.add_row(terminal(label), *(f"{x:.3f}" for values in columns for x in (values.mean(), values.std())))
    shown.add_row("constant", "", "", f"{trace.constant.mean():.3f}", f"{trace.constant.std():.3f}")
    console.print(shown)
    if trace.gate.shape[1]:
        shares = ", ".join(
            f"{mean:.2f} ± {sd:.2f}" for mean, sd in zip(trace.gate.mean(0), trace.gate.std(0), strict=True)
        )
        console.print(f"weights of the experts: {shares}")
