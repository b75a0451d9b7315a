"""Every Python block and every quick command of the README and the guides is run, so that they stay true."""

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
GUIDES = ("your_own_data.md", "your_own_operator.md", "zoo.md", "classifier.md")
PAGES = README + "".join((ROOT / "docs" / name).read_text() for name in GUIDES)
PYTHON_BLOCKS = re.findall(r"```python\n(.*?)```", PAGES, flags=re.DOTALL)
SHELL_LINES = [
    line.split("#")[0].strip()
    for block in re.findall(r"```bash\n(.*?)```", PAGES, flags=re.DOTALL)
    for line in block.splitlines()
]
# These train for a minute or more, need the run folder of such a training, or download; `tdegnn demo` has a test of its
# own.
SLOW = (
    r"demo|pendulum|known-orders|order-found|depth|fetch|table[12]|traffic|ablation|runtimes|classify|predict|sweep|"
    r"tdegnn fit|backtest|runs/"
)
QUICK_COMMANDS = [line for line in SHELL_LINES if line.startswith("tdegnn") and not re.search(SLOW, line)]


@pytest.fixture
def folder(tmp_path):
    """A folder with the examples in it, as in a checkout."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    return tmp_path


def test_readme_opens_with_the_two_commands():
    assert README.index("make demo") < README.index("make test") < 1200


@pytest.mark.slow
@pytest.mark.parametrize("code", PYTHON_BLOCKS, ids=range(len(PYTHON_BLOCKS)))
def test_python_of_the_readme_runs(code, folder):
    subprocess.run([sys.executable, "-W", "error::UserWarning", "-c", code], check=True, cwd=folder, timeout=120)


@pytest.mark.slow
@pytest.mark.parametrize("command", QUICK_COMMANDS)
def test_commands_of_the_readme_run(command, folder):
    tdegnn = Path(sys.executable).parent / "tdegnn"
    subprocess.run([tdegnn, *shlex.split(command)[1:]], check=True, cwd=folder, timeout=120)


def test_there_is_something_to_check():
    assert len(PYTHON_BLOCKS) >= 2
    assert len(QUICK_COMMANDS) >= 2
