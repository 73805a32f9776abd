"""A claim of a paper, and whether it holds in the results."""

from __future__ import annotations

import string
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from pydantic import Field, model_validator

from orbitcc.eval.quantities.evidence import RESAMPLES, TAIL, Array, Evidence, Missing, NoNumberError
from orbitcc.eval.quantities.limits import ClaimCriterion, split
from orbitcc.eval.quantities.words import in_words
from orbitcc.eval.results import Results

ClaimVerdict = Literal["holds", "fails", "within noise", "undecidable"]
VERDICTS: tuple[ClaimVerdict, ...] = ("holds", "fails", "within noise", "undecidable")

LEAST_RUNS = 3
"""Fewer runs decide nothing."""


@dataclass(frozen=True)
class ClaimResult:
    """measured: the figures, as people read them, with half of the 95 % interval. verdict, and why if undecidable.

    share: of the bootstrap resamples, those in which the criterion is met; None without resamples. At least 97.5 %:
    holds; at most 2.5 %: fails; else within noise. calibrated: why the verdict is no independent test, or empty.
    """

    measured: str
    verdict: ClaimVerdict
    reason: str = ""
    share: float | None = None
    calibrated: str = ""


class Claim(ClaimCriterion):
    """A row of the reproduction.

    statement: in our words. quote: the paper's. source: section or table. measured: what is printed, with values in
    braces as in str.format. It holds if all conditions are met, and all other `claims` hold. closed: a program that
    nobody can run, about which nothing can be decided. calibrated: why its verdict is no independent test, because
    something here was fitted to what it says.
    """

    key: str
    statement: str = Field(min_length=1)
    quote: str = ""
    source: str = Field(min_length=1)
    measured: str = ""
    closed: str = ""
    calibrated: str = ""
    claims: list[Claim] = Field(default_factory=list)

    @model_validator(mode="after")
    def _names_values_before_use(self) -> Claim:
        known: set[str] = set()
        printed = []
        for _, name, spec, _ in string.Formatter().parse(self.measured):
            if name:
                try:
                    format(1.0, spec or "")
                except ValueError:
                    raise ValueError(f"measured: {name}:{spec} is no format of a number") from None
                printed.append(split(name)[0])
        uses = [(name, value.uses) for name, value in self.values.items()]
        for name, used in [*uses, *(("", c.uses) for c in self.conditions), ("", printed)]:
            if unknown := sorted(set(used) - known):
                raise ValueError(f"{self.key}: {', '.join(unknown)} is no value{' before ' if name else ''}{name}")
            known |= {name}
        if not all(c.of and c.compares for c in self.conditions) or not (self.conditions or self.claims):
            raise ValueError(f"{self.key}: needs conditions, each with `of` and a limit")
        return self

    @property
    def said(self) -> str:
        """The statement, the paper's sentence, and where it stands."""
        quote = f": “{self.quote}”" if self.quote else ""
        return f"{self.statement}{quote} ({self.source})"

    @property
    def expected(self) -> str:
        """The criterion in words."""
        return f"{', '.join(c.key for c in self.claims)} hold" if self.claims else in_words(self)

    def measure(self, evidence: Evidence) -> tuple[str, Array]:
        """The figures, and whether the criterion is met: for the runs, and for each resample.

        Raises Missing for what was not run.
        """
        if self.claims:
            met = {claim.key: claim.check(evidence)[1] for claim in self.claims}
            shares = {key: own[1:].mean() if len(own) > 1 else own.mean() for key, own in met.items()}
            held = ", ".join(f"{key} {verdict_of(share)}" for key, share in shares.items())
            return held, np.logical_and.reduce(np.broadcast_arrays(*met.values()))
        try:
            values, holds = self.check(evidence)
            return self.measured.format(**values), holds
        except KeyError as error:
            raise Missing(f"needs the level {error}") from None

    def decidable(self, all_results: Mapping[str, Results]) -> bool:
        """Whether these runs can decide the claim; their metrics do not matter."""
        evidence = Evidence(all_results)
        try:
            with np.errstate(all="ignore"):
                self.measure(evidence)
        except NoNumberError:
            pass  # these runs have no spread, others will
        except Missing:
            return False
        return not self.closed and evidence.least_runs >= LEAST_RUNS

    def judge(self, all_results: Mapping[str, Results], resamples: int = RESAMPLES) -> ClaimResult:
        evidence = Evidence(all_results, resamples)
        try:
            measured, met = self.measure(evidence)
        except Missing as missing:
            return ClaimResult("–", "undecidable", str(missing))
        if self.closed:
            reason = f"{self.closed} is closed source, and its substitute here was calibrated on these papers"
            return ClaimResult(measured, "undecidable", reason)
        if evidence.least_runs < LEAST_RUNS:
            return ClaimResult(measured, "undecidable", f"needs {LEAST_RUNS} runs (a larger profile)")
        share = float(met[1:].mean())
        measured += f" ({', '.join(evidence.gaps)})" if evidence.gaps else ""
        return ClaimResult(measured, verdict_of(share), share=share, calibrated=self.calibrated)


def verdict_of(share: float) -> ClaimVerdict:
    """The verdict, by the share of resamples in which the criterion is met."""
    if share >= 1 - TAIL / 100:
        return "holds"
    return "fails" if share <= TAIL / 100 else "within noise"
