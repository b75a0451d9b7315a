"""The names of the stages of a fit, in this order, as progress bars show them.

Networks are tried between the second and the third, each in a stage of its own. The linear forecast is solved anew for
each network, and for the second training.
"""

WINDOW_SEARCH, ORDER_SEARCH, LINEAR = "window search", "order search", "linear forecast"
TRAINING, INTERVALS, TRAINING_AGAIN = "training", "errors and intervals", "again, with the held-out steps"
