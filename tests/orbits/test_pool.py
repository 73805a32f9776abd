"""The pool of paths that training draws from."""

import time

import numpy as np
import pytest

from orbitcc.common.errors import OrbitccError
from orbitcc.envs.orbits.pool import PathPool
from orbitcc.envs.orbits.routing import PathSpec

PATHS = (
    PathSpec(source="San Diego", target="New York"),
    PathSpec(source="San Diego", target="Seattle", mode="bp", selection="random"),
)


def test_a_path_depends_on_the_settings_and_its_number_alone():
    one, other = PathPool(paths=PATHS), PathPool(paths=PATHS)
    forwards = [one.path(i) for i in range(4)]
    backwards = [other.path(i) for i in reversed(range(4))][::-1]
    assert forwards == backwards
    assert one.path(0) != PathPool(paths=PATHS, seed=2).path(0)


def test_every_path_is_another_one():
    pool = PathPool(paths=PATHS, duration_s=60)
    found = [pool.path(i) for i in range(12)]
    assert {trace.name for trace in found} == {path.name for path in PATHS}
    assert len({trace.forward_ms.tobytes() for trace in found}) == 12
    assert {trace.duration_s for trace in found} == {60}


def test_a_path_is_kept():
    pool = PathPool(paths=PATHS, size=2)
    assert pool.path(1) is pool.path(1)
    assert {id(pool.draw(np.random.default_rng(k))) for k in range(20)} == {id(pool.path(0)), id(pool.path(1))}


def test_a_pools_schedules_are_short():
    knots = [PathPool(paths=PATHS).path(i).t_s.size for i in range(4)]
    assert max(knots) <= 4 * 21 + 2


def test_a_kept_path_becomes_a_link_at_once():
    pool = PathPool(paths=PATHS)
    pool.path(0).link(rate_mbps=100)
    start = time.perf_counter()
    for _ in range(100):
        pool.path(0).link(rate_mbps=100)
    assert (time.perf_counter() - start) / 100 < 1e-3


def test_settings_are_a_table_and_wrong_ones_are_named():
    pool = PathPool(paths=PATHS)
    assert PathPool.build(pool.model_dump()) == pool
    with pytest.raises(OrbitccError, match=r"paths: \[\] .* at least one path"):
        PathPool(paths=())
    with pytest.raises(OrbitccError, match="paths.0.mode: 'bnet'"):
        PathPool.build({"paths": [{"source": "Seattle", "target": "Tokyo", "mode": "bnet"}]})
    with pytest.raises(OrbitccError, match=r"i: 512 .* \[0, 511\]"):
        pool.path(512)
