"""Recipes and result lines survive full disks and other writers, and lines of another experiment are refused."""

import json
import multiprocessing
import resource
import threading

import pytest

from tdegnn import InputError
from tdegnn.cli import main
from tdegnn.experiments.node_results import NODE_LINES
from tdegnn.experiments.order_found import ORDER_LINES
from tdegnn.experiments.recipe_files import read_recipes, write_recipe, write_recipes
from tdegnn.experiments.records import append_lines, pack_lines, read_lines
from tdegnn.files import write_whole
from tdegnn.nodes.settings import NodeConfig

SYSTEMS = [f"system {number}" for number in range(10)]


def write_with_limit(path, limit, outcome):
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    try:
        write_recipes(path, {system: NodeConfig(system, num_layers=4) for system in SYSTEMS})
    except InputError as error:
        outcome.put(str(error))
    else:
        outcome.put("written")


@pytest.mark.slow
def test_a_recipe_is_never_cut_off(tmp_path):
    path = tmp_path / "recipe.toml"
    write_recipes(path, {system: NodeConfig(system) for system in SYSTEMS})
    before = path.read_bytes()
    context = multiprocessing.get_context("fork")
    outcome = context.Queue()
    child = context.Process(target=write_with_limit, args=(path, len(before) // 2, outcome))
    child.start()
    assert outcome.get(timeout=60).startswith(f"Expected to write {path}, got a system error (File too large).")
    child.join(60)
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["recipe.toml"]


def add_recipe(path, number):
    write_recipe(path, NodeConfig(SYSTEMS[number], order=number + 1, coefficients="direct"))


@pytest.mark.slow
def test_recipes_of_processes_that_write_at_once_are_all_kept(tmp_path):
    path = tmp_path / "recipe.toml"
    children = [multiprocessing.get_context("fork").Process(target=add_recipe, args=(path, n)) for n in range(10)]
    for child in children:
        child.start()
    for child in children:
        child.join(60)
    assert {system: config.order for system, config in read_recipes("own", path).items()} == {
        system: number + 1 for number, system in enumerate(SYSTEMS)
    }


@pytest.mark.parametrize("name", ['a "quoted" name', "back\\slash", "new\nline", "é \x7f ]"])
def test_any_name_of_a_system_comes_back(tmp_path, name):
    write_recipe(tmp_path / "recipe.toml", NodeConfig(name, coefficients="direct"))
    assert list(read_recipes("own", tmp_path / "recipe.toml")) == [name]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1\n", "Expected sections of systems in r.toml, got x = 1"),
        ("[a\n", "Expected a recipe in TOML in r.toml"),
        ('["TDE-GNN_D"]\nnum_layers = "four"\n', "num_layers to be a whole number, got 'four'"),
        ('["TDE-GNN_D"]\nnum_layers = true\n', "num_layers to be a whole number, got True"),
        ('["TDE-GNN_D"]\nstep_size = "h"\n', "step_size to be a number, got 'h'"),
        ('["TDE-GNN_D"]\nspatial = 3\n', "Expected settings of spatial by name, got 3"),
        (
            '["TDE-GNN_D"]\nspatial = { speed = 3 }\n',
            "Expected settings of spatial among learning_rate, weight_decay, got 'speed'",
        ),
    ],
)
def test_a_wrong_recipe_is_refused(tmp_path, text, message):
    (tmp_path / "r.toml").write_text(text)
    with pytest.raises(InputError, match=message):
        read_recipes("own", tmp_path / "r.toml")


