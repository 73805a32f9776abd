"""The papers' claims, and whether they hold in the results."""

from orbitcc.eval.claims.base import Claim, ClaimResult, ClaimVerdict, Evidence, Missing

__all__ = ["Claim", "ClaimResult", "ClaimVerdict", "Evidence", "Missing"]
