"""A Ray that does not start: tried again where it was slow, and one sentence in the end."""

import pytest

from orbitcc.common.errors import OrbitccError
from orbitcc.parallel.cluster import ATTEMPTS, _init


class SlowRay:
    """As `ray`, whose daemon takes too long so many times."""

    def __init__(
        self, times: int, message: str = "The current node timed out during startup.\nThis could happen ..."
    ) -> None:
        self.left, self.message, self.inits, self.shutdowns = times, message, 0, 0

    def init(self, **arguments: object) -> None:
        self.inits += 1
        self.left -= 1
        if self.left >= 0:
            raise RuntimeError(self.message)

    def shutdown(self) -> None:
        self.shutdowns += 1


def test_a_slow_ray_is_started_again() -> None:
    ray = SlowRay(times=ATTEMPTS - 1)
    _init(ray, {"address": "local"})
    assert (ray.inits, ray.shutdowns) == (ATTEMPTS, ATTEMPTS - 1)


def test_a_ray_that_never_starts_is_one_line() -> None:
    ray = SlowRay(times=10)
    with pytest.raises(OrbitccError, match="3 attempts") as caught:
        _init(ray, {"address": "local"})
    assert "\n" not in str(caught.value)
    assert ray.inits == ATTEMPTS


def test_another_error_is_told_at_once() -> None:
    ray = SlowRay(times=10, message="no such cluster")
    with pytest.raises(OrbitccError, match="cluster at 10.0.0.1:6379 did not start in 1 attempts: no such cluster"):
        _init(ray, {"address": "10.0.0.1:6379"})
