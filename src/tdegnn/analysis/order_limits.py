"""Constants of the search for the order of data, the same for all data. No imports: help texts show some of them."""

# Largest order tried by default, and largest order allowed. The lower derivatives of a smooth series determine the
# higher ones, whatever the system behind it. From order five on, this alone may explain enough.
USUAL_MAX_ORDER, HIGHEST_ORDER = 4, 6
# A true equation explains everything but noise, so the interval of its share reaches the first number. From order three
# on, less may come from smoothness alone: an octave of noise reaches 0.99 at order four. At lower orders, less means
# that something is left unexplained; this is said if the share of noise is below the second number.
NEARLY_ALL, NEARLY_NO_NOISE = 0.995, 1e-3
SMOOTH_FROM = 3
# Number of resamples of the pieces, the share of them that must agree, and the share that must be able to judge. If
# all change lies in a few pieces, a resample may have nothing but noise to fit or to judge by.
NUM_RESAMPLES = 200
AGREED_ENOUGH = 0.8
ABLE_ENOUGH = 0.5
CONFIDENCE = 0.95
# A lower derivative does not matter if its term is smaller than this share of the leading term.
SMALLEST_PART = 0.02
# Every order below the true one explains less than this. If one explains more, noise may have kept the true order just
# below the threshold, and a higher order would be mistaken for it.
CLEARLY_LOWER = 0.9
# From this share on, a low order that does not explain enough is likely to lack a term, such as a nonlinear coupling.
LACKS_A_TERM = 0.8
# Half width of the shortest test sequence, in steps, and the largest share of a piece that a window may cover.
FINEST = 3
LARGEST_WINDOW = 0.7
# A scale is used if its share of noise is at most the first number. If there is no such scale, the best one is used, as
# long as its share of noise is at most the last number: beyond it, more would be subtracted than remains. A finer scale
# is compared with if its share of noise is at most the second number: much noise makes fits worse.
LITTLE_NOISE, SOME_NOISE, MOST_NOISE = 0.1, 0.2, 0.5
# Coarse scales that keep less than this share of the variance would judge another, slower system.
KEPT_VARIANCE = 0.5
# Number of scales that judge: the finest, the coarsest and one between them.
MOST_SCALES = 3
# The share that is left unexplained at a scale that noise hides grows at least and at most with these powers of the
# ratio of the scales.
FLATTEST, STEEPEST = 0.5, 1.5
# Desired number of pieces, the fewest that allow a verdict, and the most.
NUM_PIECES, FEWEST_PIECES, MOST_PIECES = 12, 4, 48
# Use fewer pieces rather than pieces shorter than this number of steps.
USUAL_PIECE = 24
LONGEST_FILLED_GAP = 3
# Highest order of the differences from which the noise is estimated.
HIGHEST_DIFFERENCE = 8
