"""What the server of `tests/forked.py` imports. Nothing is computed: threads of torch would not survive a fork."""

import tdegnn.cli
import tdegnn.experiments.sweep
import tdegnn.forecasting.forecaster
import tdegnn.nodes.estimator  # noqa: F401
import tests.experiments.tiny_nodes  # noqa: F401
