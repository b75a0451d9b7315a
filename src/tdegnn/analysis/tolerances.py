"""How exactly things are judged, in one place. No imports: the command line shows these in its help."""

# How far outside the unit disc a root may lie, and which share of the largest weight counts as zero.
DEFAULT_TOLERANCE = 1e-3
# The same for vectors that were learned from data, or printed with few digits.
LOOSE_TOLERANCE = 0.02
# How far the sum of coefficients may be from one: what float32 keeps.
SUM_TOLERANCE = 1e-4
# The explained share from which on an order counts as found.
EXPLAINED_ENOUGH = 0.95
