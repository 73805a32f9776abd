"""Search of a recipe's hyper-parameters: Optuna proposes values, the training loop tries them."""

from __future__ import annotations

import math
import re
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from orbitcc.agents.runs.run_folder import CONFIG, RunFolder
from orbitcc.common import provenance
from orbitcc.common.errors import OrbitccError, StateError
from orbitcc.common.extras import installing
from orbitcc.common.files import atomic_write_text, toml_text
from orbitcc.common.names import csv_text
from orbitcc.envs.description.flows import parse_value
from orbitcc.eval import journal
from orbitcc.parallel import cluster
from orbitcc.training import recipe as recipes
from orbitcc.training.fleet import Fleet, fleet
from orbitcc.training.loop import DIVERGED, INTERRUPTED, UNTRAINED, Interrupt, TrainingResult, new_run
from orbitcc.training.recipe import Recipe
from orbitcc.training.remote import Job, needed_cores
from orbitcc.training.resume import TrainingState

JOURNAL, TRIALS, BEST_RECIPE = "journal.log", "trials.csv", "best.toml"
_RANGE = re.compile(r"(log|int)?\(([^,]+),([^,]+)\)")
_FACTORS = {"lr": 10.0, "actor_lr": 10.0, "critic_lr": 10.0, "exploration_std": 3.0}
_RANGES = {"gamma": (0.95, 0.995), "gae_lambda": (0.9, 0.99), "clip": (0.1, 0.3), "tau": (0.002, 0.02)}
"""The default search space, for settings that the learner has: factors around the value of the recipe, on a logarithmic
scale, and ranges."""


@dataclass(frozen=True)
class SearchRange:
    """Values of one setting: names, whole numbers, or numbers, in the logarithm with `log`."""

    low: float = 0.0
    high: float = 0.0
    kind: str = ""
    choices: tuple[Any, ...] = ()

    @staticmethod
    def parse(text: str) -> tuple[str, SearchRange]:
        """`KEY=(low, high)`, `KEY=log(low, high)`, `KEY=int(low, high)` or `KEY=a|b|c`; OrbitccError otherwise."""
        key, equals, values = (part.strip() for part in text.partition("="))
        allowed = "KEY=(low, high), KEY=log(low, high), KEY=int(low, high) or KEY=a|b|c"
        found = _RANGE.fullmatch(values.replace(" ", ""))
        if not key or not equals or not (found or "|" in values):
            raise OrbitccError("--search", text, allowed)
        if not found:
            return key, SearchRange(choices=tuple(parse_value(choice.strip(), key) for choice in values.split("|")))
        try:
            low, high = float(found[2]), float(found[3])
        except ValueError:
            raise OrbitccError("--search", text, allowed) from None
        if not (math.isfinite(low) and low < high < math.inf and (found[1] != "log" or low > 0)):
            raise OrbitccError("--search", text, "low < high, above 0 with log")
        if found[1] == "int" and not (low.is_integer() and high.is_integer() and max(-low, high) < 2**53):
            raise OrbitccError("--search", text, "whole numbers below 2^53 with int")
        return key, SearchRange(low, high, found[1] or "")

    def suggest(self, trial: Any, key: str) -> Any:
        """A value of an Optuna trial."""
        if self.choices:
            return trial.suggest_categorical(key, list(self.choices))
        if self.kind == "int":
            return trial.suggest_int(key, int(self.low), int(self.high))
        return trial.suggest_float(key, self.low, self.high, log=self.kind == "log")


def default_space(recipe: Recipe, changes: Sequence[str] = ()) -> dict[str, SearchRange]:
    """The default search space of a recipe: learning rates, discounts and exploration, without what `changes` set."""
    space, options = {}, recipe.learner.model_dump()
    sections = {"learner": options, "learner.training": options.get("training", {})}
    for section, values in sections.items():
        for key, value in values.items():
            if not isinstance(value, int | float):  # RLlib's schedules and tables
                continue
            if key in _FACTORS:
                high = value * _FACTORS[key]
                space[f"{section}.{key}"] = SearchRange(
                    value / _FACTORS[key], min(high, 1.0) if "lr" in key else high, "log"
                )
            elif key in _RANGES:
                space[f"{section}.{key}"] = SearchRange(*_RANGES[key])
    return {key: values for key, values in space.items() if key not in _keys(changes)}


