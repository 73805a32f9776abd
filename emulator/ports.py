"""An emulated network between devices that exist: Python's end of the protocol in `sim/core/src/wire.rs`."""

from __future__ import annotations

import json
import struct
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orbitcc.common.errors import OrbitccError

_READ, _FINISH = 1, 3
_FLOW_WORDS, _LINK_WORDS = 32, 10


@dataclass(frozen=True)
class Carried:
    """What has passed: at_s from the start; payload of TCP and UDP that came out at the second place and at the first;
    packets that went in at the first place, and those of them that were lost; smoothed RTT (0: none yet), without the
    hosts; bytes in all queues that lead to the second place."""

    at_s: float
    payload_bytes: tuple[int, int]
    sent_packets: int
    lost_packets: int
    srtt_ms: float
    queue_bytes: int


class Ports:
    """A process of the emulator that carries packets between two devices; its clock starts now.

    Args:
        program: the emulator.
        network: a compiled network without flows, JSON text.
        places: `namespace` (a path) and `device` of each end.
        field: names the network in errors.

    Raises:
        OrbitccError: it does not start.
    """

    def __init__(self, program: str | Path, network: str, places: Sequence[Mapping[str, str]], field: str) -> None:
        self._field = field
        setup = f'{{"network": {network}, "ports": {json.dumps(list(places))}}}'.encode()
        # A session of its own: Ctrl-C in the terminal does not reach it.
        self._process = subprocess.Popen(
            [program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        )
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(struct.pack("<QQ", 0, len(setup)) + setup)
            self._process.stdin.flush()
            self._answer()
        except OSError as error:
            self.kill()
            raise OrbitccError(field, "emulated", f"an emulator that starts ({error})") from None
        except OrbitccError:
            self.kill()
            raise

    def read(self) -> Carried:
        """What has passed by now; OrbitccError if the emulator has ended."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(struct.pack("<QQQQ", _READ, 0, 0, 0))
            self._process.stdin.flush()
            answer = self._answer()
        except OSError as error:
            raise OrbitccError(self._field, "emulated", f"an emulator that runs ({error})") from None
        # As in `wire::pack`, `FlowReading::to_words` and `LinkReading::to_words`.
        _, at_ns, _, _, *words = struct.unpack(f"<{len(answer) // 8}Q", answer)
        flow, links = words[:_FLOW_WORDS], words[_FLOW_WORDS:]
        return Carried(at_ns / 1e9, (flow[1], flow[31]), flow[2], flow[4], flow[11] / 1e3, sum(links[5::_LINK_WORDS]))

    def finish(self) -> dict[str, Any] | None:
        """Stop, and report how punctual it was; None if it was killed."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(struct.pack("<QQQQ", _FINISH, 0, 0, 0))
            self._process.stdin.close()
            return dict(json.loads(self._answer())["links"])
        except (OSError, ValueError):
            return None
        finally:
            self.kill()

    def kill(self) -> None:
        """Stop at once."""
        self._process.kill()
        self._process.wait()

    def _answer(self) -> bytes:
        assert self._process.stdout is not None
        head = self._process.stdout.read(16)
        if len(head) < 16:
            raise OSError("it has ended by itself")
        failed, size = struct.unpack("<QQ", head)
        text = self._process.stdout.read(size)
        if failed:
            raise OrbitccError(self._field, "emulated", text.decode())
        return text
