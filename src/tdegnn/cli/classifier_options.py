"""The settings of a node classifier, as options of the command that trains one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from tdegnn.cli.options import DeviceOption, DirectionOption, SystemOption, parse_order

if TYPE_CHECKING:
    from tdegnn.estimators.node_classifier import NodeClassifier


@dataclass(frozen=True)
class ClassifierOptions:
    """What a user may say about a classifier. Their defaults are those of `NodeClassifier`."""

    PANEL: ClassVar[str] = "The classifier"

    system: Annotated[SystemOption, typer.Option(help="c = [1], a learned vector, attention, or a stable vector.")] = (
        SystemOption.DIRECT
    )
    hidden_channels: Annotated[int, typer.Option(help="Channels of a state.", min=1)] = 64
    layers: Annotated[int, typer.Option(help="Number of layers.", min=1)] = 2
    order: Annotated[
        Any,
        typer.Option(
            help="Length of the history; [bold]auto[/bold] tries 1 to 4 and takes what validation prefers.",
            parser=parse_order,
            metavar="INTEGER|auto",
        ),
    ] = 2
    step_size: Annotated[float, typer.Option(help="h: weight of the spatial term.", min=0)] = 1.0
    dropout: Annotated[
        float, typer.Option(help="Part of input and last state dropped in training.", min=0, max=0.99)
    ] = 0.5
    hidden_dropout: Annotated[
        float, typer.Option(help="Part of the other states dropped in training.", min=0, max=0.99)
    ] = 0.3
    learning_rate: Annotated[float, typer.Option(help="Of embedding and spatial term.", min=0)] = 0.01
    weight_decay: Annotated[float, typer.Option(help="Of embedding and spatial term.", min=0)] = 5e-4
    c_learning_rate: Annotated[float, typer.Option(help="Of the coefficients c.", min=0)] = 1e-3
    c_weight_decay: Annotated[float, typer.Option(help="How strongly c is pulled to forward Euler.", min=0)] = 0.01
    batch_norm: Annotated[bool, typer.Option(help="Normalize channels in the spatial term.")] = True
    standardize: Annotated[
        bool, typer.Option(help="Bring features to mean 0 and deviation 1; indicators and sparse ones stay.")
    ] = True
    normalize: Annotated[
        bool, typer.Option("--normalize", help="Scale the features of a node to sum to one, as for counts of words.")
    ] = False
    balanced: Annotated[bool, typer.Option("--balanced", help="Let all classes count the same.")] = False
    steps: Annotated[int, typer.Option(help="Steps of the optimizer at most.", min=1)] = 300
    patience: Annotated[int | None, typer.Option(help="End after so many steps without improvement.", min=1)] = None

    def make(self, seed: int, device: DeviceOption, direction: DirectionOption | None) -> NodeClassifier:
        """A classifier with these settings, not trained yet.

        Args:
            seed: Seed of everything random.
            device: Where to compute.
            direction: Whose states a node receives; `None` where the user did not say.
        """
        from tdegnn.estimators.node_classifier import NodeClassifier

        return NodeClassifier(
            system=self.system.value,
            hidden_channels=self.hidden_channels,
            num_layers=self.layers,
            order=self.order,
            step_size=self.step_size,
            outer_dropout=self.dropout,
            hidden_dropout=self.hidden_dropout,
            embedding_learning_rate=self.learning_rate,
            embedding_weight_decay=self.weight_decay,
            temporal_learning_rate=self.c_learning_rate,
            temporal_weight_decay=self.c_weight_decay,
            spatial_learning_rate=self.learning_rate,
            spatial_weight_decay=self.weight_decay,
            batch_norm=self.batch_norm,
            standardized_features=self.standardize,
            normalized_features=self.normalize,
            class_weight="balanced" if self.balanced else None,
            num_steps=self.steps,
            patience=self.patience,
            seed=seed,
            device=device.value,
            direction=None if direction is None else direction.value,
        )

    @property
    def num_trainings(self) -> int:
        """How many trainings there will be: one for each order where the order is to be found, and the last one."""
        from tdegnn.estimators.auto_order import AUTO, TRIED_ORDERS

        is_searched = self.order == AUTO and self.system is not SystemOption.FIXED
        return 1 + len(TRIED_ORDERS) if is_searched else 1
