import numpy as np
import pandas as pd
import pytest

from tdegnn import Graph, InputError
from tdegnn.data.panel import Panel
from tdegnn.data.tables.node_features import read_node_features
from tdegnn.forecasting.forecaster import Forecaster
from tdegnn.forecasting.frames import FrameMaker
from tdegnn.forecasting.held_out import OURS
from tdegnn.training.devices import single_thread

NAMES = ("ant", "bee", "cat", "dog")
VALUES = {"height": [1.0, 2.0, 3.0, 6.0], "legs": [6.0, 6.0, 4.0, 4.0]}
FRAME = pd.DataFrame(VALUES, index=NAMES)
# In another order than the panel, and with a node that it does not have.
SHUFFLED = pd.concat([FRAME, pd.DataFrame({"height": 9.0, "legs": 0.0}, index=["eel"])]).iloc[[4, 2, 0, 3, 1]]
SMALL = dict(
    window=3, order=2, hidden_channels=4, num_layers=1, dropout=0.1, learning_rate=0.03, num_members=1, num_steps=6,
    validate_every=2, horizon=2, device="cpu",
)  # fmt: skip


@pytest.fixture(autouse=True, scope="module")
def _one_thread():
    with single_thread():
        yield


def make_panel(num_steps=60, **options):
    values = 100 + np.random.default_rng(0).normal(size=(num_steps, 4))
    return Panel.from_array(values, graph=Graph([[0, 1, 2], [1, 2, 3]], 4), **{"nodes": NAMES} | options)


PANEL = make_panel()


# Reading.


def as_csv(frame, folder):
    frame.rename_axis("town").to_csv(folder / "towns.csv")
    return folder / "towns.csv"


def as_parquet(frame, folder):
    frame.rename_axis("town").reset_index().to_parquet(folder / "towns.parquet")
    return folder / "towns.parquet"


SOURCES = {
    "csv": as_csv,
    "parquet": as_parquet,
    "index": lambda frame, _: frame,
    "named index": lambda frame, _: frame.rename_axis("town"),
    "first column": lambda frame, _: frame.reset_index(names="town"),
    "usual column": lambda frame, _: frame.assign(node=frame.index).reset_index(drop=True),
    "mapping": lambda frame, _: frame.to_dict(orient="index"),
}


@pytest.mark.parametrize("kind", SOURCES)
def test_features_are_read_by_the_names_of_nodes(kind, tmp_path):
    features = read_node_features(SOURCES[kind](SHUFFLED, tmp_path), PANEL)
    assert features.names == ("height", "legs")
    np.testing.assert_array_equal(features.values, FRAME.to_numpy())
    (note,) = features.notes
    assert note.endswith("has nodes that are not in the series, 'eel' first; they are left out.")
    assert read_node_features(SOURCES[kind](FRAME, tmp_path), PANEL).notes == ()


def test_nodes_without_names_are_found_by_their_numbers():
    panel = Panel.from_array(PANEL.values)
    for frame in (FRAME.reset_index(drop=True), FRAME.set_axis([3, 1, 0, 2]).sort_index()):
        expected = frame.to_numpy()
        np.testing.assert_array_equal(read_node_features(frame.iloc[::-1], panel).values, expected)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (FRAME[:3], "each node of the series in column 'index' of the frame, got none called 'dog'. Add its row"),
        (FRAME.to_dict(orient="index") | {"dog": {}}, "a number in column 'height', got nothing in row 3"),
        (FRAME.assign(legs=["six", "six", "four", "four"]), "numbers in column 'legs' of the frame, got text. Convert"),
        (FRAME.replace(3.0, np.nan), "a number in column 'height', got nothing in row 2 of the frame. Fill it in"),
        (FRAME.replace(3.0, np.inf), "finite numbers in column 'height', got inf in row 2 of the frame"),
        (pd.concat([FRAME, FRAME[1:2]]), "each node once, got 'bee' again in row 4 of the frame. Remove all but one"),
        (FRAME[[]], "a column of numbers next to the nodes in the frame, got none. Add one"),
        (FRAME.rename(columns={"legs": "value"}), "other names than the channels, got 'value'. Rename one"),
        ({"ant": 1.0}, "named numbers of each node, as in .*, got others. Name them"),
        (FRAME["legs"], "a path, or a pandas or polars frame, got Series"),
        ("nowhere.csv", "a file at nowhere.csv, got none"),
    ],
)
def test_what_is_wrong_with_features_is_one_line(source, message):
    with pytest.raises(InputError, match=message) as error:
        Forecaster(**SMALL).fit(PANEL, node_features=source)
    assert "\n" not in str(error.value)


