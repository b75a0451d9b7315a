"""What the commands of experiments share."""

from pathlib import Path

import pytest
import typer

from tdegnn.cli.options import with_groups
from tdegnn.cli.reproduce.experiment_options import ExperimentOptions, Workers
from tdegnn.errors import InputError

TABLE = ("A table", ["name", "number"], [["one", "1"]])


def fail(*cell):
    raise AssertionError(cell)


def make_generator():
    fail()
    yield


def test_a_command_gives_the_default_file_and_has_its_own_options_before_the_last_ones():
    @with_groups
    def command(run: ExperimentOptions = ExperimentOptions(Path("own.jsonl")), workers: Workers = 1) -> None:
        """Do nothing."""

    app = typer.Typer()
    app.command()(command)
    options = {option.name: option for option in typer.main.get_command(app).params}
    assert [*options][:6] == ["out", "report", "workers", "device", "quiet", "as_json"]
    assert Path(options["out"].default) == Path("own.jsonl")


def test_cells_are_computed_in_order_and_described(tmp_path):
    run, done, told = ExperimentOptions(tmp_path / "lines.jsonl", quiet=True), [], []
    run.compute(
        lambda *cell: done.append(cell),
        ((name, number) for name in "ab" for number in range(2)),
        "letters",
        lambda name, number: told.append(f"{name}{number}") or told[-1],
    )
    assert done == [("a", 0), ("a", 1), ("b", 0), ("b", 1)]
    assert told == ["a0", "a1", "b0", "b1"]


def test_a_report_starts_no_cell_and_needs_lines(tmp_path):
    run = ExperimentOptions(tmp_path / "lines.jsonl", report=True)
    with pytest.raises(InputError, match="Expected result lines in .*lines.jsonl, got no such file"):
        run.compute(fail, make_generator(), "nothing")
    run.out.write_text("")
    run.compute(fail, make_generator(), "nothing")


def test_one_of_json_tables_and_the_last_sentence_is_shown(tmp_path, capsys):
    path = tmp_path / "lines.jsonl"
    ExperimentOptions(path, as_json=True, quiet=True).show({"one": 1}, make_generator(), "Done.")
    assert capsys.readouterr().out == '{\n  "one": 1\n}\n'
    ExperimentOptions(path, quiet=True).show({"one": 1}, make_generator(), "Done.")
    assert capsys.readouterr().out == "Done.\n"
    ExperimentOptions(path).show({"one": 1}, [TABLE], "Done.")
    printed = capsys.readouterr().out
    assert printed.startswith("A table\n")
    assert printed.endswith("Done.\n")
