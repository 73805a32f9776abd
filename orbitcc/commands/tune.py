"""`orbitcc tune`: a recipe's hyper-parameters by search."""

from pathlib import Path
from typing import Annotated

import typer

from orbitcc.commands.options import LAST_SEED, AsJson, Ray, RecipeName, each_once, print_json
from orbitcc.common.names import plain


def tune(
    recipe: RecipeName,
    search: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=RANGE",
            help="A range to search: learner.lr=log(1e-4,1e-2), learner.epochs=int(2,8), learner.clip=(0.1,0.3), "
            "network.activation=tanh|relu. Repeatable. Default: learning rates, discounts and exploration.",
            callback=each_once,
        ),
    ] = None,
    changes: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Set a value for all trials. Repeatable.", callback=each_once),
    ] = None,
    trials: Annotated[int, typer.Option(min=1, help="Settings to try, including earlier trials of this search.")] = 20,
    seed: Annotated[
        list[int],
        typer.Option(
            min=0,
            max=LAST_SEED,
            metavar="N [N ...]",
            help="Training seeds of every trial; the trial's score is their mean.",
        ),
    ] = [1],  # noqa: B006
    out: Annotated[
        Path | None, typer.Option(help="Folder. Default: runs/tune-RECIPE. A search in it is continued.")
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Training runs at the same time on this machine.")] = 1,
    ray: Ray = None,
    as_json: AsJson = False,
) -> None:
    """Search a recipe's hyper-parameters with Optuna (extra `search`). The same command continues a search."""
    from orbitcc.commands.train import check_jobs, check_learner
    from orbitcc.common.errors import OrbitccError
    from orbitcc.training import loop
    from orbitcc.training import recipe as recipes
    from orbitcc.training import tune as tuning

    if len(set(seed)) < len(seed):
        raise OrbitccError("seed", seed, "different seeds")
    check_jobs(jobs, ray)
    plan = recipes.load(recipe, changes or ())
    recipes.check_names(plan)
    space = dict(map(tuning.SearchRange.parse, search)) if search else tuning.default_space(plan, changes or ())
    check_learner(plan)
    folder = out or Path("runs") / f"tune-{plan.name}"
    found = tuning.tune(
        recipe,
        changes or (),
        space,
        trials=trials,
        seeds=seed,
        folder=folder,
        at_once=jobs,
        ray=ray,
        report=lambda text: typer.echo(plain(text), err=True),
    )
    if as_json:
        print_json(
            {
                "folder": str(found.folder),
                "complete": found.complete,
                "pruned": found.pruned,
                "best_score": found.best_score if found.complete else None,
                "best": dict(found.best),
                "untrained": list(found.untrained),
            },
            indent=None,
        )
    elif found.complete:
        for key, value in found.best.items():
            typer.echo(plain(f"{key} = {value}"))
        typer.echo(f"score {found.best_score:.4f}, best of {found.complete} ({found.pruned} more ended early)")
        for number in found.untrained:
            typer.echo(f"warning: of the best trial, seed {number}: {loop.UNTRAINED}", err=True)
        typer.echo(f"orbitcc train {folder / tuning.BEST_RECIPE}")
    else:
        typer.echo(f"no trial has finished: {folder}")
    if found.interrupted:
        typer.echo("interrupted; the same command continues")
        raise typer.Exit(130)
