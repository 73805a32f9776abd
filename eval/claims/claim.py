"""A claim of a paper, and whether it holds in the results."""

from __future__ import annotations

import string
from dataclasses import dataclass
from typing import Literal

from pydantic import Field, model_validator

from orbitcc.eval.claims.evidence import Evidence, Missing
from orbitcc.eval.claims.quantities import Criterion, split
from orbitcc.eval.claims.words import in_words

ClaimVerdict = Literal["holds", "fails", "undecidable"]


@dataclass(frozen=True)
class ClaimResult:
    """measured: the figures, as people read them. verdict, and why if it is undecidable."""

    measured: str
    verdict: ClaimVerdict
    reason: str = ""


class Claim(Criterion):
    """A row of the reproduction.

    statement: in our words. source: section or table. measured: what is printed, with values in braces as in
    str.format. It holds if all conditions are met, and all other `claims` hold. closed: a program that nobody can run,
    about which nothing can be decided.
    """

    key: str
    statement: str = Field(min_length=1)
    source: str = Field(min_length=1)
    measured: str = ""
    closed: str = ""
    claims: list[Claim] = Field(default_factory=list)

    @model_validator(mode="after")
    def _names_values_before_use(self) -> Claim:
        known: set[str] = set()
        printed = [split(name)[0] for _, name, _, _ in string.Formatter().parse(self.measured) if name]
        uses = [(name, value.uses) for name, value in self.values.items()]
        for name, used in [*uses, *(("", c.uses) for c in self.conditions), ("", printed)]:
            if unknown := sorted(set(used) - known):
                raise ValueError(f"{self.key}: {', '.join(unknown)} is no value{' before ' if name else ''}{name}")
            known |= {name}
        if not all(c.of and c.compares for c in self.conditions) or not (self.conditions or self.claims):
            raise ValueError(f"{self.key}: needs conditions, each with `of` and a limit")
        return self

    @property
    def expected(self) -> str:
        """The criterion in words."""
        return f"{', '.join(c.key for c in self.claims)} hold" if self.claims else in_words(self)

    def measure(self, evidence: Evidence) -> tuple[str, bool]:
        """The figures, and whether the criterion is met. Raises Missing for what was not run."""
        if self.claims:
            held = {claim.key: claim.check(evidence)[1] for claim in self.claims}
            return ", ".join(f"{key} {'holds' if ok else 'fails'}" for key, ok in held.items()), all(held.values())
        values, holds = self.check(evidence)
        return self.measured.format(**values), holds

    def judge(self, evidence: Evidence) -> ClaimResult:
        try:
            measured, holds = self.measure(evidence)
        except Missing as missing:
            return ClaimResult("–", "undecidable", str(missing))
        if self.closed:
            reason = f"{self.closed} is closed source, and its substitute here was calibrated on these papers"
            return ClaimResult(measured, "undecidable", reason)
        return ClaimResult(measured, "holds" if holds else "fails")