def _keys(changes: Sequence[str]) -> list[str]:
    return [change.partition("=")[0].strip() for change in changes]


@dataclass(frozen=True)
class TuneResult:
    """The result of a search: its complete trials and the best one."""

    complete: int
    pruned: int
    best_score: float
    best: Mapping[str, Any]
    folder: Path
    interrupted: bool
    untrained: tuple[int, ...] = ()
    """Seeds of the best trial whose best policy is the one from before the training."""


def tune(
    recipe: str,
    changes: Sequence[str],
    space: Mapping[str, SearchRange],
    *,
    trials: int,
    seeds: Sequence[int],
    folder: Path,
    seed: int = 0,
    at_once: int = 1,
    ray: str | None = None,
    report: Callable[[str], None] = print,
) -> TuneResult:
    """Try this number of settings, each with all training seeds; a setting's score is the mean score of `best/`.

    at_once: processes that train at the same time. ray: the address of a Ray cluster that tries as many settings at
    once as it has cores for.

    A trial whose held-out scores fall behind the median of earlier ones ends early. `folder` receives Optuna's journal,
    `trials.csv`, the run folders, and `best.toml`, the recipe with the best values; a search goes on where the journal
    ends.

    Raises:
        OrbitccError: Optuna is missing, or a value of the space is not allowed.
    """
    try:
        import optuna
    except ImportError:
        raise StateError("tune", f"Optuna is not installed: it comes with {installing('search')}") from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    _check(recipe, changes, space)
    if ray:
        ray = cluster.find(ray)  # before anything is written
    plan = recipes.load(recipe, changes)
    asked = {
        "recipe": plan.model_dump(mode="json"),
        "worlds": plan.world_digest(),
        "preset": plan.preset_digest(),
        "space": {key: asdict(values) for key, values in space.items()},
        "training seeds": list(seeds),
        "seed": seed,
        "version": provenance.version(),
    }
    with journal.claimed(folder, asked, True, folder / JOURNAL):
        return _tune(recipe, changes, space, trials, seeds, folder, seed, at_once, ray, report)


def _tune(
    recipe: str,
    changes: Sequence[str],
    space: Mapping[str, SearchRange],
    trials: int,
    seeds: Sequence[int],
    folder: Path,
    seed: int,
    at_once: int,
    ray: str | None,
    report: Callable[[str], None],
) -> TuneResult:
    import optuna

    study = journal.study(folder / JOURNAL, "trials", pruner=optuna.pruners.MedianPruner(n_startup_trials=5))
    states = optuna.trial.TrialState
    journal.check_trials(study, folder / JOURNAL, lambda trial: _drawn(space, trial))
    _check_scores(study.get_trials(deepcopy=False, states=(states.COMPLETE,)), folder, recipe, changes, seeds)
    for killed in study.get_trials(deepcopy=False, states=(states.RUNNING,)):
        study.tell(killed.number, state=states.FAIL)  # it is tried again
    ended = len(study.get_trials(deepcopy=False, states=(states.COMPLETE, states.PRUNED)))
    plans = recipes.load(recipe, changes)

    def jobs(trial: Any) -> list[Job]:
        plan, command = _plan(recipe, changes, _drawn(space, trial)), f"trial {trial.number} of {folder}"
        runs = {number: new_run(plan, number, folder / "runs", command) for number in seeds}
        return [Job(plan, number, run, False, command, again="") for number, run in runs.items()]  # end() says it

    trying = _Trying(study, report)
    with fleet(at_once, ray, [plans], trying.saved) as running, Interrupt() as interrupt:
        trying.running = running
        while running or (ended < trials and not interrupt.requested):
            if interrupt.requested:
                running.stop()
            while ended < trials and not interrupt.requested and running.room(len(seeds), needed_cores(plans)):
                study.sampler = _sampler(seed, ended, constant_liar=bool(ray) or at_once > 1)
                ended += 1
                trying.begin(study.ask(), jobs)
            for job, code in running.wait():
                trying.end(job, code, interrupt.requested)
    interrupted = interrupt.requested
    return _kept(study, optuna, recipe, changes, folder, interrupted)


