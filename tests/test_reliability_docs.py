"""The page about reliability shows what the fault tests found, and names options and commands that exist."""

import json
import re
from pathlib import Path

import pytest

from tests.faults.matrix import INPUTS, PAGE, RESULTS, Row, put_into_page, render_table

ROOT = Path(__file__).parent.parent
TEXT = PAGE.read_text()


def test_the_table_is_that_of_the_results():
    record = json.loads(RESULTS.read_text())
    assert put_into_page(TEXT, render_table(record)) == TEXT, "run `make faults`"


def test_everything_was_tried_and_survived():
    rows = [Row(**row) for row in json.loads(RESULTS.read_text())["rows"]]
    assert [str(row) for row in rows if row.note or row.num_survived < row.num_tried] == []
    tried = {}
    for row in rows:
        tried[row.fault] = tried.get(row.fault, 0) + row.num_tried
    assert tried["killed"] >= 200
    by_kind = {row.what: row.num_tried for row in rows}
    assert by_kind["run folder"] >= 60
    assert by_kind["journal"] >= 60
    assert all(by_kind[what] >= (num_inputs or 4808) for what, num_inputs in INPUTS.values())


def test_results_say_nothing_about_the_machine():
    text = RESULTS.read_text()
    assert re.findall(r"/(?:tmp|home|root|work|Users)\b", text) == []


@pytest.mark.parametrize("name", ["README.md", "SECURITY.md"])
def test_pages_link_here(name):
    assert "docs/reliability.md" in (ROOT / name).read_text()


def test_commands_of_the_page_exist():
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)
    assert set(re.findall(r"`make ([a-z]+)", TEXT)) <= set(targets)
