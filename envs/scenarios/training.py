"""The distributions of training worlds."""

from orbitcc.envs.description.ranges import Span
from orbitcc.envs.impairments.access import AccessOverlay
from orbitcc.envs.impairments.geo import GeoImpairments
from orbitcc.envs.impairments.hotspots import Hotspots
from orbitcc.envs.impairments.weather import Fades, Weather
from orbitcc.envs.orbits.pool import PathPool, TracePool
from orbitcc.envs.orbits.routing import PathSpec
from orbitcc.envs.orbits.trace_set import PARTS
from orbitcc.envs.scenarios.distribution import (
    AckPath,
    Mixture,
    PathDistribution,
    RandomLoss,
    Rivals,
    Slots,
)

# Ranges of the Astraea paper (its training table) as cited by follow-up work: 40-160 Mbit/s, 10-140 ms, 0.1-16 BDP, 2-5
# flows with random starts, running times and RTTs, static links. Episode length, gaps and lifetimes are ours.
TRAIN_ASTRAEA = PathDistribution(
    name="train-astraea",
    description="Astraea's static links: 40-160 Mbit/s, 10-140 ms, buffers of 0.1-16 BDP, 2-5 flows with random times",
    duration_s=60,
    rate_mbps=Span(low=40, high=160),
    base_rtt_ms=Span(low=10, high=140),
    buffer_bdp=Span(low=0.1, high=16, log=True),
    flows=Span(low=2, high=5),
    mean_gap_s=10,
    own_rtt_probability=0.5,
)

# The same with the random loss of the LEO paper (0-1 %), and with changing RTTs, which Astraea was not trained on.
TRAIN_ASTRAEA_LOSS = TRAIN_ASTRAEA.changed(
    name="train-astraea-loss",
    description="the links of train-astraea, half of them with random loss of up to 1 %",
    loss=RandomLoss(none_probability=0.5, p=Span(low=0, high=1e-2)),
)
TRAIN_ASTRAEA_RTT = TRAIN_ASTRAEA.changed(
    name="train-astraea-rtt",
    description="the links of train-astraea, half of them with a new base RTT every 5 to 20 s",
    static_probability=0.5,
    slots=Slots(
        odd_length_probability=1.0,
        odd_length_s=Span(low=5, high=20),
        rate_factor=Span(low=1, high=1),
        interruption_ms=Span(low=0, high=0),
    ),
)

# One bottleneck, reconfigured every 15 s as in the LEO paper (Mazilu et al., sections V-A and V-C), in wider ranges.
TRAIN_LEO = PathDistribution(
    name="train-leo",
    description="LEO links: every 15 s a new rate, RTT and loss, and an outage of up to 150 ms; 1-5 flows",
    duration_s=60,
    rate_mbps=Span(low=10, high=200, log=True),
    base_rtt_ms=Span(low=10, high=250, log=True),
    buffer_bdp=Span(low=0.1, high=8, log=True),
    overtaking_probability=0.5,
    flows=Span(low=1, high=5),
    mean_gap_s=10,
    slots=Slots(interruption_ms=Span(low=0, high=150)),
    loss=RandomLoss(),
)

# One GEO bottleneck with the impairments measured by Claypool et al., in wider ranges (ours), up to the loss cited for
# another satellite (WINDS). Half of the worlds have the provider's queue. The return path has frames in half of the
# worlds and an oscillating delay in the other half.
TRAIN_GEO = PathDistribution(
    name="train-geo",
    description="GEO links: 10-300 Mbit/s, 480-700 ms, bursty loss, stalls, slow return, Viasat or drop-tail queue",
    duration_s=120,
    rate_mbps=Span(low=10, high=300, log=True),
    base_rtt_ms=Span(low=480, high=700),
    buffer_bdp=Span(low=0.1, high=8, log=True),
    viasat_probability=0.5,
    flows=Span(low=1, high=5),
    mean_gap_s=20,
    geo=GeoImpairments(
        frame_ms=Span(low=5, high=100),
        swing_probability=0.5,
        stall_scale=Span(low=0.2, high=5, log=True),
        loss_scale=Span(low=1, high=35, log=True),
        outage_share=Span(low=0, high=1),
        rate_sd=Span(low=0, high=0.1),
    ),
    weather=Weather(attenuation=Fades(per_h=1, speedup=Span(low=5, high=20, log=True))),
    ack_path=AckPath(loss=Span(low=0, high=0)),
)

_MIXED_LEO = PathDistribution(
    name="train-mixed",
    duration_s=120,
    rate_mbps=Span(low=10, high=200, log=True),
    base_rtt_ms=Span(low=10, high=250, log=True),
    buffer_bdp=Span(low=0.1, high=8, log=True),
    overtaking_probability=0.5,
    flows=Span(low=1, high=20, log=True),
    own_rtt_probability=0.5,
    one_bottleneck_probability=0.4,
    slots=Slots(
        odd_length_probability=0.3,
        rate_factor=Span(low=0.5, high=1.5),
        redraw_rtt_probability=0.5,
        interruption_ms=Span(low=0, high=150),
        long_interruption_probability=0.05,
    ),
    loss=RandomLoss(),
    ack_path=AckPath(),
    hotspots=Hotspots(),
)

