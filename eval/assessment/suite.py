"""All worlds of an assessment as one suite, so that one results runs them: on all cores, resumable, over Ray."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from orbitcc.envs.description.scenario import Scenario
from orbitcc.eval.assessment.worlds import RECORD_INTERVAL_S, WORLDS
from orbitcc.eval.suites.base import Case, Metric, Point, Suite

if TYPE_CHECKING:
    from orbitcc.envs.backends.simulator import Recording
    from orbitcc.eval.contenders import Contender


class AssessmentSuite(Suite):
    """RFC 9743 by machine. A point names its family of worlds (`worlds`) and that family's factors.

    only: families to run; None: all of them.
    """

    name = "assessment"
    scenario = "dumbbell"
    title = "What RFC 9743 asks of a congestion controller"
    description = "Every criterion of RFC 9743 (BCP 133) that a simulator can put to the test, world by world."
    source = "RFC 9743, March 2025; the thresholds are ours: eval/assessment/criteria.toml."
    metrics: ClassVar[tuple[Metric, ...]] = ()
    profiles: ClassVar = {"quick": 2, "full": 5}
    max_runs = 100
    record_interval_s = RECORD_INTERVAL_S

    def __init__(self, only: Sequence[str] | None = None) -> None:
        super().__init__()
        self.families = tuple(WORLDS if only is None else only)

    def grid(self, profile: str) -> Sequence[Point]:
        return [{"worlds": name, **point} for name in self.families for point in WORLDS[name].points(profile)]

    def case(self, point: Point, seed: int) -> Case:
        return Case(seed, WORLDS[str(point["worlds"])].world(point, seed), point)

    def shows(self, case: Case) -> bool:
        return False

    def enter(self, case: Case, contender: Contender) -> Scenario:
        return WORLDS[str(case.point["worlds"])].enter(case.scenario, contender)

    def measure(self, case: Case, recording: Recording) -> dict[str, float]:
        return WORLDS[str(case.point["worlds"])].measure(case.point, recording)
