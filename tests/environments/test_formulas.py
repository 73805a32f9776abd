"""Native observations and rewards against formulas written down a second time here, on runs with losses and handovers.

The formulas are those of docs/presets.md; the numbers of Astraea are those of Liao et al. (EuroSys 2024), of Orca those
of Abbasloo et al. (SIGCOMM 2020), of Aurora those of Jay et al. (ICML 2019). Each step gives the raw statistics to both
sides.
"""

import math
from collections.abc import Iterator

import numpy as np
import pytest

import orbitcc
from orbitcc.envs import scenarios
from orbitcc.envs.description.scenario import Scenario

Stats = dict[str, float]


class Extreme:
    """The least value of a window of time that moves in tenths."""

    def __init__(self, window_s: float) -> None:
        self.tenth_s, self.seen = window_s / 10, {}

    def add(self, time_s: float, value: float) -> float | None:
        now = int(time_s / self.tenth_s)
        if not math.isnan(value):
            self.seen[now] = min(value, self.seen.get(now, math.inf))
        self.seen = {k: v for k, v in self.seen.items() if k > now - 10}
        return min(self.seen.values()) if self.seen else None


def log_of(a: float, b: float) -> float:
    return math.log(a / b) if a > 0 and b > 0 else 0.0


class Ratios:
    """`ratios` as docs/presets.md has it."""

    history = 1

    def __init__(self) -> None:
        self.clear()
        self.usual_gap = self.rtt = self.window = 0.0
        self.loss = [0.0, 0.0]
        self.cleared = -math.inf

    def clear(self) -> None:
        self.min_rtt, self.short, self.max_rate = Extreme(10.0), Extreme(1.0), Extreme(10.0)
        self.average: dict[str, float] = {}

    def mean(self, name: str, now: float, s: Stats, rtts: float, min_rtt: float) -> float:
        """An exponential average over so many minimum RTTs; the first value is the average at first."""
        weight = 1 - math.exp(-s["interval_s"] / (rtts * min_rtt)) if min_rtt > 0 else 1.0
        self.average[name] = now if name not in self.average else (1 - weight) * self.average[name] + weight * now
        return self.average[name]

    def features(self, s: Stats) -> list[float]:
        if s["ack_gap_s"] >= max(0.03, 3 * self.usual_gap):  # a pause far longer than usual
            self.clear()
            self.cleared = s["time_s"]
        else:
            self.usual_gap += (s["ack_gap_s"] - self.usual_gap) / 16
        rate = s["delivery_rate_bps"]
        least = self.min_rtt.add(s["time_s"], s["rtt_min_s"])
        short = self.short.add(s["time_s"], s["rtt_min_s"])
        most = self.max_rate.add(s["time_s"], -rate if rate > 0 else math.nan)
        max_rate = s["max_delivery_rate_bps"] if most is None else -most
        if not math.isnan(s["rtt_mean_s"]):
            self.rtt = s["rtt_mean_s"]
        elif self.rtt == 0:
            self.rtt = s["srtt_s"]
        min_rtt = self.rtt if least is None else least
        inflation = log_of(self.rtt, min_rtt)
        pacing = s["pacing_rate_bps"] or s["send_rate_bps"]
        known = s["acked_packets"] + s["lost_packets"]
        loss = s["lost_packets"] / known if known else 0.0
        for k, rtts in enumerate((1, 16)):
            weight = 1 - math.exp(-s["interval_s"] / (rtts * min_rtt)) if min_rtt > 0 else 1.0
            self.loss[k] += weight * (loss - self.loss[k])
        queued = max(self.rtt - min_rtt, 0.0) * rate / 8 / s["mss_bytes"] if rate > 0 else 0.0
        delivered = log_of(s["acked_rate_bps"], pacing) if s["acked_rate_bps"] > 0 else -3.0
        of_max = log_of(rate, max_rate) if rate > 0 else -3.0
        bdp = max_rate / 8 * min_rtt / s["mss_bytes"]
        before, self.window = self.window, s["cwnd_packets"]
        rise = 10 * s["rtt_rise_s"] / min_rtt if min_rtt > 0 else 0.0
        return [
            inflation,
            self.mean("inflation", inflation, s, 1, min_rtt),
            log_of(self.rtt, short) if short is not None else 0.0,
            self.mean("rise", rise, s, 1, min_rtt),
            self.mean("delivered", delivered, s, 1, min_rtt),
            of_max,
            self.mean("of_max", of_max, s, 4, min_rtt),
            math.sqrt(self.loss[0]),
            math.sqrt(self.loss[1]),
            math.log(1 + queued) / 4,
            self.mean("queue", math.log(1 + queued) / 4, s, 1, min_rtt),
            log_of(pacing, 10e6) / 2,
            log_of(min_rtt, 0.05),
            log_of(s["in_flight_packets"], bdp),
            log_of(s["cwnd_packets"], bdp),
            4 * log_of(s["cwnd_packets"], before),
            1 / (1 + s["time_s"] - self.cleared),
            s["ack_gap_s"] / min_rtt if min_rtt > 0 else 0.0,
        ]


