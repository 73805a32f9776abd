"""The search: Optuna suggests worlds in batches, all cores try them; what was worst is shrunk and grouped."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from orbitcc.common import provenance
from orbitcc.common.errors import OrbitccError
from orbitcc.common.extras import installing
from orbitcc.common.files import atomic_write_text
from orbitcc.envs.description.scenario import Scenario
from orbitcc.eval import journal
from orbitcc.eval.contenders import Contender
from orbitcc.eval.search.regret import Objective, entered, regret
from orbitcc.eval.search.space import Parameter, Space, Values, candidates
from orbitcc.parallel import cluster, work
from orbitcc.parallel.progress import Progress

BATCH = 8
"""Suggested at once, whatever the number of workers: results do not depend on that."""
START_TRIALS = 32
"""Drawn at random before the sampler has an opinion."""
KEEP = 0.9
"""A shrunk world has at least this part of the regret."""
MATTERS = 0.3
"""What costs at least this part of the regret when it is as usual."""
LEAST_REGRET = 0.15
SHRUNK = 16
"""So many of the worst trials are shrunk."""
MOST_AS_TRIED = 50
"""So many of the worst trials are kept as they were tried."""
_AFTER = "after"
"""Attribute of a trial: how many were complete when its batch was asked for."""
JOURNAL, FOUND = "trials.journal", "found.json"
WORLDS, WORLDS_AS_TRIED, REPLAYS = "worlds", "worst", "replay"
SEED = 1


@dataclass(frozen=True)
class Search:
    """What is searched for: worlds of a space in which the target is worse than the best of the references there."""

    target: Contender
    against: tuple[Contender, ...]
    objective: Objective
    space: Space
    trials: int
    out_dir: Path
    seed: int = SEED

    def world(self, values: dict[str, float]) -> Scenario:
        """A world with `external` in the target's place."""
        return self.space.scenario(values, candidates(self.objective, self.against), SEED)

    def regret(self, values: dict[str, float]) -> float:
        return regret(self.world(values), self.objective, self.target, self.against)


@dataclass(frozen=True)
class Found:
    """A world in which the target is worse: its regret, what of it matters, how often it was met."""

    values: dict[str, float]
    regret: float
    matters: tuple[str, ...]
    met: int


def check_optuna() -> None:
    """OrbitccError that says what to install."""
    if importlib.util.find_spec("optuna") is None:
        raise OrbitccError("search", "optuna", f"an installation with {installing('search')}")


def run_search(
    search: Search,
    *,
    workers: int | None = None,
    ray: str | None = None,
    resume: bool = False,
    quiet: bool = False,
) -> list[Found]:
    """Try worlds until there are `trials` of them, then shrink the worst; the most regretted first.

    workers: processes, default all cores. ray: the address of a Ray cluster that tries them instead.
    Raises FileError for a folder that holds another search, or one that is not to be resumed. KeyboardInterrupt leaves
    a folder that `resume` continues, to the same end.
    """
    check_optuna()
    if ray:
        ray = cluster.find(ray)  # before anything is written
    asked = {
        "target": search.target.key,
        "against": [one.key for one in search.against],
        "objective": search.objective,
        "scenario": search.space.name,
        "ranges": [[p.name, p.span.low, p.span.high, p.span.log, p.default] for p in search.space.parameters],
        "seed": search.seed,
        "version": provenance.version(),
    }
    with journal.claimed(search.out_dir, asked, resume, search.out_dir / JOURNAL):
        return _search(search, workers, ray, quiet)


def _search(search: Search, workers: int | None, ray: str | None, quiet: bool) -> list[Found]:
    policies = [str(c.params["path"]) for c in (search.target, *search.against) if c.params.get("path")]
    with work.workers(workers, ray, policies) as apply:
        tried = _try_worlds(search, apply, quiet)
        worst = [trial for trial in sorted(tried, key=lambda t: -t[0]) if trial[0] > LEAST_REGRET]
        shrunk = work.ordered(apply, _Shrink(search), [values for _, values in worst[:SHRUNK]])
    found = told_apart(shrunk)
    atomic_write_text(search.out_dir / FOUND, json.dumps([asdict(f) for f in found], indent=2) + "\n")
    _save_worlds(search, WORLDS_AS_TRIED, [(values, got) for got, values in worst[:MOST_AS_TRIED]])
    return found


def _try_worlds(search: Search, apply: work.Apply, quiet: bool) -> list[tuple[float, dict[str, float]]]:
    """(regret, values) of every trial, in order; those of an earlier process are read from the journal."""
    import optuna
    from optuna.trial import TrialState

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = journal.study(search.out_dir / JOURNAL, "worlds")
    journal.check_trials(study, search.out_dir / JOURNAL, search.space.suggest)
    _finish_batch(search, apply, study)
    done = len(study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,)))
    with Progress("search", search.trials, done=min(done, search.trials), quiet=quiet) as progress:
        while done < search.trials:
            # A generator of its own for each batch: a search that is resumed suggests what it would have.
            study.sampler = _sampler(search.seed * 1_000_003 + done)
            asked = [study.ask() for _ in range(min(BATCH, search.trials - done))]
            worlds = [search.space.suggest(trial) for trial in asked]
            for trial in asked:
                trial.set_user_attr(_AFTER, done)
            for trial, value in zip(asked, work.ordered(apply, search.regret, worlds), strict=True):
                study.tell(trial, value)
                progress.advance()
            done += len(asked)
    finished = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))[: search.trials]
    return [(float(t.value or 0.0), {**search.space.defaults(), **t.params}) for t in finished]


