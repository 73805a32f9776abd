"""The command as the shell sees it."""

import contextlib
import io
import os
import subprocess
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from unittest import mock

from orbitcc.cli import main


def orbitcc(*args: str, **kwargs: Any) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "orbitcc.cli", *args], capture_output=True, text=True, timeout=120, check=False, **kwargs
    )


def called(
    *args: str, cwd: Path | None = None, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """The command in this process, which spares the second that a new one imports for."""
    out, err, code = io.StringIO(), io.StringIO(), 0
    with contextlib.ExitStack() as stack:
        stack.enter_context(mock.patch.object(sys, "argv", ["orbitcc", *args]))
        stack.enter_context(mock.patch.dict(os.environ, env or {}))
        stack.enter_context(contextlib.chdir(cwd or Path.cwd()))
        stack.enter_context(contextlib.redirect_stdout(out))
        stack.enter_context(contextlib.redirect_stderr(err))
        try:
            main()
        except SystemExit as stop:
            code = int(stop.code or 0)
        except Exception:  # as the interpreter would end
            traceback.print_exc()
            code = 1
    return subprocess.CompletedProcess(args, code, out.getvalue(), err.getvalue())
