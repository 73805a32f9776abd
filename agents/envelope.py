"""The conditions a policy was trained in, read off the distribution it was trained on."""

from orbitcc.agents.card import Envelope, Range
from orbitcc.envs.distribution import Mixture, PathDistribution
from orbitcc.envs.ranges import Span
from orbitcc.envs.scenario import Scenario, ScenarioDistribution


def envelope(scenario: Scenario | ScenarioDistribution) -> Envelope:
    """Ranges over all parts of a distribution; a single scenario or a foreign distribution is only named."""
    if isinstance(scenario, Mixture):
        parts: tuple[PathDistribution, ...] = scenario.parts
    elif isinstance(scenario, PathDistribution):
        parts = (scenario,)
    else:
        return Envelope(scenario=scenario.name)
    return Envelope(
        scenario=scenario.name,
        rate_mbps=_union([part.rate_mbps for part in parts]),
        base_rtt_ms=_union([part.base_rtt_ms for part in parts]),
        buffer_bdp=_union([part.buffer_bdp for part in parts]),
        loss=_union([Span(low=0.0, high=part.loss.p.high if part.loss else 0.0) for part in parts]),
        flows=(1.0, float(max(part.max_agents for part in parts))),  # a world begins with one, and others leave
        remarks=scenario.description,
    )


def _union(spans: list[Span]) -> Range:
    return min(span.low for span in spans), max(span.high for span in spans)
