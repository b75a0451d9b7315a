"""The benchmarks of the paper: which there are, where their files come from, how they are read."""
