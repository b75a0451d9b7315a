"""Statistical models, one per node (statsforecast, the extra `stats`): ARIMA, exponential smoothing, Theta.

The order of a model and its parameters are estimated once. From a later origin, the same model goes on with the newer
values. Models see a bounded number of steps, and seasons of at most 24 of them: longer ones take these models hours.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from jaxtyping import Float

from tdegnn.errors import InputError, check_count
from tdegnn.forecasting.baselines.extras import import_extra
from tdegnn.forecasting.baselines.naive import Predictions, SeriesInputs, carry_forward

ModelName = Literal["AutoARIMA", "AutoETS", "AutoTheta"]
# Maximum number of steps that a model sees.
MOST_SEEN = 500
# Longest season that a model may have.
LONGEST_PERIOD = 24


@dataclass(frozen=True)
class StatisticalForecast:
    """A model per node.

    Attributes:
        model: The class of the model in statsforecast.
        period: Steps of a season. 1 if there is none.
    """

    model: ModelName
    period: int = 1

    def __post_init__(self) -> None:
        if self.model not in get_args(ModelName):
            raise InputError(f"Expected a model among {', '.join(get_args(ModelName))}, got {self.model!r}.")
        check_count(period=self.period)
        import_extra("statsforecast.models", "stats")

    def fit(
        self, series: SeriesInputs, training_steps: range, validation_steps: range, horizon: int = 1
    ) -> FittedStatistics:
        """See `ForecastMethod`. Models choose by an information criterion: validation steps are training steps."""
        check_count(horizon=horizon)
        series.check_steps(training_steps, validation_steps)
        seen = _filled(series)[: validation_steps.stop][-MOST_SEEN:]
        season = self.period if self.period <= min(LONGEST_PERIOD, len(seen) // 3) else 1
        kind = getattr(import_extra("statsforecast.models", "stats"), self.model)
        models = {}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for node, target in np.ndindex(seen.shape[1:]):
                # A constant has no model: it is forecast as it is.
                if np.ptp(seen[:, node, target]) > 0:
                    models[node, target] = kind(season_length=season).fit(seen[:, node, target])
        return FittedStatistics(models, horizon)


@dataclass(frozen=True, eq=False)
class FittedStatistics:
    """The models of all nodes.

    Attributes:
        models: Models of statsforecast by node and target. A constant series has none.
        horizon: Number of steps to forecast.
    """

    models: dict[tuple[int, int], Any]
    horizon: int

    def predict(self, series: SeriesInputs, first_target_steps: range) -> Predictions:
        """See `FittedForecast`."""
        series.check_targets(first_target_steps)
        filled = _filled(series)
        forecasts = np.empty((len(first_target_steps), self.horizon, *filled.shape[1:]))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for place, first in enumerate(first_target_steps):
                seen = filled[max(0, first - MOST_SEEN) : first]
                forecasts[place] = seen[-1]
                for (node, target), model in self.models.items():
                    ahead = model.forward(np.ascontiguousarray(seen[:, node, target]), h=self.horizon)["mean"]
                    forecasts[place, :, node, target] = np.where(np.isfinite(ahead), ahead, seen[-1, node, target])
        return forecasts


def _filled(series: SeriesInputs) -> Float[np.ndarray, "time nodes targets"]:
    """Return the values without gaps. Before the first one that was observed, they are zero, the center."""
    return np.asarray(np.nan_to_num(carry_forward(series.values)).astype(np.float64))
