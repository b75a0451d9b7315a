"""Speed benchmarks, measured as ratios within one run."""
