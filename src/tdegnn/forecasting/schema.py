"""What `config.json` and `summary.json` of a forecaster hold. The types of its settings are those of its arguments."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from tdegnn.errors import LARGEST_VALUE
from tdegnn.forecasting.intervals.auto import FIXED
from tdegnn.forecasting.settings import FAMILIES, PLAIN, ForecasterSettings, upgrade_settings
from tdegnn.graph import Direction
from tdegnn.runs.run_folder import CONFIG, SUMMARY, RunFolder
from tdegnn.runs.schema import (
    Digest,
    EstimatorConfig,
    Names,
    Order,
    Size,
    SomeNames,
    Stored,
    StoredNetwork,
    StoredWithOthers,
    Whole,
    check_chosen_order,
    checked,
    config_schema,
    refusal,
)

# Settings that folders of any format may lack: they were added later. This is what was done before.
AS_IT_WAS: dict[str, Any] = {
    "network": None,
    "state_norm": None,
    "readout": "last",
    "loss": "squared",
    "identity_channels": 0,
    "optimizer": "adam",
    "schedule": "constant",
    "time_budget": None,
    "calendar": True,
}
# More waves than a season of days, weeks or years can have.
MOST_WAVES = 1000


class Data(StoredWithOthers):
    """The series, and further entries that say where they came from."""

    nodes: SomeNames
    steps: Whole
    channels: SomeNames
    num_targets: Size
    node_features: Names = Field(default=[])
    # Missing in earlier versions, which set no limit.
    are_counts: bool = False
    times: Annotated[list[str], Field(min_length=1)]
    time_zone: str | None
    edges: Whole
    direction: Direction
    # Missing in format 1.
    is_weighted: bool = True
    # Number of different graphs, if edges change.
    graphs: Size | None = None
    name: str
    sha256: Digest


class Frames(Stored):
    """How frames are made."""

    window: Size
    horizon: Size
    seasons: list[Annotated[list[float], Field(min_length=2, max_length=2)]]
    step_length: Annotated[float, Field(gt=0)]
    has_mask: bool


class ForecasterConfig(EstimatorConfig):
    """The entries of config.json."""

    data: Data
    frames: Frames
    chosen_network: StoredNetwork | None = None
    # Missing in earlier versions.
    trial_steps: dict[str, Whole] | None = None
    trial_scores: dict[str, float | None] | None = None
    planned_steps: Size | None = None
    needed_seconds: float | None = None


class _OldSettings(StoredWithOthers):
    attention: Literal["plain", "gated"] = "gated"


class _OldConfig(StoredWithOthers):
    settings: _OldSettings


class HeldOutErrors(Stored):
    """Errors on the held-out steps."""

    mse: float | None
    mae: float | None


class HeldOutSteps(StoredWithOthers):
    """How many held-out forecasts are judged, and the errors of each method by its name."""

    __pydantic_extra__: dict[str, HeldOutErrors]
    steps: Whole
    # Earlier versions judged by the steps that had chosen.
    chose_nothing: bool = False


class HeldOutCoverage(Stored):
    """The coverage of intervals on held-out windows that they were not learned from."""

    aimed: float
    reached: float
    width: float
    pinball: float
    by_step: list[float | None]
    by_hour: dict[str, float | None]
    by_node: dict[str, float | None]


class IntervalFacts(Stored):
    """The method of the intervals, and its coverage if enough windows were held out."""

    method: str
    coverage: HeldOutCoverage | None


class ForecasterSummary(Stored):
    """The entries of summary.json."""

    best_step: Whole
    window: Size
    order: Order
    held_out: HeldOutSteps
    # Missing in earlier versions.
    intervals: IntervalFacts | None = None
    notes: list[str]


def check_config(folder: RunFolder, kind: type[ForecasterSettings]) -> dict[str, Any]:
    """Return the configuration of a forecaster in its present form. Raise an `InputError` for a wrong entry.

    Args:
        folder: The run folder.
        kind: The class of the forecaster.
    """
    file, config = folder.path / CONFIG, folder.config
    found = checked(ForecasterConfig, config, file)
    settings = config["settings"]
    if folder.format == 1:
        checked(_OldConfig, config, file)
        settings = kind(**PLAIN | dict(states="latent", num_members=3, intervals=FIXED)).to_record() | upgrade_settings(
            settings
        )
    settings = AS_IT_WAS | settings
    chosen = {} if found.chosen_network is None else found.chosen_network.settings
    checked(config_schema(kind, tuple(FAMILIES)), {"settings": settings | chosen}, file)
    data, frames = found.data, found.frames
    lowest = settings["lowest"]
    helping = data.channels[data.num_targets :]
    check_chosen_order(found, settings, file)
    expected = [
        ("data.num_targets", data.num_targets <= len(data.channels), f"at most {len(data.channels)}", data.num_targets),
        ("data.times", len(data.times) >= frames.window, f"at least {frames.window} times", len(data.times)),
        ("frames.horizon", frames.horizon == settings["horizon"], "that of the settings", frames.horizon),
        ("frames.horizon", frames.window + frames.horizon <= data.steps, "fewer steps than the data", frames.horizon),
        ("settings.window", settings["window"] in (None, frames.window), "that of the frames", settings["window"]),
        ("settings.lowest", abs(lowest or 0.0) <= LARGEST_VALUE, f"at most {LARGEST_VALUE:g}", lowest),
        ("settings.known", set(settings["known"]) <= set(helping), f"names among {helping}", settings["known"]),
    ]
    for period, num_waves in frames.seasons:
        is_season = period > 1 and num_waves in range(1, MOST_WAVES + 1)
        expected.append(("frames.seasons", is_season, "periods and numbers of waves", frames.seasons))
    if (settings | chosen)["states"] == "physical":
        expected += [("frames.seasons", not frames.seasons, "no season with physical states", frames.seasons)]
        expected += [("data.node_features", not data.node_features, "no feature", data.node_features)]
    for entry, is_right, text, value in expected:
        if not is_right:
            raise refusal(file, entry, text, value)
    added = {"node_features": data.node_features, "is_weighted": data.is_weighted, "are_counts": data.are_counts}
    return {**config, "settings": settings, "data": {**config["data"], **added}}


def read_summary(folder: RunFolder) -> dict[str, Any]:
    """Return the summary of a finished training."""
    summary = folder.read_summary()
    checked(ForecasterSummary, summary, folder.path / SUMMARY)
    return summary
