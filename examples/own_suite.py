"""A scenario, a suite and a paper's claims of your own, named on the command line; nothing of OrbitCC is edited.

cd examples
orbitcc run own_suite:lossy --flow cubic --set loss=0.01
orbitcc eval own_suite:LossyLink --policy perigee --controller cubic --out results/lossy
orbitcc compare results/lossy --suite own_suite:LossyLink --a cubic --b perigee
orbitcc reproduce own_suite:PAPER
"""

from orbitcc.envs import scenarios
from orbitcc.envs.description.links import Link
from orbitcc.envs.description.scenario import Flow, Scenario
from orbitcc.eval import claims
from orbitcc.eval.papers import Paper, Score
from orbitcc.eval.suites import Case, Metric, Suite, register

RATE_MBPS = 20.0


def lossy(loss: float = 0.002, base_rtt_ms: float = 60, duration_s: float = 20) -> Scenario:
    """One flow on a link with random loss."""
    link = Link(
        name="radio",
        rate_mbps=RATE_MBPS,
        delay_ms=base_rtt_ms / 2,
        loss=loss,
        queue={"kind": "drop_tail_bytes", "limit_bytes": 150_000},  # one bandwidth-delay product at 60 ms
    )
    return Scenario(name="lossy", duration_s=duration_s, links=(link,), flows=(Flow(controller="contender"),))


scenarios.register("lossy-radio", lossy)


@register
class LossyLink(Suite):
    """The same flow with two probabilities of loss."""

    name = "lossy-link"
    scenario = "lossy-radio"
    title = "A link with random loss"
    description = "One flow for 20 s on a link of 20 Mbit/s and 60 ms that loses 0.2 or 1 % of the packets."
    source = "An example."
    profiles = {"quick": 3, "reduced": 5, "full": 10}  # noqa: RUF012
    max_runs = 100
    metrics = (
        Metric(
            "goodput_share", "Goodput / bandwidth", "", "higher", 1.0, "Goodput of the flow over the rate of the link."
        ),
        Metric("delay_inflation", "Delay inflation", "×", "lower", 1.0, "Smoothed RTT over base RTT.", decimals=2),
    )
    trade = ("goodput_share", "delay_inflation")

    def grid(self, profile):
        return [{"loss": 0.002}, {"loss": 0.01}]

    def case(self, point, seed):
        return Case(seed, self.build(**point).with_seed(seed), point)

    def measure(self, case, recording):
        flow = recording.flow_totals[0]
        return {
            "goodput_share": flow["goodput_mbps"] / RATE_MBPS,
            "delay_inflation": flow["delay_inflation"],
        }


PAPER = Paper(
    name="own",
    title="Random loss",
    source="An example",
    suites={"lossy-link": ("cubic", "bbr3")},
    claims=claims.read(
        """
        [words.metrics]
        goodput_share = "goodput / bandwidth"
        [words.factors]
        loss = ["{} losses", "losses"]
        contender = ["{}", "contenders"]

        [[claim]]
        key = "L1"
        statement = "With 1 % of losses BBRv3 has at least twice the goodput of Cubic"
        source = "nowhere: an example"
        measured = "{share[bbr3]:.2f} of the link, Cubic {share[cubic]:.2f}"
        conditions = [{ of = "share[bbr3]", per = "share[cubic]", at_least = 2 }]
        [claim.values]
        share = { suite = "lossy-link", metric = "goodput_share", who = ["bbr3", "cubic"], at = { loss = 0.01 } }
        """
    ),
    scores=(Score("Goodput", "lossy-link", "goodput_share"),),
)
