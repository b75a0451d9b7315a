from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tdegnn.errors import InputError
from tdegnn.experiments import best_cells, best_plan, best_rows, best_search
from tdegnn.experiments.best_cells import BEST_LINES, MEAN_SYSTEM, Files, compute_cell, load_dataset
from tdegnn.experiments.best_plan import STAGES, Plan
from tdegnn.experiments.best_plots import FEWEST_CURVES, mean_curve, plot_curves
from tdegnn.experiments.best_rows import Row, ablated, nested_gain, row_configs
from tdegnn.experiments.best_search import (
    RUNG_1,
    RUNGS,
    Family,
    Runs,
    fitting_families,
    follow_search,
    most_steps,
    read_families,
)
from tdegnn.experiments.best_tables import adopt_best, describe_backbone, summarize_best
from tdegnn.experiments.drawn_configs import draw_near
from tdegnn.experiments.node_results import NODE_LINES, Cell
from tdegnn.experiments.operator_rules import EULER, RULES
from tdegnn.experiments.recipe_files import read_recipes
from tdegnn.experiments.records import read_lines, write_records
from tdegnn.experiments.side_by_side import compute_open_cells
from tdegnn.experiments.table1 import BEST
from tdegnn.nodes.settings import NodeConfig
from tdegnn.parts import Part
from tdegnn.training.devices import choose_placement
from tests.best_page import renew_best, show
from tests.cli.test_commands import run
from tests.node_datasets import make_dataset

CPU = choose_placement("cpu")
KERNEL = {"views": ["features"], "sharpness": 1.0, "ridge": 1.0}
SKIP = {"name": "kernel-ridge", "settings": KERNEL}
USUAL = {"hidden_channels": 4, "num_layers": 2, "num_steps": 3}
ALPHA = {"operator.alpha": [0.1, 0.5]}
SMALL = (
    Family("near-identity", {"operator": "near-identity", **USUAL}, [{}, {"skip": SKIP}], {}, [], 2),
    Family("gcnii", {"operator": "gcnii", "optimizer": "adamw", **USUAL}, [{}], ALPHA, [], 2),
)


def make_nodes(seed=0):
    """Four splits with the same test nodes. Node 0 has no features."""
    dataset = make_dataset(seed, num_splits=4)
    is_test = dataset.test_masks[0]
    dataset.features.data[dataset.features.indptr[0] : dataset.features.indptr[1]] = 0
    parts = [masks & ~is_test for masks in (dataset.training_masks, dataset.validation_masks)]
    return replace(
        dataset,
        training_masks=parts[0],
        validation_masks=parts[1],
        test_masks=np.broadcast_to(is_test, dataset.test_masks.shape).copy(),
    )


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(best_cells, "load_nodes", lambda name: make_nodes())
    monkeypatch.setattr(best_rows, "SKIP", Part("kernel-ridge", **KERNEL))
    monkeypatch.setattr(best_search, "NUM_NEAR", 1)
    monkeypatch.setattr(best_search, "NUM_NEW", 0)


def compute(path, stages=STAGES[1:], **options):
    plan = Plan(["citeseer"], stages, Files(path), SMALL)
    begun = []
    compute_open_cells(
        compute_cell,
        lambda: [(cell, Files(path), CPU) for cell in plan.find_open_cells()],
        1,
        lambda cell: begun.append(cell[0]),
        **options,
    )
    return begun


