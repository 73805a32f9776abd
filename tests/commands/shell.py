"""The command as the shell sees it."""

import subprocess
import sys
from typing import Any


def orbitcc(*args: str, **kwargs: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "orbitcc.cli", *args], capture_output=True, text=True, timeout=120, check=False, **kwargs
    )
