"""What several suites of the LEO paper measure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from orbitcc.eval import metrics

if TYPE_CHECKING:
    from orbitcc.envs.backends.simulator import Recording


def ratio_values(recording: Recording, start_s: float, end_s: float, rate_mbps: float) -> dict[str, float]:
    """How the first two flows share a link in a window.

    Runs can be pooled by goodput_ratio, its standard deviation over seconds and the number of seconds. second_share is
    the second flow's share of the goodput of both. goodput_cv is the coefficient of variation of the goodput per
    second, averaged over both flows.
    """
    inside = metrics.window(recording.t_s, start_s, end_s)
    first, second = (recording.flows["goodput_mbps"][inside, i] for i in (0, 1))
    ratios = metrics.goodput_ratios(first, second)
    total = float(first.mean() + second.mean())
    return {
        "goodput_ratio": float(ratios.mean()) if ratios.size else float("nan"),
        "goodput_ratio_sd": float(ratios.std()) if ratios.size else float("nan"),
        "seconds": float(ratios.size),
        "second_share": float(second.mean()) / total if total > 0 else float("nan"),
        "goodput_share": total / rate_mbps,
        "jain": metrics.jain([first.mean(), second.mean()]),
        "goodput_cv": float(np.mean([own.std() / own.mean() if own.any() else np.nan for own in (first, second)])),
    }
