"""Errors a user can cause: one line naming the field, the value and what is allowed.

The command line prints the line and exits with code 2; whatever else goes wrong is a bug and keeps its traceback.
"""

from __future__ import annotations

import difflib
import math
import reprlib
from collections.abc import Iterable
from typing import Any, ClassVar

from orbitcc.common.names import plain


class OrbitccError(ValueError):
    """A value that cannot be used. `field` is the dotted name of what was set, e.g. `links.0.rate_mbps`."""

    def __init__(self, field: str, value: Any, allowed: str) -> None:
        self.field = field
        self.value = value
        self.allowed = allowed
        super().__init__(plain(self._message()))

    def _message(self) -> str:
        return f"{self.field}: {_shown(self.value)} is not allowed; allowed: {self.allowed}"

    def __reduce__(self) -> tuple[Any, ...]:
        # Worker processes hand errors back pickled; the default would call __init__ with the message alone.
        return type(self), (self.field, self.value, self.allowed)

    def at(self, field: str) -> OrbitccError:
        """The same error about another field."""
        make, (_, *rest) = self.__reduce__()
        return make(field, *rest)

    def under(self, prefix: str) -> OrbitccError:
        """The same error, seen from one level up: `rate_mbps` under `links.0` is `links.0.rate_mbps`."""
        return self.at(".".join(part for part in (prefix, self.field) if part))


class OrbitccWarning(UserWarning):
    """What a user should know although the work goes on; the command line prints it as one line."""


_LONGEST_NAME = 200
"""For longer texts no similar name is suggested."""
MANY = 12
"""A message lists at most this many names when a command lists all of them."""


class UnknownNameError(OrbitccError):
    """A name that is in no registry; the message suggests the nearest valid ones.

    listing: the command that shows all; a long list is not repeated then. meant: the name to suggest, instead of the
    most similar one. otherwise: what is allowed instead of a name.
    """

    kind: ClassVar[str] = "name"
    phrase: ClassVar[str] = ""
    """Instead of "unknown" and the kind."""

    def __init__(
        self, field: str, name: Any, known: Iterable[str], listing: str = "", meant: str = "", otherwise: str = ""
    ) -> None:
        self.known = tuple(dict.fromkeys(known))
        self.listing = listing
        self.meant = meant
        self.otherwise = otherwise
        super().__init__(field, name, f"one of {', '.join(self.known)}" if self.known else "none")

    def _message(self) -> str:
        short = bool(self.listing) and len(self.known) > MANY
        text = self.value if isinstance(self.value, str) and len(self.value) <= _LONGEST_NAME else ""
        names = [self.meant] if self.meant else nearest(text, self.known, 3 if short else 1)
        near = " or ".join(map(repr, names))
        hint = f"; did you mean {near}?" if near else ""
        allowed = f"`{self.listing}` shows all {len(self.known)}" if short else f"allowed: {self.allowed}"
        allowed += f"; or {self.otherwise}" if self.otherwise else ""
        return f"{self.field}: {self.phrase or f'unknown {self.kind}'} {_shown(self.value)}{hint} ({allowed})"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.field, self.value, self.known, self.listing, self.meant, self.otherwise)


class UnknownKeywordError(UnknownNameError, TypeError):
    """A keyword that a function does not have: a TypeError, with the words of Python's own, which TorchRL looks for.

    It can be made from a message alone, as gymnasium does when it adds to one.
    """

    phrase = "unexpected keyword argument"

    def __init__(
        self,
        field: str,
        name: Any = None,
        known: Iterable[str] = (),
        listing: str = "",
        meant: str = "",
        otherwise: str = "",
    ) -> None:
        super().__init__(field, name, known, listing, meant, otherwise)

    def _message(self) -> str:
        return super()._message() if self.known else self.field


class StateError(OrbitccError):
    """A call at the wrong moment or without a prerequisite; the message is a sentence.

    field: the call; sentence: the obstacle and the remedy.
    """

    def __init__(self, field: str, sentence: str) -> None:
        self.sentence = sentence
        super().__init__(field, None, sentence)

    def _message(self) -> str:
        return f"{self.field}: {self.sentence}"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.field, self.sentence)


class MissingError(OrbitccError):
    """A field that must be given and was not."""

    def __init__(self, field: str) -> None:
        super().__init__(field, None, "a value")

    def _message(self) -> str:
        return f"{self.field}: missing; it has no default"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.field,)


class FileError(OrbitccError):
    """A file that cannot be read or written, or that has the wrong content."""


class FileContentError(FileError):
    """A file with the wrong content; `allowed` says what it should be, and where it is not."""

    def _message(self) -> str:
        return f"{self.field} {self.value}: must be {self.allowed}"


class NoSuchFileError(FileError):
    """A file that does not exist."""

    def __init__(self, field: str, path: str) -> None:
        super().__init__(field, path, "an existing file")

    def _message(self) -> str:
        return f"{self.field}: no such file: {self.value}"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.field, self.value)


class _Short(reprlib.Repr):
    """The representation of a value that is not much longer than a message shows."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlevel = 6
        self.maxtuple = self.maxlist = self.maxdict = self.maxset = self.maxarray = 60
        self.maxstring = self.maxlong = self.maxother = 130


_SHORT = _Short()


def nearest(name: str, known: Iterable[str], most: int = 1) -> list[str]:
    """The most similar of the known names, the best first: those that begin with it, else those spelt alike."""
    by_lower, text = {k.lower(): k for k in known}, name.lower()
    found = sorted((k for k in by_lower if len(text) > 2 and k.startswith(text)), key=len)
    if not text:
        return []
    found = found or difflib.get_close_matches(text, by_lower, n=most, cutoff=0.7)
    return [by_lower[k] for k in (found or difflib.get_close_matches(text, by_lower, n=1, cutoff=0.5))[:most]]


def quoted(number: int, line: str, what: str = "is not understood") -> str:
    """The words of a message about one line of a file, with the line, shortened."""
    return f"line {number} {what}: {_shown(line.strip())}"


def _shown(value: Any) -> str:
    if isinstance(value, float) and math.isnan(value):
        return "NaN"
    try:
        text = _SHORT.repr(value)
    except ValueError:  # an integer of more digits than Python writes
        text = "a very large number"
    return text if len(text) <= 120 else text[:117] + "..."