# Paths over Starlink's first shell with an access network as measured, in the ranges of published traces and wider.
# The places differ from those of the LEO paper's paths, on which policies are evaluated.
_ROUTES = (
    PathSpec(source="Chicago", target="Dallas", mode="bp1", selection="shortest"),
    PathSpec(source="Denver", target="Montreal", mode="bp1", selection="random"),
    PathSpec(source="Paris", target="Berlin", mode="bp1", selection="sticky"),
    PathSpec(source="Melbourne", target="Perth", mode="bp1", selection="sticky"),
    PathSpec(source="Los Angeles", target="Miami", mode="bp", selection="shortest"),
    PathSpec(source="Atlanta", target="Denver", mode="bp", selection="sticky"),
    PathSpec(source="Rome", target="Oslo", mode="bp", selection="random"),
    PathSpec(source="Chicago", target="Frankfurt", mode="isl", selection="shortest"),
    PathSpec(source="San Francisco", target="Seoul", mode="isl", selection="shortest"),
    PathSpec(source="Sao Paulo", target="Lisbon", mode="isl", selection="shortest"),
    PathSpec(source="Johannesburg", target="Paris", mode="isl", selection="shortest"),
    PathSpec(source="Mumbai", target="Melbourne", mode="isl", selection="shortest"),
)

TRAIN_ORBITS = PathDistribution(
    name="train-orbits",
    description="paths over satellites of Starlink's first shell with an access network as measured, rain and hotspots",
    duration_s=60,
    rate_mbps=Span(low=25, high=300, log=True),
    base_rtt_ms=Span(low=10, high=250),
    buffer_bdp=Span(low=0.1, high=8, log=True),
    flows=Span(low=1, high=5),
    mean_gap_s=10,
    paths=PathPool(paths=_ROUTES, duration_s=60),
    access=AccessOverlay(long_interruption_probability=0.05, edge_burst_probability=0.2, noise_step_s=1.0),
    access_cycle_probability=0.5,
    weather=Weather(
        attenuation=Fades(per_h=1, speedup=Span(low=5, high=20, log=True)),
        clear_sky_db=Span(low=8, high=14),
        loop_ms=Span(low=20, high=50),
    ),
    ack_path=AckPath(rate_ratio=Span(low=2, high=20, log=True), loss=Span(low=0, high=0)),
    hotspots=Hotspots(),
)

TRAIN_MIXED = Mixture(
    name="train-mixed",
    description="85 % LEO paths of 1-6 bottlenecks with slots and hotspots, 15 % GEO links; 1-20 flows",
    weights=(0.85, 0.15),
    parts=(_MIXED_LEO, TRAIN_GEO.changed(name="train-mixed", flows=Span(low=1, high=20, log=True), mean_gap_s=None)),
)

# Conditions that a policy for LEO paths should know (all shares are ours): slots, static links, RTTs that change
# without an outage, several bottlenecks, access networks, flows with different RTTs, and a classical controller.
_WIDE_LEO = TRAIN_LEO.changed(
    name="train-leo-wide",
    duration_s=45,
    mean_gap_s=6,
    rate_mbps=Span(low=2, high=300, log=True),
    own_rtt_probability=0.6,
    rivals=Rivals(probability=0.35),
    loss=RandomLoss(p=Span(low=1e-4, high=2e-2, log=True)),
)

TRAIN_LEO_WIDE = Mixture(
    name="train-leo-wide",
    description="LEO slots, static links, RTT steps, 2-6 bottlenecks, access networks; 1-5 flows, some with a rival",
    weights=(0.35, 0.2, 0.1, 0.1, 0.25),
    parts=(
        _WIDE_LEO,
        _WIDE_LEO.changed(slots=None, static_probability=0.0),
        _WIDE_LEO.changed(
            slots=Slots(
                odd_length_probability=1.0,
                rate_factor=Span(low=1, high=1),
                redraw_rtt_probability=0.5,
                interruption_ms=Span(low=0, high=0),
            )
        ),
        _WIDE_LEO.changed(one_bottleneck_probability=0.0, static_probability=0.5, rivals=None),
        TRAIN_ORBITS.changed(
            name="train-leo-wide",
            duration_s=45,
            mean_gap_s=6,
            access_cycle_probability=0.0,
            rate_mbps=Span(low=10, high=300, log=True),
            own_rtt_probability=0.6,
        ),
    ),
)

# Windows of measured paths. Their rates and delays replace the ranges, which are for what was not measured.
MEASURED = {
    name: PathDistribution(
        name=name,
        description=f"windows of the measured paths in the part {part} of a trace set (docs/traces.md); 1-5 flows",
        duration_s=30,
        rate_mbps=Span(low=20, high=300, log=True),
        base_rtt_ms=Span(low=20, high=120),
        buffer_bdp=Span(low=0.1, high=8, log=True),
        flows=Span(low=1, high=5),
        mean_gap_s=6,
        paths=TracePool.build({"split": part, "duration_s": 30}),
        pool_size=1_000_000,
        ack_path=AckPath(rate_ratio=Span(low=2, high=20, log=True), loss=Span(low=0, high=0)),
    )
    for part, name in ((part, f"traces-{part}") for part in PARTS)
}

_ALL = (
    TRAIN_ASTRAEA,
    TRAIN_ASTRAEA_LOSS,
    TRAIN_ASTRAEA_RTT,
    TRAIN_LEO,
    TRAIN_LEO_WIDE,
    TRAIN_GEO,
    TRAIN_ORBITS,
    TRAIN_MIXED,
)
DISTRIBUTIONS = {d.name: d for d in _ALL}
