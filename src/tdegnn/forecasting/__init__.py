"""Forecasts of series on a graph: `Forecaster` and what it is made of."""
