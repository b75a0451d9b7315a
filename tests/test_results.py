"""The committed result lines hold what the project says of them."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from benchmarks import processes
from benchmarks.large_graphs import SIZES, slope
from benchmarks.operator_costs import ARITHMETIC, BYTES, EVERY
from benchmarks.operator_work import DENSE, INDEXED, KINDS
from benchmarks.operators import DIFFUSION, slow_operators, why_not_large

from tdegnn.experiments.records import read_lines
from tdegnn.operators.registry import OPERATORS
from tdegnn.parts import Part
from tests import best_page, operators_page, results_page
from tests.cli.test_commands import run
from tests.core.checkers import Repulsion

RESULTS = Path(__file__).parent.parent / "results"
NEEDED = {"experiment", "protocol", "seed", "versions", "device", "descents"}


def lines(name):
    found = read_lines(RESULTS / name)
    assert found
    return found


def test_all_results_together_are_small():
    assert sum(path.stat().st_size for path in RESULTS.iterdir()) < 4_000_000


def test_packed_lines_are_reported_under_the_name_they_had(capsys):
    code, out, err = run(capsys, "reproduce", "table2", "--report", "--quiet", "--out", str(RESULTS / "table2.jsonl"))
    assert (code, err) == (0, "")
    assert "110 rows in" in out


def test_lines_are_in_one_file_each():
    names = [path.stem for path in RESULTS.glob("*.*") if path.suffix in (".jsonl", ".parquet")]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("name", ["pendulum.jsonl", "known_orders.jsonl"])
def test_every_line_says_how_it_was_made(name):
    assert all(line.keys() >= NEEDED for line in lines(name))


def test_order_two_wins_on_every_seed_with_adam():
    runs = [
        line for line in lines("pendulum.jsonl") if "Adam" in line["descents"][0] and line["observed_channels"] == 1
    ]
    for seed in range(5):
        models = {line["model"]: line for line in runs if line["seed"] == seed}
        best = models["TDE-GNN, order 2"]
        assert best["coefficients"] == pytest.approx([2, -1], abs=0.01)
        for rival in ("naive", "LSTM, one state", "LSTM, two states", "TDE-GNN, order 1"):
            assert best["roll_out_mse"] < models[rival]["roll_out_mse"]


def test_every_known_order_is_found():
    for line in lines("known_orders.jsonl"):
        if line["order"] == line["true_order"]:
            assert line["explained_share"] >= 0.95
        elif line["order"] < line["true_order"]:
            assert line["explained_share"] < 0.85


@pytest.mark.parametrize(("name", "num_lines"), [("pendulum.jsonl", 40), ("known_orders.jsonl", 48)])
def test_every_order_converges_with_variable_projection(name, num_lines):
    page = (RESULTS / "README.md").read_text()
    projected = [line for line in lines(name) if "Projection" in line["descents"][0]]
    assert len(projected) == num_lines
    for line in projected:
        if line["explained_share"] is None:  # not a network with a c
            continue
        if line["order"] >= line.get("true_order", 2):
            assert line["explained_share"] >= 0.95
        if name == "known_orders.jsonl":
            assert f"{line['explained_share']:.3f}" in page


def test_projected_pendulum_is_as_its_readme_says():
    page = (RESULTS / "README.md").read_text()
    projected = [line for line in lines("pendulum.jsonl") if "Projection" in line["descents"][0]]
    for order in range(1, 6):
        own = [line for line in projected if line["model"] == f"TDE-GNN, order {order}"]
        assert sorted(line["seed"] for line in own) == list(range(5))
        assert f"| {sum(line['explained_share'] for line in own) / 5:.4f} |" in page


def test_table_one_has_ten_splits_of_every_row_as_its_readme_says():
    from tdegnn.experiments.node_results import paired_gain
    from tdegnn.experiments.paper import NODE_ACCURACY
    from tdegnn.experiments.recipe_files import read_recipes
    from tdegnn.experiments.table1 import DATASETS, FIXED, LEARNED, SOLVED, SYSTEMS, summarize

    cells = summarize(lines("table1.jsonl"))
    page = (RESULTS / "README.md").read_text()
    assert len(NODE_ACCURACY) == 21
    assert set(cells) >= {(dataset, row) for dataset in DATASETS for row in NODE_ACCURACY}
    trained = {(dataset, row) for dataset in DATASETS for row in {*read_recipes(dataset)} & {*SYSTEMS}}
    assert {key for key in cells if key[1] not in SOLVED} == trained
    for (dataset, system), cell in cells.items():
        assert sorted(cell.test_accuracies) == list(range(10))
        assert f"{cell.mean:.2f}" in page
        if system in LEARNED:
            gain = paired_gain(cell, cells[dataset, FIXED])
            assert f"({gain.low:+.2f} to {gain.high:+.2f})" in page


def test_the_pages_have_the_tables_of_the_result_lines_also_with_a_new_operator(monkeypatch):
    monkeypatch.setitem(OPERATORS._members, "repulsion", Part(Repulsion))
    for path, renew in results_page.PAGES.items():
        page = path.read_text()
        assert renew(page) == page, "run `make results`"


def test_every_row_with_an_operator_is_trained_with_every_rule_on_every_dataset():
    """Operators without a row are listed with their reason, on the page: see `WHY_NO_ROW`."""
    from tdegnn.experiments.operator_rules import RULE_LINES, complete_datasets, operator_rows, summarize_rules
    from tdegnn.experiments.table1 import DATASETS

    cells = summarize_rules(read_lines(RESULTS / "operator_rules.jsonl", RULE_LINES))
    assert set(cells) == {(dataset, row) for dataset in DATASETS for row in operator_rows()}
    assert complete_datasets(cells, DATASETS) == list(DATASETS)
    assert all(sorted(cell.test_accuracies) == list(range(10)) for own in cells.values() for cell in own.cells.values())


def test_notes_on_rules_count_what_was_trained_twice_or_diverged():
    made = dict(dataset="squirrel-filtered", operator="GRAFF", rule="attention", configuration={"order": 2})
    scores = dict(validation_accuracy=0.5, test_accuracy=0.4, is_diverged=False)

    def note(*changes):
        written = [made | scores | {"split": number % 2} | change for number, change in enumerate(changes)]
        return results_page.render_rule_notes(written).splitlines()

    assert note({}, {})[0].startswith("- 0 of the 1 (dataset, row, rule) have")
    assert note({}, {})[1].endswith(": none.")
    assert note({}, {}, {}, {"rule": "stable"})[0].startswith("- 1 of the 2 ")
    assert note({}, {}, {})[0].endswith("in 1 of the 1 these lines are equal in every entry.")
    assert note({}, {}, {"test_accuracy": 0.3})[0].endswith("in 0 of the 1 these lines are equal in every entry.")
    assert note({}, {}, {"configuration": {"order": 3}})[0].startswith("- 0 of the 1 ")
    other = {"is_diverged": True}
    assert note({}, other)[1].endswith("GRAFF with attention on Squirrel, filtered, 1 of 2 splits.")
    assert note(other, other, {})[1].endswith("1 of 2 splits."), "the last line of a split counts"


def _timed_operators():
    lines = operators_page.read_lines(RESULTS / "operators_h200.json")
    found = [name.removeprefix(operators_page.FIRST) for name in lines if name.startswith(operators_page.FIRST)]
    return {name for name in found if " / " not in name}


def test_every_operator_has_a_row_or_a_reason():
    from tdegnn.experiments.operator_rules import RULE_LINES

    # A new operator needs no numbers. Those that were there when operators were timed have a row or a reason.
    trained = operators_page.operators_in(read_lines(RESULTS / "operator_rules.jsonl", RULE_LINES))
    assert _timed_operators() <= trained | {*operators_page.WHY_NO_ROW} <= {*OPERATORS.names}
    page = (RESULTS / "README.md").read_text()
    _, _, after = page.partition("<!-- row-less operators -->")
    listed = after.partition("<!-- end of")[0]
    assert all(f"`{name}`" in listed for name in ("gread-f", "alone", "together", "walks", "learned-adjacency"))
    assert "`dir-gnn`" not in listed


def test_the_memory_and_the_work_of_every_operator_are_measured():
    memory, work = (operators_page.read_lines(RESULTS / f"operators_{what}.json") for what in ("memory", "work"))
    left_out = {name for name in OPERATORS.names if why_not_large(name) is not None}
    measured = {name.removeprefix(operators_page.MEMORY).removesuffix(", one way") for name in memory}
    assert _timed_operators() <= measured | left_out <= {*OPERATORS.names}
    assert measured & left_out == set()
    assert _timed_operators() <= {name.partition(", ")[2] for name in work} <= {*OPERATORS.names}
    many = {name.removeprefix(operators_page.MEMORY) for name, line in memory.items() if line["value"] > 20}
    assert many == {*operators_page.WHY_MANY}
    for what in ("memory", "work"):
        written = json.loads((RESULTS / f"operators_{what}.json").read_text())
        assert written["device"].startswith("cpu")
        assert "torch" in written["versions"]


def test_what_bounds_operators_is_as_counts_and_profile_say():
    times, work, profile = (
        operators_page.read_lines(RESULTS / f"operators_{what}.json") for what in ("h200", "work", "profile")
    )
    shares = operators_page.read_shares(profile)
    assert {*shares} == {DIFFUSION, *slow_operators()}
    for own in shares.values():
        assert sum(operators_page.by_kind(own)) == pytest.approx(100)
        single = [value for operation, value in own.items() if operation not in KINDS]
        assert len(single) == 5
        assert single == sorted(single, reverse=True)
    written = json.loads((RESULTS / "operators_profile.json").read_text())
    assert written["device"].startswith("cpu")
    assert "torch" in written["versions"]

    dense = {operator: own[DENSE] for operator, own in shares.items()}
    assert all(dense[name] > 50 for name in ("learned-adjacency", "together", "flode"))
    assert max(operators_page.by_kind(shares["cde"])) < 50
    attention = [name for name in shares if name.startswith(("grand", "gread", "gat"))]
    for name in [*attention, *(name for name in shares if name.startswith("sheaf"))]:
        assert min(operators_page.by_kind(shares[name])) > 10
        assert max(operators_page.by_kind(shares[name])) < 60
    for name in attention:
        ratios = operators_page.over_diffusion(work, name)
        assert max(ratios, key=ratios.get) == "operations"
        assert max(ratios.values()) < times[f"{operators_page.FIRST}{name} / {DIFFUSION}"]["value"]
    for name in [name for name in attention if name not in ("grand-nonlinear", "gat")]:
        assert 1.5 < times[f"{operators_page.FOUR}{name} / {DIFFUSION}"]["value"] < 2.5


def test_what_bounds_operators_is_as_fitted_costs_say():
    times, work = (operators_page.read_lines(RESULTS / f"operators_{what}.json") for what in ("h200", "work"))
    found, costs = operators_page.fit_costs(times, work)
    parts = {name: each for name, (_, each) in found.items()}
    errors = {name: sum(parts[name].values()) / measured - 1 for name, (measured, _) in found.items()}
    shares = {name: {part: each / sum(own.values()) for part, each in own.items()} for name, own in parts.items()}
    attention = [name for name in slow_operators() if name.startswith(("grand", "gread", "gat"))]
    for name in attention:
        assert abs(errors[name]) < 0.1
        assert 0.395 < shares[name][INDEXED] < 0.475
        assert 8 <= operators_page.work_of(work, name)[INDEXED].operations <= 10
        assert 0.2 < shares[name][BYTES] < 0.3
        assert 0.25 < shares[name][EVERY] < 0.3
    assert (round(costs.each[EVERY]), round(costs.each[INDEXED], -1)) == (3, 50)
    with_index = {name for name in found if operators_page.work_of(work, name)[INDEXED].operations}
    assert with_index == {*attention, "cde", *(name for name in found if name.startswith("sheaf"))}
    for name in ("learned-adjacency", "together", "acm+", "acmii+"):
        assert max(shares[name], key=shares[name].get) == BYTES
    assert max(shares["flode"], key=shares["flode"].get) == ARITHMETIC
    assert all(max(shares[name], key=shares[name].get) == EVERY for name in found if name.startswith("sheaf"))
    rounded = {name: round(100 * errors[name]) for name in ("sheaf-general", "sheaf-bundle", "cde")}
    assert rounded == {"sheaf-general": -29, "sheaf-bundle": 27, "cde": -32}


def test_fits_keep_their_time_budget():
    from benchmarks.time_budget import GOAL, TASKS

    lines = json.loads((RESULTS / "time_budget.json").read_text())["lines"]
    shares = {line["name"]: line for line in lines if line["name"].startswith("fit / budget: ")}
    assert list(shares) == [f"fit / budget: {name}" for name in TASKS]
    assert all(line["goal"] == GOAL == 1.2 for line in shares.values())
    # There are more steps to make than any of these budgets allows: using little of it would be a fault too.
    assert all(0.5 < line["value"] <= 1.2 for line in shares.values())


def test_the_page_on_speed_has_the_numbers_of_large_panels():
    measured = json.loads((RESULTS / "large_panels.json").read_text())["lines"]
    assert all(line["met"] for line in measured)
    by_name = {line["name"]: line["value"] for line in measured}
    page = (RESULTS.parent / "docs" / "performance.md").read_text()
    assert f"takes {by_name['fit of 2,000 nodes x 3,000 steps, two threads']:.0f} s on two idle" in page
    assert f"{by_name['its peak memory, imports included'] / 1000:.1f} GB, imports included" in page
    assert f"takes {1000 * by_name['a forecast of 207 nodes x 12 steps, two threads']:.0f} ms" in page


def test_the_page_on_speed_has_the_numbers_of_the_roofline_and_of_pyg():
    measured = json.loads((RESULTS / "roofline.json").read_text())["lines"]
    assert all(line["met"] for line in measured if line["goal"] is not None)
    by_name = {line["name"]: line["value"] for line in measured}
    page = (RESULTS.parent / "docs" / "performance.md").read_text()
    where = "999,754 messages"
    for rule in ("c = [1]", "learned vector", "attention"):
        (row,) = (line for line in page.splitlines() if line.startswith(f"| a million messages, {rule} |"))
        for name, form in {"a step, ours": ".0f", "time, ours / PyG": ".2f"}.items():
            assert f" {by_name[f'{where}: {name}, {rule}']:{form}} |" in row
        share = by_name[f"{where}: a training step, {rule}, share of the bandwidth"]
        assert f"{by_name[f'{where}: a training step, {rule}']:.0f} ms | {share:.0f} % |" in page
        # Gradients in flight are an upper bound, and the count of tensors is exact.
        assert 1 <= by_name[f"{where}: memory of a step, {rule}, sum of terms / measured peak"] < 1.15
    for term in ("sparse product", "weighted sum", "attention"):
        name = f"{where}: {term}, forward"
        assert f"{by_name[name]:.1f}, {by_name[f'{name}, share of the bandwidth']:.0f} %" in page


def test_the_page_on_speed_has_the_numbers_of_a_gpu():
    measured = json.loads((RESULTS / "h200.json").read_text())["lines"]
    assert not [line["name"] for line in measured if line["met"] is False]
    assert {
        line["goal"] for line in measured if line["name"].endswith(("attention / c = [1]", "runs of Chameleon"))
    } == {1.6, 3.0}
    by_name = {line["name"]: line["value"] for line in measured}
    page = (RESULTS.parent / "docs" / "performance.md").read_text()
    where = "19,999,794 messages"
    for rule in ("c = [1]", "learned vector", "attention"):
        share = by_name[f"{where}: a training step, {rule}, share of the bandwidth"]
        assert f"{by_name[f'{where}: a training step, {rule}']:.0f} ms | {share:.0f} % |" in page
    for term in ("sparse product", "weighted sum", "attention"):
        shares = (by_name[f"{where}: {term}, {way}, share of the bandwidth"] for way in ("forward", "backward"))
        assert f"| {term} | {next(shares):.0f} % | {next(shares):.0f} % |" in page
    assert by_name[f"{where}: sparse product, backward, share of the bandwidth"] >= 65
    words = " ".join(page.split())
    from_edges, with_matrix = (by_name[f"{where}: a step, PyG{form}"] for form in ("", ", sparse matrix"))
    assert f"PyG's GCN takes {from_edges:.0f} ms from edges and {with_matrix:.0f} ms with a matrix" in words
    about = json.loads((RESULTS / "h200.json").read_text())["about"]
    assert ("it was measured in an earlier run" in words) is ("PyG, large graphs, assembly" in about)


def test_the_page_on_speed_has_the_steps_with_short_messages():
    lines = json.loads((RESULTS / "short_messages_h200.json").read_text())["lines"]
    by_name = {line["name"].removeprefix("19,999,794 messages: "): line["value"] for line in lines}
    page = (RESULTS.parent / "docs" / "performance.md").read_text()
    for rule in ("c = [1]", "learned vector", "attention"):
        traffic = (by_name[f"least traffic of a step, {rule}{end}"] for end in ("", ", 16-bit messages"))
        long, short = (by_name[f"a training step, {rule}{end}"] for end in ("", ", 16-bit messages"))
        row = [rule, *(f"{gigabytes:.0f} GB" for gigabytes in traffic), f"{long:.1f} ms", f"{short:.1f} ms"]
        assert f"| {' | '.join(row)} | {short / long:.2f} |" in page


def test_the_page_on_speed_has_the_growth_of_large_graphs():
    by_name = {line["name"]: line["value"] for line in json.loads((RESULTS / "large_graphs.json").read_text())["lines"]}
    page = (RESULTS.parent / "docs" / "performance.md").read_text()
    for edges in ("10,000", "100,000", "1,000,000", "10,000,000", "100,000,000"):
        (row,) = (line for line in page.splitlines() if line.startswith(f"| {edges} |"))
        assert f"| {by_name[f'{edges} edges: a step by partitions']:.3f} s |" in row
        assert f"| {by_name[f'{edges} edges: memory of steps, beside the imports']:.0f} MB |" in row
    epoch, steps, prediction = (
        by_name[f"slope of the {what}, from 10,000 edges on"]
        for what in ("time of an epoch", "memory, steps", "time of a prediction in blocks")
    )
    assert max(epoch, steps) < 1.05 < prediction
    words = " ".join(page.split())
    assert f"to the power of {epoch:.2f} (goal: 1.05)" in words
    assert f"as that of {prediction:.2f}, which misses the goal" in words
    times = [by_name[f"{edges:,} edges: an epoch of the whole graph at once"] for edges in SIZES]
    assert f"the whole graph at once grows as the edges to the power of {slope(SIZES, times):.2f}" in words
    later = [
        by_name[f"slope of the time of {what}, from 100,000 edges on"]
        for what in ("an epoch", "a prediction in blocks")
    ]
    later = (*later, slope(SIZES[1:], times[1:]))
    assert "{:.2f} for an epoch, {:.2f} for a prediction and {:.2f} for the whole graph".format(*later) in words
    assert f"with the imports is {by_name['100,000,000 edges: peak memory'] / 1000:.1f} GB" in words
    in_fit, in_writing = (
        by_name[f"100,000,000 edges: peak memory {when}"] / 1000
        for when in ("of NodeClassifier.fit", "while the files are written")
    )
    assert max(in_fit, in_writing) < 8
    assert f"takes {in_fit:.1f} GB at its peak (goal: 8 GB" in words
    assert f"{(2 + 1) * 10e6 * 32 * 4 / 1e9:.1f} GB are the states of a validation" in words
    assert f"to write its files takes {in_writing:.1f} GB" in words


def test_the_page_on_speed_has_the_memory_of_deep_networks():
    found = json.loads((RESULTS / "deep_networks.json").read_text())["lines"]
    assert all(line["met"] is not False for line in found)
    by_name = {line["name"]: line["value"] for line in found}
    page = (RESULTS.parent / "docs" / "performance.md").read_text()
    (_, rows) = page.split("## Deep networks in less memory")
    depths = re.findall(r"^\| (\d+) \| ", rows.split("## ")[0], re.MULTILINE)
    assert depths == ["16", "64"]
    for depth in depths:
        memory, seconds = (
            [by_name[f"{depth} layers: {what} of a step{end}"] for end in ("", " in segments")]
            for what in ("memory", "time")
        )
        row = [depth, *(f"{megabytes:,.0f} MB" for megabytes in memory), f"{memory[1] / memory[0]:.2f}"]
        row += [*(f"{each:.1f} s" for each in seconds), f"{seconds[1] / seconds[0]:.2f}"]
        assert f"| {' | '.join(row)} |\n" in rows


def test_the_reasoning_about_a_billion_edges_has_the_numbers_of_what_was_measured():
    words = " ".join((RESULTS.parent / "docs" / "performance.md").read_text().split())
    _, words = words.split("## Beyond: a billion edges")
    gpu = {line["name"]: line["value"] for line in json.loads((RESULTS / "h200.json").read_text())["lines"]}
    where, rules = "19,999,794 messages", ("c = [1]", "learned vector", "attention")
    # A million nodes with 20 messages each: megabytes are bytes per node.
    per_node = np.array([gpu[f"{where}: memory of a step, {rule}, measured peak"] for rule in rules])
    nodes = 140 * 2**30 / per_node / 1e6
    for numbers, unit in (
        ([f"{size / 1000:.1f}" for size in per_node], "kB, as measured with a million"),
        ([f"{count:.0f}" for count in nodes], "million nodes"),
        ([f"{round(20 * count, -1):.0f}" for count in nodes], "million messages"),
        ([f"{round(size / 10, -1):.0f}" for size in per_node], "GB by that measure: three to five such devices"),
    ):
        assert f"{' / '.join(numbers)} {unit}" in words
    assert (int(np.ceil(100 / nodes.max())), int(np.ceil(100 / nodes.min()))) == (3, 5)
    cpu = {line["name"]: line["value"] for line in json.loads((RESULTS / "large_graphs.json").read_text())["lines"]}
    step = cpu["100,000,000 edges: a step by partitions"]
    assert f"At {step:.3f} s per step, as on two idle cores, an epoch takes {5000 * step / 60:.0f} minutes" in words
    peak, power = cpu["100,000,000 edges: peak memory"] / 1000, cpu["slope of the memory, steps, from 10,000 edges on"]
    last = [cpu[f"{edges:,} edges: memory of steps, beside the imports"] for edges in (10**7, 10**8)]
    last_power = slope([10**7, 10**8], last)
    assert f"{peak * 10**power:.0f} GB if it grows as it did from 10 thousand to 10 million edges" in words
    assert f"10 million edges (to the power of {power:.2f}), {peak * 10**last_power:.0f} GB if as from" in words
    assert f"from 10 to 100 million ({last_power:.2f})" in words
    assert f"{10 * peak:.0f} GB if in proportion" in words
    # Of 100 million nodes with 32 channels: the history of order 2, and the rate.
    assert f"`order + 1` of them: {(2 + 1) * 100e6 * 32 * 4 / 1e9:.0f} GB at order 2 and 32 channels" in words


def test_help_and_predictions_of_saved_runs_start_within_their_goals():
    measured = json.loads((RESULTS / "command_line.json").read_text())["lines"]
    goals = {line["name"]: line["goal"] for line in measured if line["goal"] is not None}
    predictions = ("load a forecaster and predict", "load a classifier and predict")
    predictions += ("tdegnn predict, series", "tdegnn predict, nodes")
    assert goals == {"tdegnn --help": 0.3, "tdegnn explain": 1.0} | dict.fromkeys(predictions, 3.0)
    assert [line["name"] for line in measured if line["met"] is False] == []
    page = (RESULTS.parent / "docs" / "performance.md").read_text()
    assert "`tdegnn --help` takes less than 0.3 s" in page
    assert "takes less than 3 s in all" in page


def test_batches_are_within_one_deviation_of_the_whole_graph_on_ten_splits():
    from tdegnn.experiments.mini_batches import (
        BATCH_LINES,
        DATASETS,
        NEIGHBORHOODS,
        PARTITIONS,
        RIVALS,
        SMALL_PARTITIONS,
        WAYS,
        WHOLE,
        WHOLE_AS_LONG,
        compare_batches,
    )
    from tests.batches_page import SHARES, in_words

    found = read_lines(RESULTS / "mini_batches.jsonl", BATCH_LINES)
    page, guide = (
        " ".join((RESULTS.parent / name).read_text().split()) for name in ("results/README.md", "docs/large_graphs.md")
    )
    small = {}
    for dataset in DATASETS:
        ways = compare_batches(found, dataset)
        small[dataset] = ways[SMALL_PARTITIONS]
        assert all(sorted(way.cell.test_accuracies) == list(range(10)) for way in ways.values())
        # In either direction: neither a loss nor a gain beyond chance. But with really small batches there is a loss.
        assert [name for name, way in ways.items() if not way.is_within] == [SMALL_PARTITIONS]
        if list(ways) == list(WAYS):
            assert all(ways[RIVALS[name]].num_steps == way.num_steps for name, way in ways.items())
        else:  # fewer steps of the whole graph are a fair rival only if they were enough
            assert [*ways, WHOLE_AS_LONG] == sorted([*WAYS], key=[*ways, WHOLE_AS_LONG].index)
            own = [line for line in found if (line["dataset"], line["system"]) == (dataset, WHOLE)]
            latest = max(line["best_step"] for line in own)
            assert latest < 0.9 * ways[WHOLE].num_steps
            assert f"not later than step {latest} of {ways[WHOLE].num_steps}" in page
    partitions, neighborhoods, whole = (ways[name].cell for name in (PARTITIONS, NEIGHBORHOODS, WHOLE_AS_LONG))
    assert (
        f"partitions reach {partitions.mean:.1f} % over ten splits and neighborhoods {neighborhoods.mean:.1f} %"
        in guide
    )
    assert f"deviation ({whole.deviation:.1f} points) of the {whole.mean:.1f} % of the whole graph" in guide
    pubmed, squirrel = (small[name] for name in ("pubmed", "squirrel"))
    behind = f"{-squirrel.difference:.1f} points behind the whole graph on Squirrel ({squirrel.cell.mean:.1f} %)"
    assert f"{behind} and {-pubmed.difference:.1f} on PubMed ({pubmed.cell.mean:.1f} %)" in guide
    assert (
        f"they are {-pubmed.difference:.1f} points behind on PubMed and {-squirrel.difference:.1f} on Squirrel" in page
    )
    steps = [line["best_step"] for line in found if (line["dataset"], line["system"]) == ("squirrel", SMALL_PARTITIONS)]
    assert f"on Squirrel are between {min(steps):,} and {max(steps):,} of {squirrel.num_steps:,}" in page
    shares = json.loads(SHARES.read_text())["shares"]
    pubmed, squirrel = ({way: in_words(own) for way, own in shares[name].items()} for name in ("pubmed", "squirrel"))
    seen = f"sees {squirrel[PARTITIONS]} of the nodes of Squirrel and {pubmed[PARTITIONS]} of those of PubMed"
    assert f"{seen}, and one of neighborhoods {squirrel[NEIGHBORHOODS]} and {pubmed[NEIGHBORHOODS]}" in guide
    assert f"({squirrel[SMALL_PARTITIONS]} of the nodes of Squirrel, {pubmed[SMALL_PARTITIONS]} of PubMed)" in guide


def test_the_best_networks_have_all_rows_and_ablations_on_all_datasets():
    from tdegnn.experiments.best_cells import BEST_LINES
    from tdegnn.experiments.best_tables import summarize_best
    from tdegnn.experiments.table1 import DATASETS

    known = read_lines(RESULTS / "best.jsonl", BEST_LINES)
    found = {name: result for name in DATASETS if (result := summarize_best(known, name)) is not None}
    assert set(found) == set(DATASETS)
    for name, result in found.items():
        assert len(result.rows) == 8, name
        assert result.mean_of_seeds is not None, name
        assert len(result.ablation) >= 4, name
    # Goals: 81.0 is reached, 78.0 is missed by less than a tenth of a point.
    assert found["chameleon"].rows[found["chameleon"].best].mean >= 81.0
    assert 77.9 <= found["squirrel"].rows[found["squirrel"].best].mean < 78.0


def test_the_benchmark_of_processes_measures_all_that_is_in_its_file(monkeypatch):
    monkeypatch.setattr(
        processes, "_run", lambda name, size: [1.0, 2.0, 4, 3.0, 4.0] if size == 2 else [2.0, 1.0, 4, 1, 1]
    )
    lines = {name: value for name, value, *_ in processes.measure()}
    assert {line["name"] for line in json.loads((RESULTS / "processes.json").read_text())["lines"]} <= lines.keys()
    for suffix, what in (("", "windows"), (", partitions", "nodes")):
        assert lines[f"throughput of two processes / one, an epoch with a validation{suffix}"] == 9 / 6
        assert lines[f"time of a shared validation / one of all {what} in each of two processes, in turns"] == 3 / 4


def test_two_processes_make_more_steps_than_one():
    measured = {line["name"]: line for line in json.loads((RESULTS / "processes.json").read_text())["lines"]}
    assert measured["time of two processes / one"]["met"]
    gain = measured["throughput of two processes / one"]["value"]
    assert gain >= 1.6
    page = (RESULTS / "README.md").read_text()
    assert f"make {gain:.2f} times the training steps" in page
    if "time of two processes / one, partitions" in measured:  # series were measured first
        assert measured["time of two processes / one, partitions"]["met"]
        gain = measured["throughput of two processes / one, partitions"]["value"]
        assert gain >= 1.6
        assert f"and {gain:.2f} times those on partitions" in page
    epoch, validation, in_turns = (
        measured[name]["value"]
        for name in (
            "throughput of two processes / one, an epoch with a validation, partitions",
            "time of a validation by two processes / one, partitions",
            "time of a shared validation / one of all nodes in each of two processes, in turns",
        )
    )
    assert f"gains less: {epoch:.2f} times. A validation by two processes takes {validation:.2f} times as long" in page
    assert f"a shared one takes {in_turns:.2f} of the time" in page
    words = " ".join((RESULTS.parent / "docs" / "several_machines.md").read_text().split())
    assert in_turns < 1
    assert f"it takes {in_turns:.2f} of the time of one that each process computes for itself" in words
    assert f"gains {epoch:.2f} by two processes" in words


def test_pages_say_what_learned_time_is_worth():
    from tdegnn.experiments.best_cells import BEST_LINES
    from tdegnn.experiments.best_tables import summarize_best
    from tdegnn.experiments.series_search import SEARCHED_LINES, worth_of_rules
    from tdegnn.experiments.table1 import DATASETS
    from tdegnn.experiments.traffic import TRAFFIC_LINES, paired_differences, summarize_traffic

    known = read_lines(RESULTS / "best.jsonl", BEST_LINES)
    gains = {name: summarize_best(known, name).nested.gain for name in DATASETS}
    told = {name: gain.mean for name, gain in gains.items() if gain.low > 0 or gain.high < 0}
    assert set(told) == {"citeseer", "chameleon-filtered"}
    lowest, highest = told["citeseer"], told["chameleon-filtered"]
    readme, honest = (" ".join(page.read_text().split()) for page in (results_page.README, results_page.HONEST_PAGE))
    assert f"by {lowest:+.1f} (Citeseer) to {highest:+.1f} points (filtered Chameleon)" in readme
    assert "told from zero on the six others" in readme
    assert "told from zero on six of eight datasets" in honest
    assert f"costs {-lowest:.1f} points on Citeseer and adds {highest:.1f} on filtered Chameleon" in honest
    searched = read_lines(RESULTS / "table2_searched.jsonl", SEARCHED_LINES)
    worth = worth_of_rules(searched)
    assert f"the error of a forecast by at most {max(gain.mean for gain in worth.values()):.3f}" in readme
    # And the other side.
    chickenpox, pedalme, wikipedia = (
        min(gain.mean for key, gain in worth.items() if key[0] == name)
        for name in ("chickenpox", "pedalme", "wikimath")
    )
    raised = f"{-chickenpox:.3f} on Chickenpox, {-pedalme:.3f} on PedalMe and {-wikipedia:.3f} on Wikipedia"
    assert f"by up to {raised}" in readme
    assert all(gain.high > 0 for gain in worth.values())
    traffic = summarize_traffic(read_lines(RESULTS / "traffic.jsonl", TRAFFIC_LINES))
    euler, rules = traffic["c = [1]"], [traffic[name] for name in ("default", "attention", "stable")]
    costs = [paired_differences(euler, rule)["rmse"] for rule in rules]
    assert all(cost.low > 0 for cost in costs)
    found = [f"{cost.difference:.3f}" for cost in costs]
    assert f"by {min(found)} to {max(found)} in RMSE on a week of traffic, which can." in readme


def test_a_kernel_ridge_without_a_network_has_the_accuracy_that_was_known():
    from tdegnn.experiments.table1 import summarize

    cells = summarize(lines("table1.jsonl"))
    assert cells["chameleon", "kernel ridge"].mean == pytest.approx(80.0, abs=0.3)
    assert cells["squirrel", "kernel ridge"].mean == pytest.approx(77.1, abs=0.3)
    assert len(cells["pubmed", "kernel ridge"].test_accuracies) == 10


def test_killed_fits_end_with_the_forecast_of_whole_ones():
    measured = json.loads((RESULTS / "killed_fit.json").read_text())["lines"]
    assert all(line["met"] for line in measured)
    by_name = {line["name"]: line["value"] for line in measured}
    for large_or_small in ("2,000 nodes x 3,000 steps after 3 kills", "100 nodes x 500 steps after 5 kills"):
        assert by_name[f"rows that differ in the forecast of {large_or_small}"] == 0
    seconds = by_name["a default fit of 2,000 nodes x 3,000 steps, the whole command"]
    gigabytes = by_name["its peak memory"] / 1000
    assert f"a whole fit takes {seconds:.0f} s and {gigabytes:.1f} GB" in (RESULTS / "README.md").read_text()


def test_sixty_million_edges_are_assembled_within_the_goals():
    runs = json.loads((RESULTS / "graph_assembly.json").read_text())["runs"]
    page = (RESULTS / "README.md").read_text()
    assert [each["threads"] for each in runs] == [1, 2]
    for each in runs:
        assert each["edges"] == 61_000_000
        assert each["seconds_in_all"] < each["goal_seconds_on_16_cores"] == 12
        assert each["memory_ratio_with_the_edges"] < each["goal_memory_ratio"] == 3
    one, two = runs
    assert f"take {one['seconds_in_all']:.1f} s on one thread and {two['seconds_in_all']:.1f} s on two" in page
    assert f"{two['memory_ratio']:.2f} times the memory of the list of edges" in page
    against_int32 = two["extra_mb"] / (2 * 4 * two["edges"] / 1e6)
    assert f"against that it is {against_int32:.1f} times (2 threads)" in page
    guide = " ".join((RESULTS.parent / "docs" / "large_graphs.md").read_text().split())
    assert f"is {two['memory_ratio']:.2f} times a list of edges in int64, and {against_int32:.1f} times one in" in guide


def test_the_default_classifier_is_within_a_point_of_more_steps_and_of_the_features_on_ten_graphs():
    from tdegnn.experiments.ten_graphs import FEATURES, GRAPH_LINES, GRAPHS, LONG, compare, gains_by_seed

    found = read_lines(RESULTS / "ten_graphs.parquet", GRAPH_LINES)
    assert {line["graph"] for line in found} == {*GRAPHS}
    # All that were decided on before they were looked at, and no others.
    assert {line["seed"] for line in found} == {*range(60, 65)}
    gains = {(name, other): compare(found, name, other) for name in GRAPHS for other in (FEATURES, LONG)}
    assert {gain.num_seeds for gain in gains.values()} == {5}
    worst = {other: min(gains[name, other].gain for name in GRAPHS) for other in (FEATURES, LONG)}
    assert min(worst.values()) > -1
    page = (RESULTS / "README.md").read_text()
    assert f"at most {-worst[FEATURES]:.1f} points behind logistic regression" in page
    assert f"and at most {-worst[LONG]:.1f} points behind 3,000 steps" in page
    # Single seeds that miss by more than a point are told, too.
    missed = {
        other: {
            (name, seed): gain
            for name in GRAPHS
            for seed, gain in gains_by_seed(found, name, other).items()
            if gain <= -1
        }
        for other in (FEATURES, LONG)
    }
    assert len(missed[FEATURES]) == 3
    for (name, seed), gain in missed[FEATURES].items():
        assert f"`{name}` with seed {seed} ({gain:.1f})" in page
    behind = sorted(-gain for gain in missed[LONG].values())
    assert f"3,000 steps four of the fifty pairs (-{behind[0]:.1f} to -{behind[-1]:.1f})" in page
    assert len(behind) == 4
    assert {line["score"] for line in found} == {"accuracy", "roc-auc"}
    assert all(line["steps"] == 3000 for line in found if line["system"] == LONG)
    # "The same with 3,000 steps" is the same network, with the same settings.
    networks = {}
    for line in found:
        networks.setdefault((line["graph"], line["seed"]), set()).add((line["network"], str(line["network_settings"])))
    assert {len(own) for own in networks.values()} == {1}
    assert all(line.keys() >= {"protocol", "seed", "versions", "device"} for line in found)


def test_forecasts_of_hourly_counts_are_near_the_true_rate_and_intervals_hold_among_positive_counts():
    from tdegnn.experiments.hourly_counts import COUNT_LINES, summarize_counts

    found = read_lines(RESULTS / "hourly_counts.jsonl", COUNT_LINES)
    means = summarize_counts(found)
    assert means["seeds"] >= 2
    for numbers in (means, *found):
        assert numbers["error_ratio"] <= 1.05
        assert 0.88 <= numbers["coverage"] <= 0.92
        assert 0.86 <= numbers["coverage_of_positive"] <= 0.94
        assert numbers["zeros"] > 0.75
    assert all(line["lowest_end"] >= 0 and line["intervals"] == "auto: counts" for line in found)
    assert all(line.keys() >= {"protocol", "seed", "versions", "device"} for line in found)


def test_lines_of_a_default_forecaster_were_chosen_from_the_networks_of_today():
    """If not, `tdegnn reproduce traffic` and `hourly-counts` run them again: see `tried_networks.py`."""
    from tdegnn.experiments.hourly_counts import COUNT_LINES
    from tdegnn.experiments.traffic import TRAFFIC_LINES
    from tdegnn.experiments.tried_networks import is_chosen_today, newest_by_seed

    week = read_lines(RESULTS / "traffic.jsonl", TRAFFIC_LINES, forecaster=["default"])
    for found in (week, read_lines(RESULTS / "hourly_counts.jsonl", COUNT_LINES)):
        newest = newest_by_seed(found)
        assert newest
        assert [line["seed"] for line in newest if not is_chosen_today(line)] == []


def test_searched_rows_of_table_two_are_as_its_readme_says():
    from tdegnn.experiments.series_search import (
        NUM_CONFIGS,
        OURS,
        ROW,
        SEARCHED_LINES,
        SYSTEMS,
        TRIAL,
        leads_over_rivals,
        summarize_searched,
    )

    found = read_lines(RESULTS / "table2_searched.jsonl", SEARCHED_LINES)
    rows, trials = summarize_searched(found, ROW), summarize_searched(found, TRIAL)
    assert {key[2] for key in rows} == {*SYSTEMS}
    # A search that is not finished has no row.
    assert {len(trials[key]) for key in rows} == {2 * NUM_CONFIGS}
    assert {len(own) for own in rows.values()} == {10}
    # What the page says of rivals: none is ahead by more than chance. Those that were run, with 4 lags.
    leads = leads_over_rivals(rows)
    assert {key[1] for key in leads} == {4}
    assert {name for name in SYSTEMS if name not in OURS} - {key[2] for key in leads if key[0] == "wikimath"} == {
        "A3T-GCN",
        "MPNN-LSTM",
    }
    said = "With 4 lags, no rival that was run is ahead of ours by more than chance, on any of the three datasets"
    assert f"**{said}** (two were not run on Wikipedia" in (RESULTS / "README.md").read_text()
    assert {key[0] for key in leads} == {"chickenpox", "pedalme", "wikimath"}
    assert all(lead.gain.high > 0 for lead in leads.values())
    ahead = {key[::2] for key, lead in leads.items() if lead.gain.mean < 0}
    on_chickenpox = ("GC-LSTM", "MPNN-LSTM", "GConvGRU", "DyGrAE", "DCRNN")
    on_pedalme = {key[::2] for key in leads if key[0] == "pedalme"} - {("pedalme", "DCRNN")}
    assert ahead == {*(("chickenpox", name) for name in on_chickenpox), ("wikimath", "AGCRN"), *on_pedalme}
    means = {key: f"{np.mean([line['test_mse'] for line in own]):.3f}" for key, own in rows.items()}
    lstm, mpnn, dcrnn = (means["chickenpox", 4, name] for name in ("GC-LSTM", "MPNN-LSTM", "DCRNN"))
    own = means["chickenpox", 4, leads["chickenpox", 4, "DCRNN"].ours]
    named = f"GC-LSTM ({lstm}), MPNN-LSTM ({mpnn}), GConvGRU, DyGrAE and DCRNN ({dcrnn}, ours {own}), on Wikipedia"
    (wikipedia,) = {means["wikimath", 4, name] for name in OURS}
    page = (RESULTS / "README.md").read_text()
    assert f"{named} AGCRN" in page
    assert f"On Wikipedia all of ours have {wikipedia} with 4 lags" in page
    pedalme = [own for key, own in rows.items() if key[0] == "pedalme"]
    errors = [[np.mean([line[name] for line in own]) for own in pedalme] for name in ("validation_mse", "test_mse")]
    assert f"errors is {np.corrcoef(*errors)[0, 1]:.2f}:" in page


def test_tables_without_lines_name_the_command(tmp_path):
    page = best_page.renew_searched("", tmp_path)
    assert page.count("Not run yet: `tdegnn reproduce best --out results/best.jsonl`.") == 4
    assert page.count("Not run yet: `tdegnn reproduce defaults --out results/defaults.jsonl`.") == 1
    assert best_page.renew_searched(page, tmp_path) == page


def test_lines_of_table_one_say_how_they_were_made():
    needed = {"dataset", "system", "split", "seed", "protocol", "validation_accuracy", "test_accuracy", "configuration"}
    assert all(line.keys() >= needed | {"epoch", "versions", "device"} for line in lines("table1.jsonl"))


def test_runtimes_are_those_of_their_table():
    page = (RESULTS / "README.md").read_text()
    for line in lines("runtimes.jsonl"):
        row = f"| {line['system']} | {line['training_ms']:.2f} |"
        assert row in page
        assert f"| {line['inference_ms']:.2f} |" in page
        assert f"| {line['num_parameters']:,} |" in page


def test_the_ablation_has_all_orders_of_both_rules_on_two_datasets_as_its_readme_says():
    from tdegnn.experiments.ablation import DATASETS, ORDERS, SYSTEMS, summarize_orders
    from tdegnn.experiments.node_results import paired_gain

    cells, page = summarize_orders(lines("ablation.jsonl")), (RESULTS / "README.md").read_text()
    assert set(cells) == {(dataset, system) for dataset in DATASETS for system in SYSTEMS}
    for by_order in cells.values():
        assert list(by_order) == list(ORDERS)
        assert all(sorted(cell.test_accuracies) == list(range(10)) for cell in by_order.values())
        assert all(str(paired_gain(by_order[order], by_order[1])) in page for order in ORDERS if order > 1)


def test_learned_rates_are_those_of_their_table():
    from tdegnn.experiments.node_results import Cell, paired_gain

    by_rate = {}
    for line in lines("learned_rates.jsonl"):
        rate = line["configuration"]["temporal"]["learning_rate"] if line["system"] == "TDE-GNN_D" else "fixed"
        by_rate.setdefault(rate, []).append(line)
    cells = {rate: Cell.from_lines(members) for rate, members in by_rate.items()}
    page = (RESULTS / "README.md").read_text()
    for rate, cell in cells.items():
        assert f"| {cell.mean:.2f} |" in page
        assert rate == "fixed" or str(paired_gain(cell, cells["fixed"])) in page


def test_results_of_wikipedia_are_called_reconstructed():
    from tdegnn.experiments.series_rows import shown_names

    series = [line for name in ("table2", "table2_searched", "series_ablation") for line in lines(f"{name}.parquet")]
    assert shown_names(series)["wikimath"] == "wikimath (reconstructed)"
    results = (RESULTS / "README.md").read_text()
    sections = [part for part in results.split("\n## ") if "Wikipedia" in part]
    assert [part.partition("\n")[0] for part in sections] == [
        "`table2.parquet`",
        "`table2_searched.parquet`",
        "`series_ablation.parquet`",
    ]
    for text in (*sections, results_page.README.read_text()):
        rows = [row for row in text.splitlines() if row.startswith("|") and "Wikipedia" in row]
        assert rows
        assert [row for row in rows if "Wikipedia (reconstructed)" not in row] == []
        assert re.search(r"^(\*Reconstructed\*: |Wikipedia is reconstructed from )", text, re.MULTILINE)


def test_table_two_is_as_its_readme_says():
    from tdegnn.experiments.series_tasks import OURS, TASKS
    from tdegnn.experiments.table2 import PROTOCOLS, summarize
    from tdegnn.rivals.series.registry import SERIES_NETWORKS

    page = (RESULTS / "README.md").read_text()
    needed = {"dataset", "system", "seed", "protocol", "window", "validation_mse", "test_mse", "configuration"}
    assert all(line.keys() >= needed | {"versions", "device"} for line in lines("table2.parquet"))
    cells = summarize(lines("table2.parquet"))
    trained = (*SERIES_NETWORKS, *OURS)
    assert all((name, row, kind, 4) in cells for name in TASKS for row in trained for kind in PROTOCOLS)
    for (_, system, _, _), (mean, deviation, num_seeds) in cells.items():
        assert f"| {system} |" in page
        assert (f"{mean:.3f} ± {deviation:.3f}" if num_seeds > 1 else f"{mean:.3f}") in page


def test_forecasts_reach_what_was_asked_of_them():
    """Ten seeds, chosen on validation: at 4 lags 0.74 and 0.465 or lower, at the chosen windows below 0.70 and 0.45."""
    from tdegnn.experiments.series_tasks import OURS
    from tdegnn.experiments.table2 import summarize

    cells = summarize(lines("table2.parquet"))
    for dataset, limit in {"chickenpox": 0.74, "wikimath": 0.465}.items():
        for system in OURS:
            mean, _, num_seeds = cells[dataset, system, "honest", 4]
            assert num_seeds == 10
            assert mean <= limit
    for (dataset, window), limit in {("chickenpox", 52): 0.70, ("wikimath", 28): 0.45}.items():
        for system in OURS:
            mean, _, num_seeds = cells[dataset, system, "honest", window]
            assert num_seeds == 10
            assert mean < limit


def test_the_week_of_traffic_reaches_what_was_asked_of_it():
    from tdegnn.experiments.traffic import (
        FOLD_LINES,
        TRAFFIC_LINES,
        paired_differences,
        summarize_traffic,
        worth_of_edges,
    )

    found = read_lines(RESULTS / "traffic.jsonl", TRAFFIC_LINES)
    means = summarize_traffic(found)
    default = means["default"]
    assert all(np.array(default["mae"]) <= [2.42, 2.71, 2.92, 3.10])
    assert all(np.array(default["rmse"]) <= [4.40, 5.15, 5.72, 6.15])
    assert all(0.88 <= share <= 0.92 for line in found if line["forecaster"] == "default" for share in line["coverage"])
    # Edges lower RMSE by more than chance, and over all folds MAE too, which the later steps do not show.
    over_none = paired_differences(default, means["without edges"])
    assert over_none["rmse"].low > 0
    assert over_none["mae"].low < 0 < over_none["mae"].difference
    worth = worth_of_edges(read_lines(RESULTS / "traffic_folds.jsonl", FOLD_LINES), found)
    assert worth["all"]["mae"].low > 0 < worth["all"]["rmse"].low
    assert sum(worth[steps]["rmse"].low > 0 for steps in worth if steps != "all") == 3  # the page says three of four
    for name, most in {"traffic.jsonl": 300, "traffic_h200.jsonl": 30}.items():
        fits = [line for line in read_lines(RESULTS / name, TRAFFIC_LINES) if line["forecaster"] == "default"]
        assert max(line["seconds"] for line in fits) <= most


def test_what_parts_of_a_forecaster_add_is_as_the_readme_says():
    from tdegnn.experiments.series_ablation import summarize_variants, variants

    page = (RESULTS / "README.md").read_text()
    cells = summarize_variants(lines("series_ablation.parquet"))
    for dataset in ("chickenpox", "wikimath"):
        assert {name for key, size, name in cells if (key, size) == (dataset, 4)} == set(variants(dataset, 4))
    for (_, _, name), cell in cells.items():
        assert f"{cell.mean:.4f}" in page
        assert name == "full" or cell.worse.text(4) in page


def test_depth_has_all_rules_and_tasks_as_its_readme_says():
    from tdegnn.cli.output import number
    from tdegnn.cli.reproduce.stability import _summary
    from tdegnn.experiments.depth import SYSTEMS, TASKS, choose_lines
    from tdegnn.experiments.node_results import Cell, paired_gain

    page = (RESULTS / "README.md").read_text()
    chosen = choose_lines(lines("depth.parquet"))
    assert set(chosen) == {(task, system) for task in TASKS for system in SYSTEMS}
    for (task, system), found in chosen.items():
        assert len(found) == (5 if "chain" in task else 10)
        cell = Cell.from_lines(found)
        gain = "" if system == "DE-GNN" else f", {paired_gain(cell, Cell.from_lines(chosen[task, 'DE-GNN']))}"
        assert f"| {cell.mean:.2f} ± {cell.deviation:.2f}{gain} |" in page
        summary = _summary(task, system, found)
        growths = [summary["state_growth"], summary["gradient_growth"]]
        assert f"| {', '.join(map(number, growths))} |" in page
        for line in found:
            layers = TASKS[task].config.num_layers
            for when in ("untrained", "trained"):
                assert {len(norms) for norms in line[when].values()} == {layers + 1}


@pytest.mark.slow
def test_every_setting_of_depth_was_trained_on_every_split():
    from tdegnn.experiments.depth import SYSTEMS, TASKS
    from tdegnn.experiments.recipe_files import config_from_record

    trained = {}
    for line in lines("depth.parquet"):
        config = config_from_record(line["configuration"])
        trained.setdefault((line["dataset"], config), set()).add(line["split"])
    for task, about in TASKS.items():
        splits = set(range(5 if "chain" in task else 10))
        assert all(trained[task, config] == splits for system in SYSTEMS for config in about.configs(system))


def test_the_incremental_epoch_is_ten_times_faster_than_a_plain_one_on_a_gpu():
    measured = json.loads((RESULTS / "speed_h200.json").read_text())
    assert measured["device"] == "cuda (NVIDIA H200)"
    by_name = {line["name"]: line for line in measured["lines"]}
    assert by_name["incremental epoch of Chickenpox, ours / plain"]["value"] <= 0.1
    assert by_name["incremental epoch of Chickenpox, ten seeds / one"]["value"] <= 3
    assert by_name["250 epochs of 40 runs of Chameleon"]["value"] <= 6


def test_coverage_is_as_the_readme_says():
    from tdegnn.experiments.coverage import summarize_coverage

    page = (RESULTS / "README.md").read_text()
    for (_, _, kind), reached in summarize_coverage(lines("coverage.jsonl")).items():
        assert f"| {kind} | " + " | ".join(f"{100 * share:.1f} %" for share in reached) + " |" in page


def test_the_order_of_simulated_systems_is_found_up_to_the_noise_that_was_asked_for():
    from tdegnn.experiments.order_found import summarize_orders

    cells = summarize_orders(lines("order_found.parquet"))
    for system in ("heat", "wave", "damped wave", "pendulum", "third order"):
        assert [cells[system, noise].num_runs for noise in (0, 0.001, 0.01, 0.05)] == [20] * 4
        assert cells[system, 0].num_right == 20
        assert system == "third order" or cells[system, 0.01].num_right >= 18
    # The page on orders says so, too.
    assert sum(cell.num_wrong for cell in cells.values()) == 0
    num_runs = sum(cell.num_runs for cell in cells.values())
    told = " ".join((RESULTS.parent / "docs" / "order.md").read_text().split())
    assert f"None of the {num_runs:,} verdicts is wrong." in told
    page = (RESULTS / "README.md").read_text()
    for (system, noise), cell in cells.items():
        (row,) = {line for line in page.splitlines() if line.startswith(f"| {system} | ") and line.count("|") == 12}
        place = [0.0, 0.001, 0.01, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0].index(noise)
        assert row.split("|")[3 + place].split()[0] == str(cell.num_right)


def test_damping_is_clearly_not_zero():
    for line in lines("order_found.parquet"):
        if line["system"] in ("wave", "damped wave") and line["noise"] <= 0.05:
            assert line["derivatives"][0]["takes_part"] is (line["system"] == "damped wave")


def test_the_stable_pendulum_is_as_its_readme_says():
    runs = lines("stable_pendulum.jsonl")
    page = (RESULTS / "README.md").read_text()
    for rule in ("free", "stable, m = 2", "stable, m = 1", "printed"):
        for optimizer in ("Adam", "QuasiNewton"):
            own = [line for line in runs if line["model"] == rule and optimizer in line["descents"][0]]
            assert sorted(line["seed"] for line in own) == list(range(5))
            assert f"{sum(line['one_step_mse'] for line in own) / 5:.1e}" in page
            assert all(line["is_bounded"] is (rule != "printed") for line in own)
            if rule.startswith("stable"):
                assert all(line["max_root_modulus"] <= 1 + 1e-6 for line in own)


def test_rooms_changed_no_number_and_cost_no_time():
    compared = json.loads((RESULTS / "before_after.json").read_text())
    cells = compared["cells_cpu"]["cells"] | {
        name: cell for name, cell in compared["cells_h200"]["cells"].items() if "cora" not in name
    }
    assert len(cells) == 6
    for cell in cells.values():
        np.testing.assert_allclose(cell["after"], cell["before"], rtol=1e-12)
    for walk in compared["modules_crossed"].values():
        assert walk["after"] <= walk["before"] * 2 / 3
    # Ratios within one run, the median of several: single runs on two cores differ by a third.
    for speed in (compared["speed_cpu"], compared["speed_h200"]):
        ratios = {name: line for name, line in speed["lines"].items() if " / " in name}
        assert len(ratios) >= 4
        assert all(np.median(line["after"]) <= 1.1 * np.median(line["before"]) for line in ratios.values()), ratios