def _finish_batch(search: Search, apply: work.Apply, study: Any) -> None:
    """Complete or give up the batch that a killed process has left, so that the search goes on as without the kill."""
    from optuna.trial import TrialState

    left = study.get_trials(deepcopy=False, states=(TrialState.RUNNING,))
    told = [t.user_attrs.get(_AFTER) for t in study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))]
    begun = [trial for trial in left if trial.user_attrs.get(_AFTER) is not None and trial.user_attrs[_AFTER] in told]
    worlds = [{**search.space.defaults(), **trial.params} for trial in begun]
    for trial, value in zip(begun, work.ordered(apply, search.regret, worlds), strict=True):
        study.tell(trial.number, value)
    for trial in left:
        if trial not in begun:
            study.tell(trial.number, state=TrialState.FAIL)  # none of its batch counts yet: all are asked for again


def _sampler(seed: int) -> Any:
    """Tree-structured Parzen estimators (Bergstra et al. 2011), that know what their own batch is trying."""
    import warnings

    import optuna

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        return optuna.samplers.TPESampler(
            seed=seed % 2**32, n_startup_trials=START_TRIALS, constant_liar=True, multivariate=True
        )


@dataclass(frozen=True)
class _Shrink:
    """Towards the defaults, one parameter after the other, as far as the regret stays."""

    search: Search

    def __call__(self, values: dict[str, float]) -> tuple[float, dict[str, float], tuple[str, ...]]:
        """Regret and values of the shrunk world, and what of them matters."""
        search, values, worst = self.search, dict(values), self.search.regret(values)
        # Changes first, the last one first: a world with fewer of them is simpler.
        for parameter in sorted(search.space.parameters, key=lambda p: -p.change):
            for value in _towards(parameter, values[parameter.name]):
                tried = {**values, parameter.name: value}
                if search.regret(tried) >= KEEP * worst:
                    values = tried
                    break
        got = search.regret(values)
        mattering = [
            p
            for p in search.space.parameters
            if values[p.name] != p.default and search.regret({**values, p.name: p.default}) < (1 - MATTERS) * got
        ]
        return got, values, _kind(mattering, values)


def _towards(parameter: Parameter, value: float) -> Iterable[float]:
    """The default, then what lies between, the nearest to it first; only what is in the range."""
    if value == parameter.default:
        return
    yield parameter.default
    if parameter.default and parameter.span.log:
        yield (value * parameter.default) ** 0.5
    elif parameter.default or not parameter.change:
        yield (value + parameter.default) / 2


def told_apart(worlds: Sequence[tuple[float, dict[str, float], tuple[str, ...]]]) -> list[Found]:
    """The worst world of each kind: those of which the same matters, in the same way."""
    kinds: dict[tuple[str, ...], list[tuple[float, dict[str, float]]]] = {}
    for got, values, kind in worlds:
        if got > LEAST_REGRET:
            kinds.setdefault(kind, []).append((got, values))
    worst = [(max(same, key=lambda s: s[0]), kind, len(same)) for kind, same in kinds.items()]
    return [Found(values, got, kind, met) for (got, values), kind, met in sorted(worst, key=lambda w: -w[0][0])]


def _kind(mattering: Iterable[Parameter], values: dict[str, float]) -> tuple[str, ...]:
    """`+rate_mbps`, `-buffer_bdp`, ...: a change counts whichever quarter it is in."""
    found = set()
    for p in mattering:
        before = p.default
        if p.change and p.unit == "ms":  # a base RTT: against the one before
            names = ["base_rtt_ms", *(f"base_rtt_ms_{k}" for k in range(1, p.change))]
            before = next(values[name] for name in reversed(names) if values[name])
        stem = p.name.removesuffix(f"_{p.change}") + (" changes" if p.change else "")
        found.add(f"{'+' if values[p.name] > before else '-'}{stem}")
    return tuple(sorted(found))


def save(search: Search, found: Sequence[Found]) -> dict[str, str]:
    """worlds/NN.toml with `external` in the target's place, replay/NN.toml with the target; name -> the command."""
    import shlex

    commands = {}
    for old in search.out_dir.glob(f"{REPLAYS}/*.toml"):
        old.unlink()
    for name, world in _save_worlds(search, WORLDS, [(one.values, one.regret) for one in found]).items():
        path = entered(world, search.target).save(search.out_dir / REPLAYS / f"{name}.toml")
        commands[name] = f"orbitcc run {shlex.quote(str(path))}"
    return commands


def _save_worlds(search: Search, folder: str, worlds: Sequence[tuple[Values, float]]) -> dict[str, Scenario]:
    """A file for each of these (values, regret) in a folder, in the place of those there: name -> world."""
    for old in search.out_dir.glob(f"{folder}/*.toml"):
        old.unlink()
    against = ", ".join(one.label for one in search.against)
    saved = {}
    for k, (values, got) in enumerate(worlds, start=1):
        about = f"{search.target.label} against {against}: {search.objective} regret {got:.2f}"
        saved[f"{k:02d}"] = search.world(dict(values)).changed(description=about)
        saved[f"{k:02d}"].save(search.out_dir / folder / f"{k:02d}.toml")
    return saved
