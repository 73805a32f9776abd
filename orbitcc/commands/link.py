"""`orbitcc link`: a shell, or a command, behind an emulated path."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orbitcc.commands.options import Changes, complete_scenario

if TYPE_CHECKING:
    from orbitcc.emulator.ports import Carried
    from orbitcc.emulator.two_hosts import TwoHosts

DAY_S = 86_400.0
EVERY_S = 0.5
PATIENCE_S = 10.0


def link(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[SCENARIO] [-- COMMAND...]",
            help="A name from `orbitcc list scenarios`, or a TOML file; none with traces. Default of COMMAND: $SHELL.",
            autocompletion=complete_scenario,
        ),
    ] = None,
    uplink: Annotated[Path | None, typer.Option(help="Trace of Mahimahi for what the command sends.")] = None,
    downlink: Annotated[Path | None, typer.Option(help="Trace of Mahimahi for what it receives.")] = None,
    delay_ms: Annotated[float, typer.Option("--delay-ms", help="One-way delay, with traces.")] = 0.0,
    server: Annotated[str | None, typer.Option(help="Run this command at the far end meanwhile.")] = None,
    changes: Changes = None,
    seed: Annotated[int | None, typer.Option(help="Seed of losses and jitter. Default: the scenario's.")] = None,
) -> None:
    """Open a shell behind an emulated path, or run a command there. orbitcc ends with its exit code.

    The far end of the path is a network namespace with the address $MAHIMAHI_BASE. Nothing else can be reached.
    """
    from orbitcc.commands.run import prepare, seeded, settings
    from orbitcc.common.errors import MissingError, OrbitccError, StateError
    from orbitcc.emulator import needs
    from orbitcc.emulator.programs import shell_words
    from orbitcc.emulator.two_hosts import TwoHosts
    from orbitcc.envs.fitting.replay import of_mahimahi

    words = list(words or [])
    for text in changes or []:
        if text.partition("=")[0].strip() == "duration_s":
            raise OrbitccError("--set", text, "other fields: the path lasts as long as the command")
    if uplink is None and downlink is None:
        if not words:
            raise MissingError("SCENARIO")
        if delay_ms:
            raise OrbitccError("--delay-ms", delay_ms, "a path of --uplink and --downlink")
        chosen = prepare(words.pop(0), ["cubic"], [], changes or [], seed)
    elif uplink is None or downlink is None:
        raise MissingError("--uplink" if uplink is None else "--downlink")
    else:
        chosen = of_mahimahi(downlink, uplink, delay_ms)
        for key, value in settings(changes or []).items():
            chosen = chosen.override(key, value)
        chosen = seeded(chosen, seed)
    command = words or [os.environ.get("SHELL", "/bin/sh")]
    if shutil.which(command[0]) is None:
        raise OrbitccError("COMMAND", command[0], "a command that this machine has")
    far = [] if server is None else shell_words(server, "--server")
    if not needs.is_real_root():
        raise StateError("link", "it needs root of the machine, to make network namespaces")
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    with TwoHosts(chosen.changed(duration_s=DAY_S)) as hosts:
        code = _run(hosts, command, far, live=bool(words))
    raise typer.Exit(code)


def _run(hosts: TwoHosts, command: list[str], far: list[str], *, live: bool) -> int:
    """Run the command while the clock of the links runs; its exit code as a shell gives it."""
    from orbitcc.emulator.two_hosts import RECEIVER, SENDER

    hosts.default_route(RECEIVER, SENDER)
    if far:
        _serve(hosts, far)
    hosts.start()
    far_end = f"the far end is {SENDER} (ip netns exec {hosts.names[0]} COMMAND)"
    print(f"link: this is {RECEIVER}; {far_end}", file=sys.stderr, flush=True)
    program = hosts.popen(RECEIVER, command, env={**os.environ, "MAHIMAHI_BASE": SENDER})
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it is for the command
    last = first = hosts.read()
    while program.poll() is None:
        try:
            program.wait(EVERY_S)
        except subprocess.TimeoutExpired:
            now = hosts.read()
            if sys.stderr.isatty():  # a shell has the screen to itself: the title of its window shows the line
                sys.stderr.write(f"\r\033[K{_line(last, now)}" if live else f"\033]0;{_line(last, now)}\007")
                sys.stderr.flush()
            last = now
    total = _line(first, hosts.read())
    print(("\r\033[K" if sys.stderr.isatty() and live else "") + f"link: {total}", file=sys.stderr, flush=True)
    return program.returncode if program.returncode >= 0 else 128 - program.returncode


def _serve(hosts: TwoHosts, command: list[str]) -> None:
    """Start the server, whose output goes to stderr, and wait until it listens."""
    from orbitcc.common.errors import StateError
    from orbitcc.emulator.two_hosts import SENDER

    started: subprocess.Popen[Any] = hosts.popen(SENDER, command, stdin=subprocess.DEVNULL, stdout=sys.stderr.fileno())
    deadline = time.monotonic() + PATIENCE_S
    while not hosts.listens(SENDER):
        if started.poll() is not None:
            raise StateError("--server", f"it ended before it listened, with exit code {started.returncode}")
        if time.monotonic() > deadline:
            raise StateError("--server", f"it does not listen at any port after {PATIENCE_S:g} s")
        time.sleep(0.05)


def _line(before: Carried, now: Carried) -> str:
    """Rates of IP payload since `before`; the queue, losses and RTT."""
    span_s = max(now.at_s - before.at_s, 1e-9)
    down, up = (8e-6 * (b - a) / span_s for a, b in zip(before.payload_bytes, now.payload_bytes, strict=True))
    rtt = f"RTT {now.srtt_ms:.1f} ms" if now.srtt_ms else "no RTT yet"
    queue = f"queue {now.queue_bytes / 1e3:.1f} kB, {now.lost_packets} packets lost of {now.sent_packets} down"
    return f"{now.at_s:.1f} s, down {down:.2f} Mbit/s, up {up:.2f} Mbit/s, {rtt}, {queue}"
