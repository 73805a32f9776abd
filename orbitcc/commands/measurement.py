"""One measured row of `orbitcc bench`."""

import statistics
from collections.abc import Callable
from dataclasses import dataclass

REPEATS = 5


@dataclass(frozen=True)
class Measurement:
    """The median of measurements beside its target (and the ambition beyond it); no target: for information."""

    what: str
    value: float
    unit: str
    target: float | None = None
    ambition: float | None = None
    higher_is_better: bool = False

    @property
    def met(self) -> bool:
        if self.target is None:
            return True
        return self.value >= self.target if self.higher_is_better else self.value <= self.target


def median(measure: Callable[[], float]) -> float:
    """The median over repeats, after one run that warms caches and the allocator."""
    measure()
    return statistics.median(measure() for _ in range(REPEATS))
