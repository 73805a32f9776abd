"""The native program that holds namespaces, links and sockets: where it is, and what it can do."""

import json
import os
import shutil
import subprocess
from functools import lru_cache
from pathlib import Path
from typing import Any

NAME = "orbitcc-emulator"
REMEDY = "make emulator (in a source tree of OrbitCC; needs cargo)"


def find() -> Path | None:
    """The program beside the package, as `make emulator` puts it, or else on the PATH."""
    import orbitcc

    beside = Path(orbitcc.__file__).with_name(NAME)
    if os.access(beside, os.X_OK):
        return beside
    found = shutil.which(NAME)
    return Path(found) if found else None


@lru_cache(maxsize=4)
def abilities(path: Path) -> dict[str, Any]:
    """What the program says of itself: `version`, and whether `agents` are built in; empty if it does not run."""
    try:
        done = subprocess.run([path, "probe"], capture_output=True, text=True, timeout=10, check=True)
        return dict(json.loads(done.stdout))
    except (OSError, subprocess.SubprocessError, ValueError):
        return {}
