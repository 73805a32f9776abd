"""The training range of a policy, from the distribution on which it was trained."""

import math

from orbitcc.agents.model_card import Range, TrainingRange
from orbitcc.envs.description.conditions import conditions
from orbitcc.envs.description.links import MIN_RATE_MBPS
from orbitcc.envs.description.ranges import Span
from orbitcc.envs.description.scenario import Scenario, ScenarioDistribution
from orbitcc.envs.orbits.pool import TracePool
from orbitcc.envs.scenarios.distribution import Mixture, PathDistribution, written


def training_range(scenario: Scenario | ScenarioDistribution) -> TrainingRange:
    """The ranges of worlds over time, over all parts of a distribution, including changed rates and joining flows.

    Of a single scenario and of a folder they are what these have; of a distribution of another kind only name and links
    are known. Scenarios of folders widen no range of a mixture.
    """
    whole = scenario.parts if isinstance(scenario, Mixture) else (scenario,)
    parts = tuple(part for part in whole if isinstance(part, PathDistribution))
    traces = [part.paths.part for part in parts if isinstance(part.paths, TracePool) and part.paths.traces]
    links = " ".join(dict.fromkeys([*(world.links_digest for world in written(scenario)), *traces]))
    if not parts:
        remarks = "" if isinstance(scenario, Scenario) else scenario.description
        ranges = conditions(written(scenario))
        known = {name: range_ for name, range_ in ranges.items() if all(map(math.isfinite, range_))}
        return TrainingRange(scenario=scenario.name, links=links, remarks=remarks, **known)
    return TrainingRange(
        scenario=scenario.name,
        links=links,
        rate_mbps=_union([span for part in parts for span in _measured(part, "rate_mbps", _rates(part))]),
        base_rtt_ms=_union([span for part in parts for span in _measured(part, "rtt_ms", part.base_rtt_ms)]),
        buffer_bdp=_union([part.buffer_bdp for part in parts]),
        loss=_union([Span(low=0.0, high=_loss(part)) for part in parts]),
        flows=(1.0, float(max(part.max_agents for part in parts))),  # a world begins with one, and others leave
        remarks=scenario.description,
    )


def _rates(part: PathDistribution) -> Span:
    """The rates of links, as drawn, on other hops, and after a reconfiguration."""
    low, high = part.rate_mbps.low, part.rate_mbps.high
    factors = [part.slots.rate_factor] if part.slots is not None else []
    if part.one_bottleneck_probability < 1:
        factors.append(part.hop_rate_factor)
    for factor in factors:
        low, high = low * min(1.0, factor.low), high * max(1.0, factor.high)
    return Span(low=low, high=high)


def _measured(part: PathDistribution, field: str, drawn: Span) -> list[Span]:
    """From 5 to 95 % of the values of each measured path; as drawn, where there are none."""
    spreads = [entry[field] for entry in part.paths.entries] if isinstance(part.paths, TracePool) else [None]
    return [drawn if s is None else Span(low=max(s[0], MIN_RATE_MBPS), high=max(s[2], MIN_RATE_MBPS)) for s in spreads]


def _loss(part: PathDistribution) -> float:
    """The highest random loss, added to that of measured paths."""
    paths = [entry["most_loss"] for entry in part.paths.entries] if isinstance(part.paths, TracePool) else [0.0]
    return min(1.0, max(paths) + (part.loss.p.high if part.loss else 0.0))


def _union(spans: list[Span]) -> Range:
    return min(span.low for span in spans), max(span.high for span in spans)
