"""State on disk that cannot carry code: plain values as JSON, their arrays as safetensors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from orbitcc.common.errors import FileError
from orbitcc.common.files import MOST_STATE, MOST_TABLE, open_regular, parse_json, read_text


def write(folder: Path, name: str, value: Any) -> None:
    """Write `name.json` and, for its arrays and tensors, `name.safetensors` into an existing folder.

    value: dicts, lists, tuples, text, numbers, booleans, None, NumPy arrays and torch tensors, nested at will.

    Raises:
        OSError: the files cannot be written.
    """
    arrays: dict[str, Any] = {}
    text = json.dumps(_encoded(value, arrays), separators=(",", ":"))
    (folder / f"{name}.json").write_text(text, encoding="utf-8")
    try:
        save_file(arrays, folder / f"{name}.safetensors")
    except SafetensorError as error:
        raise OSError(str(error)) from None


def read(folder: Path, name: str) -> Any:
    """The value that :func:`write` wrote, with equal types.

    Raises:
        OrbitccError: a file is missing, truncated or of another kind.
    """
    path = folder / f"{name}.json"
    try:
        data = parse_json(read_text(path, MOST_TABLE), own=True)
        path = folder / f"{name}.safetensors"
        with open_regular(path, MOST_STATE):  # the library would wait for a pipe
            arrays = load_file(path)
        path = folder / f"{name}.json"
        return _decoded(data, arrays)
    except FileError as error:
        raise FileError("resume", str(path), f"a complete file of a run's state ({error.allowed})") from None
    except (OSError, ValueError, KeyError, IndexError, TypeError, RecursionError, SafetensorError) as error:
        raise FileError("resume", str(path), f"a complete file of a run's state ({error})") from None


def _encoded(value: Any, arrays: dict[str, Any]) -> Any:
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, list):
        return [_encoded(item, arrays) for item in value]
    if isinstance(value, tuple):
        return {"tuple": [_encoded(item, arrays) for item in value]}
    if isinstance(value, dict):
        return {"dict": [[_encoded(key, arrays), _encoded(item, arrays)] for key, item in value.items()]}
    if isinstance(value, np.generic):
        return value.item()
    kind = "array" if isinstance(value, np.ndarray) else "tensor"
    key = str(len(arrays))
    arrays[key] = np.asarray(value if kind == "array" else value.detach().cpu().numpy(), order="C")
    return {kind: key}


def _decoded(value: Any, arrays: dict[str, Any]) -> Any:
    if isinstance(value, list):
        return [_decoded(item, arrays) for item in value]
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    if kind == "tuple":
        return tuple(_decoded(item, arrays) for item in content)
    if kind == "dict":
        return {_decoded(key, arrays): _decoded(item, arrays) for key, item in content}
    if kind == "array":
        return arrays[content]
    if kind == "tensor":
        import torch

        return torch.from_numpy(arrays[content])
    raise ValueError(f"unknown kind of value {kind!r}")
