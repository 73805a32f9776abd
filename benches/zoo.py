"""READMEs and pictures of the shipped policies, from their cards and checkpoints/zoo.toml: python -m benches.zoo"""

from __future__ import annotations

import io
import tomllib

from PIL import Image

from orbitcc.agents import checkpoint
from orbitcc.common.files import atomic_write_bytes, atomic_write_text
from orbitcc.eval import zoo


def words() -> dict[str, zoo.PolicyWords]:
    """What the cards do not say, by policy."""
    text = (checkpoint.SHIPPED / "zoo.toml").read_text(encoding="utf-8")
    return {name: zoo.PolicyWords(**table) for name, table in tomllib.loads(text).items()}


def readme(name: str) -> str:
    return zoo.readme(checkpoint.read_card(checkpoint.SHIPPED / name), name, words()[name])


def main() -> None:
    for name in checkpoint.shipped():
        folder = checkpoint.SHIPPED / name
        atomic_write_text(folder / zoo.README, readme(name))
        picture, small = Image.open(io.BytesIO(zoo.picture(name))).convert("RGB"), io.BytesIO()
        picture.quantize(64, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(small, "png", optimize=True)
        atomic_write_bytes(folder / zoo.PICTURE, small.getvalue())
        print(f"{folder.name}: {len(small.getvalue()) / 1e3:.0f} kB")


if __name__ == "__main__":
    main()
