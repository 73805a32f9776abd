"""Rendering of bottlenecks: goodput of the flows, queue and RTT over the last seconds."""

from collections import deque
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orbitcc.common.errors import UnknownNameError
from orbitcc.common.names import figure
from orbitcc.envs.environments.batch import IDLE, Batch
from orbitcc.envs.environments.presets import STATS

MODES = ("human", "rgb_array")
FPS = 30
"""Frames per second of a film: at 30 ms a decision, about real time."""

WINDOW_S = 20.0
"""Seconds that a picture shows."""
SMOOTHING_S = 0.3
"""Seconds over which rates are averaged."""

# Okabe and Ito's colour-blind safe set ("Color Universal Design", 2008)
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#5B5EA6", "#7A4B2A")
_NAMED = 8
_SIZE: dict[str, Any] = {"figsize": (8.0, 4.5), "dpi": 100}
_INK, _MUTED, _AREA = "#222222", "#8A8F98", "#D9DEE4"


class Pictures:
    """Pictures of the worlds of a batch, each for the bottleneck of the first active agent.

    Args:
        mode: `rgb_array`; or `human` for a window with the first world, which follows :meth:`add` by itself and needs a
            screen that matplotlib can draw on.
        worlds: of the batch.
    """

    def __init__(self, mode: str, worlds: int = 1) -> None:
        self._mode = mode
        self._of = [Picture() for _ in range(1 if mode == "human" else worlds)]

    def clear(self, world: int) -> None:
        """Start an episode in this world."""
        if world < len(self._of):
            self._of[world].clear()

    def add(self, batch: Batch) -> None:
        """Record the present state of all worlds."""
        now, statistics = batch.now_s(), batch.statistics()
        for world, picture in enumerate(self._of):
            there = np.flatnonzero(batch.status[world] != IDLE)
            picture.add(float(now[world]), batch.totals(world)[0], statistics[world, there[0]] if there.size else None)
        if self._mode == "human":
            self._of[0].show()

    def frames(self) -> tuple[NDArray[np.uint8], ...] | None:
        """A frame of each world, uint8[450, 800, 3]; None in `human` mode."""
        return None if self._mode == "human" else tuple(picture.frame() for picture in self._of)

    def close(self) -> None:
        """Close the window, if there is one."""
        for picture in self._of:
            picture.close()


def pictures(mode: str | None, worlds: int = 1) -> Pictures | None:
    """The render mode, or None; raises UnknownNameError unless it is one of :data:`MODES`."""
    if mode is not None and mode not in MODES:
        raise UnknownNameError("render_mode", mode, MODES)
    return None if mode is None else Pictures(mode, worlds)


class Picture:
    """The recent history of one world: :meth:`add` records a step, :meth:`frame` draws the last ones."""

    def __init__(self) -> None:
        self._figure: Any = None
        self._window = False
        self.clear()

    def clear(self) -> None:
        """Start an episode."""
        self._times: deque[float] = deque()
        self._samples: deque[NDArray[np.float64]] = deque()
        self._rates: deque[NDArray[np.float64]] = deque()
        self._received: deque[tuple[float, NDArray[np.float64]]] = deque()
        self._handovers: deque[float] = deque()
        self._names: list[str] = []

    def add(self, now: float, flows: list[dict[str, Any]], row: NDArray[np.float64] | None) -> None:
        """Record a step: totals of all flows, and the raw statistics of an agent's flow if there is one."""
        if self._times and now == self._times[-1]:
            return  # it has been kept
        total: dict[str, float] = {}
        for flow in flows:
            place, _, number = str(flow["name"]).rpartition(".")
            if not (number.isdigit() and place in total):  # else a later connection in a flow's place (`connections`)
                place = str(flow["name"])
            total[place] = total.get(place, 0.0) + float(flow["received_bytes"])
        self._names, received = list(total), np.array(list(total.values()))
        self._received.append((now, received))
        while len(self._received) > 2 and self._received[1][0] <= now - SMOOTHING_S:
            self._received.popleft()
        since, before = self._received[0]
        rates = (received - before) * 8e-6 / (now - since) if now > since else np.zeros(len(received))
        sample = np.full(4, np.nan)
        if row is not None:
            for k, name in enumerate(("capacity_bps", "queue_bytes", "base_rtt_s", "srtt_s")):
                sample[k] = row[STATS[name]]
            passed = float(row[STATS["handover_since_s"]])
            if passed < row[STATS["interval_s"]] - 1e-9:
                self._handovers.append(now - passed)
        self._times.append(now)
        self._samples.append(sample)
        self._rates.append(rates)
        while now - self._times[0] > WINDOW_S:
            for kept in (self._times, self._samples, self._rates):
                kept.popleft()
        while self._handovers and self._handovers[0] < now - WINDOW_S:
            self._handovers.popleft()

    def frame(self) -> NDArray[np.uint8]:
        """uint8[450, 800, 3]."""
        if self._figure is None:
            from matplotlib.backends.backend_agg import FigureCanvasAgg
            from matplotlib.figure import Figure

            figure = Figure(**_SIZE)
            FigureCanvasAgg(figure)
            self._lay_out(figure)
        self._paint()
        self._figure.canvas.draw()
        return np.asarray(self._figure.canvas.buffer_rgba(), np.uint8)[..., :3].copy()

    def show(self) -> None:
        """The same in a window."""
        import matplotlib.pyplot as plt

        if self._figure is None:
            plt.ion()
            self._lay_out(plt.figure(**_SIZE))
            self._window = True
        self._paint()
        self._figure.canvas.draw_idle()
        plt.pause(0.001)

    def close(self) -> None:
        """Close the window, if there is one."""
        if self._window:
            import matplotlib.pyplot as plt

            plt.close(self._figure)
        self._figure, self._window = None, False

    def _lay_out(self, figure: Any) -> None:
        self._figure = figure
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
        handles, names = [], []
        for flow in np.flatnonzero((rates > 0).any(axis=0)) if rates.size else ():  # others have not come, or long gone
            handles += top.plot(times, rates[:, flow], color=_COLOURS[flow % len(_COLOURS)], linewidth=1.4)
            names.append(figure(self._names[flow]))
        shown = handles[:_NAMED]
        if len(handles) > _NAMED:
            names[_NAMED - 1] += f" and {len(handles) - _NAMED} more"
        if shown:
            where: dict[str, Any] = {"loc": "lower left", "bbox_to_anchor": (0, 1), "ncols": 4}
            top.legend(shown, names[:_NAMED], **where, fontsize=8, frameon=False, borderpad=0)
        middle.fill_between(times, queue / 1e3, color=_MUTED, linewidth=0)
        bottom.plot(times, base * 1e3, color=_MUTED, linewidth=1.2, drawstyle="steps-pre")
        bottom.plot(times, np.where(srtt > 0, srtt, np.nan) * 1e3, color=_INK, linewidth=1.2)
        for axes in self._axes:
            axes.set_ylim(0, max(axes.get_ylim()[1], 1.0))
        note = "time, s  (grey: capacity, base RTT; dotted: handovers)"
        bottom.set_xlabel(note, color=_INK, fontsize=9)
