"""The safety filter: limits around what agents decide (sim/core/src/observe/safety_filter.rs)."""

from typing import Annotated, Self

from pydantic import model_validator

from orbitcc.common.errors import OrbitccError
from orbitcc.envs.description.model import Model, number

LEAST_BDP = 1.5
"""A smaller bound would stop the start of connections."""
_ms = number(0, 1e6, "ms")


class SafetyFilter(Model):
    """Limits around the decisions of a policy (docs/policies.md): the window is at most `max_bdp` measured
    bandwidth-delay products (0: no bound, else at least 1.5); Cubic takes over when, for `patience_s` and four RTTs,
    the path has measured outside of the training range: its smallest RTT and largest delivery rate over ten seconds,
    the share of lost packets over three (0: never)."""

    max_bdp: Annotated[float, number(0, 1e3, "BDP")] = 4.0
    min_rtt_ms: tuple[Annotated[float, _ms], Annotated[float, _ms]] = (0.0, 1e6)
    max_rate_mbps: Annotated[float, number(0, 1e9, "Mbit/s")] = 1e9
    max_loss: Annotated[float, number(0, 1)] = 1.0
    patience_s: Annotated[float, number(0, 1e4, "s")] = 1.0

    @model_validator(mode="after")
    def _is_a_range(self) -> Self:
        if 0 < self.max_bdp < LEAST_BDP:
            raise OrbitccError("max_bdp", self.max_bdp, f"0 or {LEAST_BDP} to 1000 BDP")
        low, high = self.min_rtt_ms
        if low > high:
            raise OrbitccError("min_rtt_ms", list(self.min_rtt_ms), "[low, high]")
        return self
