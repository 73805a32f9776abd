"""Figures of docs/cluster.md: runs on one-core nodes of this machine, and the driver's own limit.

    python -m benches.cluster nodes [--runs 50]
    python -m benches.cluster driver [--cells 100000]

`nodes` runs a suite with 1 and 2 local workers, then on clusters of 1, 2 and 4 nodes with a core each. `driver` runs
cells that do nothing, as many at once as on 1,000 cores, and stores a row for each as an evaluation does.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from orbitcc.eval import cluster, contenders, results, suites
from orbitcc.eval.runner import run_suite

NODES = (1, 2, 4)
CORES = 1_000
"""Of the cluster that `driver` pretends to have."""
ROW = {
    "suite": "responsiveness", "scenario": "0123456789ab", "point": {}, "seed": 1, "contender": "cubic",
    "controller": "cubic", "params": {}, "version": "0.1.0+sim.01234567",
    "metrics": dict.fromkeys("abcdefgh", 0.123456),
    "elapsed_s": 0.0,
}  # fmt: skip


def main(argv: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["nodes", "driver"])
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--cells", type=int, default=100_000)
    arguments = parser.parse_args(argv)
    if arguments.what == "nodes":
        for workers in NODES[:2]:
            print(f"{workers} local workers: {_suite(arguments.runs, workers, workers=workers)}", flush=True)
        for nodes in NODES:
            with _Nodes(nodes) as address, cluster.joined(address):
                print(f"{nodes} nodes of one core: {_suite(arguments.runs, nodes, ray=address)}", flush=True)
    else:
        with _Nodes(1) as address, cluster.joined(address):
            _driver(arguments.cells)


class _Nodes:
    """A cluster on this machine: a head without cores and nodes of one core."""

    def __init__(self, nodes: int) -> None:
        cluster.ray_module()
        from ray.cluster_utils import Cluster

        self._made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
        for _ in range(nodes):
            self._made.add_node(num_cpus=1)

    def __enter__(self) -> str:
        return str(self._made.address)

    def __exit__(self, *_: object) -> None:
        self._made.shutdown()


def _suite(runs: int, processes: int, **how: object) -> str:
    """The time of a suite, with the start of workers, and the share of it in which the processes were in runs."""
    line_up = contenders.line_up(["cubic", "bbr3", "hybla", "vivace"], [])
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        made = run_suite(suites.get("responsiveness"), line_up, out_dir=folder, runs=runs, quiet=True, **how)  # type: ignore[arg-type]
        took = time.perf_counter() - began
    busy = sum(row["elapsed_s"] for row in made.rows) / processes
    return f"{took:.1f} s, of which {busy / took:.0%} in runs"


def _driver(cells: int) -> None:
    cluster.cores = lambda: CORES  # type: ignore[assignment]
    with tempfile.TemporaryDirectory(dir=".") as folder, (Path(folder) / results.RUNS).open("ab") as file:
        for store in (False, True):
            before, began = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
            for _, _ in cluster.tasks(int, range(cells), str):
                if store:
                    results.append(file, ROW)
            took, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_SELF)
            cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            how = "stored" if store else "not stored"
            print(f"{cells} cells, {how}: {cells / took:,.0f} per s, {1e6 * cpu / cells:.0f} us CPU of the driver each")
    print(json.dumps({"cores of this machine": os.cpu_count(), "memory of the driver, MB": after.ru_maxrss / 1e3}))


if __name__ == "__main__":
    main(sys.argv[1:])
