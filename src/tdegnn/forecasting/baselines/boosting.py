"""Boosted trees (LightGBM, the extra `boost`): one model per step ahead, for all nodes together.

A tree sees the features of a ridge regression and the number of the node, and forecasts the change since the newest
value: trees cannot go beyond the values they have seen, changes seldom need to. The number of trees is chosen on the
validation steps. Rows are thinned in time, so that memory and time are bounded.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from tdegnn.errors import InputError, check_count
from tdegnn.forecasting.baselines.extras import import_extra
from tdegnn.forecasting.baselines.naive import Predictions, SeriesInputs
from tdegnn.forecasting.baselines.ridge import CenteredSeries, Feature

# Maximum number of rows (origins times nodes) that a model learns from.
MOST_ROWS = 2**16
# Maximum number of rows that are forecast at once.
ROWS_AT_ONCE = 2**18
# Training ends when the validation error has not improved for this many trees.
PATIENCE = 25
# Number of trees if there are no validation steps, at most.
USUAL_ROUNDS = 100


@dataclass(frozen=True)
class BoostedTrees:
    """Boosted trees on `features`.

    Attributes:
        features: What the trees see, besides the number of the node.
        num_rounds: Maximum number of trees.
        learning_rate: How much of its forecast each tree adds.
        num_leaves: Maximum number of leaves of a tree.
        seed: Seed of everything random.
    """

    features: tuple[Feature, ...]
    num_rounds: int = 300
    learning_rate: float = 0.1
    num_leaves: int = 31
    seed: int = 0

    def __post_init__(self) -> None:
        check_count(num_rounds=self.num_rounds)
        check_count(2, num_leaves=self.num_leaves)
        if not 0 < self.learning_rate <= 1:
            raise InputError(f"Expected a learning_rate between 0 and 1, got {self.learning_rate}.")
        import_extra("lightgbm", "boost")

    @property
    def num_seen(self) -> int:
        """Number of steps a forecast looks at."""
        return max(1, *(feature.num_seen for feature in self.features))

    def fit(
        self, series: SeriesInputs, training_steps: range, validation_steps: range, horizon: int = 1
    ) -> FittedTrees:
        """See `ForecastMethod`. Training steps with too few steps before them are left out."""
        check_count(horizon=horizon)
        series.check_steps(training_steps, validation_steps)
        frames = [_frames(series, target) for target in range(series.num_targets)]
        aheads = range(1, horizon + 1)
        trees = [[self._fit(each, training_steps, validation_steps, ahead) for ahead in aheads] for each in frames]
        return FittedTrees(self, trees)

    def rows(self, series: CenteredSeries, origins: range, ahead: int) -> Float[np.ndarray, "rows columns"]:
        """Return the number of the node and the columns of all features: one row per origin and node."""
        num_nodes = series.values.shape[1]
        columns = [feature.columns(series, origins, ahead) for feature in self.features]
        nodes = np.broadcast_to(np.arange(num_nodes, dtype=np.float64)[:, None], (len(origins), num_nodes, 1))
        table = np.concatenate([nodes, *columns], axis=-1)
        return table.reshape(-1, table.shape[-1]).astype(np.float32)

    def _fit(self, series: CenteredSeries, training: range, validation: range, ahead: int) -> Any:
        lightgbm = import_extra("lightgbm", "boost")
        parameters = {
            "objective": "regression",
            "learning_rate": self.learning_rate,
            "num_leaves": self.num_leaves,
            "seed": self.seed,
            "deterministic": True,
            "force_row_wise": True,
            "verbosity": -1,
        }
        num_rounds, everything = min(USUAL_ROUNDS, self.num_rounds), self._table(series, training, ahead)
        if len(validation):
            judged = self._table(series, validation, ahead)
            data = lightgbm.Dataset(*everything, categorical_feature=[0], free_raw_data=False)
            checked = lightgbm.Dataset(*judged, reference=data)
            stop = lightgbm.early_stopping(PATIENCE, verbose=False)
            first = lightgbm.train(parameters, data, self.num_rounds, valid_sets=[checked], callbacks=[stop])
            num_rounds = max(1, first.best_iteration)
            everything = self._table(series, range(training.start, validation.stop), ahead)
        data = lightgbm.Dataset(*everything, categorical_feature=[0])
        return lightgbm.train(parameters, data, num_rounds)

    def _table(
        self, series: CenteredSeries, steps: range, ahead: int
    ) -> tuple[Float[np.ndarray, "rows columns"], Float[np.ndarray, " rows"]]:
        """Return the rows that forecast `steps`, and the changes that they forecast."""
        origins = range(max(steps.start - ahead, self.num_seen - 1), steps.stop - ahead)
        every = max(1, -(-len(origins) * series.values.shape[1] // MOST_ROWS))
        # The newest origins matter most: thin from the end.
        origins = range(origins.start + (len(origins) - 1) % every, origins.stop, every) if origins else origins
        chosen = np.asarray(origins, dtype=np.int64)
        changes = (series.values[chosen + ahead] - series.filled[chosen]).reshape(-1)
        is_observed = ~np.isnan(changes)
        if not is_observed.any():
            raise InputError(
                f"Expected observed steps with {self.num_seen} steps before them, got none. Take fewer lags or a "
                "longer series."
            )
        return self.rows(series, origins, ahead)[is_observed], changes[is_observed]


@dataclass(frozen=True, eq=False)
class FittedTrees:
    """Boosted trees for each target and step of the horizon.

    Attributes:
        method: The method that was fitted.
        trees: One model of LightGBM per target and step.
    """

    method: BoostedTrees
    trees: list[list[Any]]

    def predict(self, series: SeriesInputs, first_target_steps: range) -> Predictions:
        """See `FittedForecast`."""
        series.check_targets(first_target_steps, self.method.num_seen)
        horizon, num_nodes = len(self.trees[0]), series.num_nodes
        forecasts = np.empty((len(first_target_steps), horizon, num_nodes, len(self.trees)))
        at_once = max(1, ROWS_AT_ONCE // num_nodes)
        for target, by_step in enumerate(self.trees):
            frames = _frames(series, target)
            for first in range(0, len(first_target_steps), at_once):
                firsts = first_target_steps[first : first + at_once]
                origins = range(firsts.start - 1, firsts.stop - 1, firsts.step)
                newest = frames.filled[np.asarray(origins)]
                for step, model in enumerate(by_step):
                    changes = model.predict(self.method.rows(frames, origins, step + 1)).reshape(newest.shape)
                    forecasts[first : first + len(firsts), step, :, target] = newest + changes
        return forecasts


def _frames(series: SeriesInputs, target: int) -> CenteredSeries:
    return CenteredSeries(series.values[..., target].astype(np.float64), series.known, series.graph)
