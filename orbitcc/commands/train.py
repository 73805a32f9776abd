"""`orbitcc train`: train a policy from a recipe."""

import math
import shlex
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from orbitcc.commands.options import LAST_SEED, AsJson, Ray, RayCommand, RecipeName, each_once, print_json

Seeds = Annotated[
    list[int] | None,
    typer.Option(
        min=0,
        max=LAST_SEED,
        metavar="N [N ...]",
        help="Seed of networks, worlds and exploration; one or several. Default: 1.",
    ),
]
Root = Annotated[Path | None, typer.Option(help="Folder for run folders. Default: runs.")]
Jobs = Annotated[int, typer.Option(min=1, help="Seeds to train in parallel on this machine.")]


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
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Set a value of the recipe, e.g. learner.lr=1e-4. Repeatable.",
            callback=each_once,
        ),
    ] = None,
    learner: Annotated[
        str | None, typer.Option(metavar="rllib", help="Train a recipe with ppo or astraea-td3 with RLlib instead.")
    ] = None,
    seed: Seeds = None,
    name: Annotated[
        str | None,
        typer.Option(help="Name of the run, also of its policy in tables. Default: scenario, recipe, seed and time."),
    ] = None,
    jobs: Jobs = 1,
    ray: Ray = None,
    out: Root = None,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume",
            help="Continue a run: the one in the folder RECIPE, the one of --name, or the newest one of this recipe "
            "and seed. A run that has saved nothing begins anew.",
        ),
    ] = False,
    trust: Annotated[
        list[str] | None,
        typer.Option(
            metavar="RUN",
            help="Resume this run of RLlib or Stable-Baselines3 although its state, which can run code, was not saved "
            "with your key. Repeatable.",
        ),
    ] = None,
    track: Annotated[
        list[str] | None,
        typer.Option(
            metavar="wandb|mlflow|trackio",
            help="Also log to this tracker (docs/tuning.md). Repeatable.",
        ),
    ] = None,
    logbook: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PACKAGE.MODULE:FACTORY", help="Also log to your own logbook (docs/tuning.md). Repeatable."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Train a policy, or one per seed. Ctrl-C saves and stops; --resume continues.

    Exit code 3: the policy diverged (docs/training.md). Exit code 130: interrupted.
    """
    from orbitcc.agents.runs.run_folder import CONFIG, RunFolder
    from orbitcc.common.errors import OrbitccError, StateError
    from orbitcc.parallel import cluster
    from orbitcc.training import recipe as recipes
    from orbitcc.training import trackers
    from orbitcc.training.logbook import factory

    folder = _run_folder(recipe) if resume else None
    if folder is not None:
        own = {"--name": folder.path.name, "--out": folder.path.resolve().parent, "--learner": None}
        given = {"--name": name, "--out": out and out.resolve(), "--learner": learner}
        for option, value in given.items():
            if value and value != own[option]:
                raise OrbitccError(option, value, f"{own[option] or 'nothing'}, as in the run {folder.path}")
    if trust and not resume:
        raise StateError("--trust", "it is for the state of a run that --resume continues")
    asked = seed
    seed, out = seed or [1], out or Path("runs")
    if len(set(seed)) < len(seed):
        raise OrbitccError("seed", seed, "different seeds")
    check_jobs(jobs, ray)
    if jobs > 1 == len(seed):
        raise OrbitccError("--jobs", jobs, "1 with one seed")
    if folder is None:
        if learner is not None:
            keys = {change.partition("=")[0].strip() for change in changes or ()}
            learners = recipes.by_learner(recipes.load(recipe), learner)
            changes = [*(c for c in learners if c.partition("=")[0] not in keys), *(changes or ())]
        plan = recipes.load(recipe, changes or ())
        recipes.check_names(plan)
    logbooks = (*map(trackers.named, track or ()), *(logbook or ()))
    for name_of_one in logbooks:
        factory(name_of_one)
    if ray:
        ray = cluster.find(ray)
    names = {number: name if name is None or len(seed) == 1 else f"{name}-{number}" for number in seed}
    if folder is not None:
        work = [_resumed(folder, changes or (), number) for number in asked or (None,)]
    else:
        work, fresh = [], []
        try:
            for number in seed:
                own_name = names[number]
                begun = resume and (own_name is None or (out / own_name / CONFIG).exists())
                if begun:
                    run = RunFolder.latest(out, plan.name, number, own_name)
                    work.append(_resumed(run, changes or (), number if asked else None, plan))
                    continue
                check_learner(plan)
                work.append(_fresh(plan, number, out, _command(recipe, changes or [], number), own_name))
                fresh.append(work[-1][2])
                if resume:  # killed before it had a folder
                    typer.echo(f"{out / str(own_name)}: no run of this name was there; it begins", err=True)
        except OrbitccError:
            for made in reversed(fresh):
                made.take_back()
            raise
    if resume:
        check_learner(work[0][0])

    from dataclasses import replace

    from orbitcc.training.remote import Job

    todo = [Job(*what) for what in work]
    pickled = [job.run.path.name for job in todo if job.recipe.kind.library]
    for unused in [run for run in trust or () if run not in pickled]:
        allowed = " or ".join(pickled) or "nothing: the state of this learner cannot run code"
        raise OrbitccError("--trust", unused, allowed)
    todo = [replace(job, logbooks=logbooks, trust=job.run.path.name in (trust or ())) for job in todo]
    code = _one(todo[0], ray, as_json) if len(todo) == 1 else _several(todo, jobs, ray, as_json)
    if code:
        raise typer.Exit(code)


def _fresh(plan: Any, seed: int, out: Path, command: str, name: str | None) -> tuple[Any, ...]:
    """The fields of a :class:`orbitcc.training.remote.Job` with a new run folder."""
    from orbitcc.training.loop import new_run

    return plan, seed, new_run(plan, seed, out, command, name), False, command


def _run_folder(text: str) -> Any:
    """The run folder at this path; None if it is the name or file of a recipe."""
    from orbitcc.agents.runs.run_folder import CONFIG, RunFolder
    from orbitcc.common.errors import FileError

    path = Path(text)
    if (path / CONFIG).is_file():
        return RunFolder(path)
    if path.is_dir() or ("/" in text and not text.endswith(".toml")):
        raise FileError("resume", text, f"the folder of a run, with {CONFIG}")
    return None


def _resumed(run: Any, changes: Any, seed: int | None = None, plan: Any = None) -> tuple[Any, ...]:
    """The same with an existing run folder, which may have saved nothing yet. plan: the recipe, as it is now."""
    from orbitcc.agents.runs.folders import locked
    from orbitcc.common.errors import OrbitccError, StateError
    from orbitcc.training import recipe as recipes
    from orbitcc.training.logbook import flat

    stored = run.config("recipe", "seed", "command")
    begun = recipes.Recipe.build(stored["recipe"])
    if seed not in (None, stored["seed"]):
        raise OrbitccError("--seed", seed, f"{stored['seed']}, as in the run {run.path}")
    if recipes.changed(begun.model_dump(), changes) != begun:
        raise StateError("--set", "a resumed run keeps the values it began with; repeat them or leave --set away")
    if stored.get("worlds", begun.world_digest()) != begun.world_digest():
        raise StateError("--resume", f"the worlds of {begun.scenario_name} are not those with which the run began")
    if stored.get("preset", begun.preset_digest()) != begun.preset_digest():
        raise StateError("--resume", f"the preset {begun.preset} is not that with which the run began")
    with locked(run.path):
        saved = run.recover()
    now, then = dict(flat((plan or begun).model_dump())), dict(flat(begun.model_dump()))
    if other := [key for key in {**then, **now} if now.get(key) != then.get(key)]:
        said = f"keeps the values with which it began; the recipe has others: {', '.join(other)}"
        typer.echo(f"{run.path}: {said}", err=True)
    if not saved:
        typer.echo(f"{run.path}: nothing was saved; the run begins anew", err=True)
    return begun, stored["seed"], run, saved, stored["command"]


def _one(job: Any, ray: str | None, as_json: bool) -> int:
    from dataclasses import replace

    from orbitcc.eval.heldout_metrics import print_figures
    from orbitcc.training import loop, seeds

    if ray:
        (result,) = seeds.train_all([job], 1, ray)
        if result.outcome is None or result.status == "crashed":
            return result.code
        outcome = replace(result.outcome, failure="diverged" if result.status == "failed" else "")
    else:
        outcome = loop.train(
            job.recipe,
            job.seed,
            job.run,
            resume=job.resume,
            command=job.command,
            logbooks=job.logbooks,
            trust=job.trust,
        )
    if as_json:
        print_json(
            {
                "run": str(job.run.path),
                "finished": outcome.finished,
                "agent_steps": outcome.agent_steps,
                "best_score": outcome.best_score,
                "best": outcome.best,
                "best_at": outcome.best_at,
                "untrained": outcome.untrained,
                "scores": outcome.scores,
                "failure": outcome.failure,
            },
            indent=None,
        )
    else:
        print_figures({"last": outcome.scores, "best": outcome.best}, "held-out worlds")
        if outcome.best_score == -math.inf:
            typer.echo("no policy was evaluated", err=True)
        else:
            typer.echo(f"best score {outcome.best_score:.4f}: {job.run.best}")
        typer.echo(f"curves: tensorboard --logdir {job.run.path.parent}")
    if outcome.untrained:
        typer.echo(f"{loop.UNTRAINED} (docs/training.md, When training fails)", err=True)
    return int(outcome.exit_code)


def _several(todo: list[Any], jobs: int, ray: str | None, as_json: bool) -> int:
    from orbitcc.training import seeds

    results = seeds.train_all(todo, jobs, ray)
    if as_json:
        print_json(seeds.summary(results), indent=None)
    else:
        seeds.print_summary(results)
        pictured = " ".join(str(result.run.path) for result in results)
        typer.echo(f"curves: python -m orbitcc.training.curves {pictured} curves.png")
    return seeds.exit_code(results)


def check_jobs(jobs: int, ray: str | None) -> None:
    """OrbitccError for a number of processes that a cluster does not heed."""
    from orbitcc.common.errors import OrbitccError

    if ray and jobs > 1:
        raise OrbitccError("--jobs", jobs, "1 with --ray: a cluster trains as many at once as it has cores for")


def check_learner(recipe: Any) -> None:
    """A clear error where the recipe's learner is not installed, before anything is written."""
    from orbitcc.common.errors import OrbitccError
    from orbitcc.common.extras import installing

    try:
        for library in ("torch", recipe.kind.library):
            if library:
                import_module(library)
    except ImportError as error:
        raise OrbitccError("train", str(error), f"an installation with {installing('train')}") from None


def _command(recipe: str, changes: list[str], seed: int) -> str:
    words = ["orbitcc", "train", recipe, *(word for change in changes for word in ("--set", change))]
    return shlex.join([*words, "--seed", str(seed)])
