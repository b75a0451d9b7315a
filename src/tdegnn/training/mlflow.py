"""`MLflowCallback`: a training as a run of MLflow. It uses the client, so that a run of the caller's is not changed."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from tdegnn.errors import InputError
from tdegnn.training.callbacks import Callback, Outcome, flatten, scores_of
from tdegnn.training.loop import Look

# What a server of MLflow takes at once, and the longest text of a tag or a parameter that it keeps.
MOST_METRICS, MOST_PARAMETERS = 1000, 100
LONGEST_TEXT = 5000


class MLflowCallback(Callback):
    """Logs a training as a run of MLflow. Needs `mlflow`, or `mlflow-skinny`, which the extra `mlflow` installs.

    Settings become parameters, loss and validation score metrics by step. At the end, the scores of the summary and
    each entry of c by layer become metrics; what c means, and the notes, tags. A run of a fit that fails is marked so.

    Args:
        uri: Where runs are kept, for example `"sqlite:///mlflow.db"` or the address of a server. If None, as MLflow is
            configured.
        experiment: Name of the experiment. It is made if there is none.
        run_name: Name of the run. If None, MLflow makes one up.
        run_id: Run to continue, for a fit that is resumed. If None, a new run begins.
    """

    def __init__(
        self,
        uri: str | None = None,
        *,
        experiment: str = "tdegnn",
        run_name: str | None = None,
        run_id: str | None = None,
    ) -> None:
        try:
            from mlflow import MlflowClient
            from mlflow.entities import Metric, Param, RunTag
        except ImportError as error:
            raise InputError("Expected the package mlflow, got none. Run: pip install 'tdegnn[mlflow]'.") from error
        self._metric, self._parameter, self._tag = Metric, Param, RunTag
        self._experiment, self._run_name, self.run_id = experiment, run_name, run_id
        self._uri = uri
        with self._reached():
            self._client = MlflowClient(uri)

    def on_start(self, settings: Mapping[str, Any]) -> None:
        """Begin a run, and log the settings."""
        with self._reached():
            if self.run_id is None:
                self._begin(settings)
            else:
                # A parameter cannot be logged twice.
                self._client.update_run(self.run_id, status="RUNNING")

    def _begin(self, settings: Mapping[str, Any]) -> None:
        found = self._client.get_experiment_by_name(self._experiment)
        experiment = self._client.create_experiment(self._experiment) if found is None else found.experiment_id
        self.run_id = str(self._client.create_run(experiment, run_name=self._run_name).info.run_id)
        parameters = [self._parameter(_plain(name), str(value)[:LONGEST_TEXT]) for name, value in flatten(settings)]
        for first in range(0, len(parameters), MOST_PARAMETERS):
            self._client.log_batch(self.run_id, params=parameters[first : first + MOST_PARAMETERS])

    def on_look(self, look: Look) -> None:
        """Log loss and score."""
        with self._reached():
            self._log(scores_of(look), look.step)

    def on_end(self, outcome: Outcome | None) -> None:
        """Log what was learned, and end the run."""
        with self._reached():
            if outcome is not None:
                self._log_outcome(outcome)
            self._client.set_terminated(self.run_id, "FAILED" if outcome is None else "FINISHED")

    def _log_outcome(self, outcome: Outcome) -> None:
        self._log(outcome.scores, 0)
        for layer, vector in enumerate(outcome.coefficients, start=1):
            self._log({f"coefficients/c{place}": value for place, value in enumerate(vector, start=1)}, layer)
        texts = {"verdict": outcome.verdict, "notes": "\n".join(outcome.notes)}
        tags = [self._tag(name, text[:LONGEST_TEXT]) for name, text in texts.items()]
        self._client.log_batch(self.run_id, tags=tags)

    @contextmanager
    def _reached(self) -> Iterator[None]:
        """Raise an `InputError` if MLflow does not take what it is told."""
        try:
            yield
        except Exception as error:  # of many kinds: MLflow's own, and those of databases and of the network
            place = "as it is configured" if self._uri is None else self._uri
            raise InputError(f"Expected a place where MLflow keeps runs, got {place}: {_first_line(error)}") from error

    def _log(self, values: Mapping[str, float], step: int) -> None:
        now = int(1000 * time.time())
        metrics = [self._metric(_plain(name), float(value), now, step) for name, value in values.items()]
        for first in range(0, len(metrics), MOST_METRICS):
            self._client.log_batch(self.run_id, metrics=metrics[first : first + MOST_METRICS])


def _plain(name: str) -> str:
    """Return a name in the characters that MLflow takes."""
    return re.sub(r"[^\w\-. :/]", "_", name)


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)[:200]
