"""The seal of a folder: a digest of every file, and a signature that only its owner's key can make.

The digests find damage. The signature is for state that other libraries store as pickles, which run code when they are
loaded: it shows that this user has saved them. The key is a file in the user's own configuration folder.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
import secrets
import tempfile
from pathlib import Path

from orbitcc.common.errors import FileError, OrbitccError, StateError
from orbitcc.common.files import MOST_STATE, open_regular, parse_json, read_bytes, read_text

SEAL = "seal.json"


def key_file() -> Path:
    """`orbitcc/key` in `$XDG_CONFIG_HOME`, by default `~/.config`."""
    base = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    return Path(base).expanduser() / "orbitcc" / "key"


def seal(folder: Path) -> None:
    """Write `seal.json` with the digests of all other files and, where a key can be had, the signature."""
    files = _digests(folder)
    data = {"files": files, "signature": _signature(files, make=True)}
    (folder / SEAL).write_text(json.dumps(data, separators=(",", ":")), encoding="utf-8")


def check(folder: Path) -> None:
    """Check that every file is as it was when the folder was sealed.

    Raises:
        OrbitccError: a file is missing, damaged, or was added.
    """
    stored, _ = _stored(folder)
    found = _digests(folder)
    for name in sorted({*stored, *found}):
        if name not in found:
            raise FileError("resume", str(folder / name), "a file of a run's state (it is missing)")
        if stored.get(name) != found[name]:
            reason = "it is damaged" if name in stored else f"it is not in {SEAL}"
            raise FileError("resume", str(folder / name), f"a file as it was saved ({reason})")


def check_owner(folder: Path, name: str) -> None:
    """Check that this user has sealed the folder; its files are checked by :func:`check`.

    name: of the run, for the message.

    Raises:
        OrbitccError: another user did, or another key.
    """
    files, signature = _stored(folder)
    own = _signature(files, make=False)
    if not own or not hmac.compare_digest(own.encode(), signature.encode()):
        raise StateError(
            "resume",
            f"the state of {name} holds pickled objects, which can run code, and was not saved with your key "
            f"({key_file()}); if you trust whoever wrote it: --trust {name}",
        )


def _stored(folder: Path) -> tuple[dict[str, str], str]:
    path = folder / SEAL
    try:
        data = parse_json(read_text(path))
        files, signature = data["files"], data["signature"]
        if not isinstance(files, dict) or not all(isinstance(text, str) for text in (*files.values(), signature)):
            raise ValueError("digests must be text")
    except OrbitccError as error:
        raise FileError("resume", str(path), f"the digests of a run's state ({error.allowed})") from None
    except (ValueError, KeyError, TypeError) as error:
        raise FileError("resume", str(path), f"the digests of a run's state ({error})") from None
    return files, signature


def _digests(folder: Path) -> dict[str, str]:
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path != folder / SEAL:
            with open_regular(path, MOST_STATE) as file:
                found[path.relative_to(folder).as_posix()] = hashlib.file_digest(file, "sha256").hexdigest()
    return found


def _signature(files: dict[str, str], make: bool) -> str:
    """The signature of these digests; empty without a key. make: make the key if there is none."""
    key = _key(make)
    return hmac.new(key, json.dumps(files, sort_keys=True).encode(), "sha256").hexdigest() if key else ""


def _key(make: bool) -> bytes:
    path = key_file()
    try:
        return read_bytes(path)
    except OrbitccError:
        if not make:
            return b""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, fresh = tempfile.mkstemp(dir=path.parent)  # only its owner may read it
        with os.fdopen(handle, "wb") as file:
            file.write(secrets.token_hex(32).encode())
        with contextlib.suppress(FileExistsError):  # another process has just made one
            os.link(fresh, path)
        os.unlink(fresh)
        return read_bytes(path)
    except (OSError, OrbitccError):
        return b""