def test_text_in_a_file_is_said_with_its_line(tmp_path):
    (tmp_path / "towns.csv").write_text("town,height\nant,1\nbee,tall\ncat,3\ndog,6\n")
    with pytest.raises(
        InputError, match="column 'height', got 'tall' in line 3 of towns.csv. Node features are numbers"
    ):
        read_node_features(tmp_path / "towns.csv", PANEL)


# What a network sees of them.


def test_features_are_constant_channels_in_units_of_their_spread_over_nodes():
    features = read_node_features(FRAME, PANEL)
    maker = FrameMaker.fit(PANEL, 3, 2).with_node_features(features)
    inputs = maker.windows(PANEL, node_features=features).inputs
    assert maker.sizes(4).num_channels == inputs.shape[-1] == 3
    for place, name in enumerate(features.names, start=1):
        seen = inputs[..., place].numpy()
        scaled = (FRAME[name] - FRAME[name].mean()) / FRAME[name].std(ddof=0)
        np.testing.assert_allclose(seen, np.broadcast_to(scaled, seen.shape), rtol=1e-6)


@pytest.mark.slow
def test_features_help_where_they_decide():
    """Half of the nodes go on as they are, half of them turn round: which, one step does not say."""
    draw, turns = np.random.default_rng(0), np.tile([1.0, -1.0], 6)
    values = np.zeros((240, 12))
    for step in range(1, 240):
        values[step] = 0.9 * turns * values[step - 1] + draw.normal(size=12)
    panel = Panel.from_array(values)
    features = {node: {"kind": 10 + turn} for node, turn in zip(panel.nodes, turns, strict=True)}
    settings = SMALL | dict(window=1, horizon=1, hidden_channels=8, num_layers=2, dropout=0.0, skip="none")
    settings |= dict(identity_channels=0, num_steps=60, validate_every=10)
    errors = [
        Forecaster(**settings).fit(panel, node_features=each).summary_["held_out"][OURS]["mse"]
        for each in (features, None)
    ]
    assert errors[0] < 0.3 * errors[1]


# With the run.


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("features") / "run"
    return Forecaster(**SMALL).fit(PANEL, node_features=SHUFFLED, run=folder), folder


def test_features_are_kept_with_the_run(trained):
    model, folder = trained
    loaded = Forecaster.load(folder)
    np.testing.assert_array_equal(loaded.node_features_.values, FRAME.to_numpy())
    assert any("'eel' first" in note for note in loaded.notes_)
    for panel in (None, PANEL[:40]):
        np.testing.assert_array_equal(loaded.predict(5, panel=panel).values, model.predict(5, panel=panel).values)
    assert loaded.predict().channels == ("value",)
    before = loaded.predict().values
    loaded.update(PANEL, num_steps=2)
    assert not np.array_equal(loaded.predict().values, before)


def test_further_steps_see_the_features_too(trained):
    """A window that is all forecasts has them as any other: their rows are not observed, and never missing."""
    model, _ = trained
    seen = PANEL
    for _ in range(3):
        block = model.predict(panel=seen).values
        seen = Panel.from_array(np.concatenate([seen.values, block]), nodes=NAMES, graph=PANEL.graph)
    np.testing.assert_allclose(model.predict(6).values, seen.values[-6:], rtol=1e-6)


def test_a_training_does_not_go_on_with_other_features(trained):
    _, folder = trained
    with pytest.raises(InputError, match="got data.sha256"):
        Forecaster(**SMALL).fit(PANEL, node_features=FRAME + 1, run=folder, resume=True)
    with pytest.raises(InputError, match="got data.node_features"):
        Forecaster(**SMALL).fit(PANEL, run=folder, resume=True)


def test_a_backtest_takes_features():
    backtest = Forecaster(**SMALL).backtest(PANEL, node_features=FRAME, num_folds=1)
    assert np.isfinite(backtest.means()[OURS]["mse"])
    with pytest.raises(InputError, match="got none called 'dog'"):
        Forecaster(**SMALL).backtest(PANEL, node_features=FRAME[:3])


def test_physical_states_take_none():
    with pytest.raises(InputError, match="no node features with physical states.* Leave node_features= out"):
        Forecaster.physical(device="cpu").fit(PANEL, node_features=FRAME)