def _sampler(seed: int, ended: int, constant_liar: bool) -> Any:
    """One for every trial, so that a search that is continued proposes what it would have proposed."""
    import optuna

    return optuna.samplers.TPESampler(seed=(seed * 1_000_003 + ended) % 2**32, constant_liar=constant_liar)


@dataclass
class _Trial:
    """A trial: the number of its running trainings, the scores of the finished ones, and what it has reported."""

    trial: Any
    running: int
    scores: list[float] = field(default_factory=list)
    reported: int = -1
    pruned: bool = False
    interrupted: bool = False


class _Trying:
    """Trials that are running. Each result is reported to Optuna when all seeds of its trial have finished."""

    running: Fleet

    def __init__(self, study: Any, report: Callable[[str], None]) -> None:
        self._study, self._report = study, report
        self._opened: dict[RunFolder, _Trial] = {}

    def begin(self, trial: Any, jobs: Callable[[Any], list[Job]]) -> None:
        work = jobs(trial)
        self._opened |= dict.fromkeys((job.run for job in work), _Trial(trial, len(work)))
        for job in work:
            self.running.submit(job, f"trial {trial.number}, seed {job.seed}")

    def saved(self, job: Job, progress: TrainingState) -> None:
        """Report a held-out score to Optuna, and end the trial where Optuna prunes it."""
        one = self._opened[job.run]
        if one.running + len(one.scores) == 1 and progress.evaluated_at > one.reported:
            one.reported = progress.evaluated_at
            one.trial.report(progress.scores["score"], one.reported)
            if one.trial.should_prune():
                one.pruned = True
                self.running.stop(job)

    def end(self, job: Job, code: int, asked: bool) -> None:
        """A training run has ended with this exit code. asked: the search was interrupted.

        Raises:
            OrbitccError: it has failed, or somebody else has stopped it.
        """
        import optuna

        states = optuna.trial.TrialState
        one = self._opened.pop(job.run)
        one.running -= 1
        stopped = code in (INTERRUPTED, -signal.SIGTERM)
        if not (stopped and (asked or one.pruned)) and code not in (0, DIVERGED):
            how = "was stopped" if stopped else "failed"
            raise StateError("tune", f"a run of trial {one.trial.number} {how}; the same command continues the search")
        one.interrupted |= stopped
        if not stopped:
            outcome = TrainingResult.stored(job.run, job.recipe)
            one.scores.append(outcome.best_score)
            if outcome.untrained:
                self._report(f"trial {one.trial.number}, seed {job.seed}: {UNTRAINED}")
        if one.running:
            return
        if one.interrupted:
            self._study.tell(one.trial, state=states.PRUNED if one.pruned else states.FAIL)
            return
        mean = sum(one.scores) / len(one.scores)
        self._report(f"trial {one.trial.number}: score {mean:.4f} with {_shown(one.trial.params)}")
        self._study.tell(one.trial, mean)


def _check(recipe: str, changes: Sequence[str], space: Mapping[str, SearchRange]) -> None:
    """Check before the first trial that no change is of a searched field, and the ends of every range."""
    if not space:
        raise OrbitccError(
            "--search", "(none)", "KEY=(low, high): this recipe's learner has no settings searched by habit"
        )
    for key in space:
        for fixed in _keys(changes):  # also a table that holds the field, and a part of it
            if f"{key}.".startswith(f"{fixed}.") or f"{fixed}.".startswith(f"{key}."):
                raise OrbitccError("--set", fixed, f"another field than {key}, which is searched")
    for key, values in space.items():
        for end in values.choices or (values.low, values.high):
            number = int(end) if values.kind == "int" else end
            recipes.check_names(recipes.load(recipe, [*changes, *_as_changes({key: number})]))


