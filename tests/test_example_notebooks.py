"""The notebooks of examples/ run from the first cell to the last, quickly, and are kept with their pictures."""

import os
import re

import pytest

nbformat = pytest.importorskip("nbformat", reason="nbclient is not installed")
pytest.importorskip("ipykernel", reason="ipykernel is not installed")

from tests.notebooks import NOTEBOOKS, pictures_of, run  # noqa: E402

SECONDS = 20
LARGEST = 300_000
NAMES = ["my_graph", "my_operator", "my_series", "order_of_my_data"]


def name_of(path):
    return path.stem


def outputs_of(notebook):
    return [[output.get("name", output.output_type) for output in cell.get("outputs", ())] for cell in notebook.cells]


def test_there_is_one_for_each_of_the_four_users():
    assert [path.stem for path in NOTEBOOKS] == NAMES


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("path", NOTEBOOKS, ids=name_of)
def test_a_notebook_runs_in_seconds_and_shows_what_it_showed(path):
    before = os.times()
    ran = run(path)
    after = os.times()
    # The seconds of the kernel, which has ended, on one core: others may use the machine too.
    assert after.children_user + after.children_system - before.children_user - before.children_system < SECONDS
    kept = nbformat.read(path, as_version=4)
    assert len(pictures_of(ran)) == len(pictures_of(kept)) >= 2
    assert outputs_of(ran) == outputs_of(kept), "run `make notebooks`"
    assert "stderr" not in str(outputs_of(ran))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=name_of)
def test_a_notebook_is_kept_small_and_says_nothing_about_a_machine(path):
    assert path.stat().st_size < LARGEST
    text = path.read_text(encoding="utf-8")
    assert re.findall(r"/(?:tmp|home|root|work|Users)\b", text) == []
    counts = [cell.execution_count for cell in nbformat.reads(text, as_version=4).cells if cell.cell_type == "code"]
    assert counts == list(range(1, len(counts) + 1)), "run `make notebooks`"
