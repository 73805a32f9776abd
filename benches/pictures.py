"""Figures for the documentation: small files with few pixels and colours."""

from __future__ import annotations

import io
from pathlib import Path

from matplotlib.figure import Figure
from PIL import Image

from orbitcc.common.files import atomic_write_bytes
from orbitcc.eval.figures.base import render

DPI = 90
COLOURS = (64, 48, 32, 16)
"""Numbers of colours; the first that fits is used."""
MAX_BYTES = 60_000


def write(figure: Figure, path: Path, max_bytes: int = MAX_BYTES, dpi: int = DPI) -> Path:
    """Write the figure as a PNG file with as many colours as fit in max_bytes; print its size."""
    picture = Image.open(io.BytesIO(render(figure, dpi=dpi))).convert("RGB")
    for colours in COLOURS:
        out = io.BytesIO()
        picture.quantize(colours, dither=Image.Dither.NONE).save(out, "png", optimize=True)
        if out.tell() < max_bytes:
            break
    atomic_write_bytes(path, out.getvalue())
    print(f"{path}  {path.stat().st_size / 1e3:.0f} kB")
    return path
