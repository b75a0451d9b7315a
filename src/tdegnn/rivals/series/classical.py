"""The classical forecasts of Table 2, by their names there: no network, no randomness, solved in seconds."""

from __future__ import annotations

from tdegnn.errors import check_count
from tdegnn.forecasting.baselines.naive import ConstantForecast, ForecastMethod, MeanForecast, SeasonalNaive
from tdegnn.forecasting.baselines.ridge import KnownChannels, MeanLags, NeighborLags, OwnLags, RidgeForecast

LAST_VALUE = SeasonalNaive(period=1)


def pooled_autoregression(num_lags: int) -> RidgeForecast:
    """Return least squares with an intercept on the newest values, with the same weights for all nodes."""
    return RidgeForecast((OwnLags(num_lags),), per="all", lambdas=(0.0,))


def classical_forecasts(period: int, num_lags: int = 4, num_neighbor_lags: int = 4) -> dict[str, ForecastMethod]:
    """Return each classical forecast by its name.

    Forecasts with a season use the known channels of the series, from `season_waves` or the calendar. The one with
    neighbors needs a graph too.

    Args:
        period: Steps from one season to the next, for the seasonal naive forecast: 7 for days, 52 for weeks.
        num_lags: Number of its own values that an autoregression sees. Default: 4.
        num_neighbor_lags: Number of values of each kind (own, of neighbors, of all nodes) that the forecast with
            neighbors sees. It learns from all nodes together, so it can use many. Default: 4.
    """
    check_count(period=period, num_lags=num_lags, num_neighbor_lags=num_neighbor_lags)
    own, known = OwnLags(num_lags), KnownChannels()
    of_others = (OwnLags(num_neighbor_lags), NeighborLags(num_neighbor_lags), MeanLags(num_neighbor_lags))
    return {
        "constant": ConstantForecast(),
        "training mean": MeanForecast(),
        "last value": LAST_VALUE,
        "seasonal naive": SeasonalNaive(period),
        "pooled AR": pooled_autoregression(num_lags),
        "AR + season (ridge)": RidgeForecast((own, known)),
        "AR + neighbors + season (ridge)": RidgeForecast((*of_others, known), per="all"),
    }
