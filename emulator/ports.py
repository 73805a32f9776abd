"""An emulated network between devices that exist: Python's end of the protocol in `sim/core/src/wire.rs`."""

from __future__ import annotations

import json
import struct
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from orbitcc.common.errors import OrbitccError

_FINISH = 3


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