@pytest.mark.slow
def test_a_dataset_is_searched_once_and_its_best_rows_are_adopted(small, tmp_path, monkeypatch, capsys):
    path = tmp_path / "best.jsonl"
    first = [str(cell) for cell in compute(path, ["search"])]
    assert {"citeseer, kernel of split 0", "citeseer, rung 1, gcnii, shape 0"} <= {*first}
    assert any("rung 3" in cell for cell in first)
    assert summarize_best(read_lines(path, BEST_LINES), "citeseer", SMALL) is None  # there are no rows yet
    compute(path)
    before = path.read_text()
    assert compute(path) == []
    assert path.read_text() == before
    lines = read_lines(path, BEST_LINES)
    needed = {"seed", "versions", "device", "protocol", "epoch", "seconds", "stage"}
    assert all(len(line["curve"]) >= 1 for line in lines if line["system"] != MEAN_SYSTEM)
    assert all(line.keys() >= needed for line in lines)
    assert {line["stage"] for line in lines} == {*(rung.name for rung in RUNGS), "rows", "five seeds", "ablation"}

    result = summarize_best(lines, "citeseer", SMALL)
    assert len(result.rows) == 2 * len(RULES)
    assert len(result.finalists) == 3
    assert len(result.seeds) == 5
    assert result.mean_of_seeds is not None
    assert result.rows[result.best] == result.seeds[0]
    assert set(result.ablation) == set(ablated(result.configs[result.best]))
    assert len(result.without_empty) in (1, 2)
    assert result.seconds > 0
    assert result.num_trainings == sum(line["system"] != MEAN_SYSTEM for line in lines)
    assert describe_backbone(result.finalists[0][0]).split(",")[0] in ("near-identity", "gcnii")

    adopted = adopt_best(path, tmp_path, tmp_path / "table1.jsonl", SMALL)
    assert adopted == ["citeseer"]
    recipes = read_recipes("citeseer", tmp_path / "citeseer.toml")
    assert tuple(recipes) == BEST
    table = read_lines(tmp_path / "table1.jsonl", NODE_LINES)
    assert [line["split"] for line in table] == [0, 1, 2, 3] * 2
    assert all(line["configuration"] == recipes[line["system"]].to_record() for line in table)

    write_records(tmp_path / "poisoned.jsonl", [{**line, "test_accuracy": 0.0} for line in lines])
    poisoned = summarize_best(read_lines(tmp_path / "poisoned.jsonl"), "citeseer", SMALL)
    assert (poisoned.best, poisoned.configs) == (result.best, result.configs)

    page = renew_best("", lines, SMALL)
    assert f"**{show(result.rows[result.best])}**" in page
    texts = [show(result.mean_of_seeds), str(result.nested.gain), *map(str, result.ablation.values())]
    assert all(text in page for text in texts)
    assert "| Citeseer, without empty nodes |" in page
    assert page.count("| near-identity | ") == 1  # among the families
    assert "Without all rows yet: Squirrel, Film, Chameleon, PubMed, Cora, " in page

    monkeypatch.setattr("tdegnn.experiments.best_tables.read_families", lambda: SMALL)
    options = ["--dataset", "citeseer", "--report", "--out", str(path)]
    code, out, err = run(capsys, "reproduce", "best", *options)
    assert (code, err) == (0, "")
    for words in ("Families", "Finalists", "five seeds", "without empty nodes", "learned time adds", "half of the"):
        assert words in out
    code, out, _ = run(capsys, "reproduce", "best", *options, "--json")
    assert code == 0
    assert '"learned_time"' in out


@pytest.mark.slow
def test_labels_of_test_nodes_choose_nothing(small, tmp_path, monkeypatch):
    finalists = []
    for name in ("right", "wrong"):
        nodes = make_nodes()
        if name == "wrong":
            nodes = replace(nodes, labels=np.where(nodes.test_masks[0], (nodes.labels + 1) % 3, nodes.labels))
        monkeypatch.setattr(best_cells, "load_nodes", lambda _, nodes=nodes: nodes)
        compute(tmp_path / name / "best.jsonl", ["search"])
        lines = read_lines(tmp_path / name / "best.jsonl", BEST_LINES)
        finalists.append((follow_search(SMALL, 4, Runs(lines)).finalists, [line["test_accuracy"] for line in lines]))
    assert finalists[0][0] == finalists[1][0]
    assert len(finalists[0][0]) == 3
    assert finalists[0][1] != finalists[1][1]


@pytest.mark.slow
def test_nothing_begins_when_time_is_over(small, tmp_path, monkeypatch, capsys):
    path = tmp_path / "best.jsonl"
    monkeypatch.setattr(best_plan, "read_families", lambda: SMALL)
    options = ["--dataset", "citeseer", "--minutes", "0", "--device", "cpu", "--out", str(path)]
    code, out, err = run(capsys, "reproduce", "best", *options)
    assert (code, err) == (0, "")
    assert "0 of 1 datasets have all rows" in out
    assert "cells can be computed next: run the command again." in out
    assert not path.exists()


@pytest.mark.parametrize("family", read_families(), ids=lambda family: family.name)
def test_every_family_makes_configurations_of_one_shape(family):
    dataset = make_dataset()
    for shape in range(len(family.shapes)):
        candidates = family.candidates(shape)
        assert len(candidates) == family.num_configs
        assert all(set(each.numbers) == set(family.limits) for each in candidates)
        config = candidates[-1].config(RUNG_1)
        assert config.num_steps == (300 if config.num_layers >= 16 else 150)
        config.build(config.prepare(dataset), seed=0)
        ablated(config)


def test_the_budget_is_the_same_for_all_datasets():
    assert most_steps(SMALL, 10) == 6 * 2 * 150 + 2 * 8 * 3 * 500 + 3 * 10 * 2000
    assert most_steps(read_families(), 10) < 200_000


def test_families_with_networks_too_large_for_the_graph_are_left_out():
    names = {family.name for family in read_families()}
    assert {family.name for family in fitting_families(read_families(), 10_000)} == names
    assert names - {family.name for family in fitting_families(read_families(), 20_000)} == {"gcnii, 64 layers"}


def test_numbers_near_others_stay_in_their_ranges():
    ranges = {"learning_rate": (1e-3, 1e-1, True), "dropout": (0.0, 0.5, False)}
    random = np.random.default_rng(0)
    drawn = [draw_near(random, ranges, {"learning_rate": 0.0, "dropout": 0.5}, 0.1) for _ in range(50)]
    assert all(1e-3 <= each["learning_rate"] <= 1e-2 for each in drawn)
    assert all(0.3 < each["dropout"] <= 0.5 for each in drawn)


