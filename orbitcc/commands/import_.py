"""`orbitcc import`: the policy of another project as a checkpoint of ours."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def _names() -> list[str]:
    from orbitcc.agents.importing.actors import layouts

    return list(layouts())


def import_policy(
    policy: Annotated[
        str,
        typer.Argument(
            help="astraea, aurora, orca, or a TOML file with the layout of a dense actor.", autocompletion=_names
        ),
    ],
    path: Annotated[
        Path, typer.Argument(help="A TensorFlow 1 checkpoint: its folder, its index, or its prefix; or a SavedModel.")
    ],
    out: Annotated[Path, typer.Option(help="New folder for the checkpoint; its name is that of the policy.")],
    source: Annotated[str, typer.Option(help="Where the files come from, for the model card.")] = "",
    licence: Annotated[str, typer.Option(help="Their licence, for the model card.")] = "",
    reference: Annotated[
        Path | None,
        typer.Option(help="An .npz file with observations [n, D] and the actions [n, A] of the original network."),
    ] = None,
    tolerance: Annotated[float, typer.Option(help="Largest difference from the reference that is accepted.")] = 1e-4,
) -> None:
    """Turn the actor of a TensorFlow 1 checkpoint into a policy.

    Nothing of the checkpoint is executed, and TensorFlow is not needed. Batch normalisation is folded into the layers.
    """
    import shutil

    from orbitcc.agents.importing import actors
    from orbitcc.common.errors import OrbitccError

    made = actors.import_policy(policy, path, out, source=source, licence=licence)
    if reference is not None:
        try:
            difference = actors.largest_difference(made, reference)
            if not difference <= tolerance:
                raise OrbitccError(
                    "--reference", f"{difference:.3g}", f"actions within {tolerance:g} of the original's"
                )
        except OrbitccError:
            shutil.rmtree(out)
            raise
        print(f"largest difference from the reference: {difference:.2g}")
    print(f"policy: {made.path}")
