"""A score for generated controllers: fast, on worlds that nobody knows before, in a process that cannot cheat.

`score("candidate.py")["combined_score"]` is what programs that write controllers ask for (docs/score.md).
"""

from __future__ import annotations

import atexit
import json
import os
import queue
import random
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from orbitcc.agents.sandbox import CandidateError, OutOfTimeError, Sandbox
from orbitcc.common import provenance
from orbitcc.common.errors import OrbitccError, UnknownNameError
from orbitcc.common.files import atomic_write_text, check_place, read_text
from orbitcc.common.numbers import checked_number
from orbitcc.envs import controllers
from orbitcc.envs.backends.simulator import simulate
from orbitcc.envs.controllers import AnyPolicy, ControllerInfo, Param
from orbitcc.eval import contenders, suites
from orbitcc.eval.contenders import Contender
from orbitcc.eval.statistics import mean_of_groups
from orbitcc.eval.suites import Case, Point, Suite
from orbitcc.eval.suites.responsiveness import PAYLOAD

if TYPE_CHECKING:
    from orbitcc.envs.backends.simulator import Recording

SETS: Mapping[str, tuple[str, ...]] = {
    "leo": ("responsiveness", "responsiveness-loss", "leo-access-2024", "efficiency", "cubic-friendliness"),
    "sharing": ("intra-rtt", "inter-rtt", "efficiency", "cubic-friendliness", "bbr3-friendliness"),
}
"""Name of a set of suites -> its suites."""
CLASSICAL = ("cubic", "bbr3", "leocc")
AGAINST = "cubic"
RUNS = 4
STAGES = (2, 10)
"""Worlds after which a candidate may be stopped; all of them are the last stage."""
FIRST, LAST = 1_000_000, 8_900_000
"""Runs are drawn here: published ones are below, those from 9,000,000 on are for the checks of others."""
MOST_SOURCE = 1_000_000
CANDIDATE = "candidate"
DRAWING_S = 3.0
"""Time kept for the pictures."""
_LEAST_S = 2.0

FACTORS: Mapping[str, tuple[str, Callable[[float], float], str]] = {
    "goodput_over_optimal": ("use", lambda x: min(1.0, x / PAYLOAD), "it uses {:.0%} of the bandwidth"),
    "goodput_share": ("use", lambda x: min(1.0, x / PAYLOAD), "its flows use {:.0%} of the bandwidth"),
    "goodput_after": ("use", lambda x: min(1.0, x / PAYLOAD), "it uses {:.0%} of the bandwidth after a change"),
    "utilisation": ("use", lambda x: min(1.0, x), "it uses {:.0%} of the link"),
    "delay_inflation": ("delay", lambda x: max(1.0, x) ** -0.5, "the mean RTT is {:.1f} times the base RTT"),
    "delay_ratio": ("delay", lambda x: max(1.0, x) ** -0.5, "the mean RTT is {:.1f} times the base RTT"),
    "goodput_ratio": ("fairness", lambda x: x, "of two flows one gets {:.2f} of the goodput of the other"),
    "own_over_fair": ("fairness", lambda x: min(x, 1 / x) if x > 0 else 0.0, "it gets {:.2f} of the fair share"),
    "own_share": ("fairness", lambda x: max(0.0, min(x, 1 - x)) / max(x, 1 - x), "it gets {:.1%} of what both get"),
    "jain": ("fairness", lambda x: x, "Jain's index of its flows is {:.2f}"),
    "retransmission_rate": ("loss", lambda x: max(0.0, 1 - 2 * x), "it retransmits {:.1%} of its packets"),
}
"""Metric of a suite -> the kind of factor, the factor of the utility in [0, 1], and the metric in words."""
USE = {key for key, (kind, *_) in FACTORS.items() if kind == "use"}
OWN = {"goodput_ratio", "own_over_fair", "own_share"}
"""What shows beside rivals how much the candidate itself sends."""
UTILITY = "use x sqrt(base RTT / mean RTT) x fairness x (1 - 2 retransmission rate), as far as a suite measures them"

_policies: dict[str, AnyPolicy] = {}
_known: dict[tuple[str, str, int, str], dict[str, float]] = {}
"""Metrics of classical controllers by world."""
_idle: list[Sandbox] = []
os.register_at_fork(after_in_child=_idle.clear)

controllers.register(
    ControllerInfo(
        CANDIDATE,
        "internal",
        "a candidate under evaluation (orbitcc score)",
        lambda params: ({"name": "policy", "params": {"policy": (key := params["key"])}}, {key: _policies[key]}),
        params={"key": Param("", "which candidate")},
    )
)


@atexit.register
def _close() -> None:
    while _idle:
        _idle.pop().close()


