"""Edges that change over time: each window is forecast on the graph of its last observed step."""

import copy
import json
from dataclasses import replace

import numpy as np
import pytest

from tdegnn import Forecaster, InputError, Panel, Part
from tdegnn.data.graphs.graph_steps import GraphSteps
from tdegnn.graph import Graph
from tdegnn.runs.run_folder import RunFolder

NODES, STEPS = 6, 90
NEXT, AFTER_NEXT = (
    Graph([range(NODES), [(i + hop) % NODES for i in range(NODES)]], NODES, direction="out") for hop in (1, 2)
)
WHICH = np.arange(STEPS) // 5 % 2


def simulate(noise):
    """Values move along the edges of the present step, to the next node or to the one after it."""
    random = np.random.default_rng(0)
    values = [random.normal(size=NODES)]
    for step in range(STEPS - 1):
        values.append(np.roll(values[-1], -(1 + WHICH[step])) + noise * random.normal(size=NODES))
    return np.array(values)


GRAPHS = [(NEXT, AFTER_NEXT)[number] for number in WHICH]
PANEL = Panel.from_array(simulate(0.3), graph=GRAPHS)
UNION = Graph(np.concatenate([NEXT.edge_index, AFTER_NEXT.edge_index], axis=1), NODES, direction="out")
QUICK = dict(
    horizon=1, window=3, order=2, hidden_channels=8, identity_channels=2, num_layers=1, num_steps=12, device="cpu"
)


@pytest.fixture(scope="module")
def trained():
    return Forecaster(**QUICK).fit(PANEL)


def test_one_graph_at_every_step_gives_exactly_the_forecast_of_the_graph():
    fixed, listed = (Forecaster(**QUICK).fit(PANEL.with_graph(graph)) for graph in (NEXT, [NEXT] * STEPS))
    assert np.array_equal(fixed.predict(4).values, listed.predict(4).values)
    assert fixed.summary_["held_out"] == listed.summary_["held_out"]


def test_windows_of_several_graphs_learn_as_one_batch():
    """Two graphs with the same edges are seen one after the other, and must give what one graph gives."""
    twin = NEXT.with_direction("out")
    apart = GraphSteps((NEXT, twin), WHICH)
    settings = QUICK | dict(num_members=1, dropout=0.0, batch_size=7, precision="64-true")
    one = Forecaster(**settings).fit(PANEL.with_graph(NEXT))
    two = Forecaster(**settings).fit(replace(PANEL, graph_steps=apart))
    assert two.fitted_.tail.graph_steps.num_changes > 0
    np.testing.assert_allclose(two.predict(3).values, one.predict(3).values, rtol=1e-9)


def test_a_forecast_depends_on_the_graphs_up_to_its_last_step_only(trained):
    origin = 60
    other = PANEL.with_graph([*GRAPHS[:origin], *[UNION] * (STEPS - origin)])
    forecasts = [trained.fitted_.ensemble.forecast(trained.maker_.windows(panel)) for panel in (PANEL, other)]
    first = trained.maker_.window
    assert np.array_equal(*(each[: origin + 1 - first] for each in forecasts))
    assert not np.allclose(*(each[origin + 1 - first] for each in forecasts))
    alone = trained.predict(panel=PANEL[:origin]).values
    np.testing.assert_allclose(alone, forecasts[0][origin - first], rtol=1e-5)


def test_series_on_edges_that_switch_are_forecast_better_with_them_than_with_their_union():
    """Without noise, the linear forecast on the right graphs is nearly perfect: only scales differ between nodes."""
    panel = Panel.from_array(simulate(0.0), graph=GRAPHS)
    settings = QUICK | dict(skip="linear", num_steps=2, num_members=1, window=2)
    changing, union = (
        Forecaster(**settings).fit(each).summary_["held_out"]["forecaster"]["mse"]
        for each in (panel, panel.with_graph(UNION))
    )
    assert changing < 0.1 * union


@pytest.mark.slow
def test_layers_too_learn_more_from_edges_that_switch_than_from_their_union():
    settings = QUICK | dict(operator="walks", skip="none", hidden_channels=16, num_steps=60, order=1, dropout=0.0)
    settings |= dict(num_members=1, validate_every=30)
    changing, union = (
        Forecaster(**settings).fit(panel).summary_["held_out"]["forecaster"]["mse"]
        for panel in (PANEL, PANEL.with_graph(UNION))
    )
    assert changing < 0.8 * union


