"""The picture of a score: the candidate beside classical controllers, over all suites and in each."""

from __future__ import annotations

from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from orbitcc.common import names
from orbitcc.eval.figures import style
from orbitcc.eval.figures.style import Theme


def draw_score(result: dict[str, Any], theme: Theme) -> Figure:
    """Combined scores with their intervals, then mean utilities of each suite; result: of `orbitcc.eval.scoring`."""
    scores = {"candidate": result, **result["classical"]}
    lines = style.lines([(label, label.partition(":")[0]) for label in scores])
    suites = {"all suites": {label: one["combined_score"] for label, one in scores.items()}}
    suites |= {name: {label: own[label]["utility"] for label in scores} for name, own in result["suites"].items()}
    width = 0.8 / len(scores)
    with mpl.rc_context(theme.rc()):
        figure = Figure(figsize=(10, 4.2))
        ax = figure.subplots()
        figure.subplots_adjust(left=0.055, right=0.985, top=0.84, bottom=0.09)
        for rank, (label, one) in enumerate(scores.items()):
            x = np.arange(len(suites)) + (rank - (len(scores) - 1) / 2) * width
            heights = [own[label] for own in suites.values()]
            colour = theme.tone(lines[label].colour)
            ax.bar(x, heights, 0.9 * width, color=colour, label=names.figure(label))
            tops, (low, high) = list(heights), one["interval"]
            if low is not None and low == low:
                ax.plot([x[0], x[0]], [low, high], color=theme.ink, linewidth=1.2)
                tops[0] = high
            for at, height, top in zip(x, heights, tops, strict=True):
                ax.text(at, top + 0.015, f"{height:.2f}", ha="center", fontsize=7.5, color=theme.muted)
        ax.axvline(0.5, color=theme.edge, linewidth=0.9)
        ax.set_xticks(range(len(suites)), list(suites))
        ax.tick_params(axis="x", length=0)
        ax.set_ylim(0, 1.08)
        ax.set_title(f"Utility, mean over {result['worlds']} of {result['planned']} worlds", pad=8)
        figure.legend(loc="upper right", ncols=len(scores), bbox_to_anchor=(0.99, 0.99), handlelength=1.2)
    return figure