@dataclass
class World:
    """A run of a suite; its case is made when it is first asked for, because thousands may be planned."""

    suite: Suite
    point: Point
    number: int

    @cached_property
    def case(self) -> Case:
        return self.suite.case(self.point, self.number)


@dataclass(frozen=True)
class Ran:
    """Metrics of all contenders in one world, by label, and the candidate's recording."""

    metrics: Mapping[str, Mapping[str, float]]
    recording: Recording


def factors(suite: Suite, metrics: Mapping[str, float]) -> dict[str, float]:
    """Metric -> its factor of the utility; 0 for a metric without a value, but 1 for the own share of who is alone.

    The goodput ratio of two flows says what the own share would say again.
    """
    found, keys = {}, [metric.key for metric in suite.metrics if metric.key in FACTORS]
    for key in keys:
        if key != "own_share" or "goodput_ratio" not in keys:
            value, missing = metrics[key], 1.0 if key == "own_share" else 0.0
            found[key] = float(FACTORS[key][1](value)) if value == value else missing
    return found


def utility(suite: Suite, metrics: Mapping[str, float]) -> float:
    """The product of the factors, 0 to 1."""
    return float(np.prod(list(factors(suite, metrics).values())))


def suites_of(name: str) -> list[Suite]:
    """The suites of a set, or those named, with commas between them.

    Raises:
        OrbitccError: there is no such set or suite, or a suite does not measure how the candidate uses the link.
    """
    named = SETS.get(name) or [suites.named(part.strip()) for part in name.split(",")]
    for suite in named:
        if suite not in suites.SUITES:
            raise UnknownNameError("--suite-set", suite, (*SETS, *suites.names()))
    found = [suites.get(suite) for suite in dict.fromkeys(named)]
    for chosen in found:
        keys = {metric.key for metric in chosen.metrics}  # where they are missing, who sends nothing would be best
        if not USE & keys:
            raise OrbitccError("--suite-set", chosen.name, f"suites that measure one of {', '.join(sorted(USE))}")
        if not OWN & keys and _has_rivals(chosen):
            allowed = f"suites without rivals, or that measure one of {', '.join(sorted(OWN))}"
            raise OrbitccError("--suite-set", chosen.name, allowed)
    return found


def _has_rivals(suite: Suite) -> bool:
    """Whether others than the candidate drive flows."""
    entered = (suite.entered(case, Contender(CANDIDATE, CANDIDATE)) for case in suite.cases("quick", 1))
    return any(flow.controller.name != CANDIDATE for scenario in entered for flow in scenario.flows)


def worlds(chosen: Sequence[Suite], runs: int, seed: int) -> list[World]:
    """Run after run, a world of each suite: the first run of each is drawn, its points are those of `quick` in turn."""
    draw = random.Random(seed)
    firsts = [draw.randrange(FIRST, LAST) for _ in chosen]
    return [
        World(suite, points[k % len(points)], first + k)
        for k in range(runs)
        for suite, first in zip(chosen, firsts, strict=True)
        for points in [suite.points("quick")]
    ]


def score(
    path: str | os.PathLike[str],
    suite_set: str = "leo",
    *,
    seconds: float = 60.0,
    seed: int | None = None,
    runs: int = RUNS,
    against: str = AGAINST,
    out: str | os.PathLike[str] | None = None,
) -> dict[str, Any]:
    """The score of a candidate, a file that defines `make()` (:mod:`orbitcc.agents.python_policy`), with its reasons.

    suite_set: a name in `SETS`, or suites with commas between them. seconds: bounds the whole. seed: of the worlds;
    None: drawn anew. runs: per suite. against: the controller that a candidate must not be clearly worse than after a
    stage; it runs beside `CLASSICAL` in the same worlds. out: folder for pictures and the table of the worst world.

    Returns what `orbitcc score --json` prints (docs/score.md); a candidate at fault has `combined_score` 0 and `fault`.

    Raises:
        OrbitccError: wrong arguments, or a file that cannot be read.
    """
    began = time.monotonic()
    name = Path(path).name
    source = read_text(path, MOST_SOURCE)
    chosen = suites_of(suite_set)
    for field, value, low, high, whole in (
        ("--seconds", seconds, _LEAST_S, 86_400, False), ("--runs", runs, 1, 10_000, True),
        ("--seed", seed or 0, 0, 2**31 - 1, True),
    ):  # fmt: skip
        try:
            checked_number(value, low, high, whole=whole)
        except OrbitccError as error:
            raise error.at(field) from None
    try:
        beside = contenders.line_up(list(dict.fromkeys([against, *CLASSICAL])), [])
    except OrbitccError as error:  # about `against`: the others are known
        raise error.at(error.field.replace("--controller", "--against")) from None
    if out is not None:
        check_place(Path(out) / "score.json")
    drawn = secrets.randbelow(2**31) if seed is None else seed
    planned = worlds(chosen, runs, drawn)
    until = began + seconds - (min(DRAWING_S, seconds / 4) if out is not None else 0.0)
    with _Judge(source, name, beside, until) as judge:
        made = _stages(judge, planned, beside[0].label)
        result = _result(judge, planned, beside, made)
    about = {"seed": drawn, "suite_set": suite_set, "utility": UTILITY, "version": provenance.version()}
    result |= {**about, "seconds": round(time.monotonic() - began, 2)}
    if out is not None:
        _write(Path(out), result, made)
    return result


