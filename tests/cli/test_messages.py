"""Messages on the command line speak of options, and leave what users called their nodes and files as it is."""

import ast
import contextlib
import io
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from typer.main import get_command

import tdegnn
from tdegnn import cli
from tdegnn.cli.commands import app
from tdegnn.cli.output import largest_root, print_json, print_notes
from tdegnn.errors import Argument, InputError, Message

DAYS = [f"2024-01-{day:02}" for day in range(1, 21)]


@pytest.fixture
def check(tmp_path, monkeypatch):
    """What `tdegnn data check` says about a table: the error and the notes."""
    monkeypatch.chdir(tmp_path)

    def run(text, *options, name="cases.csv"):
        (tmp_path / name).write_text(text)
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), pytest.raises(SystemExit):
            cli.main(["data", "check", name, *options])
        return err.getvalue() + "".join(line for line in out.getvalue().splitlines(True) if line.startswith("Note: "))

    return run


def long_table(node, time="time", value="value"):
    rows = [f"{name},{day},{number % 5}" for name in (node, "B") for number, day in enumerate(DAYS)]
    return "\n".join([f"node,{time},{value}", *rows]) + "\n"


@pytest.mark.parametrize("node", ["node=", "known=", "lowest=0", "time_zone", "decimal=','"])
def test_the_name_of_a_node_is_no_option_in_an_error(check, node):
    quoted = f'"{node}"' if "," in node else node
    twice = long_table(quoted) + f"{quoted},2024-01-03,1\n"
    assert f"got two for {node!r} at 2024-01-03: line 4 of cases.csv and line 42 of cases.csv" in check(twice)


@pytest.mark.parametrize("node", ["node=", "time_zone", "value='1'"])
def test_the_name_of_a_node_is_no_option_in_a_note(check, node):
    table = long_table(node) + f"{node},2024-01-25,\n"
    constant = "\n".join([f"{node},{day},7" for day in DAYS] + [f"B,{day},{n % 3}" for n, day in enumerate(DAYS)])
    assert f"The value never changes at 1 of 2 nodes: {node!r}." in check("node,time,value\n" + constant + "\n")
    assert "4 of 25 steps are missing" in check(table)


def test_the_name_of_a_file_or_a_column_is_no_option(check):
    broken = long_table("A", value="time_zone").replace(",3\n", ",three\n", 1)
    said = check(broken, name="time_format=.csv")
    assert "Expected a number in column 'time_zone', got 'three' in line 5 of time_format=.csv." in said
    assert said.endswith("pass the column of nodes with --node.\n")
    more = long_table("A", value="time_zone,node_features=")
    rows = "\n".join(row if not number else f"{row},{number % 4}" for number, row in enumerate(more.splitlines()))
    assert "Note: The column 'time_zone' is forecast; the other columns only help. Pass another with --value." in check(
        rows
    )


@pytest.mark.parametrize(
    ("text", "option"),
    [
        ("time;A\n2024-01-01;1,5\n2024-01-02;2,5\n", "pass --decimal ',';"),
        ("time,A\n01/02/2024,1\n02/02/2024,2\n", "or pass --time-format '%d/%m/%Y'."),
        ("time,A\nyesterday,1\n", "for example --time-format '%d/%m/%Y'."),
        ("time,A\n202401,1\n202402,2\n", "Pass --time-format '%Y%m', or"),
        ("time,A\n2024-01-01T10:00+01:00,1\n2024-01-01T10:00+02:00,2\n", "with --time-zone, for example Europe/Berlin"),
        ("time,A\n2024-10-27 02:00,1\n2024-10-27 02:00,2\n", "for a wide table, --time-zone is enough."),
        ("node,when,value\nA,2024-01-01,1\n", "Name it with --time."),
        ("node,time\nA,2024-01-01\n", "Name it with --value."),
        ("time,A\n2024-01-01,many\n", "with --node."),
        ("time:A\n2024-01-01:1\n", "or pass --separator."),
    ],
)
def test_arguments_are_shown_as_options(check, text, option):
    assert option in check(text)


def test_encodings_are_shown_as_options(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "latin.csv").write_bytes("time,Z\u00fcrich\n2024-01-01,1\n".encode("latin-1"))
    with contextlib.redirect_stderr(io.StringIO()) as err, pytest.raises(SystemExit):
        cli.main(["data", "check", "latin.csv"])
    assert err.getvalue().endswith("for example --encoding latin-1.\n")


def test_a_message_inside_a_message_keeps_its_arguments():
    inner = InputError("Pass ", Argument("time_zone", "UTC"), ".")
    outer = Message("In column 'node=': ", inner.message)
    assert str(outer) == "In column 'node=': Pass time_zone='UTC'."
    assert outer.as_options() == "In column 'node=': Pass --time-zone UTC."


@pytest.mark.parametrize(
    ("value", "option"),
    [(0, "0"), (0.5, "0.5"), ("UTC", "UTC"), ("Europe/Berlin", "Europe/Berlin"), (",", "','"), ("a b", "'a b'")],
)
def test_values_are_typed_as_a_shell_needs_them(value, option):
    assert Argument("lowest", value).as_option() == f"--lowest {option}"


def modules_with(pattern):
    """Names and syntax trees of the modules that Python users may call, if a pattern is somewhere in them."""
    root = Path(tdegnn.__file__).parent
    for path in root.rglob("*.py"):
        text = path.read_text()
        if path.relative_to(root).parts[0] != "cli" and re.search(pattern, text):
            yield str(path.relative_to(root)), ast.parse(text)


def texts_of(tree):
    """All texts of a module that may reach a user: everything but docstrings."""
    docs = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
            yield node.value


def options_of(command):
    """All options of a command and of the commands below it."""
    for parameter in command.params:
        yield from (option.lstrip("-") for option in (*parameter.opts, *parameter.secondary_opts))
    for below in getattr(command, "commands", {}).values():
        yield from options_of(below)


@pytest.mark.slow
def test_no_message_of_the_library_speaks_of_options_by_itself():
    """An `Argument` in a message is an option on the command line, and only there."""
    option = re.compile(r"(^|[\s(])--[a-z]")
    texts = [(name, text) for name, tree in modules_with("--[a-z]") for text in texts_of(tree)]
    assert [(name, text) for name, text in texts if option.search(text)] == []


@pytest.mark.slow
def test_every_argument_of_a_message_is_an_option():
    known, unknown = set(options_of(get_command(app))), []
    for name, tree in modules_with("Argument\\("):
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Argument":
                given = {each.arg: each.value for each in node.keywords}
                option = given.get("option", node.args[0]).value.replace("_", "-")
                unknown += [] if option in known else [(name, option)]
    assert unknown == []


def test_notes_speak_of_options_as_lines_and_as_json(capsys):
    note = Message("Pass ", Argument("num_steps", option="steps"), " for more.")
    print_notes([note])
    assert capsys.readouterr().out == "Note: Pass --steps for more.\n"
    print_json({"notes": [note], "score": float("nan")})
    assert json.loads(capsys.readouterr().out) == {"notes": ["Pass --steps for more."], "score": None}


def test_a_large_root_of_latent_states_is_said_to_be_about_layers():
    report = tdegnn.explain([16.6, -15.0, -0.6])
    assert largest_root(report) == "15.6"
    assert largest_root(replace(report, states="latent")) == "15.6 (of states over the layers, not of outputs)"
    assert largest_root(replace(tdegnn.explain([2, -1]), states="latent")) == "1"
