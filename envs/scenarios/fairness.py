"""Two flows on one bottleneck, of different or of the same base RTT (Mazilu et al., section V-B; LEO study)."""

from __future__ import annotations

from orbitcc.envs.description.flows import ControllerChoice, Flow
from orbitcc.envs.description.scenario import Scenario
from orbitcc.envs.errors import OrbitccError
from orbitcc.envs.scenarios import study
from orbitcc.envs.scenarios.micro import CUBIC


def inter_rtt(
    base_rtt_ms: study.Rtt = 100.0,
    first_rtt_ms: study.Rtt = 20.0,
    rate_mbps: study.Rate = 100.0,
    buffer_bdp: study.BufferBdp = 1.0,
    bdp_unit: study.BdpUnit = "mebi",
    interruption_every_s: study.Every = 0.0,
    on_outage: study.OnOutage = "drop",
    shaper: study.Shaper = "exact",
    join_s: study.Start = 50.0,
    run: study.Run = 1,
    controller: ControllerChoice = CUBIC,
    duration_s: study.Duration = 200.0,
) -> Scenario:
    """A flow of 20 ms, which after 50 s one of another base RTT joins (20-200 ms in the study); the last 100 s count.

    The buffer is buffer_bdp products of the joining flow (0.2, 1 and 4). A later version of the study's code has 10 ms
    for the first flow and an interruption every 5 s.
    """
    return _two_flows(
        "inter-rtt",
        (first_rtt_ms, base_rtt_ms),
        rate_mbps,
        study.buffer_bytes(rate_mbps, base_rtt_ms, buffer_bdp, bdp_unit),
        (run, interruption_every_s, on_outage),
        shaper,
        join_s,
        controller,
        duration_s,
    )


def intra_rtt(
    base_rtt_ms: study.Rtt = 100.0,
    rate_mbps: study.Rate = 100.0,
    buffer_bdp: study.BufferBdp = 1.0,
    bdp_unit: study.BdpUnit = "mebi",
    interruption_every_s: study.Every = 15.0,
    on_outage: study.OnOutage = "drop",
    shaper: study.Shaper = "exact",
    join_s: study.Start = 50.0,
    run: study.Run = 1,
    controller: ControllerChoice = CUBIC,
    duration_s: study.Duration = 200.0,
) -> Scenario:
    """Two flows of one base RTT (20-200 ms in the study), the second after 50 s, interrupted every 15 s."""
    return _two_flows(
        "intra-rtt",
        (base_rtt_ms, base_rtt_ms),
        rate_mbps,
        study.buffer_bytes(rate_mbps, base_rtt_ms, buffer_bdp, bdp_unit),
        (run, interruption_every_s, on_outage),
        shaper,
        join_s,
        controller,
        duration_s,
    )


def _two_flows(
    name: str,
    rtts_ms: tuple[float, float],
    rate_mbps: float,
    buffer: int,
    interruptions: tuple[int, float, study.OnOutage],
    shaper: study.Shaper,
    join_s: float,
    controller: ControllerChoice,
    duration_s: float,
) -> Scenario:
    if join_s >= duration_s:
        raise OrbitccError("join_s", join_s, f"before the end, duration_s = {duration_s:g}")
    run, every_s, on_outage = interruptions
    (outages,) = study.interruptions(run, every_s, duration_s, on_outage=on_outage)
    return Scenario(
        name=name,
        duration_s=duration_s,
        seed=run,
        links=(study.bottleneck("bottleneck", rate_mbps, buffer, outages, shaper),),
        flows=(
            Flow(name="first", controller=controller, uplink_delay_ms=rtts_ms[0]),
            Flow(name="joining", controller=controller, uplink_delay_ms=rtts_ms[1], start_s=join_s),
        ),
        sim=study.hosts(rate_mbps, max(rtts_ms), buffer),
    )
