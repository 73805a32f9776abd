"""Runs a stranger's policy in a process of its own, which answers observations with actions through a pipe.

The simulator and all that measures stay in this process. The other one holds no world, and after :func:`_confined` it
can neither read nor write files, start processes nor reach a network, as far as its kernel refuses that. It is a new
copy of a waiting process in every run, so that a run leaves nothing to the next one.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import sysconfig
import tempfile
import time
import tokenize
import types
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from orbitcc import _sim
from orbitcc.agents import confinement
from orbitcc.common.errors import OrbitccError, StateError
from orbitcc.common.files import parse_json
from orbitcc.common.names import plain
from orbitcc.envs.environments.presets import STATISTICS, Native, Preset

FACTORY = "make"
"""The function that a candidate's file defines: a factory as of every policy in Python."""
DECISION_S, START_S, RUN_S = 2.0, 10.0, 600
"""A decision, the start of a process or of a candidate, and a run take at most so long."""
MEMORY_BYTES, PRINTED_BYTES = 1 << 30, 1 << 20
MOST_PACKETS = 100_000.0
"""The largest window that a candidate may ask for: 12 Gbit/s at 100 ms."""
_TEXT = 1 << 16
_MODULE = "candidate"
_ANSWER = struct.Struct("=cdd")
_CONFINED, _READY, _ACTION, _CONTROL, _FAULT, _ENDED = b"P", b"R", b"A", b"C", b"F", b"E"
_HIDDEN = np.array([statistic.source == "oracle" for statistic in STATISTICS])
"""Statistics that only a simulator knows; a candidate sees NaN."""
_LOOKS = ("open", "os.listdir", "os.scandir")
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_FORBIDDEN = (
    "_thread.start", "ctypes.", "gc.get_", "os.chmod", "os.chown", "os.exec", "os.fork", "os.kill", "os.link",
    "os.mkdir", "os.posix_spawn", "os.remove", "os.rename", "os.rmdir", "os.symlink", "os.system", "os.truncate",
    "pty.", "resource.", "shutil.", "signal.", "socket.", "subprocess.",
)  # fmt: skip
"""Audit events of what no policy needs."""
PROTECTIONS = ("network", "files", "calls")


class CandidateError(StateError):
    """What a candidate did wrong, as a sentence."""


class OutOfTimeError(Exception):
    """The time for a whole score is over; not the candidate's fault."""


