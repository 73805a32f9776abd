"""The requirements of RFC 9743 on congestion controllers as tests: worlds, criteria with limits, the assessment."""

from orbitcc.eval.assessment.criteria import Criterion, CriterionFigure, Grade, criteria
from orbitcc.eval.assessment.judgement import REFERENCES, Assessment, Judgement, Reading, assess, contenders_of

__all__ = [
    "REFERENCES",
    "Assessment",
    "Criterion",
    "CriterionFigure",
    "Grade",
    "Judgement",
    "Reading",
    "assess",
    "contenders_of",
    "criteria",
]
