"""`orbitcc train`: a recipe becomes a run folder with checkpoints."""

import json
import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

DIVERGED = 3
"""Exit code of a run that was stopped because its policy is past help."""


def train(
    recipe: Annotated[str, typer.Argument(help="A recipe by name (see `orbitcc list recipes`) or a TOML file.")],
    changes: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change a value, e.g. ppo.lr=1e-4.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of networks, worlds and exploration.")] = 1,
    out: Annotated[Path, typer.Option(help="Where run folders go.")] = Path("runs"),
    resume: Annotated[bool, typer.Option("--resume", help="Continue the newest run of this recipe and seed.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Train a policy; Ctrl-C saves and stops, --resume continues."""
    from orbitcc.agents.runs import RunFolder, revision, versions
    from orbitcc.envs.errors import OrbitccError
    from orbitcc.training import recipe as recipes

    if resume and changes:
        raise OrbitccError("set", changes, "nothing with --resume: a run continues with the values it began with")
    plan = recipes.load(recipe, changes or ())
    recipes.check_names(plan)
    command = _command(recipe, changes or [], seed)
    if resume:
        run = RunFolder.latest(out, plan.name, seed)
        stored = run.config()
        plan, command = recipes.Recipe.build(stored["recipe"]), stored["command"]
    learner = _learner(plan)
    if not resume:
        run = RunFolder.create(
            out,
            plan.scenario,
            plan.name,
            seed,
            {
                "recipe": plan.model_dump(),
                "seed": seed,
                "command": command,
                "revision": revision(),
                "versions": versions(),
            },
        )
    outcome = learner.train(plan, seed, run, resume=resume, command=command)
    if as_json:
        typer.echo(
            json.dumps(
                {
                    "run": str(run.path),
                    "finished": outcome.finished,
                    "agent_steps": outcome.agent_steps,
                    "best_score": outcome.best_score,
                    "best": outcome.best,
                    "scores": outcome.scores,
                    "failure": outcome.failure,
                }
            )
        )
    else:
        _table(outcome.scores)
        typer.echo(f"best score {outcome.best_score:.4f}: {run.best}")
        typer.echo(f"curves: tensorboard --logdir {out}")
    if outcome.failure:
        raise typer.Exit(DIVERGED)
    if not outcome.finished:
        raise typer.Exit(130)


def _learner(recipe: Any) -> Any:
    """The module that trains; a clear error where the recipe's learner is not installed."""
    from orbitcc.envs.errors import OrbitccError

    try:
        import torch  # noqa: F401

        if recipe.algorithm.startswith("sb3-"):
            import stable_baselines3  # noqa: F401
        elif recipe.algorithm.startswith("rllib-"):
            import ray.rllib  # noqa: F401
    except ImportError as error:
        raise OrbitccError(
            "train", str(error), "an installation with the extra: pip install 'orbitcc[train]'"
        ) from None
    from orbitcc.training import loop

    return loop


def _command(recipe: str, changes: list[str], seed: int) -> str:
    words = ["orbitcc", "train", recipe, *(word for change in changes for word in ("--set", change))]
    return shlex.join([*words, "--seed", str(seed)])


def _table(scores: dict[str, float]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title="held-out worlds, last policy")
    for key in scores:
        table.add_column(key, justify="right")
    table.add_row(*(f"{value:.4f}" for value in scores.values()))
    Console().print(table)
