"""Tolerances of the analysis, in one place. No imports: the command line shows these in its help."""

# How far outside the unit disc a root may lie, and up to which share of the largest weight a weight counts as zero.
DEFAULT_TOLERANCE = 1e-3
# The same for vectors that were learned from data or printed with few digits.
LOOSE_TOLERANCE = 0.02
# How far the sum of coefficients may be from one. Leaves room for the rounding of float32.
SUM_TOLERANCE = 1e-4
# Explained share from which an order counts as found.
EXPLAINED_ENOUGH = 0.95
