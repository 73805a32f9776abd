"""The papers' claims, and whether they hold in a campaign."""

from orbitcc.eval.findings.base import Finding, Missing, Outcome, Results, Verdict

__all__ = ["Finding", "Missing", "Outcome", "Results", "Verdict"]
