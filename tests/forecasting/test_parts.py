"""Parts of a forecaster by name and of the user's own, from fit to load; and run folders of earlier versions."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.base import clone
from torch import nn

from tdegnn import Forecaster, Graph, InputError, Panel, SpatialOperator, TemporalCoefficients
from tdegnn.core.rules import COEFFICIENTS
from tdegnn.forecasting.intervals import ConformalIntervals, Intervals
from tdegnn.forecasting.linear_skip import LinearSkip
from tdegnn.forecasting.series_config import SeriesConfig
from tdegnn.forecasting.settings import upgrade_settings
from tdegnn.nets.series_network import Frames, SeriesSizes
from tdegnn.operators.registry import OPERATORS
from tdegnn.parts import Part
from tdegnn.training.devices import single_thread
from tdegnn.training.members import GroupDescent

SMALL = dict(
    window=3, order=2, hidden_channels=4, num_layers=2, learning_rate=0.03, num_members=2, num_steps=4,
    validate_every=2, horizon=2, device="cpu",
)  # fmt: skip
PANEL = Panel.from_array(
    np.random.default_rng(0).normal(size=(60, 4)).cumsum(axis=0), graph=Graph([[0, 1, 2], [1, 2, 3]], 4)
)
SIZES = SeriesSizes(window=4, horizon=2, num_nodes=5, num_channels=3, num_known=2)


@pytest.fixture(autouse=True, scope="module")
def _one_thread():
    with single_thread():
        yield


class Repulsion(SpatialOperator):
    """Neighbors push each other apart."""

    def __init__(self, channels):
        super().__init__()
        self.gate = nn.Linear(channels, channels)

    def forward(self, state, graph, layer, context=None):
        return torch.sigmoid(self.gate(state)) * graph.laplacian(state), context


class Momentum(TemporalCoefficients):
    """c = [1 + m, -m], of order two whatever is asked for."""

    def __init__(self, start=0.1):
        super().__init__(2)
        self.start = start
        self.momentum = nn.Parameter(torch.tensor(start))

    def reset_parameters(self):
        nn.init.constant_(self.momentum, self.start)

    def forward(self, history, layer):
        return torch.stack([1 + self.momentum, -self.momentum]).to(history[0].dtype)


class LastValue(nn.Module):
    """The last frame, times a weight."""

    def __init__(self, sizes):
        super().__init__()
        self.sizes = sizes
        self.weight = nn.Parameter(torch.ones(()))

    def forward(self, frames, graph):
        last = frames.window[:, -1:, :, : self.sizes.num_targets]
        return self.weight * last.expand(-1, self.sizes.horizon, -1, -1)


class Widest(Intervals):
    """As wide as the largest residual, times a factor."""

    def __init__(self, largest, coverage):
        self.largest, self.coverage = largest, coverage

    @classmethod
    def fit(cls, residuals, coverage=0.9, *, scale=None, factor=1.0):
        return cls(factor * np.nanmax(np.abs(residuals), axis=0), coverage)

    def apply(self, forecast):
        return forecast - self.largest, forecast + self.largest

    def to_arrays(self):
        return {"largest": self.largest}

    @classmethod
    def from_arrays(cls, arrays, coverage):
        return cls(arrays["largest"], coverage)


def assert_same(one, other):
    for name in ("values", "low", "high"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


OWN = {
    "operator": dict(operator=Repulsion),
    "operator, physical": dict(operator=Repulsion, states="physical", skip="none"),
    "operator, an object": dict(operator=Repulsion(4)),
    "coefficients": dict(coefficients=Momentum),
    "coefficients with settings": dict(coefficients=Part(Momentum, start=0.5)),
    "skip": dict(skip=LastValue),
    "intervals": dict(intervals=Widest),
    "intervals with settings": dict(intervals=Part(Widest, factor=2.0)),
    "all of them": dict(operator=Repulsion, coefficients=Momentum, skip=LastValue, intervals=Widest),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", OWN)
def test_parts_of_the_users_own_work_from_fit_to_load(case, tmp_path):
    parts = OWN[case]
    model = Forecaster(**SMALL, **parts).fit(PANEL, run=tmp_path / "run")
    forecast = model.predict(3)
    assert np.isfinite(forecast.values).all()
    assert np.isfinite(forecast.low[:2]).all()
    assert sum(model.explain().coefficients) == pytest.approx(1, abs=1e-4)
    assert_same(clone(model).fit(PANEL).predict(3), forecast)
    own = {name: part for name, part in parts.items() if not isinstance(part, str)}
    loaded = Forecaster.load(tmp_path / "run", **own)
    assert_same(loaded.predict(3), forecast)
    # A class is enough: the folder keeps its settings.
    bare = {name: part.kind if isinstance(part, Part) else part for name, part in own.items()}
    loaded = Forecaster.load(tmp_path / "run", **bare)
    assert_same(loaded.update(PANEL, num_steps=2).predict(3), model.update(PANEL, num_steps=2).predict(3))
    loaded.save(tmp_path / "again")
    assert_same(Forecaster.load(tmp_path / "again", **own).predict(3), model.predict(3))
    assert np.isfinite(loaded.backtest(PANEL, num_folds=1).means()["forecaster"]["mse"])


@pytest.mark.parametrize("name", ["operator", "coefficients", "skip", "intervals"])
def test_a_folder_says_which_class_it_needs_and_never_imports_it(name, tmp_path):
    part = OWN[name][name]
    Forecaster(**SMALL | dict(num_steps=1), **{name: part}).fit(PANEL, run=tmp_path / "run")
    own = part.__name__
    message = rf"Expected {name}=, the class {own} of the training, got none. In Python: load.path, {name}={own}."
    with pytest.raises(InputError, match=message):
        Forecaster.load(tmp_path / "run")
    with pytest.raises(InputError, match=f"{name} to be a {own}, as in the training, got GELU"):
        Forecaster.load(tmp_path / "run", **{name: nn.GELU})


def test_a_part_that_the_training_had_not_is_refused(tmp_path):
    Forecaster(**SMALL | dict(num_steps=1), skip="linear").fit(PANEL, run=tmp_path / "run")
    with pytest.raises(InputError, match="no operator: the training had the default. Leave it out"):
        Forecaster.load(tmp_path / "run", operator=Repulsion)
    with pytest.raises(InputError, match="Expected no skip: the folder has 'linear'. Leave it out"):
        Forecaster.load(tmp_path / "run", skip=LastValue)


@pytest.mark.slow
def test_a_rule_of_one_order_keeps_its_order():
    for part, order in [("euler", 1), ("leapfrog", 2), (Momentum, 2), (Part("direct", num_layers=2), 3)]:
        model = Forecaster(**SMALL | dict(num_steps=1, order=3), coefficients=part).fit(PANEL)
        assert (model.order_, model.coefficients_.shape) == (order, (2, order))
    assert Forecaster(**SMALL | dict(num_steps=1, order="auto"), coefficients="leapfrog").fit(PANEL).order_ == 2
    with pytest.raises(InputError, match="order of at most 1, the number of frames in the window, got 2"):
        Forecaster(**SMALL | dict(num_steps=1, window=1), coefficients="leapfrog").fit(PANEL)


@pytest.mark.slow
def test_a_system_is_a_short_name_for_a_rule():
    one, other = (
        Forecaster(**SMALL, **rule).fit(PANEL).predict()
        for rule in (dict(system="TDE-GNN_A"), dict(coefficients="gated-attention"))
    )
    assert_same(one, other)


def test_a_skip_of_the_users_own_learns_and_a_linear_one_is_solved():
    model = Forecaster(**SMALL, skip=LastValue).fit(PANEL)
    assert all(network.skip.weight.item() != 1.0 for network in model.networks_)
    for skip in ("linear", "by-node", LinearSkip, Part("linear", is_by_node=True)):
        assert SeriesConfig(skip=skip).descent.skip == GroupDescent(0.0)
    for skip in (LastValue, LastValue(SIZES)):
        config = SeriesConfig(skip=skip, embedding=GroupDescent(0.5))
        assert config.descent.skip == GroupDescent(0.5)


def test_shapes_tell_parts_apart():
    parts = [
        dict(),
        dict(operator="diffusion"),
        dict(operator=Repulsion),
        dict(operator=Part("diffusion", step_size=2.0)),
    ]
    parts += [dict(coefficients="attention"), dict(coefficients=Momentum), dict(skip=LastValue), dict(skip="by-node")]
    assert len({SeriesConfig(**each).shape for each in parts}) == len(parts)
    assert SeriesConfig(operator=Part("diffusion")).shape == SeriesConfig(operator=Part("diffusion")).shape


def forecast_on_windows(**parts):
    """The forecast of a network on windows, with its gradients."""
    config = SeriesConfig(hidden_channels=4, order=2, states="windows", skip="last", **parts)
    network = config.build(SIZES, seed=0)
    draw = torch.Generator().manual_seed(0)
    frames = Frames(torch.randn(3, 4, 5, 3, generator=draw), torch.randn(3, 2, 5, 2, generator=draw))
    graph = Graph([[0, 1, 2, 3], [1, 2, 3, 4]], 5)
    forecasts = network(frames, graph)
    forecasts.square().sum().backward()
    return forecasts


@pytest.mark.parametrize("name", [name for name in OPERATORS.names if name != "past-diffusion"])
def test_windows_go_with_every_operator(name):
    parts = dict(terms=["walks", "learned-adjacency"]) if name == "together" else {}
    forecasts = forecast_on_windows(operator=Part(name, **parts))
    assert forecasts.shape == (3, 2, 5, 1)
    assert forecasts.isfinite().all()


@pytest.mark.parametrize("name", COEFFICIENTS.names)
def test_windows_go_with_every_rule(name):
    assert forecast_on_windows(operator="walks", coefficients=name).isfinite().all()


# An operator with attention, one with weights of each pair of nodes, and several together.
WITH_CONTEXT = {
    "grand": "grand",
    "learned adjacency": "learned-adjacency",
    "together": Part("together", terms=["walks", "learned-adjacency"]),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", WITH_CONTEXT)
def test_windows_with_an_operator_are_the_same_after_load_and_after_a_kill(case, tmp_path):
    def stop(look):
        if look.step == 2:
            raise KeyboardInterrupt

    settings = SMALL | dict(operator=WITH_CONTEXT[case], states="windows", skip="last", num_steps=6)
    model = Forecaster(**settings).fit(PANEL, run=tmp_path / "whole")
    forecast = model.predict(3)
    # The training has moved the weights, so that equal forecasts say something.
    assert not np.array_equal(Forecaster(**settings | dict(num_steps=1)).fit(PANEL).predict(3).values, forecast.values)
    assert_same(Forecaster.load(tmp_path / "whole").predict(3), forecast)
    model.save(tmp_path / "saved")
    assert_same(Forecaster.load(tmp_path / "saved").predict(3), forecast)
    with pytest.raises(KeyboardInterrupt):
        Forecaster(**settings).fit(PANEL, run=tmp_path / "parts", on_look=stop)
    resumed = Forecaster(**settings).fit(PANEL, run=tmp_path / "parts", resume=True)
    assert_same(resumed.predict(3), forecast)
    assert_same(Forecaster.load(tmp_path / "parts").predict(3), forecast)


def test_an_operator_of_past_features_says_which_states_it_needs():
    message = "Expected an operator that does not take past features, got PastDiffusion, which needs latent states. "
    with pytest.raises(InputError, match=message + "Pass states='latent', or take another operator."):
        forecast_on_windows(operator="past-diffusion")
    with pytest.raises(InputError, match="needs latent states"):
        Forecaster(operator="past-diffusion", horizon=2, window=3).fit(PANEL)


def test_a_result_line_names_the_parts_that_were_given():
    record = SeriesConfig("own", coefficients=Momentum, skip=Part("linear", is_by_node=True)).to_record()
    assert record["coefficients"] == {"class": "Momentum"}
    assert record["skip"] == {"name": "linear", "settings": {"is_by_node": True}}
    assert "operator" not in record
    assert json.loads(json.dumps(record)) == record


def test_intervals_that_are_no_class_are_refused():
    with pytest.raises(
        InputError, match="intervals to be a name .auto, conformal, .*. or derived from Intervals, got 3"
    ):
        Forecaster(**SMALL, intervals=3).fit(PANEL)
    with pytest.raises(InputError, match="intervals to be a name or a class, got .*. Pass a class of Intervals"):
        Forecaster(**SMALL, intervals=lambda: None).fit(PANEL)


@pytest.mark.parametrize("intervals", [lambda: None, Part("conformal", factor=2.0)])
def test_wrong_intervals_are_refused_before_the_training(intervals):
    looks = []
    with pytest.raises(InputError, match="intervals to be a name or a class|settings of ConformalIntervals among"):
        Forecaster(**SMALL, intervals=intervals).fit(PANEL, on_look=looks.append)
    assert not looks


class Narrow(Widest):
    """One up and one down. Nothing is learned."""

    @classmethod
    def fit(cls, residuals, coverage=0.9, *, scale=None):
        return cls(1.0, coverage)

    def to_arrays(self):
        return {}

    @classmethod
    def from_arrays(cls, arrays, coverage):
        return cls(1.0, coverage)


class Number(Narrow):
    """One up and one down, kept as a number."""

    def to_arrays(self):
        return {"largest": np.array(self.largest)}

    @classmethod
    def from_arrays(cls, arrays, coverage):
        assert arrays["largest"].shape == ()
        return cls(arrays["largest"], coverage)


@pytest.mark.slow
@pytest.mark.parametrize("intervals", [Narrow, Number])
def test_intervals_that_keep_little_are_there_after_load(intervals, tmp_path):
    model = Forecaster(**SMALL, intervals=intervals).fit(PANEL)
    model.save(tmp_path / "run")
    loaded = Forecaster.load(tmp_path / "run", intervals=intervals)
    assert np.isfinite(loaded.predict().low).all()
    assert_same(loaded.predict(), model.predict())


class OfTwoOrMore(Momentum):
    """A rule that refuses an order it cannot have."""

    def __init__(self, order):
        if order < 2:
            raise InputError(f"Expected an order of at least 2, got {order}.")
        super().__init__()


def test_a_rule_is_only_made_to_the_order_that_is_asked_for():
    assert Forecaster(**SMALL | dict(num_steps=1), coefficients=OfTwoOrMore).fit(PANEL).order_ == 2


@pytest.mark.slow
def test_pooled_intervals_are_a_setting(tmp_path):
    model = Forecaster(**SMALL, intervals=Part("conformal", per="all")).fit(PANEL, run=tmp_path / "run")
    assert model.intervals_.is_pooled.all()
    loaded = Forecaster.load(tmp_path / "run")
    assert isinstance(loaded.intervals_, ConformalIntervals)
    assert loaded.intervals_.is_pooled.all()
    assert loaded.intervals == Part("conformal", per="all")
    assert_same(loaded.predict(), model.predict())


# Run folders and result lines of earlier versions.

OLD = Path(__file__).parent / "runs_of_format_1"


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("by_node", dict(system="TDE-GNN_D", coefficients=None, skip="by-node", intervals="conformal")),
        ("plain_attention", dict(system=None, coefficients="attention", skip="none", operator=None)),
    ],
)
def test_a_folder_of_an_earlier_version_forecasts_as_before(name, settings, tmp_path):
    model = Forecaster.load(OLD / name)
    assert {key: getattr(model, key) for key in settings} == settings
    expected = json.loads((OLD / "forecasts.json").read_text())[name]
    forecast = model.predict(3)
    for key, values in expected.items():
        numbers, old = getattr(forecast, key)[..., 0], np.array(values, dtype=float)
        is_known = ~np.isnan(old)  # there were no intervals beyond the horizon
        np.testing.assert_allclose(numbers[is_known], old[is_known], rtol=1e-5)
        assert np.isfinite(numbers).all()
    with pytest.raises(
        InputError, match="a coverage of 0.9, that of the training, got 0.5: these intervals were learned"
    ):
        model.predict(coverage=0.5)
    model.save(tmp_path / "saved")
    assert_same(Forecaster.load(tmp_path / "saved").predict(3), forecast)


def test_result_lines_of_earlier_versions_are_read():
    old = SeriesConfig().to_record() | {"attention": "gated", "skip": "by node"}
    assert upgrade_settings(old) == SeriesConfig(skip="by-node").to_record()
    plain = SeriesConfig("TDE-GNN_A").to_record() | {"attention": "plain"}
    assert upgrade_settings(plain) == SeriesConfig("TDE-GNN_A", coefficients="attention").to_record()