@dataclass
class _Made:
    """Worlds that count, in order, and why there are no more."""

    ran: list[Ran]
    stage: int = 0
    stopped: str = ""
    fault: str = ""


def _stages(judge: _Judge, planned: Sequence[World], reference: str) -> _Made:
    """Run the worlds stage by stage, until one decides, the time is over or the candidate does something wrong."""
    sizes = [*(size for size in STAGES if size < len(planned)), len(planned)]
    per_round = len({world.suite.name for world in planned})
    made = _Made([])
    for stage, size in enumerate(sizes, 1):
        made.stage = stage
        ran, fault, late = judge.run(planned[len(made.ran) : size])
        made.ran += ran
        if fault:
            made.fault = fault
            return made
        if late:
            whole = len(made.ran) // per_round * per_round or min(len(made.ran), sizes[0]) // sizes[0] * sizes[0]
            made.ran = made.ran[:whole]
            made.stopped = "the time is over" + ("" if whole else f" before {sizes[0]} worlds were")
            return made
        against = mean_of_groups([_differences(planned, made.ran, reference)])
        if stage < len(sizes) and against.high < 0:
            made.stopped = (
                f"after {size} worlds its utility is below that of {reference}: "
                f"{against.value:+.3f}, 95 % interval {against.low:+.3f} to {against.high:+.3f}"
            )
            return made
    return made


def _differences(planned: Sequence[World], ran: Sequence[Ran], label: str) -> list[float]:
    """Utility of the candidate minus that of another, by world."""
    own, other = (_utilities(planned, ran, who) for who in (CANDIDATE, label))
    return [a - b for a, b in zip(own, other, strict=True)]


def _utilities(planned: Sequence[World], ran: Sequence[Ran], label: str) -> list[float]:
    return [utility(world.suite, one.metrics[label]) for world, one in zip(planned, ran, strict=False)]


class _Judge:
    """Runs worlds for the candidate, in sandboxes, and for the classical controllers, in threads of this process."""

    def __init__(self, source: str, name: str, beside: list[Contender], until: float) -> None:
        self._candidate, self._beside, self._until = (source, name), beside, until
        self._workers = os.cpu_count() or 1
        self._free: queue.SimpleQueue[Sandbox] = queue.SimpleQueue()
        self.protections: dict[str, bool] = {}
        self.decisions, self._begun = 0, time.monotonic()
        self._over = ""

    def __enter__(self) -> _Judge:
        for _ in range(self._workers):
            self._free.put(_idle.pop() if _idle else Sandbox())
        return self

    def __exit__(self, *_: object) -> None:
        while not self._free.empty():
            _idle.append(self._free.get())

    def run(self, planned: Sequence[World]) -> tuple[list[Ran], str, bool]:
        """The worlds up to the first that was not finished, the fault of the candidate, and is the time over?"""
        found: list[Ran] = []
        with ThreadPoolExecutor(self._workers) as pool:
            for future in [pool.submit(self._world, world) for world in planned]:
                try:
                    found.append(future.result())
                except CandidateError as error:
                    self._over = error.sentence
                    return found, error.sentence, False
                except OutOfTimeError:
                    return found, self._over, True
                except BaseException:
                    self._until = 0.0  # the others end at their next decision
                    raise
        return found, "", False

    def _check(self, _: float = 0.0) -> None:
        if self._over or time.monotonic() > self._until:
            raise OutOfTimeError

    def _world(self, world: World) -> Ran:
        own, recording = self._candidates(world)
        metrics = {CANDIDATE: own}
        for contender in self._beside:
            key = (world.suite.name, world.case.digest, world.number, contender.key)
            if key not in _known:
                _known[key] = self._measured(world, contender)[0]
            metrics[contender.label] = _known[key]
        return Ran(metrics, recording)

    def _candidates(self, world: World) -> tuple[dict[str, float], Recording]:
        self._check()
        sandbox = self._free.get()
        key, before = f"{id(sandbox)}", sandbox.decisions
        try:
            _policies[key] = sandbox.begin(*self._candidate, self._until)
            measured = self._measured(world, Contender(CANDIDATE, CANDIDATE, {"key": key}))
            sandbox.end()
        except BaseException:
            sandbox.close()
            self._free.put(Sandbox())
            raise
        finally:
            _policies.pop(key, None)
            self.protections = sandbox.protections or self.protections
            self.decisions += sandbox.decisions - before
        self._free.put(sandbox)
        return measured

    def _measured(self, world: World, contender: Contender) -> tuple[dict[str, float], Recording]:
        self._check()
        suite, case = world.suite, world.case
        recording = simulate(suite.entered(case, contender), None, suite.record_interval_s, self._check)
        return suite.measured(case, recording), recording


