"""Result lines survive a process that was killed, and are taken for what they are."""

import json

import pytest

from tdegnn import InputError
from tdegnn.experiments.records import append_lines, read_lines


def test_a_line_that_was_cut_off_is_written_again(tmp_path):
    path = tmp_path / "lines.jsonl"
    append_lines(path, [{"dataset": "cora", "value": float("inf")}, {"dataset": "film", "value": 2.0}])
    path.write_text(path.read_text()[:-5])
    assert read_lines(path) == [{"dataset": "cora", "value": None}]
    append_lines(path, [{"dataset": "film", "value": 3.0}])
    assert [json.loads(line)["value"] for line in path.read_text().splitlines()] == [None, 3.0]


def test_lines_are_asked_for_by_what_they_are_of(tmp_path):
    path = tmp_path / "lines.jsonl"
    append_lines(path, [{"dataset": name, "system": system} for name in ("a", "b") for system in (1, 2)])
    assert read_lines(path, dataset=["a"], system=[2, 3]) == [{"dataset": "a", "system": 2}]
    assert read_lines(path, split=[0]) == []
    assert read_lines(tmp_path / "none.jsonl") == []


@pytest.mark.parametrize("text", ["# Results\n", "[1]\n", '{"a": 1}\nno\n{"a": 2}\n'])
def test_another_file_is_refused(tmp_path, text):
    (tmp_path / "other.md").write_text(text)
    with pytest.raises(InputError, match="Expected result lines in .*other.md, line [12] is none. Choose another"):
        read_lines(tmp_path / "other.md")
