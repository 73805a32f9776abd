"""Policies in the kernel beside the simulator and the emulator: the table and the picture of docs/deploying.md.

    python -m benches.deployed results/deployed [--repeats 5] [--seconds 20] [--policies NAME ...] [--picture]
        [--sockets N] [--docs docs]

Deploys each policy (as root), and downloads with `curl` from a Python HTTP server over the emulated links of each case.
The same policy runs in the simulator with arithmetic = fixed, and in the emulator from outside (`--backend emulator`).
Finished runs are stored in OUT/runs.jsonl and not repeated. Lines of the page without runs in OUT stay. `--picture`
instead downloads over a LEO path under Cubic, BBR and the deployed policy. `--sockets` instead sends over N sockets at
once for a minute, and prints the counters.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benches import pictures
from benches.pages import between, replace
from benches.sim_to_real import CASES, FIGURES, Case, compared, compared_heads
from orbitcc.agents import checkpoint, deployment
from orbitcc.emulator.two_hosts import RECEIVER, SENDER, TwoHosts
from orbitcc.envs import backends
from orbitcc.envs.scenarios import get

CHOSEN = (*(f"leo-responsiveness, run {run}" for run in (1, 2, 3)), "geo-ideal", "dumbbell", "dumbbell, two flows")
SIDES = ("simulator", "agent", "deployed")
PORT = 8000
SERVER = """
import http.server, json, socket, struct, sys, threading, time

class Zeros(http.server.BaseHTTPRequestHandler):
    # Sends zeros for some seconds, and reads TCP_INFO (include/uapi/linux/tcp.h) every 10 ms meanwhile.
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        seconds = float(sys.argv[2])
        began, rows = time.monotonic(), []
        def sample():
            while time.monotonic() - began < seconds:
                info = self.connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 232)
                srtt_us, = struct.unpack_from("I", info, 68)
                again, = struct.unpack_from("I", info, 100)
                acked, = struct.unpack_from("Q", info, 120)
                rows.append((time.monotonic() - began, acked, srtt_us, again))
                time.sleep(0.01)
        sampler = threading.Thread(target=sample)
        sampler.start()
        self.connection.settimeout(1.0)
        zeros = bytes(1 << 16)
        while time.monotonic() - began < seconds:
            try:
                self.connection.send(zeros)
            except TimeoutError:
                pass
            except OSError:
                break
        sampler.join()
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        sys.stdout.write(json.dumps({"port": self.client_address[1], "rows": rows}) + "\\n")
        sys.stdout.flush()
    def log_message(self, *words):
        pass

server = http.server.ThreadingHTTPServer((sys.argv[1], 8000), Zeros)
print(flush=True)
server.serve_forever()
"""
SENDERS = """
import resource, selectors, socket, sys, time
count, seconds = int(sys.argv[3]), float(sys.argv[4])
resource.setrlimit(resource.RLIMIT_NOFILE, (count + 100, count + 100))
links, ready = [], selectors.DefaultSelector()
for _ in range(count):
    link = socket.socket()
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, sys.argv[1].encode())
    link.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 16)
    link.setblocking(False)
    link.connect_ex((sys.argv[2], 8000))
    ready.register(link, selectors.EVENT_WRITE)
    links.append(link)
began, zeros = time.monotonic(), bytes(1 << 14)
while time.monotonic() - began < seconds:
    for key, _ in ready.select(0.1):
        try:
            key.fileobj.send(zeros)
        except BlockingIOError:
            pass
for link in links:
    link.close()
"""
RECEIVERS = """
import resource, selectors, socket, sys
count = int(sys.argv[2])
resource.setrlimit(resource.RLIMIT_NOFILE, (count + 100, count + 100))
server, ready = socket.create_server((sys.argv[1], 8000), backlog=4096), selectors.DefaultSelector()
open_links = got = 0
ready.register(server, selectors.EVENT_READ)
print(flush=True)
accepted = 0
while (accepted < count or open_links) and (events := ready.select(10.0)):
    for key, _ in events:
        if key.fileobj is server:
            ready.register(server.accept()[0], selectors.EVENT_READ)
            accepted, open_links = accepted + 1, open_links + 1
        else:
            data = key.fileobj.recv(1 << 16)
            got += len(data)
            if not data:
                ready.unregister(key.fileobj)
                key.fileobj.close()
                open_links -= 1
