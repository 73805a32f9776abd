"""The checkpoint format: a folder with `policy.safetensors` and `card.json`.

Loading reads these two files and nothing else; neither can carry code. The card holds digests of both files, which are
compared whenever they are read.
"""

import contextlib
import hashlib
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Self

import numpy as np
from pydantic import ValidationError
from safetensors import SafetensorError
from safetensors.numpy import load as load_tensors
from safetensors.numpy import save as save_tensors

from orbitcc import _sim
from orbitcc.agents import hub
from orbitcc.agents.libraries import suggestion
from orbitcc.agents.model_card import CardAction, CardObservation, ModelCard
from orbitcc.agents.policy import Tensors, build, mismatch
from orbitcc.agents.runs.folders import BEST, CONFIG, SENT, replace_folder, scratch
from orbitcc.agents.runs.folders import CARD as CARD
from orbitcc.agents.runs.folders import SHIPPED as SHIPPED
from orbitcc.agents.runs.folders import WEIGHTS as WEIGHTS
from orbitcc.agents.runs.folders import shipped as shipped
from orbitcc.common.errors import FileError, NoSuchFileError, OrbitccError, UnknownNameError
from orbitcc.common.files import MOST_TABLE, MOST_TEXT, atomic_write_bytes, read_bytes
from orbitcc.common.names import plain
from orbitcc.envs.environments.presets import PRESETS, Native, Preset, definition_hash, preset

PREFERENCE = "delay-preference"
"""The feature that tells a policy how much delay counts."""
_LOOKS = 100
"""How often a checkpoint is read that is being replaced meanwhile."""
_Stamps = tuple[tuple[int, int, int], ...]
_NO_DIGEST, _END = b"0" * 64, b'"\n}\n'


