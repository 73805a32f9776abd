"""The notebook: committed with outputs, small, and executed here in reduced size."""

import json
import os
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NOTEBOOK = ROOT / "docs" / "notebook.ipynb"


def cells():
    return [cell for cell in json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == "code"]


def test_a_reader_sees_its_outputs():
    assert NOTEBOOK.stat().st_size < 500_000
    outputs = [output for cell in cells() for output in cell["outputs"]]
    kinds = {kind for output in outputs for kind in output.get("data", {})}
    assert {"image/png", "image/gif"} <= kinds
    assert not any(output["output_type"] == "error" for output in outputs)
    assert all(cell["execution_count"] == number for number, cell in enumerate(cells(), start=1))


@pytest.mark.slow
def test_it_runs_with_less_training(tmp_path, monkeypatch):
    nbformat = pytest.importorskip("nbformat", reason="the group `docs` is not installed (`make full` brings it)")
    nbclient = pytest.importorskip("nbclient")
    pytest.importorskip("torch")
    notebook = nbformat.read(NOTEBOOK, 4)
    shorter = [("agent_steps = 300_000", "agent_steps = 33_000"), ('"evaluation.worlds=8"', '"evaluation.worlds=1"'),
               ("duration_s=40.0", "duration_s=8.0"), ("duration_s=60.0", "duration_s=6.0")]  # fmt: skip
    for before, after in shorter:
        changed = [cell for cell in notebook.cells if before in cell.source]
        assert len(changed) == 1, before
        changed[0].source = changed[0].source.replace(before, after)
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    client = nbclient.NotebookClient(notebook, timeout=900, resources={"metadata": {"path": str(tmp_path)}})
    client.execute()
    printed = "".join(
        o["text"] for cell in notebook.cells for o in cell.get("outputs", []) if o.get("name") == "stdout"
    )
    assert all(name in printed for name in ("cubic:", "bbr3:", "trained here:", "perigee:"))
