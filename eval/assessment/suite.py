"""All worlds of an assessment as one suite, which runs on all cores or over Ray and can be resumed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from orbitcc.envs.description.scenario import Scenario
from orbitcc.eval.assessment.worlds import RECORD_INTERVAL_S, WORLDS
from orbitcc.eval.results import ASSESSMENT
from orbitcc.eval.suites.base import Case, Metric, Point, Suite

if TYPE_CHECKING:
    from orbitcc.envs.backends.simulator import Recording
    from orbitcc.eval.contenders import Contender


class AssessmentSuite(Suite):
    """The tests of RFC 9743. A point names its worlds (`worlds`) and their factors.

    only: names of worlds to run; None: all.
    """

    name = ASSESSMENT
    scenario = "dumbbell"
    title = "Requirements of RFC 9743 on congestion controllers"
    description = "All criteria of RFC 9743 (BCP 133) that a simulator can test."
    source = "RFC 9743, March 2025. The limits are our choice: eval/assessment/criteria.toml."
    metrics: ClassVar[tuple[Metric, ...]] = ()
    profiles: ClassVar = {"quick": 2, "full": 5}
    max_runs = 100
    record_interval_s = RECORD_INTERVAL_S

    def __init__(self, only: Sequence[str] | None = None) -> None:
        super().__init__()
        self.only = tuple(WORLDS if only is None else only)

    def grid(self, profile: str) -> Sequence[Point]:
        return [{"worlds": name, **point} for name in self.only for point in WORLDS[name].grid(profile)]

    def case(self, point: Point, seed: int) -> Case:
        return WORLDS[str(point["worlds"])].case(point, seed)

    def shows(self, case: Case) -> bool:
        return False

    def enter(self, case: Case, contender: Contender) -> Scenario:
        return WORLDS[str(case.point["worlds"])].enter(case, contender)

    def measure(self, case: Case, recording: Recording) -> dict[str, float]:
        return WORLDS[str(case.point["worlds"])].measure(case, recording)
