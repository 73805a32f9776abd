"""Compares results under the same conditions: one contender in two folders, or two contenders of one folder."""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from orbitcc.common import code
from orbitcc.common.errors import FileError, MissingError, OrbitccError, StateError, UnknownNameError
from orbitcc.common.files import parse_json, read_text
from orbitcc.envs.controllers import PROGRAM
from orbitcc.eval import suites
from orbitcc.eval.front import SHARES, low_share
from orbitcc.eval.results import ASSESSMENT, PLAN, CaseKey, Row, have_copies, load_planned, value_of
from orbitcc.eval.statistics import Estimate, Standing, median, median_estimate, verdict
from orbitcc.eval.suites import Metric

Runs = Mapping[CaseKey, Row]


@dataclass(frozen=True)
class Difference:
    """A metric on side A and on side B, over the cases both have; change: B - A, paired.

    contender, other: who is on side A and on side B. seeds: whether the pairs are training seeds, not runs. unused:
    whether A and B leave a fifth or more of the link unused, which makes other figures no merit (`front.unused`).
    versions: those of OrbitCC that made the runs, with `.emulator` for runs on a real kernel.
    copies: whether runs of a world are equal in every figure.
    """

    suite: str
    contender: str
    other: str
    metric: Metric
    a: Estimate
    b: Estimate
    change: Estimate
    seeds: bool = False
    unused: tuple[bool, bool] = (False, False)
    versions: tuple[str, ...] = ()
    copies: bool = False

    @property
    def verdict(self) -> Standing:
        """Whether B is better or worse."""
        return verdict(self.change, self.metric.better)


def differences(
    a: str | os.PathLike[str],
    b: str | os.PathLike[str] | None = None,
    first: Sequence[str] = (),
    second: Sequence[str] = (),
) -> list[Difference]:
    """Every metric of every contender with runs in both folders; or of the contenders `first` of folder a (side A)
    against `second` of folder b (side B), which is a by default.

    first, second: names of contenders, with `*` and `?` for any letters. Several on a side are one design, trained with
    several seeds: the median over runs of each pair of seeds is one difference. A side with one contender is paired
    with each of the other side.

    A case counts by its scenario and seed; of a contender's runs of one case (several versions), that of the
    folder's table counts, else the last one.
    Raises FileError for a folder without the results, and where the two have nothing in common; OrbitccError for
    names that are not there, or that cannot be paired.
    """
    one, two = _rows(Path(a)), _rows(Path(a if b is None else b))
    if bool(first) != bool(second):
        raise MissingError("--b" if first else "--a")
    if b is None and not first:
        known = ", ".join(dict.fromkeys(key.partition("#")[0] for runs in one.values() for key in runs))
        sentence = f"name a second folder (RUN_B), or two contenders of this one with --a NAME and --b NAME: {known}"
        raise StateError("compare", sentence)
    sides: list[tuple[str, str, str, list[tuple[Runs, Runs]]]]
    if not first:
        sides = [(suite, name, name, [(mine, two[suite][name])]) for suite, found in one.items()
                 for name, mine in found.items() if name in two.get(suite, {})]  # fmt: skip
    else:
        chosen, others = _chosen(one, first, "--a"), _chosen(two, second, "--b")
        names = ", ".join(first), ", ".join(second)
        sides = [(suite, *names, _pairs(mine, others[suite])) for suite, mine in chosen.items() if suite in others]
    if any(suite == ASSESSMENT for suite, *_ in sides):
        raise FileError("run_a", str(a), "results of `orbitcc eval` or `orbitcc reproduce`, not of `orbitcc assess`")
    found = [difference for side in sides for difference in _differences(*side)]
    if not found:
        raise FileError("run_b", str(a if b is None else b), f"the results with runs of a suite that {a} has, too")
    return found


def warnings(found: Sequence[Difference]) -> list[str]:
    """What a reader must know of differences: that runs of A and B were made in different ways, or are copies."""
    told = []
    versions = list(dict.fromkeys(version for difference in found for version in difference.versions))
    if len(versions) > 1:
        said = "the runs are of several versions or backends, which may explain differences"
        told.append(f"{said}: {', '.join(versions)}")
    if suites_of_copies := list(dict.fromkeys(d.suite for d in found if d.copies)):
        said = "runs of a world are equal in every figure; they are as good as one"
        told.append(f"{', '.join(suites_of_copies)}: {said}")
    return told


