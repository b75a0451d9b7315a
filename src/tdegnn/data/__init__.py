"""Data: panels of series, nodes with features, their windows and splits, benchmarks, and simulated systems."""
