"""Forecasts without a network, which every forecaster is compared with."""
