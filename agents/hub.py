"""Policies on the Hugging Face hub: `hf:OWNER/NAME[@REVISION]` wherever a checkpoint is accepted.

Only `card.json` and `policy.safetensors` are fetched, into the cache of huggingface_hub (`HF_HOME`), and read like any
checkpoint: JSON and numbers, with their digests. `HF_HUB_OFFLINE=1` uses the cache alone, `HF_ENDPOINT` another hub,
`HF_TOKEN` an account. `@REVISION` is a branch, a tag or a commit; without it, the newest version is taken. Where no hub
answers within ten seconds, the cache does, with a warning.
"""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec
from multiprocessing import parent_process
from pathlib import Path
from typing import Any

from orbitcc.agents.runs.folders import CARD, WEIGHTS
from orbitcc.common.errors import OrbitccError, OrbitccWarning, StateError
from orbitcc.common.extras import installing
from orbitcc.common.names import plain

PREFIX = "hf:"
_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
ANSWER_S = 10.0
"""A hub that says nothing for so long does not answer."""
MOST_BYTES = 64_000_000
"""A file of a policy is at most this large."""
OFFLINE = "OfflineModeIsEnabled"
"""What the library raises with `HF_HUB_OFFLINE=1`."""


def is_on_hub(name: str) -> bool:
    """Is this `hf:...`?"""
    return name.startswith(PREFIX)


def checked(repository: str) -> str:
    """The repository; OrbitccError if this is not OWNER/NAME."""
    if not _NAME.fullmatch(repository):
        raise OrbitccError("repository", repository, "OWNER/NAME")
    return repository


@cache
def download(name: str) -> Path:
    """The folder with the checkpoint `hf:OWNER/NAME[@REVISION]`, fetched if the cache lacks it; one version for the
    whole process.

    Raises:
        OrbitccError: huggingface_hub is not installed, there is no such repository or revision, it holds no checkpoint
            or large files, or the hub does not answer and the cache lacks it.
    """
    repository, _, revision = name.removeprefix(PREFIX).partition("@")
    library, files = _library(name), (CARD, WEIGHTS)
    wanted: dict[str, Any] = {"repo_id": checked(repository), "revision": revision or None}
    try:
        try:
            found = library.HfApi().model_info(**wanted, files_metadata=True, timeout=ANSWER_S)
        except Exception as error:
            if not _is_unreachable(error):
                raise
            try:
                kept = Path(library.snapshot_download(**wanted, allow_patterns=files, local_files_only=True))
            except FileNotFoundError:
                said = f"the hub does not answer ({type(error).__name__}) and the cache lacks it"
                raise StateError(f"policy {name}", said) from None
            if type(error).__name__ != OFFLINE and parent_process() is None:  # once, not in each worker
                text = f"{name}: the hub does not answer ({type(error).__name__}); this is commit {kept.name[:12]}, "
                warnings.warn(plain(text + "which the cache has"), OrbitccWarning, stacklevel=2)
            return kept
        sizes = {file.rfilename: file.size or 0 for file in found.siblings or ()}
        if missing := [file for file in files if file not in sizes]:
            raise OrbitccError("policy", name, f"a repository with {CARD} and {WEIGHTS} ({missing[0]} is missing)")
        if large := [file for file in files if sizes[file] > MOST_BYTES]:
            raise OrbitccError("policy", name, f"files of at most {MOST_BYTES / 1e6:g} MB ({large[0]} is larger)")
        return Path(library.snapshot_download(**wanted, allow_patterns=files))  # by name: the cache keeps it
    except Exception as error:  # of the library, of HTTP and of the file system
        raise _refused("policy", name, error) from None


def upload(repository: str, files: Mapping[str, bytes], *, private: bool) -> str:
    """Write these files as one commit, into a new repository if there is none; returns its address.

    Raises:
        OrbitccError: huggingface_hub is not installed, or the hub refuses.
    """
    library = _library(repository)
    try:
        interface = library.HfApi()
        _ask(interface, checked(repository))
        made = interface.create_repo(checked(repository), private=private, exist_ok=True)
        operations = [library.CommitOperationAdd(name, content) for name, content in files.items()]
        interface.create_commit(repository, operations, commit_message="Policy of OrbitCC")
    except Exception as error:
        raise _refused("repository", repository, error) from None
    return str(made)


def _ask(interface: Any, repository: str) -> None:
    """Whatever the library raises if the hub does not answer: what writes to it has no time limit."""
    try:
        interface.model_info(repository, timeout=ANSWER_S)
    except Exception as error:
        if _is_unreachable(error):
            raise


def _is_unreachable(error: Exception) -> bool:
    """Did the hub not answer? By name, because the library's HTTP client differs from version to version."""
    kinds = {OFFLINE, "TransportError", "ConnectionError", "Timeout", "TimeoutError"}
    return any(kind.__name__ in kinds for kind in type(error).__mro__)


def _library(name: str) -> Any:
    if find_spec("huggingface_hub") is None:
        raise OrbitccError("policy", name, f"with the library huggingface_hub: {installing('hub')}")
    import huggingface_hub

    if not sys.stderr.isatty():
        from huggingface_hub.utils import disable_progress_bars

        disable_progress_bars()
    return huggingface_hub


def _refused(field: str, name: str, error: Exception) -> OrbitccError:
    """One line for whatever the library raises."""
    if isinstance(error, OrbitccError):
        return error
    reason = " ".join(str(error).split())[:300] or type(error).__name__
    return StateError(f"{field} {name}", f"the hub did not do it: {type(error).__name__}: {reason}")