print(got, flush=True)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--policies", nargs="*", help="default: those of each case")
    parser.add_argument("--picture", action="store_true")
    parser.add_argument("--sockets", type=int)
    parser.add_argument("--docs", type=Path)
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    if given.sockets:
        many(given.sockets, 60.0)
        return
    if given.picture:
        picture(given.out, given.docs)
        return
    store = given.out / "runs.jsonl"
    rows = [json.loads(line) for line in store.read_text(encoding="utf-8").splitlines()] if store.exists() else []
    cases = [case for case in CASES if case.name in CHOSEN]
    done = {(row["case"], row["policy"], row["side"], row["seed"]) for row in rows}
    for seed in range(1, given.repeats + 1):
        for case in cases:
            for policy in policies(case):
                for side in SIDES:
                    chosen = given.policies is None or policy in given.policies
                    if not chosen or (case.name, policy, side, seed) in done:
                        continue
                    load = os.getloadavg()[0]
                    figures = run(case, policy, side, given.seconds, seed)
                    row = {"case": case.name, "policy": policy, "side": side, "seed": seed, **figures, "load": load}
                    print(row, flush=True)
                    rows.append(row)
                    with store.open("a") as file:
                        file.write(json.dumps(row) + "\n")
    page = given.docs / "deploying.md" if given.docs is not None else None
    table = "\n".join(lines(rows, cases, written(page) if page is not None else {}))
    print(table)
    if page is not None:
        replace(page, {"deployed": table})


def policies(case: Case) -> tuple[str, ...]:
    """The policies of a case."""
    if case.name == "geo-ideal":
        return ("perigee", "apogee")
    return ("perigee",) if case.shown else ("perigee", "zenith")


def run(case: Case, policy: str, side: str, seconds: float, seed: int) -> dict[str, float]:
    """The figures of the first flow."""
    if side == "deployed":
        return downloaded(case, policy, seconds, seed)[0]
    text = f"{policy}:arithmetic=fixed" if side == "simulator" else policy
    backend = "simulator" if side == "simulator" else "emulator"
    totals = backends.runner(backend)(case.made(text, seconds, seed), record_interval_s=0.5).flow_totals
    return {figure: float(totals[0][figure]) for figure in FIGURES}


def downloaded(case: Case, policy: str, seconds: float, seed: int) -> list[dict[str, float]]:
    """The same figures of downloads by curl, with the policy in the kernel."""
    scenario = case.made("cubic", seconds + 10.0, seed)
    name = f"b{os.getpid():x}"
    loaded = checkpoint.load(policy)
    deployment.deploy(name, deployment.make_object(loaded, name, None))
    try:
        flows = download(TwoHosts(scenario), name, seconds, len(scenario.flows))
        fallbacks = next(row["fallbacks"] for row in deployment.deployed() if row["name"] == name)
    finally:
        deployment.undeploy(name)
    if fallbacks:
        raise SystemExit(f"{case.name}: {fallbacks} flows fell back to Cubic")
    return [figures(rows, seconds) for rows in flows]


def figures(rows: np.ndarray, seconds: float) -> dict[str, float]:
    """Goodput, mean and 95th percentile of the smoothed RTT, and retransmissions, from samples of TCP_INFO."""
    # What is acknowledged half an RTT later has been received now.
    goodput = np.interp(seconds + rows[:, 2].min() / 2e6, rows[:, 0], rows[:, 1]) * 8e-6 / seconds
    rows = rows[rows[:, 0] <= seconds]
    srtt_ms = rows[:, 2] / 1e3
    p95 = float(np.sort(srtt_ms)[min(int(0.95 * len(srtt_ms)), len(srtt_ms) - 1)])
    return dict(zip(FIGURES, (float(goodput), float(srtt_ms.mean()), p95, float(rows[-1, 3])), strict=True))


def download(hosts: TwoHosts, controller: str, seconds: float, flows: int = 1) -> list[np.ndarray]:
    """Download with curl from a Python HTTP server under a congestion control, several times at once: for each flow a
    row per 10 ms with the time in s, the bytes acknowledged, the smoothed RTT in us, and the retransmissions."""
    with hosts:
        hosts.set_controller(controller)
        words = ["nice", "-n", "-20", sys.executable, "-c", SERVER, SENDER, str(seconds + 0.5)]
        server = hosts.popen(SENDER, words, stdout=subprocess.PIPE, text=True)
        try:
            server.stdout.readline()
            hosts.start()
            get_it = ["nice", "-n", "-20", "curl", "-s", "-o", "/dev/null", f"http://{SENDER}:{PORT}/"]
            clients = [hosts.popen(RECEIVER, get_it) for _ in range(flows)]
            told = [json.loads(server.stdout.readline()) for _ in range(flows)]
            for client in clients:
                client.wait(30)
        finally:
            server.kill()
            server.wait()
    return [np.array(one["rows"]) for one in sorted(told, key=lambda one: one["port"])]


def written(page: Path) -> dict[tuple[str, str], list[str]]:
    """The lines of a page, by case and policy."""
    known: dict[tuple[str, str], list[str]] = {}
    for line in between(page, "deployed").splitlines()[2:]:
        cells = [cell.strip() for cell in line.split("|")]
        known.setdefault((cells[1], cells[2]), []).append(line)
    return known


