"""The model card of a run folder: `README.md`, in the format of the Hugging Face hub.

It is written when a training ends, from what the folder keeps: what was fitted on what, the scores beside those of
simple answers, the notes, and how to load it. Whoever publishes the folder may write more into it: `load` does not read
it. The summary lists its SHA-256, by which `RunFolder.has_own_card` tells.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

# The tasks of the hub that fit each kind of estimator.
TASKS = {"Forecaster": "time-series-forecasting", "NodeClassifier": "graph-ml", "NodeRegressor": "graph-ml"}
CHOSE_NOTHING = "The steps that are scored chose neither window, network nor step."
LIMITS = {
    "Forecaster": "The held-out steps that are scored also chose the weights, so new steps may be forecast less well.",
    "NodeClassifier": "Validation nodes chose the step and the network: their score is a little too high.",
    "NodeRegressor": "Validation nodes chose the step and the network: their score is a little too high.",
}
# What a folder keeps of the data, which whoever publishes it should know.
CONTENT = {
    "Forecaster": ", and also the graph, the names of its nodes, and the last steps of the series, from which it "
    "forecasts.",
    "NodeClassifier": ", but no features and no edges.",
    "NodeRegressor": ", but no features and no edges.",
}
SCORES = {"mse": "MSE", "mae": "MAE"}


def describe_run(config: Mapping[str, Any], versions: Mapping[str, Any], summary: Mapping[str, Any]) -> str:
    """Return the card of a finished training.

    Args:
        config: The settings of the training and the description of its data.
        versions: The versions it was started with.
        summary: Its results.
    """
    kind = str(config.get("kind", "a training"))
    task = f"pipeline_tag: {TASKS[kind]}\n" if kind in TASKS else ""
    lines = [
        f"---\nlibrary_name: tdegnn\n{task}tags:\n- tdegnn\n- graph-neural-networks\n---\n",
        f"# {_plain(kind)}\n",
        f"Fitted by tdegnn {_plain(versions.get('tdegnn'))}, with torch {_plain(versions.get('torch'))}. The folder "
        f"holds settings, weights, learned coefficients, and the score of each validation{CONTENT.get(kind, '.')}\n",
        "## Data\n",
        *_table(["", ""], _data_rows(config)),
        "## Scores\n",
        *_score_tables(summary),
        "## Limits\n",
        *[f"- {_plain(note)}" for note in _notes(kind, summary)],
        "\n## Load it\n",
        *_load_lines(kind),
    ]
    return "\n".join(lines) + "\n"


def _data_rows(config: Mapping[str, Any]) -> Iterator[list[str]]:
    data, frames, settings = (_mapping(config, name) for name in ("data", "frames", "settings"))
    for name in ("name", "nodes", "edges", "direction", "features", "steps", "channels"):
        value = data.get(name)
        if isinstance(value, list):
            yield [name, f"{len(value)}: {_few(value)}" if value else "0"]
        elif value not in (None, ""):
            yield [name, _plain(value)]
    classes = _mapping(config, "learned").get("classes")
    if isinstance(classes, list):
        yield ["classes", f"{len(classes)}: {_few(classes)}"]
    for name in ("window", "horizon"):
        if name in frames:
            yield [name, f"{_plain(frames[name])} steps"]
    for name in ("system", "coefficients", "operator", "order", "num_layers", "hidden_channels", "seed"):
        if settings.get(name) is not None:
            yield [name, _plain(settings[name])]


def _score_tables(summary: Mapping[str, Any]) -> Iterator[str]:
    held_out = summary.get("held_out")
    if isinstance(held_out, Mapping):
        methods = {name: row for name, row in held_out.items() if isinstance(row, Mapping)}
        yield f"On {_plain(held_out.get('steps'))} held-out forecasts:\n"
        rows = [[_plain(name), *(_number(row.get(score)) for score in SCORES)] for name, row in methods.items()]
        yield from _table(["", *SCORES.values()], rows)
    elif "score" in summary:
        rows = [["the network", _number(summary.get("validation_score")), _number(summary.get("test_score"))]]
        for name, row in _mapping(summary, "baselines").items():
            scores = row if isinstance(row, Mapping) else {}
            rows.append([_plain(name), _number(scores.get("validation")), _number(scores.get("test"))])
        yield from _table([_plain(summary["score"]), "validation", "test"], rows)
    else:
        yield "None were measured.\n"


def _notes(kind: str, summary: Mapping[str, Any]) -> list[Any]:
    notes = summary.get("notes")
    limit = CHOSE_NOTHING if _mapping(summary, "held_out").get("chose_nothing") is True else LIMITS.get(kind)
    return [*([] if limit is None else [limit]), *(notes if isinstance(notes, list) else [])] or ["None known."]


def _load_lines(kind: str) -> list[str]:
    if kind not in TASKS:
        return ["`tdegnn explain FOLDER` says what the coefficients mean."]
    needs = "predict()" if kind == "Forecaster" else "predict(features, graph=graph)"
    return [
        "```python",
        f"from tdegnn import {kind}\n",
        f'model = {kind}.from_pretrained("FOLDER OR OWNER/NAME")',
        f"model.{needs}",
        "```\n",
        "Parts of your own (`operator=`, `coefficients=` and others) must be passed again: a folder never says which "
        "code to import.",
    ]


def _table(header: list[str], rows: Any) -> list[str]:
    lines = [f"| {' | '.join(header)} |", f"|{'---|' * len(header)}", *(f"| {' | '.join(row)} |" for row in rows)]
    return [*lines, ""]


def _few(values: list[Any]) -> str:
    return ", ".join(_plain(value) for value in values[:3]) + (", ..." if len(values) > 3 else "")


def _number(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, int | float) else "-"


def _plain(value: Any) -> str:
    """Return a value as text that Markdown shows as it is: names come from users."""
    text = " ".join(str(value).split())[:200]
    return "".join(f"\\{letter}" if letter in r"\`*_{}[]<>|#" else letter for letter in text)


def _mapping(content: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = content.get(name)
    return value if isinstance(value, Mapping) else {}
