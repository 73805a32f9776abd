"""The papers as wholes: which suites with which contenders, and what is claimed of the outcome."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from orbitcc.envs.errors import FileError, UnknownNameError
from orbitcc.envs.files import atomic_write_text, read_text
from orbitcc.eval import contenders, suites
from orbitcc.eval.campaign import RUNS, Campaign, read_rows
from orbitcc.eval.findings import Finding, Outcome, Results
from orbitcc.eval.findings import geo as geo_findings
from orbitcc.eval.findings import leo as leo_findings
from orbitcc.eval.runner import run_suite
from orbitcc.eval.statistics import median_estimate
from orbitcc.eval.suites import Metric


@dataclass(frozen=True)
class Score:
    """A column of the scorecard: a metric of a suite, its median over all runs."""

    title: str
    suite: str
    metric: str


@dataclass(frozen=True)
class Study:
    """suites: name -> controllers that enter it, besides the agents a user brings. scores: what sums a contender up."""

    name: str
    title: str
    source: str
    suites: Mapping[str, Sequence[str]]
    findings: Sequence[Finding]
    scores: Sequence[Score]


LEO_LINE_UP = ("cubic", "satcp", "bbr3", "leocc:trigger=global", "vivace")
GEO_LINE_UP = ("bbr", "cubic", "hybla:ssthresh_cache=5000", "vivace:preset=geo")
"""On hosts of Linux 4.15. The cached threshold is calibrated: as if an earlier download had left it."""

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

STUDIES: dict[str, Study] = {
    study.name: study
    for study in (
        Study(
            "leo",
            "Congestion control in LEO satellite networks",
            "Mazilu, Valentine, Wakeman, Parisis: An Experimental Study of Congestion Control in LEO Satellite "
            "Networks, IFIP Networking 2026",
            dict.fromkeys(LEO_SUITES, LEO_LINE_UP),
            leo_findings.FINDINGS,
            (
                Score("Utilisation", "leoem-single", "goodput_share"),
                Score("Delay", "leoem-single", "delay_inflation"),
                Score("Responsiveness", "responsiveness", "goodput_over_optimal"),
                Score("Under loss", "responsiveness-loss", "goodput_over_optimal"),
                Score("Fairness, one RTT", "intra-rtt", "goodput_ratio"),
                Score("Fairness, RTTs differ", "inter-rtt", "goodput_ratio"),
                Score("Several bottlenecks", "parking-lot", "long_ratio"),
                Score("Queue of many", "efficiency", "delay_ratio"),
                Score("Retransmissions", "leoem-single", "retransmission_rate"),
            ),
        ),
        Study(
            "geo",
            "Congestion control over a GEO satellite link",
            "Claypool, Chung, Claypool, CCNC and PAM 2021; Peters, Zhao, Chung, Claypool, Netdev 0x15, 2021",
            {"geo-download": GEO_LINE_UP, "hystart": ("cubic",), "buffers": ("cubic",)},
            geo_findings.FINDINGS,
            (
                Score("Steady throughput", "geo-download", "steady_mbps"),
                Score("Steady RTT", "geo-download", "steady_rtt_ms"),
                Score("Power", "geo-download", "steady_power"),
                Score("Start-up", "geo-download", "start_up_mbps"),
                Score("Retransmissions", "geo-download", "retransmission_rate"),
            ),
        ),
    )
}

REDUCED_AT_MOST = {"delay-jump": "reduced"}
"""Suites beside a study's own experiments, of which its claims need only a part."""

AGENTS_STAY_OUT = ("hystart", "buffers")
"""Suites about one controller."""


def get(name: str) -> Study:
    """The study of that name. Raises UnknownNameError naming the nearest one."""
    if name not in STUDIES:
        raise UnknownNameError("study", name, STUDIES)
    return STUDIES[name]


def run_study(
    study: Study,
    agents: Sequence[str],
    *,
    out_dir: str | os.PathLike[str],
    profile: str,
    workers: int | None = None,
    ray: str | None = None,
    resume: bool = False,
    command: str = "",
    done: Callable[[Campaign], object] = lambda _: None,
) -> dict[str, Campaign]:
    """Run every suite into a folder of its own below out_dir; `done` is told of each that is finished.

    Raises FileError for a folder that holds something else, OrbitccError for wrong arguments.
    """
    folder = Path(out_dir)
    others = [name for name in ("", *suites.names()) if name not in study.suites and (folder / name / RUNS).exists()]
    if others:
        raise FileError("out", str(folder), f"a folder of the study {study.name} alone (there are other runs in it)")
    campaigns, told = {}, []
    # Pictures of a finished suite are drawn beside the runs of the next one.
    with ThreadPoolExecutor(1) as teller:
        for name, line_up in study.suites.items():
            entering = contenders.line_up(line_up, [] if name in AGENTS_STAY_OUT else agents)
            campaigns[name] = run_suite(
                suites.get(name),
                entering,
                out_dir=folder / name,
                profile=REDUCED_AT_MOST.get(name, profile) if profile == "full" else profile,
                workers=workers,
                ray=ray,
                resume=resume,
                command=command,
            )
            told.append(teller.submit(done, campaigns[name]))
    for report in told:
        report.result()
    return campaigns


def load_study(study: Study, out_dir: str | os.PathLike[str]) -> dict[str, Campaign]:
    """The campaigns that `run_study` left in a folder, without agents. Raises FileError where one is missing."""
    campaigns = {}
    for name, line_up in study.suites.items():
        folder = Path(out_dir) / name
        plan = json.loads(read_text(folder / "campaign.json"))
        version = plan["versions"]["orbitcc"]
        rows = [r for r in read_rows((folder / RUNS).read_bytes(), folder) if r["version"] == version]
        entered = contenders.line_up(line_up, [])
        campaigns[name] = Campaign(
            suites.get(name), entered, plan["profile"], plan["runs"], folder, version, plan["command"], rows
        )
    return campaigns


def scorecard(study: Study, campaigns: Mapping[str, Campaign]) -> dict[str, list[tuple[Metric, float]]]:
    """Label -> the metric and its median over all runs, for every score of the study."""
    labels = list(dict.fromkeys(c.label for score in study.scores for c in campaigns[score.suite].contenders))
    card: dict[str, list[tuple[Metric, float]]] = {label: [] for label in labels}
    for score in study.scores:
        campaign = campaigns[score.suite]
        metric = next(m for m in campaign.suite.metrics if m.key == score.metric)
        for label, values in campaign.values(score.metric).items():
            card[label].append((metric, median_estimate(values).median))
    return card


def judge(study: Study, campaigns: Mapping[str, Campaign]) -> list[tuple[Finding, Outcome]]:
    """Every finding with what was measured."""
    results = Results(campaigns)
    return [(finding, finding.judge(results)) for finding in study.findings]


def as_rows(judged: Sequence[tuple[Finding, Outcome]]) -> list[dict[str, str]]:
    """The table for JSON."""
    return [
        {
            "finding": finding.key,
            "claim": finding.claim,
            "source": finding.source,
            "expected": finding.expected,
            "measured": outcome.measured,
            "verdict": outcome.verdict,
            **({"reason": outcome.reason} if outcome.reason else {}),
        }
        for finding, outcome in judged
    ]


def write_findings(judged: Sequence[tuple[Finding, Outcome]], out_dir: str | os.PathLike[str]) -> Path:
    """findings.json."""
    return atomic_write_text(Path(out_dir) / "findings.json", json.dumps(as_rows(judged), indent=2) + "\n")
