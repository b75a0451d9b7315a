"""Run the notebooks of examples/: `python -m tests.notebooks`, or `make notebooks`, writes their outputs into them."""

import os
import shutil
import tempfile
import time
from pathlib import Path

import nbformat
from nbclient import NotebookClient

EXAMPLES = Path(__file__).parent.parent / "examples"
NOTEBOOKS = sorted(EXAMPLES.glob("*.ipynb"))
SECONDS_PER_CELL = 120


def run(path):
    """Return a notebook with the outputs of a run in a copy of its folder. An error in a cell is raised."""
    notebook = nbformat.read(path, as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(EXAMPLES, folder, dirs_exist_ok=True)
        # The kernel draws into the notebook, whatever is drawn elsewhere.
        variables = {name: value for name, value in os.environ.items() if name != "MPLBACKEND"}
        client = NotebookClient(
            notebook,
            timeout=SECONDS_PER_CELL,
            resources={"metadata": {"path": folder}},
            record_timing=False,
            extra_arguments=["--log-level=ERROR"],
        )
        client.execute(env=variables)
    return notebook


def pictures_of(notebook):
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    return [output for output in outputs if "image/png" in output.get("data", {})]


if __name__ == "__main__":
    for path in NOTEBOOKS:
        began = time.perf_counter()
        nbformat.write(run(path), path)
        print(f"{path.name}: {time.perf_counter() - began:.1f} s, {path.stat().st_size / 1000:.0f} kB")
