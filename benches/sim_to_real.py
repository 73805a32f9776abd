"""Comparison of the simulator with a real kernel: the table and figures of docs/emulation.md.

    python -m benches.sim_to_real results/sim-to-real [--repeats 5] [--seconds 90] [--cases CASE ...]
        [--controllers NAME ...] [--docs docs]

Every case runs `--repeats` times on this machine's kernel, one run after the other in real time, and with as many
seeds in the simulator. Finished runs are stored in OUT/runs.jsonl and not repeated, so a stopped command can be
continued; use another folder on another machine. A run that the machine disturbed (packets later than QUIET_US at the
99th percentile, or more than three late decisions per second) is repeated by the next command, up to TRIES runs. The
run with the least lateness counts, whatever its result. `--docs` writes the table into emulation.md of that folder, and
figures that overlay one run of each case.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benches import pictures
from benches.pages import replace
from orbitcc.envs import backends
from orbitcc.envs.backends.simulator import Recording
from orbitcc.envs.description.scenario import Scenario
from orbitcc.envs.scenarios import get

CONTROLLERS = ("cubic", "bbr", "astraea", "perigee")
FIGURES = ("goodput_mbps", "srtt_ms", "srtt_p95_ms", "retransmitted_packets")
HEADS = {"goodput": ", Mbit/s ↑", "mean RTT": ", ms ↓", "95 % RTT": ", ms ↓", "retransmissions": " ↓"}
RANGES = 2
"""How many of these figures are shown with their range."""
SERIES_S = 0.5
QUIET_US = 500.0
TRIES = 3
KERNEL = "v6_12"
"""The kernel of the simulator's hosts: its newest Linux, whatever the scenario says."""


@dataclass(frozen=True)
class Case:
    """A scenario with its parameters, the flow that is shown, and controllers in addition to those of all cases."""

    name: str
    scenario: str
    params: dict[str, Any]
    shown: str = ""
    also: tuple[str, ...] = ()

    def made(self, controller: str, seconds: float, seed: int) -> Scenario:
        """The scenario with all flows under one controller."""
        scenario = get(self.scenario, **self.params, duration_s=seconds).with_controller(controller)
        return scenario.override("sim.kernel", KERNEL).with_seed(seed)

    def among(self, controllers: Sequence[str] | None) -> tuple[str, ...]:
        """The controllers of this case, or those that are selected."""
        return tuple(name for name in (*CONTROLLERS, *self.also) if controllers is None or name in controllers)


