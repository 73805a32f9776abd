"""Warns where results mean less: a policy outside its training range or on its training links, closed
connections, runs that are copies."""

from __future__ import annotations

from orbitcc.envs.controllers import PROGRAM
from orbitcc.envs.description.conditions import Range, conditions
from orbitcc.eval.results import Results, have_copies, value_of


def warnings(results: Results) -> list[str]:
    """Sentences on contenders whose connections were closed in a run, or whose runs are copies, and on policies that
    are evaluated outside their training range, or on the links on which they were trained.

    A policy in Python, and a program, have no model card.
    """
    from orbitcc.agents import checkpoint
    from orbitcc.agents.python_policy import is_python_policy

    found = []
    cases = results.suite.cases(results.profile, results.runs)
    met, links = conditions(case.scenario for case in cases), {case.scenario.links_digest for case in cases}
    links |= results.suite.parts()
    if copies := [
        c.label for c in results.contenders if have_copies(r for r in results.rows if r["contender"] == c.key)
    ]:
        found.append(f"{', '.join(copies)}: runs of a world are equal in every figure; they are as good as one")
    for contender in results.contenders:
        own = [row for row in results.rows if row["contender"] == contender.key]
        if closed := sum(value_of(row, "closed_connections") > 0 for row in own):
            found.append(
                f"{contender.label}: QUIC closed a connection in {closed} of {len(own)} runs, which sent nothing then"
            )
        source = str(contender.params.get("path", contender.controller))
        if not contender.digest or contender.controller == PROGRAM or is_python_policy(source):
            continue
        card = checkpoint.load(source).card
        outside = []
        for name, (what, unit) in NAMES.items():
            trained = getattr(card.training_range, name)
            if trained is not None and name in met and not _within(met[name], trained, ABSOLUTE.get(name, 0.0)):
                outside.append(f"{what} {_words(met[name], unit)} (trained: {_words(trained, unit)})")
        if not links.isdisjoint(card.training_range.links.split()):
            what = "was trained on links of this suite: its figures are those of a training set"
            found.append(f"{contender.label} {what}")
        if outside:
            found.append(f"{contender.label} is evaluated outside its training range: {'; '.join(outside)}")
    return found


NAMES = {
    "rate_mbps": ("rate", "Mbit/s"),
    "base_rtt_ms": ("base RTT", "ms"),
    "buffer_bdp": ("buffer", "BDP"),
    "loss": ("random loss", ""),
    "flows": ("flows", ""),
}


RELATIVE = 0.005
"""Ranges are shown with three digits: an excess of half a unit of the third digit is rounding."""
ABSOLUTE = {"loss": 1e-5}
"""A flow that fills a buffer loses more than a packet in 100,000 there, so that every policy has met so few losses.

The residual loss of the GEO links, 5e-6, is below it."""


def _within(met: Range, trained: Range, absolute: float) -> bool:
    low, high = (max(RELATIVE * abs(end), absolute) for end in trained)
    return trained[0] - low <= met[0] and met[1] <= trained[1] + high


def _words(values: Range, unit: str) -> str:
    low, high = values
    return f"{low:.3g}{'' if low == high else f'–{high:.3g}'}{f' {unit}' if unit else ''}"
