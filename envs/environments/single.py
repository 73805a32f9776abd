"""One agent, one flow: the gymnasium environment."""

from typing import Any, Unpack

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from orbitcc.envs.description.scenario import Scenario, ScenarioDistribution
from orbitcc.envs.environments.batch import TERMINATED, TRUNCATED, Batch, WorldState
from orbitcc.envs.environments.config import EnvConfig, Settings
from orbitcc.envs.environments.core import (
    STEP_INFO,
    Core,
    ResetNeededError,
    checked_actions,
    checked_options,
    checked_seed,
)
from orbitcc.envs.environments.episodes import ScenarioEpisodes
from orbitcc.envs.environments.render import FPS, MODES
from orbitcc.envs.environments.view import WorldView


class CongestionEnv(WorldView, gym.Env[NDArray[np.float32], NDArray[np.float32]]):
    """
    ## Description

    The agent controls one TCP flow on a simulated network. At every decision interval (30 ms of simulated time) it
    observes statistics of its flow and changes the congestion window. The simulator then runs every packet of every
    flow until the next decision. The other flows of the scenario run the controllers that the scenario names.

    The agent is the scenario's first flow with the controller `external`, or its first flow if it has none. Further
    external flows get the controller `background`.

    ## Action Space

    A `ndarray` of shape `(1,)`, float32, for the default preset `ratios`:

    | Num | Action                                                                           | Min | Max |
    |-----|----------------------------------------------------------------------------------|-----|-----|
    | 0   | a: cwnd is multiplied by exp(0.25 (0.3 a + 0.7 a^3)): 28 % up, 22 % down at most | -1  | 1   |

    Values beyond the bounds are clipped; NaN raises an error.

    ## Observation Space

    A `ndarray` of shape `(18,)`, float32: features of the last interval, zeros before the start.

    | Num | Observation                                                          | Min | Max |
    |-----|----------------------------------------------------------------------|-----|-----|
    | 0   | ln(RTT / min RTT of the last 10 s)                                   | 0   | 3   |
    | 1   | the same, average over 1 RTT                                         | 0   | 3   |
    | 2   | ln(RTT / min RTT of the last 1 s)                                    | 0   | 3   |
    | 3   | 10 x RTT rise in the interval / min RTT, average over 1 RTT          | -3  | 3   |
    | 4   | ln(acknowledged rate / pacing rate), average over 1 RTT              | -3  | 3   |
    | 5   | ln(delivery rate / max delivery rate of the last 10 s)               | -3  | 0   |
    | 6   | the same, average over 4 RTTs                                        | -3  | 0   |
    | 7   | square root of the share of lost packets, average over 1 RTT         | 0   | 1   |
    | 8   | the same, average over 16 RTTs                                       | 0   | 1   |
    | 9   | ln(1 + own queued packets) / 4                                       | 0   | 3   |
    | 10  | the same, average over 1 RTT                                         | 0   | 3   |
    | 11  | ln(pacing rate / 10 Mbit/s) / 2                                      | -4  | 4   |
    | 12  | ln(min RTT of the last 10 s / 50 ms)                                 | -4  | 4   |
    | 13  | ln(packets in flight / BDP)                                          | -3  | 3   |
    | 14  | ln(window / BDP)                                                     | -3  | 3   |
    | 15  | 4 x ln(window / previous window)                                     | -3  | 3   |
    | 16  | 1 s / (1 s + time since the windows were cleared)                    | 0   | 1   |
    | 17  | longest time without an ACK / min RTT                                | 0   | 3   |

    docs/presets.md has all presets, and `orbitcc.envs.environments.presets.describe(NAME)` prints the table of an
    observation.

    ## Rewards

    0.1 x (ln(share of the capacity) - 0.5 x queueing delay / base RTT - needless loss), the mean over all external
    flows of the world; near 0 for flows that use the whole link without a queue.

    ## Starting State

    Every episode draws a scenario with the environment's generator: from a distribution (the ids `orbitcc/Train...`),
    or the run of a named scenario that has runs, such as `orbitcc/LeoResponsiveness-v0`. These runs are for training:
    no suite uses them. `run=1` fixes the run. So do the ids that end in `Test`: `orbitcc/LeoResponsivenessTest-v0` is
    run 1 of the suites, so evaluate there and do not train there. A scenario without runs (`orbitcc/Dumbbell-v0`) has
    the same links in every episode. The episode begins at the first decision after the agent's flow has started.

    ## Episode End

    1. Termination: the flow's object was delivered whole (traffic `bytes`).
    2. Truncation: the scenario's time limit, or the flow's scheduled leave.

    Every `info` describes the last interval: `step_goodput_mbps`, `step_rtt_ms`, `step_utilisation` (goodput over the
    capacity of the bottleneck), `step_queue_bytes` (queue of the bottleneck at the end). The last info of an episode
    also holds the totals of the flow:
    `goodput_mbps`, `sent_packets`, `retransmitted_packets`, `lost_packets`.

    ## Arguments

    ```python
    >>> import gymnasium, orbitcc
    >>> env = gymnasium.make("orbitcc/LeoPath-v0", preset="ratios", interval_ms=30.0)
    ```

    * `scenario`: a `Scenario`, a `ScenarioDistribution`, the name or file of one, or an
      :class:`~orbitcc.envs.environments.config.EnvConfig`. Parameters of a named one are arguments, too.
    * `preset`, `observation`, `action`, `reward`, `interval_ms`: the functions and the decision interval;
      names, the TOML file of a preset, or Python functions (`orbitcc.Observation`, `Action`, `Reward`).
    * `background`: the controller of external flows beyond the first.
    * `render_mode`: `rgb_array` or `human`: a picture of the last 20 s of the bottleneck: goodput of every flow and
      capacity, queue, smoothed and base RTT, handovers.
    * `backend`: `simulator`, or `emulator`: the flow runs on the TCP of this machine's kernel, in real time
      (docs/emulation.md). Every `info` then has `overruns`: the number of decisions so far that came late.

    `reset(options={"scenario": Scenario})` runs that scenario for one episode. With it, or with a fixed scenario,
    `reset(seed=7)` has the same noise as `orbitcc run --seed 7`.

    ## Version History

    * v0: initial version
    """

    metadata: dict[str, Any] = {"render_modes": list(MODES), "render_fps": FPS}  # noqa: RUF012

    def __init__(
        self, scenario: str | Scenario | ScenarioDistribution | EnvConfig = "dumbbell", **settings: Unpack[Settings]
    ) -> None:
        self.config = EnvConfig.of(scenario, settings).for_one_agent()
        self.render_mode = self.config.render_mode
        self._core: Core = Core(self.config, ScenarioEpisodes(self.config), 1, threads=1)
        self.observation_space = self._core.observation_space
        self.action_space = self._core.action_space
        self._over = True

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        seed, options = checked_seed(seed), checked_options(options, "scenario")
        super().reset(seed=seed)
        self._core.begin(0, self.np_random, seed, options.get("scenario"))
        self._core.batch.observe()
        self._over = False
        self._core.look()
        return self._obs(), self._info(self._core.batch)

    def step(self, action: NDArray[np.float32]) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        if self._over:
            raise ResetNeededError("step", "no episode runs: reset() first")
        core = self._core
        batch = core.step(checked_actions("action", action, core.preset, ())[None, None])
        status, info = batch.status.item(), self._info(batch)
        terminated, truncated = bool(status & TERMINATED), bool(status & TRUNCATED)
        if terminated or truncated:
            self._over = True
            info |= core.final_info(0, 0)
        if core.pictures is not None:
            core.look()
        return batch.obs.flatten(), batch.reward.item(), terminated, truncated, info

    def statistics(self) -> dict[str, float]:
        """Raw statistics of the agent's flow over the last interval, by name (:data:`orbitcc.STATS`)."""
        return self._core.statistics(0, 0)

    def restore(self, saved: tuple[Scenario, WorldState]) -> NDArray[np.float32]:
        """Go back to a saved moment and return its observation; the episode continues identically.

        At the end of an episode it is over again.
        """
        self._core.restore(0, saved)
        self._over = not self._core.batch.present()[0, 0]
        return self._obs()

    def _obs(self) -> NDArray[np.float32]:
        return self._core.batch.obs[0, 0].copy()

    def _info(self, batch: Batch) -> dict[str, Any]:
        figures = batch.step_figures().ravel().tolist()
        info: dict[str, Any] = dict(zip(STEP_INFO, figures))  # noqa: B905 (four and four, in every step)
        return info | self._core.live_info() if self._core.is_live else info
