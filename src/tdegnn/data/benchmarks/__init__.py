"""The benchmarks of the paper: their catalogue, where their files come from, and how they are read."""
