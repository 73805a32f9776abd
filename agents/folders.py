"""Folders that change as a whole."""

import shutil
import uuid
from pathlib import Path

CARD = "card.json"
SHIPPED = Path(__file__).resolve().parent.parent / "checkpoints"
SENT: dict[str, Path] = {}
"""Checkpoints that another machine has sent to this process: their path there -> their folder here."""


def shipped() -> list[str]:
    """Names of the checkpoints that travel with the package."""
    if not SHIPPED.is_dir():
        return []
    return sorted(folder.name for folder in SHIPPED.iterdir() if (folder / CARD).is_file())


def scratch(folder: Path) -> Path:
    """A name beside `folder` to build its next version under."""
    return folder.with_name(f".{folder.name}.{uuid.uuid4().hex[:8]}.tmp")


def replace_folder(fresh: Path, folder: Path) -> None:
    """Put `fresh` where `folder` is; readers see the old one or the new one.

    A folder cannot be replaced in one call, so the old one steps aside first and comes back if the move fails.
    """
    if not folder.exists():
        fresh.rename(folder)
        return
    aside = scratch(folder)
    folder.rename(aside)
    try:
        fresh.rename(folder)
    except OSError:
        aside.rename(folder)
        raise
    shutil.rmtree(aside, ignore_errors=True)
