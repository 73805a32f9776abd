"""What RFC 9743 asks of a congestion controller, put to the test: worlds, criteria with their thresholds, a card."""

from orbitcc.eval.assessment.criteria import Criterion, Figure, Verdict, criteria
from orbitcc.eval.assessment.judgement import REFERENCES, Card, Judgement, Reading, assess, contenders_of

__all__ = [
    "REFERENCES",
    "Card",
    "Criterion",
    "Figure",
    "Judgement",
    "Reading",
    "Verdict",
    "assess",
    "contenders_of",
    "criteria",
]
