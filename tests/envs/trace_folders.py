"""Small folders in the layouts of published data sets, whose contents are known."""

import atexit
import functools
import shutil
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np

from orbitcc.envs.traces.importing import import_set


def imported(layout: str, folder: Path, out: Path, licence: str | None = None) -> str:
    """The file of a set, whose import left nothing out."""
    apply = lambda function, items, name: enumerate(map(function, items))  # noqa: E731
    found, unreadable = import_set(layout, folder, out, apply, lambda *_: None, licence)
    assert unreadable == []
    return found.path


@functools.cache
def shared() -> str:
    """A set of four places with 20 traces each, for all tests of this process."""
    folder = Path(tempfile.mkdtemp(prefix="orbitcc-traces-"))
    atexit.register(shutil.rmtree, folder)
    return imported("leocc", leocc(folder / "traces", "ABCD", 20), folder / "set.npz")


def leocc(folder: Path, places: str = "ABC", traces: int = 10, seconds: int = 20) -> Path:
    """PLACE/N/: one opportunity per ms (12 Mbit/s), five from 10.00 to 10.01 s, none from 12.0 to 12.1 s.

    The delay is 20 ms before the middle, then 30 ms, and N ms more.
    """
    for place in places:
        for n in range(1, traces + 1):
            made = folder / place / str(n)
            made.mkdir(parents=True)
            each = np.ones(1000 * seconds, dtype=int)
            each[10_000:10_010], each[12_000:12_100] = 5, 0
            delays = np.where(np.arange(100 * seconds) < 50 * seconds, 20, 30) + n
            _lines(made / f"bw_{n}.txt", np.repeat(np.arange(each.size), each))
            _lines(made / f"delay_{n}.txt", delays)
        (folder / place / f"{place}_statistics.txt").write_text("percentiles\n")
    return folder


def ping(path: Path, probes: int, rtt_ms: float = 50.0, apart_s: float = 0.1, lost: tuple[int, ...] = ()) -> None:
    """`ping -D`: probe k is sent k intervals after the first; those of `lost` have no answer."""
    path.parent.mkdir(parents=True, exist_ok=True)
    start_s = 1_700_000_000.0
    lines = [
        f"[{start_s + k * apart_s + rtt_ms / 1e3:.6f}] 64 bytes from 192.0.2.1: icmp_seq={k + 1} ttl=63 "
        f"time={rtt_ms:g} ms"
        for k in range(probes)
        if k not in lost
    ]
    path.write_text("\n".join(lines) + "\n")


def lens(folder: Path, probes: int = 6_500) -> Path:
    """Three hours of two places: probes 100 to 104 (10.0 to 10.4 s) and probe 2000 are lost."""
    for place, rtt_ms in (("seattle", 50.0), ("kanazawa", 80.0)):
        for hour in range(3):
            name = f"ping-192.0.2.1-10ms-1h-2024-01-20-0{hour}-00-00.txt"
            there = folder / "inside-out" / "active" / place / "2024-01-20"
            ping(there / name, probes, rtt_ms, lost=(100, 101, 102, 103, 104, 2000))
    (folder / "README.md").write_text("LENS\n")
    return folder


def wetlinks(folder: Path, tests: int = 45) -> Path:
    """Two sites: tests of 15 s, one every 180 s, the rate of second s of each is 100 + s (up: 10) Mbit/s; RTT 40 ms."""
    for site in ("Enschede", "Osnabrück"):
        there = folder / "Raw_Data" / site
        there.mkdir(parents=True)
        at = datetime(2024, 3, 1, tzinfo=UTC)
        rows = ["site_name,timestamp_start,timestamp_end,server,ip_protocol,transport_protocol,download,upload"]
        pings = [
            "site_name,timestamp_start,timestamp_end,target,ip_protocol,packet_loss,packets_send,ping_avg,ping_worst,"
            "ping_best,ping_stddev"
        ]
        for k in range(tests):
            start = at + timedelta(seconds=180 * k)
            for s in range(15):
                t = [(start + timedelta(seconds=s + d)).isoformat() for d in (0, 1)]
                rows.append(f"{site},{t[0]},{t[1]},s,ipv4,udp,{(100 + s) * 1e6},10000000.0")
            t = [(start + timedelta(seconds=30 + d)).isoformat() for d in (0, 10)]
            pings.append(f"{site},{t[0]},{t[1]},s,ipv4,1.0,100,45,60,40,3")
        (there / "net_iperf.csv").write_text("\n".join(rows) + "\n")
        (there / "net_ping.csv").write_text("\n".join(pings) + "\n")
    return folder


def mahimahi(folder: Path, pairs: int = 4) -> Path:
    """12 Mbit/s down and 1.2 Mbit/s up for 6 s, as NAME.down and NAME.up, and one pair with -downlink and -uplink."""
    folder.mkdir(parents=True)
    for k in range(pairs):
        down, up = (f"X{k}.down", f"X{k}.up") if k else ("X-downlink.rec", "X-uplink.rec")
        _lines(folder / down, np.arange(1, 6_001 + k))
        _lines(folder / up, np.arange(10, 6_001, 10))
    return folder


def _lines(path: Path, numbers: np.ndarray) -> None:
    path.write_text("\n".join(map(str, numbers.tolist())) + "\n")
