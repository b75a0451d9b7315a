"""Forecasts of series on a graph: `Forecaster` and its parts."""
