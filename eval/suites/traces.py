"""The measured paths in the test part of a trace set: place by place, and at other places than a policy has seen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from orbitcc.common.errors import OrbitccError
from orbitcc.envs.orbits.trace_set import TraceSet, opened
from orbitcc.envs.scenarios import MEASURED
from orbitcc.eval.suites.base import Case, Point, Suite
from orbitcc.eval.suites.links import counted, link_values

if TYPE_CHECKING:
    from orbitcc.envs.backends.simulator import Recording

SEEN, OTHERS = "trained on", "others"


class Traces(Suite):
    """Run k at a place is the k-th path there, in the fixed order of the set; places can have fewer paths than others.

    settings: `traces` is the file of the set. `places` leaves out all other places.
    """

    name = "traces"
    scenario = "path-trace"
    by = "place"
    own_settings: ClassVar[tuple[str, ...]] = ("traces", "places", "place")
    fixed = ("file", "path", "bandwidth_file")

    def __init__(self, settings: Mapping[str, Any] | None = None) -> None:
        super().__init__(settings)
        self.groups = self._groups(self._set()) if "traces" in self.settings else {}
        if self.groups:
            self.max_runs = max(map(len, self.groups.values()))  # type: ignore[misc]
            self.profiles = {name: min(count, self.max_runs) for name, count in self.profiles.items()}  # type: ignore[misc]

    def level(self, value: Any) -> str:
        return str(value)

    def _set(self) -> TraceSet:
        """The set; it is not kept, because a suite goes to other processes."""
        given = self.settings.get("traces")
        if not isinstance(given, str) or not given:
            raise OrbitccError("traces", given, f"--set traces=SET.npz with {self.name}: `orbitcc traces import`")
        return opened(given)

    def parts(self) -> set[str]:
        return {f"{self._set().digest}:test"}

    def _groups(self, found: TraceSet) -> dict[str, list[int]]:
        """Level of the factor -> its paths, in order."""
        numbers = found.numbers("test", _names(self.settings.get("places", "")))
        groups: dict[str, list[int]] = {}
        for k in numbers:
            groups.setdefault(found.entries[k]["place"], []).append(k)
        return dict(sorted(groups.items()))

    def grid(self, profile: str) -> Sequence[Point]:
        return [{str(self.by): group} for group in self.groups] or ({},)

    def case(self, point: Point, seed: int) -> Case:
        found = self._set()
        paths = self.groups.get(str(point[str(self.by)]))
        if paths is None:
            raise OrbitccError(str(self.by), point[str(self.by)], f"one of {', '.join(self.groups)}")
        if seed > len(paths):
            raise OrbitccError("run", seed, f"1 to {len(paths)}, the paths of {point[str(self.by)]}")
        k = paths[seed - 1]
        entry, ranges = found.entries[k], MEASURED["traces-test"]
        rng = np.random.default_rng(int(entry["digest"], 16))
        rate_mbps, rtt_ms = ranges.rate_mbps.draw(rng), ranges.base_rtt_ms.draw(rng)
        scenario = self.build(
            file=self.settings["traces"], path=k + 1, ordering="fifo",
            base_rtt_ms=rtt_ms if entry["rtt_ms"] is None else None,
            rate_mbps=rate_mbps if entry["rate_step_s"] is None else None,
        )  # fmt: skip
        return Case(seed, scenario.with_seed(seed), point)

    def cases(self, profile: str, runs: int) -> list[Case]:
        numbers = range(self.first_run, self.first_run + runs)
        there = [(p, n) for n in numbers for p in self.points(profile) if not p or n <= len(self._at(p))]
        if not there:
            raise OrbitccError("first_run", self.first_run, f"at most {self.max_runs}, the paths of a {self.by}")
        return [self._case(point, number) for point, number in there]

    def _at(self, point: Point) -> list[int]:
        return self.groups.get(str(point[str(self.by)]), [0])  # one that there is not is refused in its case

    def measure(self, case: Case, recording: Recording) -> dict[str, float]:
        values, after = link_values(recording), counted(recording, 0)
        flow = {name: series[after, 0] for name, series in recording.flows.items()}
        capacity = recording.links["capacity_mbps"][after, 0]
        return {
            "goodput_share": values["goodput_mbps"] / float(capacity.mean()),
            "rtt_over_base": float(np.nanmean(flow["srtt_ms"]) / np.nanmean(flow["base_rtt_ms"])),
            **values,
        }


class TracesTransfer(Traces):
    """As `traces`, for two groups of places: those that a policy was trained on, and all others.

    settings: `trained_on` are the first, `A,B`.
    """

    name = "traces-transfer"
    by = "group"
    own_settings = ("traces", "trained_on", "group")

    def level(self, value: Any) -> str:
        return f"{SEEN}: {self.settings['trained_on']}" if value == SEEN else str(value)

    def _groups(self, found: TraceSet) -> dict[str, list[int]]:
        seen = _names(self.settings.get("trained_on", ""))
        others = [place for place in found.places if place not in seen]
        if not seen or not others:
            allowed = f"some of the places {', '.join(found.places)}, but not all (--set trained_on=A,B)"
            raise OrbitccError("trained_on", self.settings.get("trained_on"), allowed)
        return {SEEN: found.numbers("test", seen), OTHERS: found.numbers("test", others)}


def _names(given: Any) -> list[str]:
    """The places in `A,B`."""
    words = given if isinstance(given, list | tuple) else str(given).split(",")
    return [str(word).strip() for word in words if str(word).strip()]
