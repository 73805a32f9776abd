"""Speed of the simulator compared with ns-3 on this machine: `python -m benches.ns3`.

It needs g++ and Debian's package of ns-3 (libns3-dev). The targets were set on another machine; the times of ns-3 there
and here give the ratio of the machines' speeds.
"""

from __future__ import annotations

import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from orbitcc.commands import bench

SOURCE = Path(__file__).with_name("ns3_bulk.cc")
MODULES = ("core", "network", "internet", "point-to-point", "applications", "traffic-control")
REFERENCE_NS = {"dumbbell": 23_200.0, "hosts": 14_100.0}
"""Time per packet of ns-3.37 on the machine on which the targets of docs/performance.md were set."""
SECONDS = 20
REPEATS = 3


def built(folder: Path, source: Path = SOURCE) -> Path:
    """Build a program with ns-3; exit with a message if a tool is missing."""
    compiler = shutil.which("g++")
    if compiler is None:
        sys.exit("error: g++ is not installed")
    program = folder / source.stem
    libraries = [f"-lns3-{module}" for module in MODULES]
    done = subprocess.run(
        [compiler, "-O2", str(source), "-o", str(program), "-Wl,--no-as-needed", *libraries],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        sys.exit(f"error: ns-3 (libns3-dev) is not installed: {done.stderr.splitlines()[0]}")
    return program


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        program = built(Path(folder))
        taken = {}
        for topology, reference in REFERENCE_NS.items():
            runs = [subprocess.check_output([program, str(SECONDS), topology], text=True) for _ in range(REPEATS)]
            taken[topology] = statistics.median(float(run.split()[0]) for run in runs)
            print(
                f"ns-3, {topology}: {taken[topology]:,.0f} ns/packet, {taken[topology] / reference:.2f} times the "
                "time on the machine of the targets"
            )
    slower = statistics.mean(taken[topology] / reference for topology, reference in REFERENCE_NS.items())
    for row in bench.PACKET_ROWS:
        result = row([])
        print(
            f"{result.what}: {result.value:.0f} {result.unit}, 1/{taken['dumbbell'] / result.value:.0f} of ns-3; "
            f"scaled to the machine of the targets {result.value / slower:.0f} (target {result.target:g})"
        )


if __name__ == "__main__":
    main()