def _drawn(space: Mapping[str, SearchRange], trial: Any) -> dict[str, Any]:
    return {key: choices.suggest(trial, key) for key, choices in space.items()}


def _plan(recipe: str, changes: Sequence[str], values: Mapping[str, Any]) -> Recipe:
    """The recipe of a trial, whose score is that of best/."""
    return recipes.load(recipe, [*changes, *_as_changes(values)])


def _check_scores(
    complete: Sequence[Any], folder: Path, recipe: str, changes: Sequence[str], seeds: Sequence[int]
) -> None:
    """Check that the score of every complete trial is the one of its run folders. They do not keep the scores by which
    a trial was pruned.

    Raises:
        OrbitccError: it is not, or a run folder is missing or has other settings.
    """
    runs = _runs(folder) if complete else {}
    for trial in complete:
        plan, scores = _plan(recipe, changes, trial.params), []
        for seed in seeds:
            run = runs.get((f"trial {trial.number}", seed))
            if run is None or Recipe.build(run.config()["recipe"]) != plan:
                raise journal.foreign(folder / JOURNAL, f"trial {trial.number} has no run with its values in runs/")
            scores.append(TrainingResult.stored(run, plan).best_score)
        if not math.isclose(sum(scores) / len(scores), trial.value, rel_tol=1e-9):
            raise journal.foreign(folder / JOURNAL, f"trial {trial.number} has another score than its runs in runs/")


def _runs(folder: Path) -> dict[tuple[str, int], RunFolder]:
    """(`trial N`, seed) -> the run."""
    found: dict[tuple[str, int], RunFolder] = {}
    for path in sorted((folder / "runs").glob(f"*/{CONFIG}")):
        config = RunFolder(path.parent).config("command", "seed", "recipe")
        found[str(config["command"]).partition(" of ")[0], config["seed"]] = RunFolder(path.parent)
    return found


def _as_changes(values: Mapping[str, Any]) -> list[str]:
    return [f"{key}={str(value).lower() if isinstance(value, bool) else value}" for key, value in values.items()]


def _shown(values: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{key}={value:.3g}" if isinstance(value, float) else f"{key}={value}" for key, value in values.items()
    )


def _kept(study: Any, optuna: Any, recipe: str, changes: Sequence[str], folder: Path, interrupted: bool) -> TuneResult:
    states = optuna.trial.TrialState
    keys = sorted({key for trial in study.trials for key in trial.params})
    rows: list[list[Any]] = [["trial", "state", "score", *keys]]
    for trial in study.trials:
        score = "" if trial.value is None else repr(trial.value)
        rows.append([trial.number, trial.state.name.lower(), score, *(trial.params.get(key, "") for key in keys)])
    atomic_write_text(folder / TRIALS, csv_text(rows))
    complete = [trial for trial in study.trials if trial.state == states.COMPLETE]
    pruned = sum(trial.state == states.PRUNED for trial in study.trials)
    if not complete:
        return TuneResult(0, pruned, -math.inf, {}, folder, interrupted)
    best = study.best_trial
    plan = recipes.load(recipe, [*changes, *_as_changes(best.params)])
    tuned = plan.model_dump(mode="json") | {"name": f"{plan.name}-tuned"}
    atomic_write_text(folder / BEST_RECIPE, toml_text(tuned))
    runs = {seed: run for (trial, seed), run in _runs(folder).items() if trial == f"trial {best.number}"}
    untrained = tuple(seed for seed, run in sorted(runs.items()) if TrainingResult.stored(run, plan).untrained)
    return TuneResult(len(complete), pruned, float(best.value), dict(best.params), folder, interrupted, untrained)