class CheckpointError(FileError):
    """A checkpoint that cannot be used; the message names the file and the reason."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__("checkpoint", str(path), f"a folder with {WEIGHTS} and {CARD}, as `orbitcc train` writes it")
        self.path, self.reason = path, reason
        self.args = (plain(f"checkpoint {path}: {reason}; allowed: {self.allowed}"),)

    def at(self, field: str) -> Self:
        """The error itself, because it names the file."""
        return self

    def __reduce__(self) -> tuple[type, tuple[Path, str]]:
        return type(self), (self.path, self.reason)


class UnknownPolicyError(UnknownNameError):
    """A name that is no shipped policy; the message names the other forms."""

    kind = "policy"

    def _message(self) -> str:
        return super()._message().removesuffix(")") + ", a checkpoint's folder, or package.module:factory)"


@dataclass(frozen=True)
class Checkpoint:
    """A policy that can act, its model card and its weights."""

    card: ModelCard
    policy: _sim.Policy
    path: Path
    tensors: Tensors

    @property
    def preset(self) -> Preset:
        """Observation, action, interval and safety filter of the policy: `CongestionEnv(..., preset=loaded.preset)`."""
        seen, done = self.card.observation, self.card.action
        return preset(
            {
                "base": seen.preset if seen.preset in PRESETS else "astraea",
                "observation": {"name": seen.preset, **seen.parameters},
                "action": {"name": done.preset, **done.parameters},
                "interval_ms": self.card.interval_ms,
                "interval_rtts": self.card.interval_rtts,
                "interval_least_ms": self.card.interval_least_ms,
                "clock": self.card.clock,
                "safety_filter": self.card.safety_filter,
            }
        )


def resolve(name_or_path: str | Path) -> Path:
    """The folder of a checkpoint: a shipped name, `hf:OWNER/NAME` (:mod:`orbitcc.agents.hub`), or a path to the folder,
    to one of its files, or to the folder of a run, which stands for the `best/` in it.

    Raises:
        OrbitccError: neither a shipped name nor an existing path, a run that has no `best/` yet, or nothing on the hub.
    """
    text = str(name_or_path)
    if text in shipped():
        return SHIPPED / text
    if text in SENT:
        return SENT[text]
    if hub.is_on_hub(text):
        return hub.download(text)
    try:
        path = Path(text).expanduser()
        (path / WEIGHTS).exists()
    except (OSError, RuntimeError, ValueError) as error:  # no such home directory, a name that is too long
        raise CheckpointError(Path(text), str(error)) from None
    if path.name in (WEIGHTS, CARD) and path.exists():
        return path.parent
    if text and (path / CONFIG).is_file() and not (path / CARD).is_file():
        path = path / BEST
    if not (path / CARD).exists() and (meant := suggestion(path)):
        raise OrbitccError("policy", text, f"{meant} for a policy in the files of another library")
    if text and path.is_dir():
        return path
    if path.name == BEST and (path.parent / CONFIG).is_file():
        raise CheckpointError(path, _unfinished(path.parent))
    if text and path.exists():
        raise CheckpointError(path, "is a file")
    if "/" in text:
        raise CheckpointError(path, "does not exist")
    raise UnknownPolicyError("policy", text, shipped(), "orbitcc list policies")


def _unfinished(run: Path) -> str:
    """Why a run has no `best/`."""
    return f"does not exist: nothing was evaluated in this run, `orbitcc train {run} --resume` goes on"


def load(name_or_path: str | Path) -> Checkpoint:
    """Read and check a checkpoint.

    Raises:
        OrbitccError: unknown name, missing, damaged or foreign file, tensors that do not fit the card, or an
            observation or action this version does not have or defines differently.
    """
    folder = resolve(name_or_path).resolve()
    return _load(folder, _stamps(folder))


def read_card(folder: Path) -> ModelCard:
    """The model card alone.

    Raises:
        OrbitccError: it is missing, is no model card, or was changed after it was written.
    """
    return _sealed_card(folder, _read(folder / CARD))


def _sealed_card(folder: Path, text: bytes) -> ModelCard:
    path = folder / CARD
    card = _card(path, text)
    if text[-len(_END) - 64 :] != card.digest.encode() + _END or card.digest != _digest(text):
        reason = "is damaged, or was changed after it was written: its digest does not fit"
        raise CheckpointError(path, f"{reason} (`orbitcc policy seal {folder}` accepts a change of your own)")
    return card


def read(folder: Path) -> tuple[ModelCard, Tensors]:
    """The card and the weights, which need not fit it; both of one version, even while training overwrites them.

    Raises:
        OrbitccError: a file is missing, or the weights are not those for which the card was written.
    """
    text, data = _snapshot(folder)
    card, path = _sealed_card(folder, text), folder / WEIGHTS
    if hashlib.sha256(data).hexdigest() != card.weights_sha256:
        raise CheckpointError(path, f"is truncated, damaged or another file: its SHA-256 is not the one in {CARD}")
    return card, _tensors(path, data)


def read_tensors(folder: Path) -> Tensors:
    """The weights of :func:`read`."""
    return read(folder)[1]


def _snapshot(folder: Path) -> tuple[bytes, bytes]:
    """The bytes of both files, which were there together: nothing replaced them between the first look and the last."""
    for _ in range(_LOOKS - 1):
        with contextlib.suppress(CheckpointError):  # perhaps just while the folder is replaced
            before = _stamps(folder)
            found = _read(folder / CARD), _read(folder / WEIGHTS)
            if _stamps(folder) == before:
                return found
    return _read(folder / CARD), _read(folder / WEIGHTS)


def seal(folder: Path) -> Path:
    """Write the digests into the card of a checkpoint whose card or weights were changed on purpose.

    Raises:
        OrbitccError: a file is missing, or the weights do not fit the card.
    """
    card, data = _card(folder / CARD, _read(folder / CARD)), _read(folder / WEIGHTS)
    reason = mismatch(card, _tensors(folder / WEIGHTS, data))
    if reason:
        raise CheckpointError(folder / WEIGHTS, f"does not fit its card: {reason}")
    return atomic_write_bytes(folder / CARD, _sealed(card, data))


def _sealed(card: ModelCard, weights: bytes) -> bytes:
    """The text of a card with the digest of these weights and its own."""
    digests = {"weights_sha256": hashlib.sha256(weights).hexdigest(), "digest": _NO_DIGEST.decode()}
    by_default = {"clock"} if card.clock == "world" else None
    text = card.model_copy(update=digests).model_dump_json(indent=2, exclude=by_default).encode() + b"\n"
    return text[: -len(_END) - 64] + _digest(text).encode() + _END


def _digest(text: bytes) -> str:
    return hashlib.sha256(text[: -len(_END) - 64] + _NO_DIGEST + text[-len(_END) :]).hexdigest()


def _read(path: Path) -> bytes:
    try:
        return read_bytes(path, MOST_TEXT if path.name == CARD else MOST_TABLE)
    except NoSuchFileError:
        raise CheckpointError(path, "No such file or directory") from None
    except FileError as error:
        raise CheckpointError(path, f"cannot be read: {error.allowed}") from None


def _card(path: Path, text: bytes) -> ModelCard:
    try:
        return ModelCard.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"]) or "JSON"
        raise CheckpointError(path, f"is not a model card: {field}: {first['msg']}") from None


def _tensors(path: Path, data: bytes) -> Tensors:
    try:
        return load_tensors(data)
    except (SafetensorError, KeyError, ValueError) as error:
        raise CheckpointError(path, f"is truncated or not a safetensors file ({error})") from None


def policy_with(loaded: Checkpoint, *, interval_ms: float = 0.0, delay: float = 0.0) -> _sim.Policy:
    """The network of a checkpoint with another decision interval or another preference of delay than its card has.

    Args:
        interval_ms: time between decisions; 0: as the card says.
        delay: how much delay counts, in [0.01, 1]; 0: as the card says.

    Raises:
        OrbitccError: about `delay`; the policy observes no preference.
    """
    changes: dict[str, Any] = {}
    if interval_ms:
        changes = {"interval_ms": interval_ms, "interval_rtts": 0.0}
    if delay:
        changes["observation"] = _preferring(loaded.card, delay)
    return build(loaded.card.model_copy(update=changes), loaded.tensors)


def decisions_of(used: Preset) -> dict[str, Any]:
    """The fields of a card that say what a policy of this preset observes, and what it decides, when and within what.

    Raises OrbitccError for a preset whose functions are not native.
    """
    seen, done = used.native("observation"), used.native("action")
    return {
        "observation": CardObservation(
            preset=seen.name,
            parameters=dict(seen.parameters),
            dim=used.observation_space().shape[0],
            hash=definition_hash("observation", seen),
        ),
        "action": CardAction(
            preset=done.name,
            parameters=dict(done.parameters),
            dim=used.action_dim,
            hash=definition_hash("action", done),
        ),
        "interval_ms": used.interval_ms,
        "interval_rtts": used.interval_rtts,
        "interval_least_ms": used.interval_least_ms,
        "clock": used.clock,
        "safety_filter": used.safety_filter,
    }


def observes_preference(card: ModelCard) -> bool:
    """Whether a flow can ask the policy how much delay counts."""
    return PREFERENCE in _features(card)[1]


def _features(card: ModelCard) -> tuple[Sequence[Any], list[str]]:
    """The features that a policy observes, if it observes features, and their names."""
    features = card.observation.parameters.get("features", ())
    return features, [feature["name"] if isinstance(feature, Mapping) else feature for feature in features]


def _preferring(card: ModelCard, delay: float) -> CardObservation:
    """The observation of a policy to which delay counts this much where nothing else is asked for.

    Raises:
        OrbitccError: about `delay`; the policy observes no preference.
    """
    observation = card.observation
    features, names = _features(card)
    if PREFERENCE not in names:
        raise OrbitccError("delay", delay, f"no preference for the policy {card.name}, which does not observe one")
    chosen = [
        {"name": PREFERENCE, "usual": delay} if name == PREFERENCE else feature
        for name, feature in zip(names, features, strict=True)
    ]
    parameters = {**observation.parameters, "features": chosen}
    named = definition_hash("observation", {"name": observation.preset, **parameters})
    return observation.model_copy(update={"parameters": parameters, "hash": named})


@lru_cache(maxsize=16)
def _load(folder: Path, stamps: _Stamps) -> Checkpoint:
    # stamps only key the cache: a checkpoint that training overwrites is read anew
    card, tensors = read(folder)
    _check_native(folder / CARD, card)
    reason = mismatch(card, tensors)
    if reason:
        raise CheckpointError(folder / WEIGHTS, f"does not fit its card: {reason}")
    try:
        return Checkpoint(card, build(card, tensors), folder, tensors)
    except ValueError as error:  # numbers with which no network can work
        raise CheckpointError(folder / WEIGHTS, f"does not make a network: {error}") from None


def _check_native(path: Path, card: ModelCard) -> None:
    functions: tuple[tuple[str, CardObservation | CardAction], ...] = (
        ("observation", card.observation),
        ("action", card.action),
    )
    for kind, function in functions:
        if function.preset not in _sim.FUNCTIONS[kind]:
            raise CheckpointError(path, f"needs the {kind} {function.preset!r}, which this version lacks")
        try:
            known = definition_hash(kind, Native(function.preset, function.parameters))
        except OrbitccError as error:
            raise CheckpointError(path, f"needs an {kind} this version cannot make: {error}") from None
        if function.hash != known:
            raise CheckpointError(path, f"was trained on another definition of the {kind} {function.preset!r}")


def _stamps(folder: Path) -> _Stamps:
    found = []
    for path in (folder / CARD, folder / WEIGHTS):
        try:
            status = path.stat()
        except OSError as error:
            raise CheckpointError(path, error.strerror or "cannot be read") from None
        found.append((status.st_ino, status.st_mtime_ns, status.st_size))
    return tuple(found)


def save(folder: Path, card: ModelCard, tensors: Tensors) -> Path:
    """Write a checkpoint; readers see the old folder or the new one, never a part.

    Files the format does not know (a README) are kept.

    Raises:
        OrbitccError: the tensors do not fit the card, or the folder cannot be written.
    """
    tensors = {name: np.ascontiguousarray(value) for name, value in tensors.items()}
    reason = mismatch(card, tensors)
    if reason:
        raise CheckpointError(folder, f"cannot be saved: {reason}")
    fresh = scratch(folder)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        if folder.exists():
            shutil.copytree(folder, fresh)
        else:
            fresh.mkdir()
        weights = save_tensors(dict(tensors))
        (fresh / WEIGHTS).write_bytes(weights)
        (fresh / CARD).write_bytes(_sealed(card, weights))
        replace_folder(fresh, folder)
    except OSError as error:
        shutil.rmtree(fresh, ignore_errors=True)
        raise CheckpointError(folder, error.strerror or str(error)) from None
    return folder