class Sandbox:
    """One process for candidates, which runs one world after another. Close it after an error.

    protections: what of `PROTECTIONS` the kernel granted in the run last begun. decisions: how many it made. audits:
    what the kernel would refuse is noticed before, and ends the run with a reason, whatever the candidate catches.
    """

    audits = True

    def __init__(self) -> None:
        self._printed = tempfile.TemporaryFile()  # noqa: SIM115  (open as long as the process)
        plain_path = {"PYTHONPATH": os.pathsep.join(p or os.getcwd() for p in sys.path), "PYTHONUTF8": "1"}
        threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        self._control, theirs = socket.socketpair()
        self._control.settimeout(RUN_S)
        self._process = subprocess.Popen(
            [sys.executable, "-c", f"from orbitcc.agents.sandbox import serve; serve({theirs.fileno()})"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._printed, bufsize=0,
            env={**plain_path, **threads}, cwd="/", start_new_session=True, pass_fds=[theirs.fileno()],
        )  # fmt: skip
        theirs.close()
        requests, answers = self._process.stdin, self._process.stdout
        assert requests is not None
        assert answers is not None
        self._to, self._from = requests.fileno(), answers.fileno()
        os.set_blocking(self._to, False)
        self.protections: dict[str, bool] = {}
        self.decisions = 0
        self._until = float("inf")

    def begin(self, source: str, name: str, until: float = float("inf")) -> _sim.PythonPolicy:
        """Start a run: the policy that `source`, the text of the file `name`, makes, for one world.

        until: when to give up, on the clock of `time.monotonic`.

        Raises:
            CandidateError: it cannot be made, now or in a decision of the simulation.
            OutOfTimeError: it is too late.
        """
        self._until = until
        text = json.dumps([source, name, self.audits]).encode()
        with suppress(BrokenPipeError, ConnectionResetError):  # the answer says why
            self._control.sendall(struct.pack("=I", len(text)) + text)
        try:  # said before any of the candidate's code runs
            kind, granted, _ = self._answer(RUN_S)
        except CandidateError as error:
            raise StateError("sandbox", f"the process for candidates does not start: {error.sentence}") from None
        if kind == _ENDED:
            raise StateError("sandbox", "the process for candidates does not start: it ended")
        if kind != _CONFINED:
            raise self._unexpected(kind, granted)
        self.protections = {name: bool(int(granted) >> k & 1) for k, name in enumerate(PROTECTIONS)}
        kind, size, _ = self._answer(START_S)
        if kind != _READY:
            raise self._unexpected(kind, size)
        try:
            about = parse_json(self._text(size))
            preset = Preset(
                "candidate",
                observation=Native.of("observation", parse_json(about["observation"])),
                action=Native.of("action", parse_json(about["action"])),
                interval_ms=about["interval"][0],
                interval_rtts=about["interval"][1],
                interval_least_ms=about["interval"][2],
                safety_filter=about["safety_filter"] and parse_json(about["safety_filter"]),
            ).for_deployment()
        except (ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
            raise CandidateError("candidate", f"its preset cannot be used: {plain(error)[:300]}") from None
        observation, action = preset.native("observation"), preset.native("action")
        if any("handover" in label for label in observation.definition("observation")["labels"]):
            raise CandidateError("candidate", f"it observes handovers, which only a simulator knows ({observation})")
        return _sim.PythonPolicy(
            lambda: self._decide,
            observation=observation.json(),
            action=action.json(),
            interval_ns=preset.interval_ns,
            interval_rtts=preset.interval_rtts,
            interval_least_ns=preset.interval_least_ns,
            safety_filter=preset.limits,
        )

    def end(self) -> None:
        """End the run. Raises CandidateError for answers that nobody asked for, and a process that does not end."""
        self._send(struct.pack("=iI", -1, 0))
        kind, size, _ = self._answer(START_S)
        if kind != _ENDED or size != 0:
            raise self._unexpected(kind, size)

    def close(self) -> None:
        """Kill the process and what runs in it."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._printed, self._control):
            with suppress(OSError):
                stream.close()  # type: ignore[union-attr]

    def _decide(self, flow: int, obs: NDArray[np.float32], stats: NDArray[np.float64]) -> float | tuple[float, float]:
        stats[_HIDDEN] = np.nan
        self._send(struct.pack("=iI", flow, obs.size) + obs.tobytes() + stats.tobytes())
        kind, first, second = self._answer(DECISION_S)
        self.decisions += 1
        if kind == _ACTION and np.isfinite(first):
            return first
        if kind == _CONTROL and 0 <= first <= MOST_PACKETS and 0 <= second < np.inf:
            return first, second
        if kind == _CONTROL:
            allowed = f"windows of 0 to {MOST_PACKETS:g} packets and finite pacing rates"
            raise CandidateError(
                "candidate", f"it asked for {first:g} packets and {second:g} bit/s; allowed: {allowed}"
            )
        raise self._unexpected(kind, first)

    def _send(self, data: bytes) -> None:
        end = time.monotonic() + DECISION_S
        with suppress(BrokenPipeError):  # the answer says why
            while data:
                self._wait(end, DECISION_S, (self._to, select.POLLOUT))
                data = data[os.write(self._to, data) :]

    def _answer(self, within_s: float) -> tuple[bytes, float, float]:
        """What the candidate's process says, or `_ENDED`, which the process that waits for it says elsewhere."""
        control = self._control.fileno()
        ready = self._wait(time.monotonic() + within_s, within_s, (self._from, select.POLLIN), (control, select.POLLIN))
        if self._from in ready:
            kind, first, second = _ANSWER.unpack(self._read(_ANSWER.size, within_s))
            return b"" if kind == _ENDED else kind, first, second
        try:
            said = os.read(control, _ANSWER.size)
        except ConnectionResetError:  # it ended before it had read everything
            said = b""
        return _ANSWER.unpack(said) if said else (_ENDED, 0.0, 0.0)

    def _text(self, size: float) -> str:
        return self._read(int(min(max(size, 0), _TEXT)) if size == size else 0, START_S).decode("utf-8", "replace")

    def _read(self, size: int, within_s: float) -> bytes:
        data, end = b"", time.monotonic() + within_s
        while len(data) < size:
            self._wait(end, within_s, (self._from, select.POLLIN))
            part = os.read(self._from, size - len(data))
            if not part:
                raise CandidateError("candidate", "its process ended")
            data += part
        return data

    def _wait(self, end: float, within_s: float, *descriptors: tuple[int, int]) -> list[int]:
        """Those of the descriptors that are ready."""
        poll, left = select.poll(), min(end, self._until) - time.monotonic()
        for descriptor in descriptors:
            poll.register(*descriptor)
        if ready := [descriptor for descriptor, _ in poll.poll(1000 * left)] if left > 0 else []:
            return ready
        if self._until < end:
            raise OutOfTimeError
        raise CandidateError("candidate", f"no answer within {within_s:g} s")

    def _unexpected(self, kind: bytes, number: float) -> CandidateError:
        if kind == _FAULT:
            return CandidateError("candidate", plain(self._text(number))[:500])
        if kind == _ENDED:
            code = int(number) if abs(number) < 1e6 else -1
            signals = {s.value for s in signal.Signals}
            how = f"was killed by {signal.Signals(-code).name}" if -code in signals else f"ended with status {code}"
            return CandidateError("candidate", f"its process {how} in a run")
        return CandidateError("candidate", "it sent something else than an action through the pipe")


# -- in the other process ---------------------------------------------------------------------------------------------


def serve(control: int) -> NoReturn:
    """Wait for runs, and make a copy of this process for each; until the other end of the socket `control` closes.

    The copy closes the socket, so that no candidate can say that its run has ended, or read the next run's source.
    """
    requests, answers = os.dup(0), os.dup(1)
    with open(os.devnull) as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)
    from orbitcc.agents import python_policy  # noqa: F401  (what a candidate needs is read before it may not be)

    network = confinement.own_network()
    while True:
        size = _received(control, 4, os._exit)
        source, name, audits = json.loads(_received(control, struct.unpack("=I", size)[0], os._exit))
        while select.select([requests], [], [], 0)[0] and os.read(requests, _TEXT):
            pass  # what the last run did not read
        with suppress(OSError):
            os.ftruncate(1, 0)
            os.lseek(1, 0, 0)
        lives, held = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(control)
            _run(requests, answers, source, name, network, audits)
        os.close(held)
        signal.alarm(RUN_S)  # kills this process, and with it the run
        ends = select.poll()
        ends.register(lives, 0)
        ends.register(control, 0)
        ends.poll()
        os.kill(child, signal.SIGKILL)  # the caller is gone, or the copy has ended (it keeps its status) or hides that
        _, status = os.waitpid(child, 0)
        os.close(lives)
        signal.alarm(0)
        os.write(control, _ANSWER.pack(_ENDED, os.waitstatus_to_exitcode(status), 0.0))


def _received(requests: int, size: int, ended: Any) -> bytes:
    data = b""
    while len(data) < size:
        part = os.read(requests, size - len(data))
        if not part:
            ended(0)
        data += part
    return data


def _confined(network: bool) -> tuple[bool, bool, bool]:
    """Give up what a policy does not need; says which of `PROTECTIONS` this kernel has."""
    confinement.end_with_parent()
    confinement.limit(MEMORY_BYTES, RUN_S, PRINTED_BYTES)
    files = confinement.read_only(_readable())
    calls = confinement.few_calls()
    return network or calls, files, calls


def _readable() -> set[str]:
    """The folders of the interpreter and of numpy."""
    numpy = Path(np.__file__).parent
    folders = [sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"), str(numpy), f"{numpy}.libs"]
    return {folder for folder in folders if os.path.isdir(folder)}


def _trespass(event: str, arguments: tuple[Any, ...], readable: set[str]) -> str:
    """What a candidate does that none needs, by Python's audit events; empty: nothing."""
    if event in _LOOKS:
        path = arguments[0]
        reads = event != "open" or (arguments[1] or "r").strip("bt") == "r" or not arguments[2] & _WRITES
        known = isinstance(path, int) or any(os.path.abspath(os.fsdecode(path)).startswith(f) for f in readable)
        return "" if reads and known else f"{event} {path}"
    return event if event.startswith(_FORBIDDEN) else ""


def _parts() -> dict[tuple[str, str], int]:
    """Every name in the modules of the project and of numpy, and which object it stands for."""
    ours = {name: module for name, module in list(sys.modules.items()) if name.split(".")[0] in ("orbitcc", "numpy")}
    return {(name, key): id(value) for name, module in ours.items() for key, value in list(vars(module).items())}


def _run(requests: int, answers: int, source: str, name: str, network: bool, audits: bool) -> NoReturn:
    """Answer one run's observations; whatever the candidate raises is a fault."""
    from orbitcc.agents.python_policy import Run

    def say(kind: bytes, text: str) -> None:
        data = text.encode("utf-8", "replace")[: _TEXT // 2]
        os.write(answers, _ANSWER.pack(kind, len(data), 0.0) + data)

    try:
        granted = sum(1 << k for k, given in enumerate(_confined(network)) if given)
        os.write(answers, _ANSWER.pack(_CONFINED, granted, 0.0))
        module = types.ModuleType(_MODULE)
        module.__file__ = name
        sys.modules[_MODULE] = module
        code = compile(source, name, "exec")
        parts, readable = _parts(), _readable()

        def watch(event: str, arguments: tuple[Any, ...]) -> None:
            if what := _trespass(event, arguments, readable):
                frame = sys._getframe(1)
                if frame.f_code.co_filename == tokenize.__file__:  # a traceback wants the text of a line
                    return
                say(_FAULT, f"it may not do this: {what}")
                os._exit(0)

        if audits:
            sys.addaudithook(watch)
        exec(code, module.__dict__)
        run = Run(f"{_MODULE}:{FACTORY}")
        preset = run.preset
        native = {kind: preset.native(kind).json() for kind in ("observation", "action")}
        say(_READY, json.dumps({**native, "interval": preset.interval, "safety_filter": preset.limits}))
        width = 8 * len(STATISTICS)
        while True:
            flow, size = struct.unpack("=iI", _received(requests, 8, os._exit))
            if flow < 0:
                now = _parts() if audits else parts
                if changed := [".".join(part) for part, which in parts.items() if now.get(part) != which]:
                    say(_FAULT, f"it changed {changed[0]}")
                os._exit(0)
            data = _received(requests, 4 * size + width, os._exit)
            stats = np.frombuffer(data, np.float64, len(STATISTICS), 4 * size).copy()
            decided = run.decide(flow, np.frombuffer(data, np.float32, size).copy(), stats)
            answer = (_CONTROL, *decided) if isinstance(decided, tuple) else (_ACTION, decided, 0.0)
            os.write(answers, _ANSWER.pack(*answer))
    except BaseException as error:  # SystemExit, too
        cause = error.__cause__ if isinstance(error, OrbitccError) and error.__cause__ else error
        say(_FAULT, str(cause) if isinstance(cause, OrbitccError) else _where(cause, name))
    os._exit(0)


def _where(error: BaseException, name: str) -> str:
    """Kind, text and the candidate's line of what it raised."""
    line, step = getattr(error, "lineno", None), error.__traceback__
    while step is not None:
        line = step.tb_lineno if step.tb_frame.f_code.co_filename == name else line
        step = step.tb_next
    at = f" (line {line})" if line else ""
    return f"{type(error).__name__}: {error}"[:400] + at
