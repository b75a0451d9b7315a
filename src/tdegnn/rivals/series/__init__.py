"""Rivals for forecasting, one per file."""