CASES = (
    *(Case(f"leo-responsiveness, run {run}", "leo-responsiveness", {"run": run}) for run in (1, 2, 3)),
    Case("geo-ideal", "geo-ideal", {}, also=("apogee",)),
    Case("dumbbell", "dumbbell", {}),
    Case("dumbbell, two flows", "dumbbell", {"flows": 2}, "the first of two"),
    Case("parking-lot", "parking-lot", {"long_start_s": 10.0}, "the flow over all hops, one of four"),
    Case("leo-access", "leo-access", {}),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=90.0)
    parser.add_argument("--cases", nargs="*", default=[case.name for case in CASES], choices=[c.name for c in CASES])
    known = sorted({name for case in CASES for name in case.among(None)})
    parser.add_argument("--controllers", nargs="*", choices=known)
    parser.add_argument("--docs", type=Path)
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    store = given.out / "runs.jsonl"
    rows = [json.loads(line) for line in store.read_text(encoding="utf-8").splitlines()] if store.exists() else []
    done = {key for key, tries in _tries(rows).items() if len(tries) >= TRIES or any(map(_undisturbed, tries))}
    chosen = [case for case in CASES if case.name in given.cases]
    # Repeats are the outer loop, so that when it is stopped all cases have equally many runs.
    plan = [
        (case, controller, backend, seed)
        for seed in range(1, given.repeats + 1)
        for case in chosen
        for controller in case.among(given.controllers)
        for backend in ("simulator", "emulator")
        if (case.name, controller, backend, seed, given.seconds) not in done
    ]
    left_s = given.seconds * sum(backend == "emulator" for _, _, backend, _ in plan)
    for case, controller, backend, seed in plan:
        load = os.getloadavg()[0]
        recording = backends.runner(backend)(case.made(controller, given.seconds, seed), record_interval_s=SERIES_S)
        row = {
            "case": case.name,
            "controller": controller,
            "backend": backend,
            "seed": seed,
            "seconds": given.seconds,
            **{figure: recording.flow_totals[0][figure] for figure in FIGURES},
            "emulation": recording.emulation,
            "load": load,
            "at": time.strftime("%Y-%m-%dT%H:%M:%S"),
        }
        tries = _tries([*rows, row])[_key(row)]
        if seed == 1 and row is min(tries, key=_lateness_us):
            recording.save(_series(given.out, case, controller, backend, given.seconds))
        with store.open("a") as file:
            file.write(json.dumps(row) + "\n")
        rows.append(row)
        if backend == "emulator":
            left_s -= given.seconds
            figures = ", ".join(f"{row[figure]:.1f}" for figure in FIGURES)
            disturbed = "" if _undisturbed(row) else " (disturbed)"
            print(f"{case.name}, {controller}, {seed}: {figures}{disturbed}; {left_s / 60:.0f} min left", flush=True)
    rows = [min(tries, key=_lateness_us) for tries in _tries(rows).values() if tries[0]["seconds"] == given.seconds]
    table = "\n".join(lines(rows, chosen, given.controllers))
    print(table)
    if given.docs is not None:
        replace(given.docs / "emulation.md", {"sim to real": table})
        _overlay(given.out, chosen, given.seconds, given.docs / "images")


