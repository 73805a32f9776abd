"""Several learning flows beside a Cubic flow, with PettingZoo's interface.

Run: python examples/many_agents.py
"""

import orbitcc
from orbitcc.envs.description.scenario import Flow
from orbitcc.envs.scenarios import get


def main(duration_s: float = 10.0) -> dict[str, float]:
    scenario = get("dumbbell", rate_mbps=50, duration_s=duration_s).with_flows(
        [
            Flow(controller="external"),
            Flow(controller="external", start_s=duration_s / 4, stop_s=3 * duration_s / 4),  # joins late, leaves early
            Flow(controller="cubic"),
        ]
    )
    env = orbitcc.parallel_env(scenario)
    env.reset(seed=1)
    goodput = {}
    while env.agents:
        actions = {agent: env.action_space(agent).sample() for agent in env.agents}
        _, _, terminated, truncated, infos = env.step(actions)
        for agent, info in infos.items():
            if terminated[agent] or truncated[agent]:
                goodput[agent] = info["goodput_mbps"]
    return goodput


if __name__ == "__main__":
    for agent, mbps in main().items():
        print(f"{agent}: {mbps:.1f} Mbit/s")