def _differences(suite: str, contender: str, other: str, pairs: Sequence[tuple[Runs, Runs]]) -> list[Difference]:
    cases = [sorted(mine.keys() & theirs.keys()) for mine, theirs in pairs]
    if not all(cases):
        return []
    found = []
    own: list[list[Row]] = [[], []]
    for pair, keys in zip(pairs, cases, strict=True):
        for gathered, known in zip(own, pair, strict=True):
            gathered += [known[case] for case in keys]
    versions = tuple(dict.fromkeys(row["version"] for rows in own for row in rows))
    low = [low_share({key: [value_of(row, key) for row in rows] for key in SHARES}) is not None for rows in own]
    for metric in suites.metrics_of(suite):
        sides: list[list[list[float]]] = [[], []]
        for pair, common in zip(pairs, cases, strict=True):
            for side, rows in zip(sides, pair, strict=True):
                side.append([value_of(rows[case], metric.key) for case in common])
        changes = [np.subtract(theirs, mine) for mine, theirs in zip(*sides, strict=True)]
        seeds = len(pairs) > 1
        a, b, change = (
            median_estimate(map(median, side)) if seeds else median_estimate(side[0]) for side in (*sides, changes)
        )
        unused = (False, False) if metric.key in SHARES else (low[0], low[1])
        copies = any(map(have_copies, own)) and not seeds
        found.append(Difference(suite, contender, other, metric, a, b, change, seeds, unused, versions, copies))
    return found


def _chosen(rows: Mapping[str, Mapping[str, Runs]], names: Sequence[str], option: str) -> dict[str, dict[str, Runs]]:
    """Suite -> contenders with one of these names, in every suite that has all."""
    known = list(dict.fromkeys(key for found in rows.values() for key in found))
    for name in names:
        if not any(_is_called(key, name) for key in known):
            raise UnknownNameError(option, name, (key.partition("#")[0] for key in known))
    chosen = {
        suite: {key: runs for key, runs in found.items() if any(_is_called(key, name) for name in names)}
        for suite, found in rows.items()
    }
    for found in chosen.values():
        untrained = [key for key in found if next(iter(found[key].values()))["controller"] == PROGRAM or "#" not in key]
        if len(found) > 1 and untrained:
            raise OrbitccError(option, untrained[0], "a single contender, or policies, one for each training seed")
    return {suite: found for suite, found in chosen.items() if found}


def _is_called(key: str, name: str) -> bool:
    """Whether `name` is that of a contender with this key: `mine` and `mine#8f73...` are `mine#8f7337f67a92`."""
    label, _, digest = key.partition("#")
    text, _, start = name.replace(" #", "#").partition("#")
    return fnmatch.fnmatchcase(label, text) and digest.startswith(start)


def _pairs(mine: Mapping[str, Runs], theirs: Mapping[str, Runs]) -> list[tuple[Runs, Runs]]:
    """Pairs of contenders: by training seed, in the order of the seeds; a single one with each of the others."""
    first, second = (_by_seed(side) for side in (mine, theirs))
    if set(first) == set(second):
        return [(first[seed], second[seed]) for seed in first]
    ones, twos = list(first.values()), list(second.values())
    if len(ones) != len(twos) and 1 not in (len(ones), len(twos)):
        counts = f"{len(ones)} and {len(twos)} contenders"
        raise OrbitccError("--b", counts, "one on a side, or as many on both: one for each training seed")
    count = max(len(ones), len(twos))
    return list(zip(ones * (count // len(ones)), twos * (count // len(twos)), strict=True))


def _by_seed(side: Mapping[str, Runs]) -> dict[tuple[int, int], Runs]:
    """Training seed, and how often it came before -> runs; contenders without a seed have -1, in the folder's order."""
    seeds = [(_training_seed(next(iter(runs.values()))), runs) for runs in side.values()]
    found: dict[tuple[int, int], Runs] = {}
    for seed, runs in sorted(seeds, key=lambda item: item[0]):
        found[seed, sum(known == seed for known, _ in found)] = runs
    return found


def _training_seed(row: Row) -> int:
    """The seed in the model card of the policy of a run; -1 if there is none, or the policy is gone or another one."""
    from orbitcc.agents import checkpoint
    from orbitcc.eval import contenders

    try:
        policy = code.from_file("path", str(row["params"].get("path", row["controller"])))
        training = checkpoint.load(policy).card.training
        now = contenders.from_controller(contenders.spec_text(row["controller"], row["params"]))
    except OrbitccError:
        return -1
    if now.digest != row["contender"].partition("#")[2]:
        return -1
    return -1 if training is None else training.seed


def _rows(folder: Path) -> dict[str, dict[str, dict[CaseKey, Row]]]:
    """Suite -> contender -> case -> row."""
    files = [folder / "runs.jsonl"] if (folder / "runs.jsonl").exists() else sorted(folder.glob("*/runs.jsonl"))
    if not files:
        raise FileError("run", str(folder), "the folder of the results, with runs.jsonl, or of several")
    found: dict[str, dict[str, dict[CaseKey, Row]]] = {}
    for file in files:
        planned = _planned_version(file.with_name(PLAN))
        for row in sorted(load_planned(file), key=lambda row: row["version"] == planned):
            runs = found.setdefault(row["suite"], {}).setdefault(row["contender"], {})
            runs[row["scenario"], row["seed"]] = row
    return found


def _planned_version(plan: Path) -> str:
    """The version whose runs the table of a folder shows; empty where its plan is missing or damaged."""
    try:
        found = parse_json(read_text(plan))
        return str(found["versions"]["orbitcc"])
    except (OrbitccError, ValueError, LookupError, TypeError):
        return ""


__all__ = ["Difference", "differences", "warnings"]
