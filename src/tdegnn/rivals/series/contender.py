"""The published networks as contenders in a backtest of the user's own series, with one setting for all of them.

Deviation: nothing is tuned. They see the frames of the forecaster, up to `MOST_FRAMES` of them, because they take as
many steps one after the other.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tdegnn.data.panel import Panel
from tdegnn.data.tables.node_features import NodeFeatures
from tdegnn.errors import TrainingError
from tdegnn.forecasting.baselines.naive import Predictions
from tdegnn.forecasting.contenders.contender import Contender, ContenderTask
from tdegnn.forecasting.fitted import graph_of
from tdegnn.forecasting.frames import FrameMaker, WindowSet
from tdegnn.forecasting.held_out import threads_for
from tdegnn.forecasting.series_training import SeriesTraining
from tdegnn.forecasting.trained_twice import WindowedSeries
from tdegnn.rivals.series.config import SeriesRivalConfig
from tdegnn.training.devices import Placement, choose_placement
from tdegnn.training.members import GroupDescent

# Maximum number of steps that a recurrent network sees.
MOST_FRAMES = 24
# Maximum number of rows (windows times nodes) and of windows of a training step: a few hundredths of a second of work.
ROWS_PER_STEP, WINDOWS_PER_STEP = 2**12, 64
NUM_LOOKS = 25
# Training ends when the validation error has not improved for this share of all steps.
PATIENCE = 0.3


class CellContender(Contender):
    """A published network.

    Args:
        system: Its name in `rivals/series/registry.py`.
        hidden_channels: Channels of a state. Default: 32.
        dropout: Fraction of the states that is dropped in training. Default: 0.1.
        learning_rate: Learning rate of all weights. Default: 0.005.
        weight_decay: How strongly weights are pulled to zero. Default: 0.0001.
        num_steps: Maximum number of optimizer steps. Default: 500.
        batch_size: Windows per step. If None, as many as make a quick step.
    """

    def __init__(
        self,
        system: str,
        hidden_channels: int = 32,
        dropout: float = 0.1,
        learning_rate: float = 0.005,
        weight_decay: float = 0.0001,
        num_steps: int = 500,
        batch_size: int | None = None,
    ) -> None:
        descent = GroupDescent(learning_rate, weight_decay)
        self.config = SeriesRivalConfig(system, hidden_channels, dropout, descent, num_steps, batch_size)

    def fit(self, task: ContenderTask) -> FittedCell:
        """See `Contender`. The held-out steps choose the number of steps; then everything is learned from."""
        panel, split = task.panel, task.split
        window = min(task.window, MOST_FRAMES)
        learned = panel[: split.training.stop]
        maker = FrameMaker.fit(learned, window, task.horizon, seasons=task.seasons, known=task.known)
        if task.node_features is not None:
            maker = maker.with_node_features(task.node_features)
        placement = choose_placement(task.device)
        frames = _Frames(maker, task.node_features, placement)
        usual = max(1, min(WINDOWS_PER_STEP, ROWS_PER_STEP // panel.num_nodes))
        config = replace(self.config, batch_size=self.config.batch_size or usual)
        with threads_for(panel):
            series = WindowedSeries(graph_of(panel), maker, frames.windows(panel), placement)
            trained = series.train_twice(
                config,
                [task.seed],
                range(window, split.training.stop),
                split.validation,
                validate_every=max(1, config.num_steps // NUM_LOOKS),
                patience=max(1, int(PATIENCE * config.num_steps)),
            )
            if bool(trained.result.is_diverged.any()) or not bool(trained.again.members.weights.isfinite().all()):
                raise TrainingError(f"Expected weights of {config.system} that are numbers, got others: it diverged.")
            held_out = frames.forecast(trained.first, panel, task.held_out_firsts)
        return FittedCell(frames, trained.again, held_out)


@dataclass(frozen=True, eq=False)
class _Frames:
    """How a panel becomes windows, and what they are made with."""

    maker: FrameMaker
    node_features: NodeFeatures | None
    placement: Placement

    def windows(self, panel: Panel) -> WindowSet:
        return self.maker.windows(
            panel, node_features=self.node_features, device=self.placement.device, dtype=self.placement.dtype
        )

    def forecast(self, training: SeriesTraining, panel: Panel, first_target_steps: range) -> Predictions:
        """Return forecasts of the only member, in the units of the panel."""
        windows = self.windows(panel).starting_at(first_target_steps)
        return self.maker.to_units(training.forecast(windows)[0].double().cpu().numpy())


@dataclass(frozen=True, eq=False)
class FittedCell:
    """A trained network.

    Attributes:
        frames: Makes its windows.
        training: The training that holds its weights.
        held_out: Forecasts of the held-out windows, by weights that have not learned from them.
    """

    frames: _Frames
    training: SeriesTraining
    held_out: Predictions

    def predict(self, panel: Panel, first_target_steps: range) -> Predictions:
        """See `FittedContender`."""
        with threads_for(panel):
            return self.frames.forecast(self.training, panel, first_target_steps)
