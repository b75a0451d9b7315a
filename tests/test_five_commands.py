"""From `pip install` to a report page of one's own table: the five commands of the README, word for word."""

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pandas as pd
import pytest

from tests.pages import ROOT, blocks_of

pytestmark = pytest.mark.slow
# What `pip install .` reads.
SOURCES = ("pyproject.toml", "README.md", "LICENSE", "src", "examples")
# No package is downloaded: the environment sees those of this one. pip takes this value as "without isolation".
OFFLINE = {"PIP_NO_INDEX": "1", "PIP_NO_DEPS": "1", "PIP_NO_BUILD_ISOLATION": "0", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}


@pytest.fixture(scope="module")
def commands():
    """The block of the README that installs."""
    (block,) = [block for block in blocks_of(ROOT / "README.md") if "pip install" in block.text]
    return block.commands


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """The files of a checkout, where commands leave what they write."""
    folder = tmp_path_factory.mktemp("checkout")
    for name in SOURCES:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__", "*.ipynb"))
        else:
            shutil.copy(source, folder)
    return folder


@pytest.fixture(scope="module")
def variables(tmp_path_factory):
    """Variables in which a new environment is active. It has pip, but not tdegnn."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=True, symlinks=True)
    packages = Path(sysconfig.get_path("purelib", vars={"base": str(folder), "platbase": str(folder)}))
    # The .pth files of these folders, such as that of an editable tdegnn, are not read.
    others = {sysconfig.get_path("purelib"), *(path for path in sys.path if path.endswith("site-packages"))}
    (packages / "dependencies.pth").write_text("\n".join(sorted(others)) + "\n")
    own = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return own | OFFLINE | {"PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"}


def test_there_are_five_and_the_first_installs(commands):
    assert len(commands) == 5
    assert commands[0] == "pip install ."
    assert commands[-1].startswith("tdegnn report")


def test_they_end_with_a_report_page(commands, checkout, variables):
    for command in commands:
        done = subprocess.run(
            command, shell=True, cwd=checkout, env=variables, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    where = subprocess.run(
        ["python", "-c", "import tdegnn; print(tdegnn.__file__)"],
        cwd=checkout,
        env=variables,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "site-packages" in where.stdout
    forecast = pd.read_csv(checkout / "forecast.csv")
    assert list(forecast) == ["time", "node", "forecast", "low", "high"]
    assert len(forecast) == 4 * 8
    page = (checkout / "report.html").read_text(encoding="utf-8")
    assert 100_000 < len(page) < 5_000_000
    assert "Aldermoor" in page
