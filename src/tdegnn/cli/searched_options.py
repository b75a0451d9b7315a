"""Options of `tdegnn sweep`: the search itself, and the settings of a forecaster, which are searched unless given."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, ClassVar

import typer

from tdegnn.cli.forecaster_options import ARGUMENTS, ForecasterOptions
from tdegnn.torchrun import Launch

FOLDER = Path("runs/sweeps")
SEARCHED = "searched"
# Options that have another name than their field.
OPTIONS = {"operator_setting": "set"}


@dataclass(frozen=True)
class SearchOptions:
    """How long a search is, and where it is kept."""

    PANEL: ClassVar[str] = "The search"

    trials: Annotated[int, typer.Option(help="Number of trials of the study, including earlier ones.", min=1)] = 64
    batch: Annotated[
        int, typer.Option(help="Number of trials of which the better half is trained to the end.", min=1)
    ] = 16
    storage: Annotated[
        str | None,
        typer.Option(
            help="Where the study is stored: a file, or postgresql://USER@HOST/DATABASE or sqlite:///FILE. A password "
            "comes from PGPASSWORD, PGPASSFILE or PGSERVICEFILE, not from the URL.",
            show_default=f"{FOLDER}/STUDY.journal",
        ),
    ] = None
    study: Annotated[str | None, typer.Option(help="Name of the study.", show_default="DATASET-SYSTEM-OPERATOR")] = None
    finalists: Annotated[
        int, typer.Option(help="Number of best trials that are trained on all splits, or in full.", min=1)
    ] = 4
    wait: Annotated[
        bool,
        typer.Option(
            "--wait",
            help="Stay until the trials of other processes are finished, and take over those of a process that ends.",
        ),
    ] = False
    recipe: Annotated[
        Path | None, typer.Option(help="File for the best settings.", show_default=f"{FOLDER}/STUDY.toml")
    ] = None

    def name_of(self, dataset: str, settings: SearchedOptions) -> str:
        """Return the name of the study, given or made of the dataset, the system and the operator."""
        # No file name may have a star on Windows.
        operator = [] if settings.operator is None else [settings.operator.replace("*", "-star")]
        rule = [] if settings.coefficients is None else [settings.coefficients]
        return self.study or "-".join([dataset, *rule, *operator])

    def place_of(self, name: str) -> str | Path:
        """Return where the study of this name is stored."""
        return self.storage or FOLDER / f"{name}.journal"

    def for_process(self, launch: Launch) -> dict[str, Any]:
        """Return the arguments of a search by this process. Of those of `torchrun`, the first one waits and reports."""
        return {
            "num_trials": self.trials,
            "batch_size": self.batch,
            "num_finalists": self.finalists if launch.is_first else None,
            "is_waiting": self.wait or (launch.are_several and launch.is_first),
        }

    def recipe_of(self, name: str) -> Path:
        """Return the file for the best settings of the study of this name."""
        return self.recipe or FOLDER / f"{name}.toml"


@dataclass(frozen=True)
class SearchedOptions(ForecasterOptions):
    """The options of a forecaster. Those of `experiments/forecaster_space.py` are searched unless they are given."""

    PANEL: ClassVar[str] = "The forecaster (what is given is not searched)"
    # They are refused, with a reason.
    HIDDEN: ClassVar[tuple[str, ...]] = ("network", "time_budget")
    SHOWN_DEFAULTS: ClassVar[Mapping[str, str]] = {
        "operator": SEARCHED,
        "states": SEARCHED,
        "coefficients": f"{SEARCHED}; on a benchmark of nodes it must be given",
        "order": SEARCHED,
        "layers": SEARCHED,
        "hidden_channels": SEARCHED,
        "identity_channels": SEARCHED,
        "skip": SEARCHED,
        "learning_rate": SEARCHED,
        "dropout": SEARCHED,
        "steps": "300 per trial; the best ones then as many as `tdegnn fit` makes",
    }

    @property
    def given(self) -> dict[str, Any]:
        """The options that the user gave, by field."""
        return {name: value for name, value in vars(self).items() if value is not None}


def words_of(options: Mapping[str, Any]) -> Iterator[str]:
    """Yield options, by field, as they are typed: `--layers`, `3`."""
    for name, value in options.items():
        option = f"--{OPTIONS.get(name, name).replace('_', '-')}"
        for each in value if isinstance(value, list) else [value]:
            yield from (option, _word(each))


def _word(value: Any) -> str:
    if isinstance(value, tuple):  # a loss, and the number after its colon
        return ":".join(str(each) for each in value if each is not None)
    return value.value if isinstance(value, StrEnum) else str(value)


def as_options(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings of a forecaster by the field of their option."""
    fields = {argument: field for field, argument in ARGUMENTS.items()}
    return {fields.get(name, name): value for name, value in settings.items()}


def not_finished(name: str, num_finished: int, num_running: int) -> str:
    """Return what to say while other processes are running trials of a study."""
    return (
        f"{name}: {num_finished} trials finished, other processes run {num_running} more. The last process to finish "
        "reports the result. Or run this command again."
    )
