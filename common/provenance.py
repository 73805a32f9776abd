"""The code and the command that made a result."""

from __future__ import annotations

import hashlib
import inspect
import os
import platform
import shlex
import sys
from functools import cache
from importlib import metadata
from pathlib import Path

import orbitcc


@cache
def version() -> str:
    """`<version>+sim.<8 hex digits>` of the native simulator and of what describes, plays and measures worlds.

    Results of different builds never mix.
    """
    from orbitcc import _sim

    native = hashlib.sha256(Path(str(_sim.__file__)).read_bytes()).hexdigest()
    build = hashlib.sha256((native + code(*MEASURING)).encode()).hexdigest()[:8]
    return f"{metadata.version('orbitcc')}+sim.{build}"


MEASURING = ("agents", "baselines", "envs", "eval")
"""The subpackages on which results depend."""


@cache
def code(*parts: str) -> str:
    """8 hex digits of this package's Python files and tables, or of these subpackages'."""
    root, digest = Path(str(orbitcc.__file__)).parent, hashlib.sha256()
    found = [
        Path(folder) / name
        for start in ([root / part for part in parts] or [root])
        for folder, _, names in os.walk(start, followlinks=True)
        for name in names
    ]
    for path in sorted(path for path in found if path.suffix in (".py", ".toml")):
        digest.update(f"{path.relative_to(root)}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()[:8]


def source(of: type) -> str:
    """8 hex digits of the file of a class, where that is not part of this package; else empty."""
    path = inspect.getsourcefile(of)
    if path is None or of.__module__.partition(".")[0] == "orbitcc":
        return ""
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()[:8]


def versions() -> dict[str, str]:
    """The facts that a reader needs to repeat the result."""
    return {
        "orbitcc": version(),
        "python": platform.python_version(),
        "numpy": metadata.version("numpy"),
        "scipy": metadata.version("scipy"),
        "platform": f"{platform.system()} {platform.machine()}",
    }


def command_line() -> str:
    """The command line of this process."""
    return shlex.join(["orbitcc", *sys.argv[1:]])