def _key(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["case"], row["controller"], row["backend"], row["seed"], row["seconds"]


def _tries(rows: Sequence[dict[str, Any]]) -> dict[tuple[Any, ...], list[dict[str, Any]]]:
    """All runs of the same configuration, by key."""
    found: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in rows:
        found.setdefault(_key(row), []).append(row)
    return found


def _lateness_us(row: dict[str, Any]) -> float:
    """Lateness of packets at the 99th percentile; 0 in the simulator."""
    return float(row["emulation"]["lateness"]["p99_us"]) if row["emulation"] else 0.0


def _undisturbed(row: dict[str, Any]) -> bool:
    return _lateness_us(row) <= QUIET_US and (
        not row["emulation"] or row["emulation"]["overruns"] <= 3 * row["seconds"]
    )


def _series(out: Path, case: Case, controller: str, backend: str, seconds: float) -> Path:
    name = f"{case.name}-{controller}-{backend}-{seconds:g}".replace(", ", "-").replace(" ", "-").replace(":", "-")
    return out / f"{name}.npz"


def lines(
    rows: Sequence[dict[str, Any]], cases: Sequence[Case], controllers: Sequence[str] | None = None
) -> Iterator[str]:
    """The table: medians of kernel and simulator with the result, and the ranges of goodput and RTT."""
    late_heads = ("lateness, median, µs ↓", "lateness, 99th percentile, µs ↓")
    heads = ["case", "controller", "runs", *compared_heads("kernel", "simulator"), *late_heads]
    yield f"| {' | '.join(heads)} |"
    yield "|---" * len(heads) + "|"
    for case in cases:
        title = f"{case.name} ({case.shown})" if case.shown else case.name
        for controller in case.among(controllers):
            kernel, simulator = (
                [
                    row
                    for row in rows
                    if (row["case"], row["controller"], row["backend"]) == (case.name, controller, backend)
                ]
                for backend in ("emulator", "simulator")
            )
            if not (kernel and simulator):
                continue
            cells = compared(kernel, simulator)
            late = [row["emulation"]["lateness"] for row in kernel]
            cells += [f"{statistics.median(one[key] for one in late):.0f}" for key in ("p50_us", "p99_us")]
            yield f"| {title} | {controller} | {len(kernel)} | {' | '.join(cells)} |"


def compared_heads(first: str, second: str) -> list[str]:
    """The heads of what `compared` makes."""
    heads: list[str] = []
    for number, (name, unit) in enumerate(HEADS.items()):
        for side in (first, second):
            heads += [f"{name}: {side}{unit}", *(["from", "to"] if number < RANGES else [])]
        heads.append("result")
    return heads


def compared(first: Sequence[dict[str, Any]], second: Sequence[dict[str, Any]]) -> list[str]:
    """Cells of every figure of two groups of runs: medians, the ranges of the first figures, and the result."""
    cells: list[str] = []
    for number, figure in enumerate(FIGURES):
        values = [[row[figure] for row in own] for own in (first, second)]
        for own in values:
            cells += _cells(figure, own)[: 3 if number < RANGES else 1]
        cells.append(_verdict(*values))
    return cells


def _cells(figure: str, values: Sequence[float]) -> list[str]:
    """Median, lowest and highest value; retransmissions are whole numbers."""
    decimals = 0 if figure == "retransmitted_packets" or max(values) >= 1000 else 1
    return [f"{value:.{decimals}f}" for value in (statistics.median(values), min(values), max(values))]


def _verdict(kernel: Sequence[float], simulator: Sequence[float]) -> str:
    """`inside` if the median of one side lies within the range of the other, else the difference of the medians."""
    a, b = statistics.median(kernel), statistics.median(simulator)
    if min(simulator) <= a <= max(simulator) or min(kernel) <= b <= max(kernel):
        return "inside"
    return f"{100 * (a / b - 1):+.1f} %" if b else "outside"


def _overlay(out: Path, cases: Sequence[Case], seconds: float, folder: Path) -> None:
    """A figure of goodput and one of RTTs: cases by controllers, with the kernel's run over the simulator's."""
    from matplotlib.figure import Figure

    columns = list(dict.fromkeys(name for case in cases for name in case.among(None)))
    for series, unit in (("goodput_mbps", "goodput, Mbit/s"), ("srtt_ms", "smoothed RTT, ms")):
        figure = Figure(figsize=(10.5, 1.15 * len(cases) + 0.4), layout="constrained")
        grid = figure.subplots(len(cases), len(columns), sharex=True, sharey="row", squeeze=False)
        for row, case in zip(grid, cases, strict=True):
            for ax, controller in zip(row, columns, strict=True):
                paths = [_series(out, case, controller, backend, seconds) for backend in ("simulator", "emulator")]
                if not all(path.exists() for path in paths):
                    ax.set_axis_off()
                    continue
                for path, colour, width, label in zip(
                    paths, ("#b8b8b8", "#1f5fa8"), (2.6, 0.9), ("simulator", "kernel"), strict=True
                ):
                    recording = Recording.load(path)
                    ax.plot(recording.t_s, recording.flows[series][:, 0], color=colour, linewidth=width, label=label)
                ax.tick_params(labelsize=7)
            row[0].set_ylim(bottom=0)
            row[0].set_ylabel(case.name.replace(", ", "\n").replace("leo-responsiveness", "leo-resp."), fontsize=8)
        for ax, controller in zip(grid[0], columns, strict=True):
            ax.set_title(controller, fontsize=9)
        handles, labels = grid[0][0].get_legend_handles_labels()
        grid[0][-1].legend(handles, labels, frameon=False, loc="center", fontsize=8)
        figure.supxlabel("time, s", fontsize=8)
        figure.supylabel(unit, fontsize=9)
        pictures.write(figure, folder / f"sim-to-real-{series.split('_')[0]}.png", max_bytes=120_000)


if __name__ == "__main__":
    main()
