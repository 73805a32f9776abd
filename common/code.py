"""Code that a user names as `package.module:attribute`: policies, logbooks, scenarios, suites and papers.

Only the command line and Python programs may name code or a download; :func:`from_file` refuses such names in files.
"""

from __future__ import annotations

import importlib
import inspect
import os
import re
import sys
import traceback
from pathlib import Path
from typing import Any

from orbitcc.common.errors import OrbitccError, UnknownNameError

PREFIXES = ("hf:", "rllib:", "sb3:")
"""Policies that are downloaded (:mod:`orbitcc.agents.hub`), or whose files can run code
(:mod:`orbitcc.agents.libraries`)."""
RAISED = (Exception, SystemExit)
"""What code of somebody else may raise and a command reports: `sys.exit()` in it is no end of the command."""
_NAME = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*")


def is_code(name: str) -> bool:
    """Is this `package.module:attribute`?"""
    return _NAME.fullmatch(name) is not None


def names_code(policy: str) -> bool:
    """Does the name of a policy stand for code or a download, which no file may name?"""
    return policy.startswith(PREFIXES) or is_code(policy)


def from_file(field: str, policy: str, instead: str = "") -> str:
    """The name of a policy that a file gives; `instead` says what to do where that is refused.

    Raises:
        OrbitccError: about `field`; only the command line and Python programs may give this name.
    """
    if names_code(policy):
        allowed = f"the folder or the name of a checkpoint: a file cannot name code or a download{instead}"
        raise OrbitccError(field, policy, allowed)
    return policy


def module(field: str, name: str) -> Any:
    """The module of `package.module:attribute`; the working directory is searched first.

    Raises:
        OrbitccError: about `field`; it cannot be imported.
    """
    here = os.getcwd()
    if here not in sys.path:  # a console script does not look where it was called
        sys.path.insert(0, here)
    try:
        return importlib.import_module(name.partition(":")[0])
    except RAISED as error:
        raise refused(field, name, "package.module:attribute of a module that can be imported", error) from error


def attribute(field: str, name: str) -> Any:
    """The object `package.module:attribute`.

    Raises:
        OrbitccError: about `field`; there is no such module or attribute.
    """
    if not is_code(name):
        raise OrbitccError(field, name, "package.module:attribute")
    found = module(field, name)
    try:
        return getattr(found, name.partition(":")[2])
    except AttributeError:
        own = [key for key, value in vars(found).items() if getattr(value, "__module__", "") == found.__name__]
        raise UnknownNameError(field, name, [f"{found.__name__}:{key}" for key in own]) from None


def takes(found: Any, *arguments: Any) -> bool:
    """Can this be called with these arguments?"""
    try:
        inspect.signature(found).bind(*arguments)
    except (TypeError, ValueError):
        return False
    return True


def refused(field: str, name: str, allowed: str, error: BaseException) -> OrbitccError:
    """One line for what somebody else's code raised, with its file and line."""
    frames = traceback.extract_tb(error.__traceback__)
    theirs = [f for f in frames if "importlib" not in f.filename and f"{os.sep}orbitcc{os.sep}" not in f.filename]
    where = f", {Path(theirs[-1].filename).name} line {theirs[-1].lineno}" if theirs else ""
    return OrbitccError(field, name, f"{allowed} ({type(error).__name__}: {error}{where})")
