"""The code and the command that made a result."""

from __future__ import annotations

import hashlib
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
    """`<version>+sim.<8 hex digits of the native simulator's file>`: results of different builds never mix."""
    from orbitcc import _sim

    build = hashlib.sha256(Path(str(_sim.__file__)).read_bytes()).hexdigest()[:8]
    return f"{metadata.version('orbitcc')}+sim.{build}"


@cache
def code() -> str:
    """8 hex digits of this package's Python files and tables, for what has to run the same code elsewhere."""
    root, digest = Path(str(orbitcc.__file__)).parent, hashlib.sha256()
    found = [Path(folder) / name for folder, _, names in os.walk(root, followlinks=True) for name in names]
    for path in sorted(path for path in found if path.suffix in (".py", ".toml")):
        digest.update(f"{path.relative_to(root)}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()[:8]


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
