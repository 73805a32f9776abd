"""Papers: their suites with contenders, and their claims."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from orbitcc.common import code
from orbitcc.common.errors import FileError, OrbitccError, UnknownNameError
from orbitcc.common.files import atomic_write_text, parse_json, read_text
from orbitcc.envs.scenarios import SCENARIOS
from orbitcc.eval import contenders, suites
from orbitcc.eval.claims import VERDICTS, Claim, ClaimResult, load
from orbitcc.eval.contenders import Contender
from orbitcc.eval.results import RUNS, Results, key_of, load_planned
from orbitcc.eval.runner import run_suite
from orbitcc.eval.statistics import median_estimate
from orbitcc.eval.suites import Metric, Suite
from orbitcc.parallel import cluster


@dataclass(frozen=True)
class Score:
    """A column of the table of medians: a metric of a suite, its median over all runs."""

    title: str
    suite: str
    metric: str


@dataclass(frozen=True)
class Paper:
    """suites: name -> its controllers, besides the policies of the user. scores: columns of the table of medians."""

    name: str
    title: str
    source: str
    suites: Mapping[str, Sequence[str]]
    claims: Sequence[Claim]
    scores: Sequence[Score]


LEO_LINE_UP = ("cubic", "satcp", "bbr3", "leocc:trigger=global", "vivace")
GEO_LINE_UP = ("bbr", "cubic", "hybla:ssthresh_cache=5000", "vivace:preset=geo")
"""On hosts of Linux 4.15. The cached threshold is calibrated, as if it came from an earlier download."""

LEO_SUITES = (
    "leoem-single",
    "leoem-fairness",
    "responsiveness",
    "responsiveness-loss",
    "responsiveness-shown",
    "responsiveness-loss-shown",
    "inter-rtt",
    "intra-rtt",
    "parking-lot",
    "efficiency",
    "delay-jump",
    "rate-step",
)

PAPERS: dict[str, Paper] = {
    paper.name: paper
    for paper in (
        Paper(
            "leo",
            "Congestion control in LEO satellite networks",
            "Mazilu, Valentine, Wakeman, Parisis: An Experimental Study of Congestion Control in LEO Satellite "
            "Networks, IFIP Networking 2026",
            dict.fromkeys(LEO_SUITES, LEO_LINE_UP),
            load("leo"),
            (
                Score("Utilisation", "leoem-single", "goodput_share"),
                Score("Delay", "leoem-single", "delay_inflation"),
                Score("Responsiveness", "responsiveness", "goodput_over_optimal"),
                Score("Under loss", "responsiveness-loss", "goodput_over_optimal"),
                Score("Fairness, one RTT", "intra-rtt", "goodput_ratio"),
                Score("Fairness, RTTs differ", "inter-rtt", "goodput_ratio"),
                Score("Several bottlenecks", "parking-lot", "long_ratio"),
                Score("Fairness, many flows", "efficiency", "jain"),
                Score("Queue with many flows", "efficiency", "delay_ratio"),
                Score("Retransmissions", "leoem-single", "retransmission_rate"),
            ),
        ),
        Paper(
            "geo",
            "Congestion control over a GEO satellite link",
            "Claypool, Chung, Claypool, CCNC and PAM 2021; Peters, Zhao, Chung, Claypool, Netdev 0x15, 2021",
            {"geo-download": GEO_LINE_UP, "geo-probes": ("cubic",), "hystart": ("cubic",), "buffers": ("cubic",)},
            load("geo"),
            (
                Score("Steady throughput", "geo-download", "steady_mbps"),
                Score("Steady RTT", "geo-download", "steady_rtt_ms"),
                Score("Power", "geo-download", "steady_power"),
                Score("Start-up", "geo-download", "start_up_mbps"),
                Score("Retransmissions", "geo-download", "retransmission_rate"),
            ),
        ),
        Paper(
            "c4",
            "The tests of C4's authors",
            "Huitema, Nandakumar, Jennings: draft-huitema-ccwg-c4-test, 2026",
            {"c4-tests": ("c4:flavour=picoquic", "cubic", "bbr3")},
            load("c4"),
            (
                Score("Completion", "c4-tests", "completion_s"),
                Score("RTT", "c4-tests", "rtt_mean_ms"),
                Score("Share of the link", "c4-tests", "load"),
            ),
        ),
    )
}

REDUCED_AT_MOST = {"delay-jump": "reduced"}
"""Suites of which the claims need only this profile."""

WITHOUT_POLICIES = ("geo-probes", "hystart", "buffers")
"""Suites about one controller."""


def named(name: str) -> Paper:
    """The paper of that name, or the Paper `package.module:attribute`; its own suites are registered there.

    Raises:
        OrbitccError: there is none.
    """
    if name in PAPERS or not code.is_code(name):
        return get(name)
    paper = code.attribute("paper", name)
    if not isinstance(paper, Paper):
        raise OrbitccError("paper", name, "an orbitcc.eval.papers.Paper")
    if not (isinstance(paper.suites, Mapping) and paper.suites and paper.scores):
        raise OrbitccError(
            "paper", name, "a Paper whose `suites` are a table of contenders by suite, with one Score or more"
        )
    for suite in paper.suites:
        suites.get(suite)
    for score in paper.scores:
        where = f"{name}: score {score.title!r}"
        if score.suite not in paper.suites:
            raise UnknownNameError(f"{where}.suite", score.suite, paper.suites)
        if score.metric not in (known := [metric.key for metric in suites.metrics_of(score.suite)]):
            raise UnknownNameError(f"{where}.metric", score.metric, known)
    return paper


def get(name: str) -> Paper:
    """The paper of that name. Raises UnknownNameError naming the nearest one."""
    if name not in PAPERS:
        raise UnknownNameError("paper", name, PAPERS)
    return PAPERS[name]


def run_paper(
    paper: Paper,
    policies: Sequence[str],
    *,
    out_dir: str | os.PathLike[str],
    profile: str,
    workers: int | None = None,
    ray: str | None = None,
    resume: bool = False,
    settings: Mapping[str, Any] | None = None,
    command: str = "",
    done: Callable[[Results], object] = lambda _: None,
) -> dict[str, Results]:
    """Run every suite into a folder of its own below out_dir; `done` is called with the results of each.

    settings: `first_run`, and parameters of scenarios; a suite takes those that its scenario has.
    Raises FileError for a folder that holds something else, OrbitccError for wrong arguments.
    """
    folder, chosen = check_folder(paper, out_dir), suites_of(paper, settings or {})
    all_results, reports = {}, []
    # Pictures of a finished suite are drawn beside the runs of the next one.
    with cluster.joined(ray, workers) if ray else nullcontext(), ThreadPoolExecutor(1) as reporter:
        for name, line_up in paper.suites.items():
            entering = contenders.line_up(line_up, [] if name in WITHOUT_POLICIES else policies)
            all_results[name] = run_suite(
                chosen[name],
                entering,
                out_dir=folder / name,
                profile=_profile(name, profile),
                workers=workers,
                ray=ray,
                resume=resume,
                command=command,
            )
            reports.append(reporter.submit(done, all_results[name]))
    for report in reports:
        report.result()
    return all_results


def check_folder(paper: Paper, out_dir: str | os.PathLike[str]) -> Path:
    """The folder. Raises FileError if it holds runs of something else."""
    folder = Path(out_dir)
    others = [name for name in ("", *suites.names()) if name not in paper.suites and (folder / name / RUNS).exists()]
    if others:
        raise FileError("out", str(folder), f"a folder of the paper {paper.name} alone (there are other runs in it)")
    return folder


class _Planned(dict[str, float]):
    """The metrics of a run that was not made yet: it will have each."""

    def get(self, key: str, default: Any = None) -> Any:
        return 1.0


def decidable(
    paper: Paper,
    policies: Sequence[str],
    profile: str,
    settings: Mapping[str, Any] | None = None,
    others: Sequence[Mapping[str, Results]] = (),
) -> list[str]:
    """The claims that runs of this profile can decide, together with other draws."""
    planned = {}
    for name, suite in suites_of(paper, settings or {}).items():
        entering = contenders.line_up(paper.suites[name], [] if name in WITHOUT_POLICIES else policies)
        own = _profile(name, profile)
        runs = suite.runs(own)
        rows = [
            {"contender": contender.key, "point": dict(point), "seed": seed, "metrics": _Planned()}
            for contender in entering for point in suite.points(own) for seed in range(runs)
        ]  # fmt: skip
        rows += [row for draw in others for row in draw[name].rows]
        planned[name] = Results(suite, entering, own, runs, Path(), "", "", rows)
    return [claim.key for claim in paper.claims if claim.decidable(planned)]


def suites_of(paper: Paper, settings: Mapping[str, Any]) -> dict[str, Suite]:
    """The suites of a paper, each with those settings that it takes. Raises UnknownNameError for another one."""
    taken = {name: {"first_run", "transport"} for name in paper.suites}
    for name, known in taken.items():
        if scenario := SCENARIOS.get(suites.SUITES[name].scenario):
            known |= set(scenario.params)
    for key in settings:
        if not any(key in known for known in taken.values()):
            raise UnknownNameError("--set", key, sorted(set().union(*taken.values())))
    return {name: suites.get(name, {k: v for k, v in settings.items() if k in known}) for name, known in taken.items()}


def _profile(name: str, profile: str) -> str:
    return REDUCED_AT_MOST.get(name, profile) if profile == "full" else profile


def check_apart(
    paper: Paper, profile: str, settings: Mapping[str, Any], others: Sequence[Mapping[str, Results]]
) -> None:
    """Raises OrbitccError if other draws have runs that are to be made with these settings."""
    for name, suite in suites_of(paper, settings).items():
        planned = range(suite.first_run, suite.first_run + suite.runs(_profile(name, profile)))
        for draw in others:
            if any(row["seed"] in planned for row in draw[name].rows):
                raise _not_apart(str(draw[name].out_dir))


def _not_apart(where: str) -> OrbitccError:
    return OrbitccError("--with", where, "draws with other runs each (--set first_run=N)")


def load_paper(paper: Paper, out_dir: str | os.PathLike[str]) -> dict[str, Results]:
    """The results that `run_paper` left in a folder. Raises FileError where one is missing or damaged."""
    return {name: _load(name, Path(out_dir) / name) for name in paper.suites}


def _load(name: str, folder: Path) -> Results:
    plan_file = folder / "results.json"
    text = read_text(plan_file)
    try:
        plan = parse_json(text)
        suite, version = suites.get(name, plan["settings"]), plan["versions"]["orbitcc"]
        entered = [Contender(**given) for given in plan["contenders"]]
        profile, runs, command = plan["profile"], plan["runs"], plan["command"]
        suite.runs(profile, runs)
        if not all(isinstance(text, str) for text in (version, command, *(c.label for c in entered))):
            raise TypeError
        keys = [contender.key for contender in entered]
        planned = {(case, key) for case in map(str, plan["cases"]) for key in keys}
    except (ValueError, KeyError, TypeError, AttributeError):
        raise FileError("results", str(plan_file), "the plan of finished results, as this version writes it") from None
    rows = [row for row in load_planned(folder / RUNS) if row["version"] == version and row["contender"] in keys]
    lacking = planned - {(f"{row['scenario']} {row['seed']}", row["contender"]) for row in rows}
    if lacking:
        there = f"a finished evaluation: {len(lacking)} of {len(planned)} runs are missing; --resume continues it"
        raise FileError("results", str(folder), there)
    return Results(suite, entered, profile, runs, folder, version, command, rows)


def together(draws: Sequence[Mapping[str, Results]]) -> dict[str, Results]:
    """Draws of one paper, each with runs of its own, as the results of one.

    Their profiles may differ; the points are those of the one with most.
    Raises OrbitccError for draws that share a run, or that differ in their settings or in the simulator.
    """
    return {name: _together([draw[name] for draw in draws]) for name in draws[0]}


def _together(draws: Sequence[Results]) -> Results:
    first = draws[0]
    for other in draws[1:]:
        if (what := _conditions(other)) != _conditions(first):
            raise OrbitccError("--with", str(other.out_dir), f"results under the same conditions ({what})")
    rows = [row for draw in draws for row in draw.rows]
    if len({key_of(row) for row in rows}) < len(rows):
        where = ", ".join(str(draw.out_dir) for draw in draws)
        raise _not_apart(where)
    entered = {contender.key: contender for draw in draws for contender in draw.contenders}
    runs = len({row["seed"] for row in rows})
    widest = max(draws, key=lambda draw: len(draw.points()))
    return replace(first, contenders=list(entered.values()), profile=widest.profile, runs=runs, rows=rows)


def _conditions(results: Results) -> str:
    """What has to be equal in draws that are judged together."""
    settings = [f"{k}={v}" for k, v in sorted(results.suite.settings.items()) if k != "first_run"]
    return ", ".join((results.suite.name, results.version, *settings))


def medians(paper: Paper, all_results: Mapping[str, Results]) -> dict[str, list[tuple[Metric, float]]]:
    """Label -> the metric and its median over all runs, for every score of the paper."""
    labels = list(dict.fromkeys(c.label for score in paper.scores for c in all_results[score.suite].contenders))
    table: dict[str, list[tuple[Metric, float]]] = {label: [] for label in labels}
    for score in paper.scores:
        results = all_results[score.suite]
        metric = next(m for m in results.suite.metrics if m.key == score.metric)
        values = results.values(score.metric)
        for label in labels:
            table[label].append((metric, median_estimate(values.get(label, ())).median))
    return table


def judge(paper: Paper, all_results: Mapping[str, Results]) -> list[tuple[Claim, ClaimResult]]:
    """Every claim with its measured result."""
    return [(claim, claim.judge(all_results)) for claim in paper.claims]


def counts(judged: Sequence[tuple[Claim, ClaimResult]]) -> str:
    """How many claims have each verdict; those to which something here was calibrated are counted apart."""
    decided = [outcome for _, outcome in judged if outcome.verdict != "undecidable"]
    parts = []
    for title, among in (
        ("independent", [outcome for outcome in decided if not outcome.calibrated]),
        ("calibrated", [outcome for outcome in decided if outcome.calibrated]),
    ):
        found = {verdict: sum(outcome.verdict == verdict for outcome in among) for verdict in VERDICTS[:3]}
        if among:
            said = f"{found['holds']} hold, {found['fails']} fail, {found['within noise']} within noise"
            parts.append(f"{len(among)} {title}: {said}")
    return "; ".join([*parts, f"{len(judged) - len(decided)} undecidable"])


def as_rows(judged: Sequence[tuple[Claim, ClaimResult]]) -> list[dict[str, Any]]:
    """The table for JSON. met_in: the share of bootstrap resamples in which the criterion is met."""
    return [
        {
            "key": claim.key,
            "statement": claim.statement,
            **({"quote": claim.quote} if claim.quote else {}),
            "source": claim.source,
            "expected": claim.expected,
            "measured": outcome.measured,
            "verdict": outcome.verdict,
            **({"met_in": outcome.share} if outcome.share is not None else {}),
            **({"reason": outcome.reason} if outcome.reason else {}),
            **({"calibrated": outcome.calibrated} if outcome.calibrated else {}),
        }
        for claim, outcome in judged
    ]


def write_claims(judged: Sequence[tuple[Claim, ClaimResult]], out_dir: str | os.PathLike[str]) -> Path:
    """claims.json."""
    return atomic_write_text(Path(out_dir) / "claims.json", json.dumps(as_rows(judged), indent=2) + "\n")
