import json

import pytest

from tdegnn.experiments import records, series_ablation, series_rows
from tdegnn.experiments.gain import Gain
from tdegnn.training.devices import choose_placement
from tests.cli.test_commands import run
from tests.experiments.test_table2 import made_up  # noqa: F401  (a small panel in place of Chickenpox)

CPU = choose_placement("cpu")


def test_each_variant_changes_one_thing():
    full, *others = series_ablation.variants("chickenpox", 4).values()
    assert (full.config.system, full.config.order, full.has_edges) == ("TDE-GNN_D", 4, True)
    for variant in others:
        settings = zip(full.config.to_record().items(), variant.config.to_record().items(), strict=True)
        changed = [name for (name, before), (_, after) in settings if before != after]
        assert len(changed) + (not variant.has_edges) == 1


@pytest.mark.slow
def test_a_variant_is_trained_once_and_compared_with_the_full_one(tmp_path):
    path = tmp_path / "lines.jsonl"
    for name in (series_ablation.FULL, "without edges", "order 1, c = [1]"):
        for _ in range(2):
            series_ablation.train_variant("chickenpox", name, 5, path, placement=CPU, seeds=[0, 1, 2])
    lines = records.read_lines(path)
    assert len(lines) == 9
    cells = series_ablation.summarize_variants(lines)
    full, without = cells["chickenpox", 5, "full"], cells["chickenpox", 5, "without edges"]
    assert (full.worse.mean, full.worse.low) == (0.0, 0.0)
    errors = {(line["variant"], line["seed"]): line["test_mse"] for line in lines}
    differences = [errors["without edges", seed] - errors["full", seed] for seed in range(3)]
    assert without.worse == Gain.of(differences)
    assert without.worse.mean != 0.0  # the graph was really taken away


@pytest.mark.slow
def test_order_one_is_the_network_with_one_state(tmp_path):
    """A learned vector of one entry is divided by itself: c = [1] is no other network."""
    path = tmp_path / "lines.jsonl"
    series_ablation.train_variant("chickenpox", "order 1, c = [1]", 4, path, placement=CPU, seeds=[0])
    config = series_ablation.replace(series_ablation.variants("chickenpox", 4)["full"].config, order=1)
    prepared = series_rows.prepare_series("chickenpox", 4, CPU)
    (outcome,) = series_rows.train_honestly(prepared, config, [0], CPU)
    assert outcome["test_mse"] == pytest.approx(records.read_lines(path)[0]["test_mse"], rel=1e-6)


@pytest.mark.slow
def test_the_command_trains_and_reports(capsys, tmp_path):
    path = tmp_path / "lines.jsonl"
    arguments = ("reproduce", "series-ablation", "--dataset", "chickenpox", "--seeds", "2", "--out", str(path))
    code, out, err = run(capsys, *arguments)
    assert (code, err) == (0, "")
    assert "without edges" in out
    code, out, _ = run(capsys, *arguments, "--report", "--json")
    assert {record["variant"] for record in json.loads(out)} == set(series_ablation.variants("chickenpox", 4))
    code, _, err = run(capsys, "reproduce", "series-ablation", "--report", "--out", "nothing.jsonl")
    assert (code, err.count("\n")) == (2, 1)
    assert "Expected result lines in nothing.jsonl" in err


def test_a_gain_has_the_t_interval_of_its_differences():
    gain = Gain.of([1.0, 2.0, 3.0])
    assert gain.mean == 2.0
    assert gain.high - gain.mean == pytest.approx(4.302653 / 3**0.5, rel=1e-6)  # t with 2 degrees, deviation 1
    assert str(gain) == "+2.00 (-0.48 to +4.48)"
    assert Gain.of([0.5]).high == float("inf")
