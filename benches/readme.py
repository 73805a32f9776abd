"""The pictures of the README: a film of Cubic beside a trained policy, and a thumbnail of each environment it lists.

    python -m benches.readme [--out docs/images] [--policy zenith] [--run 9401] [--report RESULTS]
    python -m benches.readme --table RESULTS

With --report also the top of the report in that results folder (`responsiveness/` of a demo); it needs chromium.
With --table only the table of results, from evaluations in that folder, which are run where they are missing.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image

from benches import pages
from orbitcc.common.files import atomic_write_bytes
from orbitcc.envs import scenarios
from orbitcc.envs.backends.simulator import Recording, simulate
from orbitcc.envs.controllers import EXTERNAL
from orbitcc.envs.description.scenario import Scenario
from orbitcc.eval import contenders, suites
from orbitcc.eval.runner import run_suite

SECONDS, FRAMES_PER_S, SPEED = 60.0, 10, 6.0
"""Simulated seconds in the film, its frames per second, simulated seconds per second."""
INTERVAL_S = 0.2
THUMBNAILS = (
    "leo-responsiveness", "leo-path", "leo-access", "geo-viasat-2020", "geo-rain", "inter-rtt", "parking-lot",
    "train-mixed",
)  # fmt: skip
FLOW_COLOURS = ("#d1495b", "#00798c", "#edae49", "#66a182", "#2e4057", "#8d6a9f")
COLOURS = {"capacity": "#b9c0cc", "cubic": "#d1495b", "policy": "#00798c"}


def record(run: int, controller: str) -> Recording:
    """One flow of this controller over the LEO schedule of run `run`."""
    scenario = scenarios.get("leo-responsiveness", run=run)
    assert isinstance(scenario, Scenario)
    return simulate(scenario.changed(duration_s=SECONDS).with_controller(controller), record_interval_s=INTERVAL_S)


def draw(recordings: dict[str, Recording], until_s: float, policy: str) -> Image.Image:
    """The frame at `until_s`: sending rates above, RTTs below."""
    figure = Figure(figsize=(9.6, 4.8), dpi=100, layout="constrained", facecolor="white")
    above, below = figure.subplots(2, 1, sharex=True)
    first = next(iter(recordings.values()))
    t = first.t_s
    shown = t <= until_s + 1e-9
    above.fill_between(t, first.links["capacity_mbps"].min(axis=1), step="pre", color=COLOURS["capacity"],
                       alpha=0.55, linewidth=0, label="available rate")  # fmt: skip
    below.fill_between(t, first.flows["base_rtt_ms"][:, 0], step="pre", color=COLOURS["capacity"], alpha=0.55,
                       linewidth=0, label="RTT of the empty path")  # fmt: skip
    for (name, recording), key in zip(recordings.items(), ("cubic", "policy"), strict=True):
        label = "Cubic" if name == "cubic" else f"{policy} (trained policy)"
        above.plot(t[shown], recording.flows["delivery_mbps"][shown, 0], color=COLOURS[key], linewidth=2, label=label)
        below.plot(t[shown], recording.flows["srtt_ms"][shown, 0], color=COLOURS[key], linewidth=2)
    for at in np.arange(15.0, SECONDS, 15.0):
        for axes in (above, below):
            axes.axvline(at, color="#6b7280", linewidth=0.9, linestyle=(0, (3, 3)))
    above.set(ylabel="delivered, Mbit/s", ylim=(0, 100), xlim=(0, SECONDS))
    below.set(ylabel="RTT, ms", ylim=(0, 170), xlabel="time, s (dashed: handover, with an outage)")
    above.legend(loc="lower center", ncols=3, fontsize=9, bbox_to_anchor=(0.5, 1.0), frameon=False)
    below.legend(loc="upper right", fontsize=9, frameon=False)
    for axes in (above, below):
        axes.spines[["top", "right"]].set_visible(False)
    return _rendered(figure)


def thumbnail(scenario: str) -> Image.Image:
    """What one world of an environment looks like with Cubic flows: rates above, RTTs below; no axes."""
    loaded = scenarios.load(scenario)
    world = loaded if isinstance(loaded, Scenario) else loaded.sample(np.random.default_rng(1))
    world = world.with_controller("cubic") if world is loaded else world.with_controller("cubic", only=EXTERNAL)
    recording = simulate(world, record_interval_s=world.duration_s / 150)
    figure = Figure(figsize=(2.4, 1.35), dpi=100, facecolor="white")
    above, below = figure.subplots(2, 1, sharex=True, gridspec_kw={"hspace": 0.12})
    figure.subplots_adjust(0.02, 0.03, 0.98, 0.97)
    t, links, flows = recording.t_s, recording.links, recording.flows
    tightest = int(np.argmin(links["capacity_mbps"].mean(axis=0)))
    above.fill_between(t, links["capacity_mbps"][:, tightest], step="pre", color=COLOURS["capacity"], alpha=0.55, lw=0)
    below.fill_between(
        t, np.nan_to_num(flows["base_rtt_ms"]).max(axis=1), step="pre", color=COLOURS["capacity"], alpha=0.55, lw=0
    )
    for k in range(flows["delivery_mbps"].shape[1]):
        colour = FLOW_COLOURS[k % len(FLOW_COLOURS)]
        above.plot(t, flows["delivery_mbps"][:, k], color=colour, linewidth=1)
        below.plot(t, flows["srtt_ms"][:, k], color=colour, linewidth=1)
    above.set_ylim(0, 1.15 * float(links["capacity_mbps"][:, tightest].max()))
    below.set_ylim(0)
    for axes in (above, below):
        axes.set(xticks=[], yticks=[], xlim=(0, world.duration_s))
        axes.spines[:].set_visible(False)
    return _rendered(figure)


def screenshot(report: Path) -> Image.Image:
    """The top of a report as a browser shows it."""
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "report.png"
        options = ("--headless", "--no-sandbox", "--hide-scrollbars", "--window-size=1000,1120")
        command = ["chromium", *options, f"--screenshot={target}", report.resolve().as_uri()]
        subprocess.run(command, check=True, capture_output=True, timeout=120)
        with Image.open(target) as picture:
            return picture.convert("RGB")


def _rendered(figure: Figure) -> Image.Image:
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return Image.frombuffer("RGBA", canvas.get_width_height(), bytes(canvas.buffer_rgba())).convert("RGB")


def _png(image: Image.Image, colours: int = 64) -> bytes:
    file = BytesIO()
    # rare colours, such as those of single dots, keep their tone
    image.quantize(colours, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(file, "PNG", optimize=True)
    return file.getvalue()


FIRST_RUN = 97001
"""Schedules on which nothing was developed."""
COLUMNS = (
    ("responsiveness", "goodput_over_optimal", "goodput / optimal ↑"),
    ("responsiveness", "delay_inflation", "RTT / base RTT ↓"),
    ("responsiveness-loss", "goodput_over_optimal", "goodput / optimal with 0–1 % loss ↑"),
    ("leo-access", "utilisation", "use of an access link ↑"),
    ("intra-rtt", "goodput_ratio", "fairness, same RTT ↑"),
    ("inter-rtt", "goodput_ratio", "fairness, different RTTs ↑"),
    ("cubic-friendliness", "own_share", "share beside Cubic (0.5 is fair)"),
)
ROWS = {
    "zenith": "zenith",
    "perigee": "perigee",
    "cubic": "Cubic",
    "bbr3": "BBRv3",
    "leocc:trigger=global": "LeoCC",
    "c4": "C4",
    "vivace": "PCC Vivace",
}
"""Contender -> its name in the table; the first two are policies."""


def results_table(folder: Path) -> str:
    """The results as Markdown: of each suite the medians that `orbitcc eval` prints."""
    policies, classical = list(ROWS)[:2], list(ROWS)[2:]
    line_up = contenders.line_up(classical, policies)
    found = {}
    for name in dict.fromkeys(suite for suite, _, _ in COLUMNS):
        suite = suites.get(name, {"first_run": FIRST_RUN})
        found[name] = run_suite(suite, line_up, out_dir=folder / name, profile="quick", resume=True).estimates()
    lines = ["| contender | " + " | ".join(title for _, _, title in COLUMNS) + " |", "|---" * (len(COLUMNS) + 1) + "|"]
    for label, shown in ROWS.items():
        cells = [f"{found[suite][label][metric].median:.3f}" for suite, metric, _ in COLUMNS]
        lines.append(f"| {shown} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main(argv: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("docs/images"))
    parser.add_argument("--policy", default="zenith")
    parser.add_argument("--run", type=int, default=9401, help="of leo-responsiveness; nothing was developed on it")
    parser.add_argument("--report", type=Path, help="folder with a report.html")
    parser.add_argument("--table", type=Path, help="folder with a results folder of each suite")
    arguments = parser.parse_args(argv)
    if arguments.table is not None:
        pages.replace(Path("README.md"), {"results": results_table(arguments.table)})
        return
    if arguments.report is not None:
        picture = screenshot(arguments.report / "report.html")
        print(atomic_write_bytes(arguments.out / "report.png", _png(picture, 128)))
    recordings = {name: record(arguments.run, name) for name in ("cubic", arguments.policy)}
    times = np.arange(SPEED / FRAMES_PER_S, SECONDS + 1e-9, SPEED / FRAMES_PER_S)
    frames = [draw(recordings, float(t), arguments.policy) for t in times]
    frames += [frames[-1]] * (2 * FRAMES_PER_S)
    film = BytesIO()
    frames[0].save(film, "WEBP", save_all=True, append_images=frames[1:], duration=1000 // FRAMES_PER_S, loop=0,
                   quality=60, method=4)  # fmt: skip
    print(f"{atomic_write_bytes(arguments.out / 'handovers.webp', film.getvalue())}: {film.tell() / 1e6:.2f} MB")
    for scenario in THUMBNAILS:
        print(atomic_write_bytes(arguments.out / "environments" / f"{scenario}.png", _png(thumbnail(scenario))))


if __name__ == "__main__":
    main(sys.argv[1:])