def test_a_recipe_that_is_not_text_is_refused(tmp_path):
    (tmp_path / "r.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="Expected a recipe in TOML in r.toml"):
        read_recipes("own", tmp_path / "r.toml")


def add_orders(path, numbers, begin):
    begin.wait()
    for number in numbers:
        line = {"system": "heat", "noise": 0.1, "seed": number, "order": 1, "true_order": 1}
        append_lines(path, [line], ORDER_LINES)


@pytest.mark.slow
def test_two_processes_that_run_the_same_write_each_line_once(tmp_path):
    path = tmp_path / "orders.jsonl"
    context = multiprocessing.get_context("fork")
    begin = context.Barrier(2)
    children = [context.Process(target=add_orders, args=(path, range(40), begin)) for _ in range(2)]
    for child in children:
        child.start()
    for child in children:
        child.join(60)
    assert sorted(line["seed"] for line in read_lines(path, ORDER_LINES)) == list(range(40))


def test_lines_in_both_files_after_a_killed_packing_are_read_once(tmp_path):
    path = tmp_path / "lines.jsonl"
    lines = [{"number": number} for number in range(5)]
    append_lines(path, lines)
    plain = path.read_bytes()
    pack_lines(path)
    path.write_bytes(plain)
    assert read_lines(path) == lines


COMMANDS = [
    ["table1", "--dataset", "cora"],
    ["table2", "--dataset", "chickenpox"],
    ["coverage"],
    ["order-found"],
    ["depth"],
    ["ablation"],
    ["series-ablation"],
]


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
@pytest.mark.parametrize("line", [{"experiment": "another"}, {"dataset": "cora", "system": 3, "split": "x"}])
def test_lines_of_another_experiment_are_refused_in_one_line(tmp_path, capsys, command, line):
    path = tmp_path / "other.jsonl"
    path.write_text(json.dumps(line) + "\n")
    with pytest.raises(SystemExit) as end:
        main(["reproduce", *command, "--report", "--out", str(path)])
    assert end.value.code == 2
    error = capsys.readouterr().err
    assert error.startswith("Error: Expected result lines of ")
    assert f"in line 1 of {path}" in error
    assert error.count("\n") == 1


@pytest.mark.slow
def test_a_damaged_footer_of_packed_lines_does_not_end_the_process(tmp_path):
    path = tmp_path / "lines.jsonl"
    append_lines(path, [{"number": number} for number in range(200)])
    packed = pack_lines(path)
    content = bytearray(packed.read_bytes())
    num_refused = 0
    for place in range(len(content) - 200, len(content)):
        packed.write_bytes(content[:place] + bytes([content[place] ^ 0x15]) + content[place + 1 :])
        try:
            read_lines(path)
        except InputError:
            num_refused += 1
    assert num_refused > 50


def test_a_recipe_file_that_does_not_exist_is_named(tmp_path):
    with pytest.raises(InputError, match=r"Expected a recipe file at .*none.toml, got none"):
        read_recipes("cora", tmp_path / "none.toml")


@pytest.mark.parametrize("name", ["x" * 240, "日" * 80])
def test_a_name_may_be_as_long_as_the_system_allows(tmp_path, name):
    append_lines(tmp_path / name, [{"number": 1}])
    write_whole(tmp_path / name, b"new")
    assert (tmp_path / name).read_bytes() == b"new"


def test_null_in_place_of_a_number_is_nan(tmp_path):
    line = {"dataset": "cora", "system": "GCN", "split": 0, "configuration": {}}
    append_lines(tmp_path / "a.jsonl", [line | {"validation_accuracy": 0.5, "test_accuracy": float("nan")}], NODE_LINES)
    (read,) = read_lines(tmp_path / "a.jsonl", NODE_LINES)
    assert read["test_accuracy"] != read["test_accuracy"]


def test_writers_at_once_never_tear_a_file(tmp_path):
    path = tmp_path / "forecast.csv"
    contents = [bytes([letter]) * 300_000 for letter in b"ab"]
    write_whole(path, contents[0])

    def write(content):
        for _ in range(20):
            write_whole(path, content)

    writers = [threading.Thread(target=write, args=(content,)) for content in contents]
    for writer in writers:
        writer.start()
    while any(writer.is_alive() for writer in writers):
        assert path.read_bytes() in contents
    assert [entry.name for entry in tmp_path.iterdir()] == ["forecast.csv"]


def test_a_link_is_followed_and_permissions_stay(tmp_path):
    (tmp_path / "real").mkdir()
    real, link = tmp_path / "real" / "a.csv", tmp_path / "a.csv"
    real.write_text("old")
    real.chmod(0o640)
    link.symlink_to(real)
    write_whole(link, b"new")
    assert (link.is_symlink(), real.read_bytes(), real.stat().st_mode & 0o777) == (True, b"new", 0o640)
