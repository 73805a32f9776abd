"""`orbitcc tune`: a recipe's hyper-parameters by search."""

import json
from pathlib import Path
from typing import Annotated

import typer


def tune(
    recipe: Annotated[str, typer.Argument(help="A recipe by name (see `orbitcc list recipes`) or a TOML file.")],
    search: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=RANGE",
            help="What to search: ppo.lr=log(1e-4,1e-2), ppo.epochs=int(2,8), ppo.clip=(0.1,0.3), "
            "network.activation=tanh|relu. Repeat. Default: the learner's rates, discounts and exploration.",
        ),
    ] = None,
    changes: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change a value for all trials.")
    ] = None,
    trials: Annotated[int, typer.Option(min=1, help="Settings to try, earlier ones of this search included.")] = 20,
    seed: Annotated[
        list[int], typer.Option(min=0, metavar="N [N ...]", help="Training seeds of every trial; their mean counts.")
    ] = [1],  # noqa: B006
    out: Annotated[
        Path | None, typer.Option(help="Folder; default: runs/tune-RECIPE. A search in it is gone on with.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Search a recipe's hyper-parameters with Optuna (the extra `search`); the same command goes on with a search."""
    from orbitcc.commands.train import check_learner
    from orbitcc.envs.errors import OrbitccError
    from orbitcc.training import recipe as recipes
    from orbitcc.training import tune as tuning

    if len(set(seed)) < len(seed):
        raise OrbitccError("seed", seed, "different seeds")
    plan = recipes.load(recipe, changes or ())
    recipes.check_names(plan)
    space = dict(map(tuning.Range.parse, search)) if search else tuning.default_space(plan)
    check_learner(plan)
    folder = out or Path("runs") / f"tune-{plan.name}"
    found = tuning.tune(
        recipe,
        changes or (),
        space,
        trials=trials,
        seeds=seed,
        folder=folder,
        told=lambda text: typer.echo(text, err=True),
    )
    if as_json:
        typer.echo(
            json.dumps(
                {
                    "folder": str(found.folder),
                    "complete": found.complete,
                    "pruned": found.pruned,
                    "best_score": found.best_score if found.complete else None,
                    "best": dict(found.best),
                }
            )
        )
    elif found.complete:
        for key, value in found.best.items():
            typer.echo(f"{key} = {value}")
        typer.echo(f"score {found.best_score:.4f}, best of {found.complete} ({found.pruned} more ended early)")
        typer.echo(f"orbitcc train {folder / tuning.BEST_RECIPE}")
    else:
        typer.echo(f"no trial has come to its end: {folder}")
    if found.interrupted:
        typer.echo("interrupted; the same command goes on")
        raise typer.Exit(130)


def _tell(text: str) -> None:
    typer.echo(text, err=True)
