"""Result lines survive killed processes, other processes and packing, and other files are left alone."""

import json
import multiprocessing

import pytest

from tdegnn import InputError
from tdegnn.experiments.records import append_lines, pack_lines, read_lines, write_records

NUM_PROCESSES, NUM_LINES = 4, 60


def test_a_line_that_was_cut_off_is_written_again(tmp_path):
    path = tmp_path / "lines.jsonl"
    append_lines(path, [{"dataset": "cora", "value": float("inf")}, {"dataset": "film", "value": 2.0}])
    path.write_text(path.read_text()[:-5])
    assert read_lines(path) == [{"dataset": "cora", "value": None}]
    append_lines(path, [{"dataset": "film", "value": 3.0}])
    assert [json.loads(line)["value"] for line in path.read_text().splitlines()] == [None, 3.0]


def test_a_complete_last_line_without_a_line_break_is_kept(tmp_path):
    path = tmp_path / "lines.jsonl"
    path.write_text('{"a": 1}\n{"a": 2}')
    append_lines(path, [{"a": 3}])
    assert path.read_text() == '{"a": 1}\n{"a": 2}\n{"a": 3}\n'


@pytest.mark.parametrize("text", ["my notes", "# Results\n\nlast words", '{"a": 1}\n12', '{\n  "a": 1\n}', "no\n{half"])
def test_nothing_is_removed_from_the_file_of_someone_else(tmp_path, text):
    path = tmp_path / "other.md"
    path.write_text(text)
    with pytest.raises(InputError, match="Expected result lines in .*other.md, got something else in line [123]."):
        append_lines(path, [{"a": 1}])
    assert path.read_text() == text


def test_lines_are_asked_for_by_what_they_are_of(tmp_path):
    path = tmp_path / "lines.jsonl"
    append_lines(path, [{"dataset": name, "system": system} for name in ("a", "b") for system in (1, 2)])
    assert read_lines(path, dataset=["a"], system=[2, 3]) == [{"dataset": "a", "system": 2}]
    assert read_lines(path, split=[0]) == []
    assert read_lines(tmp_path / "none.jsonl") == []


@pytest.mark.parametrize("text", ["# Results\n", "[1]\n", '{"a": 1}\nno\n{"a": 2}\n'])
def test_another_file_is_refused(tmp_path, text):
    (tmp_path / "other.md").write_text(text)
    message = "Expected result lines in .*other.md, got something else in line [12]. Choose another"
    with pytest.raises(InputError, match=message):
        read_lines(tmp_path / "other.md")


def append_many(path, process, begin):
    begin.wait()
    for number in range(NUM_LINES):
        append_lines(path, [{"process": process, "number": number, "text": "x" * 3000}])


@pytest.mark.slow
def test_no_line_is_lost_when_several_processes_append_at_once(tmp_path):
    path = tmp_path / "lines.jsonl"
    path.write_text('{"process": "killed", "num')  # all of them find it, and only one may remove it
    processes = multiprocessing.get_context("spawn")
    begin = processes.Barrier(NUM_PROCESSES)
    started = [processes.Process(target=append_many, args=(path, number, begin)) for number in range(NUM_PROCESSES)]
    for process in started:
        process.start()
    for process in started:
        process.join(120)
    assert path.read_bytes().endswith(b"}\n")
    lines = [(line["process"], line["number"]) for line in map(json.loads, path.read_text().splitlines())]
    assert sorted(lines) == [(process, number) for process in range(NUM_PROCESSES) for number in range(NUM_LINES)]


LINES = [
    {"seed": None, "value": 0.1, "nested": {"list": [1, 2.0, None, {}], "text": "±\n"}},
    {"value": 1e-300, "is_best": True},
    {},
    {"large": 2**70, "zero": -0.0},
]


def test_packed_lines_are_equal_to_the_lines_they_were(tmp_path):
    path = tmp_path / "lines.jsonl"
    append_lines(path, LINES)
    assert pack_lines(path) == tmp_path / "lines.parquet"
    assert not path.exists()
    for name in (path, path.with_suffix(".parquet")):
        read = read_lines(name)
        assert read == LINES
        assert json.dumps(read) == json.dumps(LINES)  # types and the sign of zero too


def test_lines_added_to_packed_ones_follow_them(tmp_path):
    path = tmp_path / "lines.jsonl"
    append_lines(path, LINES)
    pack_lines(path)
    append_lines(path, [{"number": 1}])
    append_lines(path.with_suffix(".parquet"), [{"number": 2}])
    assert read_lines(path) == [*LINES, {"number": 1}, {"number": 2}]
    assert len(path.read_text().splitlines()) == 2
    plain = path.read_bytes()
    pack_lines(path)
    assert read_lines(path) == [*LINES, {"number": 1}, {"number": 2}]
    path.write_bytes(plain)  # as if packing had been killed before it removed this file
    pack_lines(path)
    assert read_lines(path) == [*LINES, {"number": 1}, {"number": 2}]


@pytest.mark.parametrize("content", [b"", b"PAR1", b'{"a": 1}\n'])
def test_a_packed_file_that_is_none_is_refused(tmp_path, content):
    (tmp_path / "lines.parquet").write_bytes(content)
    with pytest.raises(InputError, match="Expected a whole Parquet file, got lines.parquet, which is damaged"):
        read_lines(tmp_path / "lines.jsonl")


def test_written_records_replace_what_was_there(tmp_path):
    path = tmp_path / "new" / "lines.jsonl"
    write_records(path, [{"a": 1}, {"a": float("nan")}])
    write_records(path, [{"a": 2}])
    assert path.read_text() == '{"a": 2}\n'
    assert [found.name for found in path.parent.iterdir() if not found.name.endswith(".lock")] == ["lines.jsonl"]