class Astraea:
    """The local state of Liao et al., table 2; throughputs over the largest of the connection."""

    history = 5

    def features(self, s: Stats) -> list[float]:
        top, cwnd = s["max_delivery_rate_bps"], s["cwnd_packets"]
        rtt = s["min_rtt_s"] if top > 0 else 0.0  # the kernel module's minimum has no sample before the first ACK

        def over_rtt(x: float) -> float:
            return 2.0 if not x > 0 else 0.0 if rtt == 0 else x / rtt

        per_s = 8 * s["lost_bytes"] / s["interval_s"] if s["interval_s"] else 0.0
        return [
            s["delivery_rate_bps"] / top if s["delivery_rate_bps"] > 0 else 0.5,
            over_rtt(s["rtt_mean_s"]),
            over_rtt(s["srtt_s"]),
            0.8 * cwnd * 1460 * 8 / (top * rtt) if top > 0 and rtt > 0 else 0.0,
            top / 80e6,
            rtt / 0.5,
            per_s / top if top > 0 else 0.0,
            s["packets_out"] / cwnd,
            s["pacing_rate_bps"] / top if top > 0 else 0.0,
            s["retrans_out"] / cwnd,
        ]


class Orca:
    history = 10

    def features(self, s: Stats) -> list[float]:
        top, srtt = s["max_delivery_rate_bps"], s["srtt_s"]
        lost = 8 * s["lost_bytes"] / s["interval_s"] if s["interval_s"] else 0.0
        scaled = [s["delivery_rate_bps"], s["pacing_rate_bps"], 5 * lost]
        return [
            *(x / top if top > 0 else 0.0 for x in scaled),
            s["rtt_samples"] / max(s["cwnd_packets"], 1),
            s["interval_s"],
            s["min_rtt_s"] / srtt if srtt > 0 else 0.0,
            min(1.0, 1.25 * s["min_rtt_s"] / srtt) if srtt > 0 else 1.0,
        ]


class Aurora:
    history = 10

    def features(self, s: Stats) -> list[float]:
        rtt = s["srtt_s"] if math.isnan(s["rtt_mean_s"]) else s["rtt_mean_s"]
        sent, received = s["send_rate_bps"], s["acked_rate_bps"]
        return [
            s["rtt_rise_s"] / s["interval_s"] if s["interval_s"] else 0.0,
            rtt / s["min_rtt_s"] if s["min_rtt_s"] > 0 else 1.0,
            sent / received if received > 0 and sent < 1000 * received else 1.0,
        ]


def leo(**changes: object) -> Scenario:
    loaded = scenarios.load("leo-responsiveness", {"run": 9402, "loss": True, "duration_s": 60.0, **changes})
    assert isinstance(loaded, Scenario)
    return loaded


def actions(seed: int) -> Iterator[float]:
    """Mostly small steps, which keep the path busy, with a reduction where the window has grown."""
    rng = np.random.default_rng(seed)
    while True:
        for bias in (0.35, -0.25):
            for _ in range(60):
                yield float(np.clip(rng.normal(bias, 0.3), -1, 1))


@pytest.mark.parametrize(
    ("name", "written"), [("ratios", Ratios), ("astraea", Astraea), ("orca", Orca), ("aurora", Aurora)]
)
def test_observations_are_the_formulas_of_the_documentation(name: str, written: type) -> None:
    action = "aurora" if name == "aurora" else "orca" if name == "orca" else "log-window"
    env = orbitcc.CongestionEnv(leo(), observation=name, action=action, interval_ms=30.0)
    reference, chosen = written(), actions(1)
    low, high = env.observation_space.low, env.observation_space.high
    obs, _ = env.reset(seed=2)
    width = obs.size // written.history
    expected = np.zeros(obs.size)
    pauses = losses = steps = 0
    over = False
    while not over:
        s = env.statistics()
        expected = np.concatenate([expected[width:], reference.features(s)])
        assert np.allclose(obs, np.clip(expected, low, high), rtol=2e-6, atol=2e-6), (steps, obs, expected)
        pauses, losses, steps = pauses + (s["ack_gap_s"] > 0.03), losses + (s["lost_packets"] > 0), steps + 1
        obs, _, terminated, truncated, _ = env.step(np.array([next(chosen)], np.float32))
        over = terminated or truncated
    assert pauses >= 3
    assert losses >= 20
    assert steps > 1900