def lines(
    rows: Sequence[dict[str, Any]], cases: Sequence[Case], known: Mapping[tuple[str, str], Sequence[str]]
) -> Iterator[str]:
    """The table: what is deployed beside the simulator; known lines where there are no runs."""
    heads = ["case", "policy", "runs", *compared_heads("deployed", "simulator")]
    yield f"| {' | '.join(heads)} |"
    yield "|---" * len(heads) + "|"
    for case in cases:
        title = f"{case.name} ({case.shown})" if case.shown else case.name
        for policy in policies(case):
            of = {s: [r for r in rows if (r["case"], r["policy"], r["side"]) == (case.name, policy, s)] for s in SIDES}
            if not all(of.values()):
                yield from known.get((title, policy), ())
                continue
            cells = compared(of["deployed"], of["simulator"])
            yield f"| {title} | {policy} | {len(of['deployed'])} | {' | '.join(cells)} |"


def many(count: int, seconds: float) -> None:
    """Send over many sockets at once; print the counters at the end, and what the kernel has logged meanwhile."""
    name, scenario = f"b{os.getpid():x}", get("dumbbell", rate_mbps=200.0, base_rtt_ms=40.0, duration_s=10 * seconds)
    logged = len(subprocess.run(["dmesg"], capture_output=True, text=True).stdout.splitlines())
    deployment.deploy(name, deployment.make_object(checkpoint.load("perigee"), name, None))
    try:
        with TwoHosts(scenario) as hosts:
            words = [sys.executable, "-c", RECEIVERS, RECEIVER, str(count)]
            receiver = hosts.popen(RECEIVER, words, stdout=subprocess.PIPE, text=True)
            receiver.stdout.readline()
            hosts.start()
            sender = hosts.popen(SENDER, [sys.executable, "-c", SENDERS, name, RECEIVER, str(count), str(seconds)])
            sender.wait()
            print(f"{int(receiver.stdout.readline()) * 8e-6 / seconds:.1f} Mbit/s in all")
            time.sleep(5.0)  # sockets end with their hosts or, later, by timers, and are freed after a grace period
        print(next(row for row in deployment.deployed() if row["name"] == name))
    finally:
        deployment.undeploy(name)
    print("kernel log:", subprocess.run(["dmesg"], capture_output=True, text=True).stdout.splitlines()[logged:])


def picture(out: Path, docs: Path | None) -> None:
    """A download by curl over a LEO path under the kernel's Cubic and BBR and under a deployed policy."""
    from matplotlib.figure import Figure

    seconds, step = 45.0, 0.5
    scenario = get("leo-responsiveness", run=2, duration_s=seconds + 10.0).override("sim.kernel", "v6_12")
    name = f"b{os.getpid():x}"
    deployment.deploy(name, deployment.make_object(checkpoint.load("perigee"), name, None))
    figure = Figure(figsize=(8.0, 4.4), layout="constrained")
    rates, rtts = figure.subplots(2, 1, sharex=True)
    try:
        for controller, label, colour in (
            ("cubic", "Cubic of the kernel", "#c0392b"),
            ("bbr", "BBR of the kernel", "#999999"),
            (name, "perigee, deployed", "#1f5fa8"),
        ):
            path = out / f"picture-{label.split()[0].rstrip(',').lower()}.npy"
            if not path.exists():
                np.save(path, download(TwoHosts(scenario), controller, seconds)[0])
            rows = np.load(path)
            edges = np.arange(0.0, seconds, step)
            acked = np.interp(edges, rows[:, 0], rows[:, 1])
            mean = f"{rows[-1, 1] * 8e-6 / seconds:.0f} Mbit/s, {rows[:, 2].mean() / 1e3:.0f} ms"
            rates.plot(edges[1:], np.diff(acked) * 8e-6 / step, color=colour, linewidth=1.4, label=f"{label}: {mean}")
            rtts.plot(rows[:, 0], rows[:, 2] / 1e3, color=colour, linewidth=1.2)
    finally:
        deployment.undeploy(name)
    rates.set_ylabel("goodput, Mbit/s")
    rates.set_ylim(bottom=0)
    figure.legend(*rates.get_legend_handles_labels(), frameon=False, fontsize=8, loc="outside upper center", ncols=3)
    rtts.set_ylabel("smoothed RTT, ms")
    rtts.set_ylim(bottom=0)
    rtts.set_xlim(0, seconds)
    rtts.set_xlabel("time, s")
    folder = docs / "images" if docs is not None else out
    pictures.write(figure, folder / "deployed-download.png", max_bytes=80_000)


if __name__ == "__main__":
    main()
