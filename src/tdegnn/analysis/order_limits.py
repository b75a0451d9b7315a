"""How the search for the order of data judges: one set of numbers for all data. No imports: help texts show some."""

# Orders that are tried, by default and at most. Of a smooth series the higher derivatives follow from the lower ones,
# whatever made it; from order five on, that alone may explain enough.
USUAL_MAX_ORDER, HIGHEST_ORDER = 4, 6
# Where noise is less than the second number, an equation explains at least the first. From the third order on, what
# explains less may be smoothness alone: an octave of noise comes to 0.99 at order four.
NEARLY_ALL, NEARLY_NO_NOISE = 0.995, 1e-3
SMOOTH_FROM = 3
# How often pieces of the data are drawn, how many of these resamples must agree, and how many must be able to judge:
# where all change lies in few pieces, what was drawn or what was left may be noise and nothing else.
NUM_RESAMPLES = 200
AGREED_ENOUGH = 0.8
ABLE_ENOUGH = 0.5
CONFIDENCE = 0.95
# A lower derivative whose term is smaller than this, beside the leading one, does not matter.
SMALLEST_PART = 0.02
# Below the true order the share is clearly lower than what is enough. Where it is not, noise may have made the true
# order fail by a little, and a higher one would be taken for it.
CLEARLY_LOWER = 0.9
# Half width of the shortest test sequence, in steps, and how much of a piece the longest window may be.
FINEST = 3
LARGEST_WINDOW = 0.7
# A scale is used where noise is at most so much of what is to be explained; where there is none, the best one, up to
# the second number: beyond it more would be subtracted than is left.
LITTLE_NOISE, MOST_NOISE = 0.1, 0.5
# Coarse scales that keep less than this of the variance would judge another, slower system.
KEPT_VARIANCE = 0.5
# Of the scales that are left, the finest, the coarsest and one between them judge.
MOST_SCALES = 3
# So many pieces are wanted; with fewer than the second number nothing could be said.
NUM_PIECES, FEWEST_PIECES, MOST_PIECES = 12, 4, 48
# Fewer pieces rather than shorter ones than this.
USUAL_PIECE = 24
LONGEST_FILLED_GAP = 3
# The noise is estimated from differences up to this order.
HIGHEST_DIFFERENCE = 8