def test_a_saved_forecaster_has_its_last_graphs(trained, tmp_path):
    trained.save(tmp_path / "run")
    loaded = Forecaster.load(tmp_path / "run")
    assert loaded.fitted_.tail.equals(trained.fitted_.tail)
    assert np.array_equal(loaded.predict(5).values, trained.predict(5).values)
    assert loaded.graph_.equals(GRAPHS[-1])
    loaded.save(tmp_path / "again")
    assert Forecaster.load(tmp_path / "again").fitted_.tail.equals(trained.fitted_.tail)


def test_a_resumed_training_goes_on_with_the_same_graphs_and_refuses_others(trained, tmp_path):
    def stop(look):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Forecaster(**QUICK).fit(PANEL, run=tmp_path / "run", on_look=stop)
    with pytest.raises(InputError, match="sha256"):
        Forecaster(**QUICK).fit(PANEL.with_graph(GRAPHS[::-1]), run=tmp_path / "run", resume=True)
    resumed = Forecaster(**QUICK).fit(PANEL, run=tmp_path / "run", resume=True)
    assert np.array_equal(resumed.predict().values, trained.predict().values)
    assert json.loads((tmp_path / "run/config.json").read_text())["data"]["graphs"] == 2


def test_newer_series_bring_their_graphs_or_keep_the_last_one(trained):
    newer = Panel.from_array(np.concatenate([PANEL.values, PANEL.values[-4:]]), graph=[*GRAPHS, *[UNION] * 4])
    without = newer.with_graph(None)
    kept = newer.with_graph([*GRAPHS, *GRAPHS[-1:] * 4])
    assert np.array_equal(trained.predict(panel=without).values, trained.predict(panel=kept).values)
    assert not np.allclose(trained.predict(panel=newer).values, trained.predict(panel=kept).values)
    assert trained.score(without) == trained.score(kept) != trained.score(newer)


def test_an_update_learns_on_the_graphs_of_all_steps(trained):
    newer = Panel.from_array(np.concatenate([PANEL.values, PANEL.values[-4:]]), graph=[*GRAPHS, *[UNION] * 4])
    updated = copy.deepcopy(trained).update(newer, num_steps=2)
    assert updated.graph_.equals(UNION)
    assert updated.fitted_.tail.equals(newer[-updated.fitted_.tail.num_steps :])


def test_other_graphs_than_in_the_training_are_refused(trained):
    with pytest.raises(InputError, match="Expected edges with times, as in the training, got one graph for all steps"):
        trained.predict(panel=PANEL.with_graph(NEXT))
    with pytest.raises(InputError, match="Expected edges with times, as in the training, got none. Give them too"):
        trained.update(PANEL.with_graph(None))
    fixed = Forecaster(**QUICK | {"num_steps": 1}).fit(PANEL.with_graph(NEXT))
    with pytest.raises(InputError, match="Expected series on one graph, as in the training, got edges that change"):
        fixed.predict(panel=PANEL)
    with pytest.raises(InputError, match="Expected one graph to find the order of series on, got edges that change"):
        Forecaster(**QUICK | {"order": "auto"}).fit(PANEL)


@pytest.mark.slow
def test_a_backtest_follows_the_edges_and_refuses_what_cannot():
    forecaster = Forecaster(**QUICK | {"num_steps": 2})
    result = forecaster.backtest(PANEL, against=["last", Part("dcrnn", num_steps=5)], num_folds=3)
    seen = forecaster.fit(PANEL[: STEPS - 3])
    expected = [seen.predict(panel=PANEL[:step]).values for step in range(STEPS - 3, STEPS)]
    assert np.array_equal(result.methods["forecaster"].values, expected)
    with pytest.raises(InputError, match="Expected one graph for 'ridge', which cannot follow edges that change"):
        forecaster.backtest(PANEL, against=["ridge"], num_folds=3)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("edge_counts", lambda counts: counts + 1),
        ("edge_counts", lambda counts: counts.double()),
        ("graph_numbers", lambda numbers: numbers + 7),
        ("graph_numbers", lambda numbers: numbers[:, 1:]),
        ("graph_numbers", None),
    ],
)
def test_damaged_graphs_are_refused(trained, tmp_path, monkeypatch, name, change):
    trained.save(tmp_path / "run")
    read = RunFolder.read_weights

    def damaged(folder):
        stored = read(folder)
        array = stored.pop(f"kept.{name}")
        return stored if change is None else stored | {f"kept.{name}": change(array)}

    monkeypatch.setattr(RunFolder, "read_weights", damaged)
    with pytest.raises(InputError, match="Expected '(edges|edge_counts|graph_numbers)' in weights.safetensors"):
        Forecaster.load(tmp_path / "run")