def _result(judge: _Judge, planned: Sequence[World], beside: list[Contender], made: _Made) -> dict[str, Any]:
    count = 0 if made.fault else len(made.ran)
    ran, names = made.ran[:count], list(dict.fromkeys(world.suite.name for world in planned))
    places = {name: [k for k in range(count) if planned[k].suite.name == name] for name in names}
    by_suite = {name: group for name, group in places.items() if group}

    def combined(label: str) -> dict[str, Any]:
        if not ran:
            return {"combined_score": 0.0, "interval": [None, None]}
        values = _utilities(planned, ran, label)
        mean = mean_of_groups([[values[k] for k in group] for group in by_suite.values()])
        bounds = [mean.low, mean.high] if len(by_suite) == len(names) else [None, None]
        return {"combined_score": mean.value * len(by_suite) / len(names), "interval": bounds}

    def of_suite(label: str, group: list[int]) -> dict[str, float]:
        suite = planned[group[0]].suite
        values = {m.key: [ran[k].metrics[label][m.key] for k in group] for m in suite.metrics}
        known = {key: [x for x in row if x == x] for key, row in values.items()}
        means = {key: float(np.mean(row)) if row else float("nan") for key, row in known.items()}
        return {"utility": float(np.mean([utility(suite, ran[k].metrics[label]) for k in group])), **means}

    labels = [CANDIDATE, *(c.label for c in beside)]
    per_suite = {name: {label: of_suite(label, group) for label in labels} for name, group in by_suite.items()}
    utilities = _utilities(planned, ran, CANDIDATE)
    worst, difference = None, {}
    if ran:
        difference = asdict(mean_of_groups([_differences(planned, ran, beside[0].label)]))
        k = int(np.argmin(utilities))
        world = planned[k]
        worst = {
            "suite": world.suite.name,
            "point": dict(world.point),
            "run": world.number,
            "utility": utilities[k],
            "world": k,
        }
    taken_s = time.monotonic() - judge._begun
    return {
        **combined(CANDIDATE),
        "worlds": count,
        "planned": len(planned),
        "stage": made.stage,
        "stopped": made.stopped,
        "fault": made.fault,
        "reason": made.fault or (_reason(planned, ran, by_suite) if ran else made.stopped),
        "against": {"controller": beside[0].label, **difference},
        "classical": {c.label: combined(c.label) for c in beside} if ran else {},
        "suites": per_suite,
        "worst": worst,
        "decisions": judge.decisions,
        "decisions_per_s": round(judge.decisions / max(taken_s, 1e-9)),
        "protections": judge.protections,
    }


def _reason(planned: Sequence[World], ran: Sequence[Ran], by_suite: Mapping[str, list[int]]) -> str:
    """The factor that costs most, in words."""
    costs = []
    for name, group in by_suite.items():
        suite = planned[group[0]].suite
        rows = [factors(suite, ran[k].metrics[CANDIDATE]) for k in group]
        for key in rows[0]:
            values = [ran[k].metrics[CANDIDATE][key] for k in group]
            known = [x for x in values if x == x]
            words = FACTORS[key][2].format(np.mean(known)) if known else f"it has no {key}: nothing was delivered"
            costs.append((float(np.mean([row[key] for row in rows])), f"{words} in {name}"))
    return min(costs)[1]


def _write(out: Path, result: dict[str, Any], made: _Made) -> None:
    """score.json; where there are worlds, also score.png, and worst.png and worst.csv of the worst of them."""
    from orbitcc.common.files import atomic_write_bytes
    from orbitcc.common.numbers import finite
    from orbitcc.eval.figures.base import render
    from orbitcc.eval.figures.run import plot_run
    from orbitcc.eval.figures.score import draw_score
    from orbitcc.eval.figures.style import LIGHT

    files = ["score.json"]
    if result["worst"] is not None:
        recording = made.ran[result["worst"]["world"]].recording
        atomic_write_bytes(out / "score.png", render(draw_score(result, LIGHT)))
        plot_run(recording, out / "worst.png")
        recording.save_csv(out / "worst.csv")
        files += ["score.png", "worst.png", "worst.csv"]
    result["files"] = [str(out / file) for file in files]
    atomic_write_text(out / "score.json", json.dumps(finite(result), indent=2) + "\n")
