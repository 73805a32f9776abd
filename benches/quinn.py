"""Real quinn over the emulator beside the simulator: the table of docs/quinn.md.

    python -m benches.quinn results/quinn [--controllers zenith quinn-cubic ...] [--repeats 5] [--page docs/quinn.md]

As root, after `cargo build --release --manifest-path sim/Cargo.toml --package orbitcc-policy-quinn --example
quinn_download`. Finished downloads are stored in OUT/runs.jsonl and not repeated. A download in which the client's
socket lost packets, because the machine was busy, does not count. Lines of the page without runs in OUT stay.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benches.pages import between, replace
from orbitcc.agents import checkpoint
from orbitcc.emulator.two_hosts import RECEIVER, SENDER, TwoHosts
from orbitcc.envs.backends.simulator import Recording, simulate
from orbitcc.envs.description.flows import Flow
from orbitcc.envs.scenarios import get

PROGRAM = Path(__file__).parents[1] / "sim" / "target" / "release" / "examples" / "quinn_download"
SECONDS, PORT, MTU_BYTES = 20.0, 4433, 1_452
MOST_REPEATED = 2
"""A download is tried so many times as often as runs are wanted."""
CASES: dict[str, tuple[str, dict[str, Any], int]] = {
    "`dumbbell`": ("dumbbell", {}, 100_000_000),
    "`leo-responsiveness`, run 1": ("leo-responsiveness", {"run": 1}, 100_000_000),
    "`geo-ideal`": ("geo-ideal", {}, 20_000_000),
}
"""Of each case: scenario, settings, and the stream window in bytes. The sender keeps twice as much."""
Run = dict[str, float]


def emulated(scenario: str, settings: dict[str, Any], window_bytes: int, controller: str) -> Run | None:
    """One download: goodput and mean RTT of the server; None if the client's socket lost packets."""
    own = ["--policy", str(checkpoint.SHIPPED / controller)]
    if controller.startswith("quinn-"):
        own = ["--controller", controller.removeprefix("quinn-")]
    begin = ["nice", "-n", "-20", str(PROGRAM)]
    with tempfile.TemporaryDirectory() as folder, TwoHosts(get(scenario, **settings, duration_s=SECONDS + 15)) as hosts:
        common = ["--certificate", f"{folder}/cert.der", "--mtu", str(MTU_BYTES)]
        listen = ["server", "--listen", f"{SENDER}:{PORT}", *common, *own, "--send-window", str(2 * window_bytes)]
        server = hosts.popen(SENDER, [*begin, *listen], stdout=subprocess.PIPE, text=True)
        assert server.stdout is not None
        try:
            server.stdout.readline()
            hosts.start()
            get_it = ["client", "--connect", f"{SENDER}:{PORT}", *common, "--seconds", str(SECONDS)]
            get_it += ["--stream-window", str(window_bytes)]
            client = hosts.popen(RECEIVER, [*begin, *get_it], stdout=subprocess.PIPE, text=True)
            received = client.communicate(timeout=SECONDS + 30)[0]
            told = server.stdout.readline()
            counters = subprocess.run(hosts.command(RECEIVER, "cat", "/proc/net/snmp"), capture_output=True, text=True)
        finally:
            server.kill()
            server.wait()
    names, values = (line.split() for line in counters.stdout.splitlines() if line.startswith("Udp:"))
    if int(dict(zip(names, values, strict=True))["RcvbufErrors"]):
        return None
    return {"goodput": _figure("goodput_mbps", received), "rtt": _figure("rtt_ms", told)}


def _figure(name: str, text: str) -> float:
    found = re.search(rf"{name}=([\d.]+)", text)
    if found is None:
        raise RuntimeError(f"no {name} in {text!r}")
    return float(found[1])


def simulated(scenario: str, settings: dict[str, Any], window_bytes: int, controller: str, seed: int) -> Run:
    """One flow, measured as a download is, from its first packet on.

    The data of a download begin half a round trip later: the server waits for the request, where the flow's own sender
    made the connection.
    """
    transport = {"kind": "quic", "stream_window_bytes": window_bytes, "send_window_bytes": 2 * window_bytes}
    flow = Flow.build({"controller": controller, "transport": transport})

    def over(duration_s: float) -> Recording:
        found = get(scenario, **settings, duration_s=duration_s).with_seed(seed).with_flows([flow])
        return simulate(found, record_interval_s=0.1)

    begun = over(3.0).flow_totals[0]
    recording = over(begun["start_s"] + SECONDS - begun["base_rtt_ms"] / 2e3)
    goodput = recording.flow_totals[0]["received_bytes"] * 8e-6 / SECONDS
    return {"goodput": goodput, "rtt": float(np.nanmean(recording.flows["srtt_ms"][:, 0]))}


def row(title: str, controller: str, real: Sequence[Run], ours: Sequence[Run]) -> str:
    def words(runs: Sequence[Run], name: str) -> str:
        values = [run[name] for run in runs]
        return f"{np.mean(values):.1f} ({min(values):.1f}–{max(values):.1f})"

    apart = np.mean([run["goodput"] for run in real]) / np.mean([run["goodput"] for run in ours]) - 1
    goodput, rtt = ([words(runs, name) for runs in (real, ours)] for name in ("goodput", "rtt"))
    cells = [title, controller, str(len(real)), *goodput, f"{100 * apart:+.1f} %", *rtt]
    return f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--controllers", nargs="+", default=["quinn-cubic", "quinn-newreno", "zenith"])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--page", type=Path)
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    stored = given.out / "runs.jsonl"
    runs = [json.loads(line) for line in stored.read_text().splitlines()] if stored.exists() else []
    rows = {}
    for title, (scenario, settings, window_bytes) in CASES.items():
        for controller in given.controllers:
            own = [run for run in runs if (run["case"], run["controller"]) == (title, controller)]
            while len(own) < MOST_REPEATED * given.repeats and sum(bool(r["run"]) for r in own) < given.repeats:
                done = emulated(scenario, settings, window_bytes, controller)
                own.append({"case": title, "controller": controller, "run": done})
                with stored.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(own[-1]) + "\n")
                print(title, controller, done or "the client's socket lost packets", flush=True)
            real = [run["run"] for run in own if run["run"]]
            ours = [simulated(scenario, settings, window_bytes, controller, seed) for seed in range(1, 6)]
            rows[title, controller] = row(title, controller, real, ours)
            print(rows[title, controller], flush=True)
    if given.page is not None:
        lines = between(given.page, "downloads").splitlines()
        cells = [line[2:].split(" | ") for line in lines]
        kept = [rows.pop((of[0], of[1]), line) for of, line in zip(cells, lines, strict=True)]
        replace(given.page, {"downloads": "\n".join([*kept, *rows.values()])})


if __name__ == "__main__":
    main()
