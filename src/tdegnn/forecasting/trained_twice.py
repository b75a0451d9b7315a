"""Train networks for series twice: the validation windows choose the step, then all windows are learned from.

Every network is trained like that, ours in tables and the published ones. A `Forecaster` has its own training, which
measures more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from tdegnn.forecasting.frames import FrameMaker, WindowSet
from tdegnn.forecasting.linear_skip import Penalties, start_at_ridge
from tdegnn.forecasting.series_training import SeriesTraining
from tdegnn.graph import Graph
from tdegnn.nets.series_network import SeriesNetwork, SeriesSizes
from tdegnn.training.devices import Placement
from tdegnn.training.loop import FitResult, fit
from tdegnn.training.members import GroupedAdam


class NetworkConfig(Protocol):
    """All settings of a network and of its training."""

    @property
    def num_steps(self) -> int:
        """Maximum number of optimizer steps."""

    @property
    def batch_size(self) -> int | None:
        """Windows per step. If None, all."""

    @property
    def descent(self) -> GroupedAdam:
        """How the network learns."""

    def build(self, sizes: SeriesSizes, seed: int) -> SeriesNetwork:
        """Return a network of these sizes, with weights drawn from the seed."""


@dataclass(frozen=True, eq=False)
class WindowedSeries:
    """Series cut into windows, on the device of a training.

    Attributes:
        graph: The graph of the nodes.
        maker: Makes the frames.
        windows: All windows.
        placement: Device and precision.
    """

    graph: Graph
    maker: FrameMaker
    windows: WindowSet
    placement: Placement

    def start(
        self,
        config: NetworkConfig,
        seeds: Sequence[int],
        training_steps: range,
        judged: WindowSet,
        penalties: Penalties | None = None,
    ) -> tuple[SeriesTraining, Penalties | None]:
        """Return a training before its first step, and the penalties of its linear skip.

        Args:
            config: The network, and how it learns.
            seeds: Seeds of the networks, which are trained together.
            training_steps: Steps to learn from.
            judged: Windows to choose the step by.
            penalties: Penalties of the linear skip. If None, chosen by `judged`.
        """
        return self.start_members([(config, seed) for seed in seeds], training_steps, judged, penalties)

    def start_members(
        self,
        members: Sequence[tuple[NetworkConfig, int]],
        training_steps: range,
        judged: WindowSet,
        penalties: Penalties | None = None,
    ) -> tuple[SeriesTraining, Penalties | None]:
        """Return a training of several configurations of one shape, each with its seed, as `start` does."""
        units, device = self.maker.target_scales, self.placement.device
        training = self.windows.predicting(training_steps)
        sizes = self.maker.sizes(self.graph.num_nodes)
        networks = [config.build(sizes, seed).to(device) for config, seed in members]
        penalties = start_at_ridge(networks, training, judged, self.graph, units, penalties)
        started = SeriesTraining(
            networks,
            [config.descent for config, _ in members],
            self.graph,
            training,
            judged,
            batch_size=members[0][0].batch_size,
            units=units,
            placement=self.placement,
        )
        return started, penalties

    def train_twice(
        self,
        config: NetworkConfig,
        seeds: Sequence[int],
        training_steps: range,
        validation_steps: range,
        *,
        validate_every: int,
        patience: int | None = None,
    ) -> TrainedTwice:
        """Choose the step of each seed by the validation steps, then learn from all steps for as many steps.

        Args:
            config: The network, and how it learns.
            seeds: Seeds of the networks, which are trained together.
            training_steps: Steps to learn from.
            validation_steps: Steps to choose by, after the training steps.
            validate_every: Steps between two validations.
            patience: Steps without improvement after which the first training ends. If None, it makes all steps.
        """
        judged = self.windows.predicting(validation_steps)
        first, penalties = self.start(config, seeds, training_steps, judged)
        result = fit(first, num_steps=config.num_steps, validate_every=validate_every, patience=patience)
        everything = range(training_steps.start, validation_steps.stop)
        again, _ = self.start(config, seeds, everything, judged, penalties)
        for step in range(1, int(result.best_steps.max()) + 1):
            again.stop(result.best_steps < step)
            again.step()
        return TrainedTwice(first, result, again)


@dataclass(frozen=True, eq=False)
class TrainedTwice:
    """The result of two trainings.

    Attributes:
        first: The training on the training steps, with the best weights.
        result: Its best steps and scores.
        again: The training on all steps.
    """

    first: SeriesTraining
    result: FitResult
    again: SeriesTraining