def astraea_costs(flows: list[Stats], recent: list[list[float]]) -> float:
    """Liao et al., equation 4 and the published weights without the throughput term, which the link measures.

    RTTs up to 1.15 base RTTs are free (docs/presets.md).
    """
    n = len(flows)
    excess = [
        0.0 if math.isnan(s["rtt_mean_s"]) else max(s["rtt_mean_s"] - 1.15 * s["base_rtt_s"], 0) / (s["base_rtt_s"] / 2)
        for s in flows
    ]
    load = sum((s["pacing_rate_bps"] or s["send_rate_bps"]) / s["capacity_bps"] for s in flows)
    lost = [s["lost_bytes"] / s["interval_s"] / max(s["delivery_rate_bps"] / 8, s["capacity_bps"] / 8e3) for s in flows]
    means = [float(np.mean(x)) for x in recent]
    unfairness = float(np.std(means)) / sum(means) if sum(means) > 0 else 0.0
    instability = float(np.mean([np.std(x) / np.mean(x) if np.mean(x) > 0 else 0.0 for x in recent]))
    total = (
        -0.02 * float(np.mean(excess)) * load / math.sqrt(n)
        - min(float(np.mean(lost)), 1.0)
        - 0.02 * unfairness
        - 0.01 * instability
    )
    return min(max(total, -0.1), 0.1)


def log_share(flows: list[Stats]) -> float:
    def one(s: Stats) -> float:
        share = min(max(s["delivery_rate_bps"] / s["fair_share_bps"], 0.05), 1000.0)
        delay = 0.0 if math.isnan(s["rtt_mean_s"]) else s["rtt_mean_s"] / s["base_rtt_s"] - 1
        known = s["acked_packets"] + s["lost_packets"]
        needless = s["lost_packets"] / known - s["link_loss"] if known else 0.0
        return 0.1 * (math.log(share) - 0.5 * min(max(delay, 0.0), 2.0) - needless)

    return float(np.mean([one(s) for s in flows]))


def three_flows() -> Scenario:
    loaded = scenarios.load("dumbbell", {"flows": 3, "rate_mbps": 40.0, "base_rtt_ms": 40.0, "duration_s": 30.0})
    assert isinstance(loaded, Scenario)
    return loaded.override("links.0.loss", 0.002)


@pytest.mark.parametrize("reward", ["astraea", "log-share"])
def test_rewards_of_teams_are_the_formulas_of_the_documentation(reward: str) -> None:
    """Three flows with their own windows: the latency term of Astraea divides by the root of their number."""
    function = {"name": "astraea", "throughput": 0.0} if reward == "astraea" else reward
    env = orbitcc.parallel_env(three_flows(), reward=function, action="log-window")
    env.reset(seed=4)
    chosen = {agent: actions(k) for k, agent in enumerate(env.possible_agents)}
    recent: dict[str, list[float]] = {agent: [] for agent in env.possible_agents}
    together = checked = costly = 0
    while env.agents:
        everybody = list(env.agents)
        acted = {agent: np.array([next(chosen[agent])], np.float32) for agent in everybody}
        _, rewards, _, _, _ = env.step(acted)
        flows = [env.statistics(agent) for agent in everybody]
        for agent, s in zip(everybody, flows, strict=True):
            recent[agent] = [*recent[agent], s["delivery_rate_bps"] / 8][-5:]
        together += len(everybody) == 3
        if together < 6 or len(env.agents) < 3:  # before, the reward covers intervals that are not in `recent`
            continue
        past = [recent[agent] for agent in everybody]
        expected = astraea_costs(flows, past) if reward == "astraea" else log_share(flows)
        costly += expected < -0.01
        assert rewards[everybody[0]] == pytest.approx(expected, abs=1e-6), (checked, flows)
        assert len(set(rewards.values())) == 1
        checked += 1
    assert checked > 900
    assert costly > 50


@pytest.mark.parametrize("reward", ["orca", "aurora"])
def test_rewards_of_single_flows_are_the_formulas_of_the_documentation(reward: str) -> None:
    env = orbitcc.CongestionEnv(leo(), reward=reward, action="log-window", interval_ms=30.0)
    env.reset(seed=5)
    chosen, over, checked = actions(5), False, 0
    while not over:
        _, paid, terminated, truncated, _ = env.step(np.array([next(chosen)], np.float32))
        over, s = terminated or truncated, env.statistics()
        top = s["max_delivery_rate_bps"]
        known = s["acked_packets"] + s["lost_packets"]
        lost = s["lost_packets"] / known if known else 0.0
        if reward == "orca":
            metric = min(1.0, 1.25 * s["min_rtt_s"] / s["srtt_s"]) if s["srtt_s"] > 0 else 1.0
            rate = s["delivery_rate_bps"] - 5 * 8 * s["lost_bytes"] / s["interval_s"]
            expected = min(max(rate / top * metric if top > 0 else 0.0, -1.0), 1.0)
        else:
            rtt = s["srtt_s"] if math.isnan(s["rtt_mean_s"]) else s["rtt_mean_s"]
            expected = 0.01 * s["acked_rate_bps"] / 8 / 1500 - rtt - 2 * lost
        assert paid == pytest.approx(expected, rel=1e-5, abs=1e-6), (checked, s)
        checked += 1
    assert checked > 1900
