"""Execute docs/notebook.ipynb and store its outputs: `python docs/pages/notebook.py` (half a minute)."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import nbclient
import nbformat

NOTEBOOK = Path(__file__).parents[1] / "notebook.ipynb"


def execute(folder: str | Path) -> Any:
    """A fresh execution of the notebook in this folder, without what goes to stderr: paths, speeds, progress."""
    notebook = nbformat.read(NOTEBOOK, 4)
    nbclient.NotebookClient(notebook, timeout=900, resources={"metadata": {"path": str(folder)}}).execute()
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)  # times
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
    notebook.metadata["language_info"] = {"name": "python"}
    return notebook


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as work:
        nbformat.write(execute(work), NOTEBOOK)
