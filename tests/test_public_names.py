import doctest
import importlib
import inspect
import subprocess
import sys

import pytest
import torch

import tdegnn

EXAMPLES = [
    "tdegnn.graph",
    "tdegnn.errors",
    "tdegnn.core.integrator",
    "tdegnn.analysis.order_search",
    "tdegnn.analysis.report",
    "tdegnn.data.panel",
]


@pytest.mark.parametrize("name", [name for name in tdegnn.__all__ if not name.startswith("_")])
def test_public_name_exists_and_is_documented(name):
    assert inspect.getdoc(getattr(tdegnn, name))
    assert name in dir(tdegnn)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'Grpah'"):
        tdegnn.Grpah  # noqa: B018


@pytest.mark.slow
@pytest.mark.parametrize("module", EXAMPLES)
def test_examples_in_docstrings_are_true(module):
    names = {name: getattr(tdegnn, name) for name in tdegnn.__all__} | {"torch": torch}
    results = doctest.testmod(importlib.import_module(module), extraglobs=names)
    assert results.attempted > 0
    assert results.failed == 0


def test_importing_the_package_does_not_import_torch():
    code = "import sys, tdegnn.cli; sys.exit('torch' in sys.modules or 'matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.slow
def test_reading_a_table_does_not_import_torch(tmp_path):
    (tmp_path / "a.csv").write_text("time,A,B\n2024-01-01,1,2\n2024-01-02,2,3\n")
    code = "import sys; from tdegnn import read_panel; read_panel('a.csv'); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=False).returncode == 0
