"""What RFC 9743 asks of a congestion controller as tests: worlds, criteria with thresholds, the assessment."""

from orbitcc.eval.assessment.criteria import Criterion, Figure, Grade, criteria
from orbitcc.eval.assessment.judgement import REFERENCES, Assessment, Judgement, Reading, assess, contenders_of

__all__ = [
    "REFERENCES",
    "Assessment",
    "Criterion",
    "Figure",
    "Grade",
    "Judgement",
    "Reading",
    "assess",
    "contenders_of",
    "criteria",
]
