"""`orbitcc train`: train a policy from a recipe."""

import json
import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from orbitcc.commands.options import AsJson, Ray, RayCommand, RecipeName


class SeveralSeeds(RayCommand):
    """Takes `--seed 1 2 3` for `--seed 1 --seed 2 --seed 3`, as users of argparse write it."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        words: list[str] = []
        for word in args:
            after_seed = words[-2:-1] == ["--seed"] or (words[-1:] and words[-1].startswith("--seed="))
            words += ["--seed", word] if after_seed and word.isdigit() else [word]
        return super().parse_args(ctx, words)


def train(
    recipe: RecipeName,
    changes: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Set a value of the recipe, e.g. ppo.lr=1e-4. Repeatable."),
    ] = None,
    seed: Annotated[
        list[int],
        typer.Option(min=0, metavar="N [N ...]", help="Seed of networks, worlds and exploration; one or several."),
    ] = [1],  # noqa: B006
    name: Annotated[
        str | None,
        typer.Option(help="Name of the run, also of its policy in tables. Default: scenario, recipe, seed and time."),
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Seeds to train in parallel on this machine.")] = 1,
    ray: Ray = None,
    out: Annotated[Path, typer.Option(help="Folder for run folders.")] = Path("runs"),
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue the newest run of this recipe and seed, or the one of --name.")
    ] = False,
    logbook: Annotated[
        list[str] | None,
        typer.Option(metavar="PACKAGE.MODULE:FACTORY", help="Also log to this tracker (docs/tuning.md). Repeatable."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Train a policy, or one per seed. Ctrl-C saves and stops; --resume continues.

    Exit code 3: the policy diverged (docs/training.md). Exit code 130: interrupted.
    """
    from orbitcc.envs.errors import OrbitccError
    from orbitcc.eval import cluster
    from orbitcc.training import recipe as recipes
    from orbitcc.training.logbook import factory

    if len(set(seed)) < len(seed):
        raise OrbitccError("seed", seed, "different seeds")
    plan = recipes.load(recipe, changes or ())
    recipes.check_names(plan)
    for tracker in logbook or ():
        factory(tracker)
    if ray:
        ray = cluster.find(ray)
    commands = {number: _command(recipe, changes or [], number) for number in seed}
    names = {number: name if name is None or len(seed) == 1 else f"{name}-{number}" for number in seed}
    if resume:
        work = [_resumed(plan, bool(changes), number, out, names[number], alone=len(seed) == 1) for number in seed]
        check_learner(work[0][0])
    else:
        check_learner(plan)
        work = [_fresh(plan, number, out, commands[number], names[number]) for number in seed]

    from dataclasses import replace

    from orbitcc.training.remote import Job

    todo = [replace(Job(*what), logbooks=tuple(logbook or ())) for what in work]
    code = _one(todo[0], ray, as_json) if len(todo) == 1 else _several(todo, jobs, ray, as_json)
    if code:
        raise typer.Exit(code)


def _fresh(plan: Any, seed: int, out: Path, command: str, name: str | None) -> tuple[Any, ...]:
    """The fields of a :class:`orbitcc.training.remote.Job` with a new run folder."""
    from orbitcc.training.loop import new_run

    return plan, seed, new_run(plan, seed, out, command, name), False, command


def _resumed(plan: Any, changed: bool, seed: int, out: Path, name: str | None, alone: bool) -> tuple[Any, ...]:
    """The same with an existing run folder; one of several seeds may have a folder without having begun."""
    from orbitcc.agents.runs import RunFolder
    from orbitcc.envs.errors import StateError
    from orbitcc.training.recipe import Recipe

    run = RunFolder.latest(out, plan.name, seed, saved=alone, name=name)
    stored = run.config()
    begun = Recipe.build(stored["recipe"])
    if changed and begun != plan:
        raise StateError("--set", "a resumed run keeps the values it began with; repeat them or leave --set away")
    return begun, seed, run, run.state.is_dir(), stored["command"]


def _one(job: Any, ray: str | None, as_json: bool) -> int:
    from dataclasses import replace

    from orbitcc.training import loop, seeds
    from orbitcc.training.heldout_metrics import print_figures

    if ray:
        (result,) = seeds.train_all([job], 1, ray)
        if result.outcome is None or result.status == "crashed":
            return result.code
        outcome = replace(result.outcome, failure="diverged" if result.status == "failed" else "")
    else:
        outcome = loop.train(
            job.recipe, job.seed, job.run, resume=job.resume, command=job.command, logbooks=job.logbooks
        )
    if as_json:
        typer.echo(
            json.dumps(
                {
                    "run": str(job.run.path),
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
        print_figures({"last": outcome.scores, "best": outcome.best}, "held-out worlds")
        typer.echo(f"best score {outcome.best_score:.4f}: {job.run.best}")
        typer.echo(f"curves: tensorboard --logdir {job.run.path.parent}")
    return int(outcome.exit_code)


def _several(todo: list[Any], jobs: int, ray: str | None, as_json: bool) -> int:
    from orbitcc.training import seeds

    results = seeds.train_all(todo, jobs, ray)
    if as_json:
        typer.echo(json.dumps(seeds.summary(results)))
    else:
        seeds.print_summary(results)
        pictured = " ".join(str(result.run.path) for result in results)
        typer.echo(f"curves: python -m orbitcc.training.curves {pictured} curves.png")
    return seeds.exit_code(results)


def check_learner(recipe: Any) -> None:
    """A clear error where the recipe's learner is not installed, before anything is written."""
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


def _command(recipe: str, changes: list[str], seed: int) -> str:
    words = ["orbitcc", "train", recipe, *(word for change in changes for word in ("--set", change))]
    return shlex.join([*words, "--seed", str(seed)])
