"""A live picture of the bottleneck: who sends how much, how long the queue is, and what that does to the RTT."""

from collections import deque
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orbitcc.envs.batch import IDLE, Batch
from orbitcc.envs.errors import UnknownNameError
from orbitcc.envs.presets import STATS

MODES = ("human", "rgb_array")
FPS = 30
"""Frames per second of a film: at 30 ms a decision, about real time."""

WINDOW_S = 20.0
"""How far back the picture shows."""
SMOOTHING_S = 0.3
"""Rates are means over so long."""

# Okabe and Ito's colour-blind safe set ("Color Universal Design", 2008)
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#5B5EA6", "#7A4B2A")
_NAMED = 8
_INK, _MUTED, _AREA = "#222222", "#8A8F98", "#D9DEE4"


def check_mode(mode: str | None) -> None:
    """UnknownNameError unless `mode` is None or one of :data:`MODES`."""
    if mode is not None and mode not in MODES:
        raise UnknownNameError("render_mode", mode, MODES)


class Picture:
    """What world 0 of a batch has been doing.

    :meth:`add` keeps a sample of every step, of the bottleneck of the first agent that is there; :meth:`draw` makes a
    frame, or shows it.

    Args:
        mode: `rgb_array`, or `human` for a window, which needs a screen that matplotlib can draw on.
    """

    def __init__(self, mode: str) -> None:
        self._mode = mode
        self._figure: Any = None
        self.clear()

    def clear(self) -> None:
        """An episode begins."""
        self._times: deque[float] = deque()
        self._samples: deque[NDArray[np.float64]] = deque()
        self._rates: deque[NDArray[np.float64]] = deque()
        self._received: deque[tuple[float, NDArray[np.float64]]] = deque()
        self._handovers: deque[float] = deque()
        self._names: list[str] = []

    def add(self, batch: Batch) -> None:
        """Keep the present state of world 0."""
        now = float(batch.now_s()[0])
        flows, _ = batch.totals(0)
        self._names = [str(flow["name"]) for flow in flows]
        received = np.array([float(flow["received_bytes"]) for flow in flows])
        self._received.append((now, received))
        while len(self._received) > 2 and self._received[1][0] <= now - SMOOTHING_S:
            self._received.popleft()
        since, before = self._received[0]
        rates = (received - before) * 8e-6 / (now - since) if now > since else np.zeros(len(flows))
        there = np.flatnonzero(batch.status[0] != IDLE)
        if there.size:
            row = batch.statistics()[0, there[0]]
            values = {name: float(row[STATS[name]]) for name in ("capacity_bps", "queue_bytes", "base_rtt_s", "srtt_s")}
            sample = np.array(list(values.values()))
            passed = float(row[STATS["handover_since_s"]])
            if passed < row[STATS["interval_s"]] - 1e-9:
                self._handovers.append(now - passed)
        else:
            sample = np.full(4, np.nan)
        self._times.append(now)
        self._samples.append(sample)
        self._rates.append(rates)
        while now - self._times[0] > WINDOW_S:
            for kept in (self._times, self._samples, self._rates):
                kept.popleft()
        while self._handovers and self._handovers[0] < now - WINDOW_S:
            self._handovers.popleft()

    def draw(self) -> NDArray[np.uint8] | None:
        """A frame, uint8[450, 800, 3]; in `human` mode the window changes instead."""
        if self._figure is None:
            self._open()
        self._paint()
        if self._mode == "human":
            import matplotlib.pyplot as plt

            self._figure.canvas.draw_idle()
            plt.pause(0.001)
            return None
        self._figure.canvas.draw()
        return np.asarray(self._figure.canvas.buffer_rgba(), np.uint8)[..., :3].copy()

    def close(self) -> None:
        """Close the window, if there is one."""
        if self._figure is not None and self._mode == "human":
            import matplotlib.pyplot as plt

            plt.close(self._figure)
        self._figure = None

    def _open(self) -> None:
        size: dict[str, Any] = {"figsize": (8.0, 4.5), "dpi": 100}
        if self._mode == "human":
            import matplotlib.pyplot as plt

            plt.ion()
            self._figure = plt.figure(**size)
        else:
            from matplotlib.backends.backend_agg import FigureCanvasAgg
            from matplotlib.figure import Figure

            self._figure = Figure(**size)
            FigureCanvasAgg(self._figure)
        self._axes = self._figure.subplots(3, 1, sharex=True, height_ratios=(2.2, 1, 1))
        self._figure.subplots_adjust(left=0.08, right=0.985, top=0.89, bottom=0.11, hspace=0.16)
        self._figure.align_ylabels()

    def _paint(self) -> None:
        times = np.array(self._times)
        capacity, queue, base, srtt = np.array(self._samples).T if self._samples else np.zeros((4, 0))
        rates = np.array(self._rates)
        end = max(float(times[-1]) if times.size else 0.0, WINDOW_S)
        top, middle, bottom = self._axes
        for axes, title in zip(self._axes, ("goodput, Mbit/s", "queue, kB", "RTT, ms"), strict=True):
            axes.clear()
            axes.set_ylabel(title, color=_INK, fontsize=9)
            axes.tick_params(colors=_INK, labelsize=8)
            axes.spines[["top", "right"]].set_visible(False)
            axes.set_xlim(end - WINDOW_S, end)
            for at in self._handovers:
                axes.axvline(at, color=_MUTED, linewidth=0.8, linestyle=(0, (2, 2)))
        limit = np.where(np.isfinite(capacity), capacity, np.nan) / 1e6
        top.fill_between(times, limit, step="pre", color=_AREA, linewidth=0)
        handles = []
        for flow in range(rates.shape[1] if rates.size else 0):
            line = top.plot(times, rates[:, flow], color=_COLOURS[flow % len(_COLOURS)], linewidth=1.4)
            handles += line
        shown = handles[:_NAMED]
        names = self._names[: len(shown)]
        if len(handles) > _NAMED:
            names = [*names[:-1], f"{names[-1]} and {len(handles) - _NAMED} more"]
        if shown:
            top.legend(
                shown, names, loc="lower left", bbox_to_anchor=(0, 1), ncols=4, fontsize=8, frameon=False, borderpad=0
            )
        middle.fill_between(times, queue / 1e3, color=_MUTED, linewidth=0)
        bottom.plot(times, base * 1e3, color=_MUTED, linewidth=1.2, drawstyle="steps-pre")
        bottom.plot(times, np.where(srtt > 0, srtt, np.nan) * 1e3, color=_INK, linewidth=1.2)
        for axes in self._axes:
            axes.set_ylim(0, max(axes.get_ylim()[1], 1.0))
        note = "time, s  (grey: capacity, base RTT; dotted: handovers)"
        bottom.set_xlabel(note, color=_INK, fontsize=9)
