"""Backtests: the origins to forecast from, errors, paired comparisons, the result and its picture."""
