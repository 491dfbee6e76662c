"""The notebooks in `examples/` run from the first cell to the last."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))
LARGEST_BYTES = 200_000


@pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda file: file.stem)
def test_a_notebook_runs_and_leaves_its_figure(file: Path, tmp_path: Path) -> None:
    notebook = nbformat.read(file, as_version=4)
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    assert list(tmp_path.glob("*.pdf"))


def test_notebooks_are_small() -> None:
    assert NOTEBOOKS
    for file in NOTEBOOKS:
        assert file.stat().st_size < LARGEST_BYTES, file.name
