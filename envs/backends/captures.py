"""Captures of simulated runs as files that other tools open: pcap (Wireshark, tshark) and qlog (qvis)."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, Self

from orbitcc.common.errors import FileError, OrbitccError
from orbitcc.common.files import set_usual_mode

if TYPE_CHECKING:
    from orbitcc._sim import Simulation
    from orbitcc.envs.description.flows import Flow
    from orbitcc.envs.description.scenario import Scenario

QLOG_VERSION = "0.3"


class Captures:
    """Files that grow with a run under temporary names and get their own names when it is complete.

    pcap: packets of all flows as their sending hosts see them, IPv4 with the payload cut off. Simulated time 0 is 1,000
    s in the file: the handshake of a flow comes before its first segment.
    Not for flows of QUIC.
    qlog: one trace per TCP flow, JSON of qlog 0.3; packet numbers count the flow's segments in the order of sending. Of
    flows of QUIC quinn's own traces, of both sides.

    Use as a context manager; FileError when a file cannot be written.
    """

    def __init__(
        self,
        scenario: Scenario,
        pcap: str | os.PathLike[str] | None = None,
        qlog: str | os.PathLike[str] | None = None,
    ) -> None:
        quic = [flow.name for flow in scenario.flows if flow.transport is not None]
        if pcap is not None and quic:
            raise OrbitccError("--pcap", str(pcap), f"a run without flows of QUIC ({quic[0]}); --qlog logs them")
        self._scenario = scenario
        self._pcap = None if pcap is None else Path(pcap)
        self._qlog = None if qlog is None else Path(qlog)
        self._packets: IO[bytes] | None = None
        self._logs: list[IO[bytes]] = []

    @property
    def wanted(self) -> bool:
        return self._pcap is not None or self._qlog is not None

    def __enter__(self) -> Self:
        try:
            self._open()
        except BaseException:
            self._close()
            raise
        return self

    def _open(self) -> None:
        from orbitcc._sim import Simulation

        if self._pcap is not None:
            self._packets = _temporary(self._pcap)
            self._packets.write(Simulation.pcap_header())
        if self._qlog is not None:
            folder = self._qlog.absolute().parent
            with _file_errors(self._qlog):
                folder.mkdir(parents=True, exist_ok=True)
                for _ in 2 * self._scenario.flows:  # of senders, then of receivers
                    self._logs.append(tempfile.TemporaryFile(dir=folder))  # noqa: SIM115

    def take(self, simulation: Simulation) -> None:
        """Append what has passed since the last call."""
        packets, logs = simulation.take_captured()
        if self._pcap is not None and self._packets is not None:
            with _file_errors(self._pcap):
                self._packets.write(packets)
        if self._qlog is not None:
            with _file_errors(self._qlog):
                for file, text in zip(self._logs, logs, strict=True):
                    file.write(text)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None and self._pcap is not None and self._packets is not None:
                _publish(self._packets, self._pcap)
            if kind is None and self._qlog is not None:
                self._join(self._qlog)
        finally:
            self._close()

    def _close(self) -> None:
        for file in filter(None, (self._packets, *self._logs)):
            with contextlib.suppress(OSError):  # a full disk, which has been reported
                file.close()
            with contextlib.suppress(OSError, TypeError):  # a nameless file has a number for a name
                os.unlink(Path(file.name))

    def _join(self, path: Path) -> None:
        out = _temporary(path)
        try:
            with _file_errors(path):
                head = {"qlog_version": QLOG_VERSION, "qlog_format": "JSON", "title": self._scenario.name}
                out.write(json.dumps(head)[:-1].encode() + b', "traces": [')
                first = True
                vantage = [(flow, side) for side in ("sender", "receiver") for flow in self._scenario.flows]
                for (flow, side), log in zip(vantage, self._logs, strict=True):
                    if log.tell() == 0:  # not TCP, or never begun
                        continue
                    out.write(
                        (b"" if first else b",\n") + json.dumps(_trace(flow, side))[:-1].encode() + b', "events": [\n'
                    )
                    log.seek(0)
                    separator = b""
                    for line in log:
                        out.write(separator + line.rstrip(b"\n"))
                        separator = b",\n"
                    out.write(b"\n]}")
                    first = False
                out.write(b"]}\n")
            _publish(out, path)
        finally:
            with contextlib.suppress(OSError):
                out.close()
            with contextlib.suppress(FileNotFoundError):
                os.unlink(out.name)


def _trace(flow: Flow, side: str) -> dict[str, Any]:
    protocol = "TCP" if flow.transport is None else "QUIC"
    return {
        "title": f"{flow.name} ({flow.controller})",
        "vantage_point": {"name": f"{side} of {flow.name}", "type": "client" if side == "sender" else "server"},
        "common_fields": {"protocol_type": [protocol], "time_format": "relative", "reference_time": 0},
    }


def _temporary(path: Path) -> IO[bytes]:
    with _file_errors(path):
        path.absolute().parent.mkdir(parents=True, exist_ok=True)
        return tempfile.NamedTemporaryFile(
            dir=path.absolute().parent, prefix=f".{path.name}.", suffix=".tmp", delete=False
        )
    raise AssertionError


def _publish(file: IO[bytes], path: Path) -> None:
    with _file_errors(path):
        file.flush()
        os.fsync(file.fileno())
        set_usual_mode(file.fileno())
        os.replace(file.name, path)


@contextlib.contextmanager
def _file_errors(path: Path) -> Any:
    try:
        yield
    except OSError as error:
        raise FileError("file", str(path), f"a writable place ({error.strerror or error})") from None