BACKBONE = NodeConfig("TDE-GNN", 4, 2, 1, "euler", "gcnii", "newest-unmapped", skip=Part("kernel-ridge", **KERNEL))


def test_rows_start_with_the_same_weights():
    dataset = make_dataset()
    rows = row_configs(BACKBONE)
    drawn = {row: dict(config.build(dataset, seed=3).named_parameters()) for row, config in rows.items()}
    fixed = drawn[Row(EULER, False)]
    assert {"embedding.weight", "readout.weight"} <= set(fixed)
    assert rows[Row(EULER, True)] == BACKBONE
    assert all((own[name] == fixed[name]).all() for own in drawn.values() for name in fixed if name in own)


def test_an_ablation_removes_what_is_there():
    config = replace(
        row_configs(BACKBONE)[Row("stable", True)], direction="both", outer_dropout=0.0, hidden_dropout=0.0
    )
    removed = ablated(config)
    assert set(removed) == {"no skip", "the other direction", EULER, "half of the layers"}
    assert set(ablated(config, is_directed=False)) == set(removed) - {"the other direction"}
    assert removed["no skip"].skip is None
    assert removed["half of the layers"].num_layers == 1
    assert removed[EULER].order == 1


def test_a_nested_gain_is_measured_where_nothing_was_chosen():
    def cell(validation, test):
        return Cell(dict(enumerate(map(float, test))), dict(enumerate(map(float, validation))))

    fixed = cell([50] * 4, [10, 10, 10, 10])
    cells = {
        Row(EULER, False): fixed,
        Row(EULER, True): cell([50] * 4, [12, 12, 12, 12]),
        # The best on splits 0 and 1, measured on 2 and 3 over c = [1] without the skip.
        Row("stable", False): cell([60, 60, 50, 50], [99, 99, 11, 13]),
        # The best on splits 2 and 3, measured on 0 and 1 over c = [1] with the skip.
        Row("attention", True): cell([50, 50, 60, 60], [11, 13, 99, 99]),
    }
    found = nested_gain(cells)
    assert found.chosen == (Row("stable", False), Row("attention", True))
    assert found.gain.mean == pytest.approx((1 + 3 - 1 + 1) / 4)


def test_empty_nodes_can_be_left_out_of_all_subsets(small):
    all_nodes, others = load_dataset("citeseer"), load_dataset("citeseer, without empty nodes")
    used = [
        sum(mask[:, 0].any() for mask in (each.training_masks, each.validation_masks, each.test_masks))
        for each in (all_nodes, others)
    ]
    assert (used[0] > 0, used[1]) == (True, 0)
    assert others.num_nodes == all_nodes.num_nodes


@pytest.mark.slow
@pytest.mark.parametrize("num_workers", [1, 2])
def test_cells_open_one_after_the_other(tmp_path, num_workers):
    chain = [tmp_path / "first", tmp_path / "second", tmp_path / "none" / "file"]

    def find_open():
        return [(path, "text") for number, path in enumerate(chain) if number == 0 or chain[number - 1].exists()]

    done = []
    with pytest.raises(FileNotFoundError):  # when all else is done
        compute_open_cells(Path.write_text, find_open, num_workers, done.append)
    assert [path.name for path, _ in done] == ["first", "second"]


def test_scores_are_solved_once(small, tmp_path, monkeypatch):
    plan = Plan(["citeseer"], ["scores"], Files(tmp_path / "best.jsonl"), SMALL)
    cells = plan.find_open_cells()
    assert len(cells) == 4  # one per split
    for cell in cells:
        compute_cell(cell, Files(tmp_path / "best.jsonl"), CPU)
    assert plan.find_open_cells() == []
    monkeypatch.setattr("tdegnn.nets.kernel_skip._solve", None)
    compute_cell(cells[0], Files(tmp_path / "best.jsonl"), CPU)


def test_candidates_are_the_same_on_every_dataset():
    assert [each.numbers for each in best_search.read_families()[0].candidates(0)] == [
        each.numbers for each in best_search.read_families()[0].candidates(1)
    ]


def test_a_mean_curve_ends_where_few_trainings_go_on():
    curves = [[[0, 0.5], [10, 0.7]]] * FEWEST_CURVES + [[[0, 0.9], [100, 0.9]]]
    steps, accuracies = mean_curve(curves)
    assert steps[-1] == 10
    assert accuracies[0] == pytest.approx(100 * (FEWEST_CURVES * 0.5 + 0.9) / (FEWEST_CURVES + 1))
    assert accuracies[-1] == pytest.approx(100 * (FEWEST_CURVES * 0.7 + 0.9) / (FEWEST_CURVES + 1))


def test_a_picture_needs_rows():
    with pytest.raises(InputError, match="Expected the rows of at least one dataset, got none."):
        plot_curves([], {})
