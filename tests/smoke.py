"""A few commands of an installed tdegnn, run in an empty folder: `python -P tests/smoke.py ENVIRONMENT`.

This file uses the standard library only, so that any Python can run it.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

# Some of the files that are no Python must be there too.
IMPORT_ALL = """
from importlib.resources import files

import tdegnn

assert "site-packages" in tdegnn.__file__, tdegnn.__file__
assert all(getattr(tdegnn, name) for name in tdegnn.__all__)
for name in ("py.typed", "data/benchmarks/checksums.txt", "experiments/measured.json", "experiments/recipes/cora.toml"):
    assert files("tdegnn").joinpath(name).is_file(), name
"""
COMMANDS = (
    ["tdegnn", "--version"],
    ["tdegnn", "explain", "2,-1"],
    ["tdegnn", "zoo", "--json"],
    ["python", "-m", "tdegnn", "--help"],
    ["python", "-c", IMPORT_ALL],
)


def run_everything(environment):
    """Run all commands with the programs of an environment. Return what `tdegnn --version` prints."""
    programs = Path(environment).absolute() / "bin"
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    with tempfile.TemporaryDirectory() as empty:
        results = [
            subprocess.run(
                [programs / program, *words], cwd=empty, env=variables, check=True, stdout=subprocess.PIPE, text=True
            )
            for program, *words in COMMANDS
        ]
    return results[0].stdout.strip()


if __name__ == "__main__":
    print(f"Runs from {sys.argv[1]}: {run_everything(sys.argv[1])}")
