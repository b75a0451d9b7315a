"""Recipes: the tuned configurations behind the tables, a TOML file a dataset with a section a system.

They are what `tdegnn sweep` and its like came to, chosen by mean validation accuracy over the ten splits. With a recipe
a row of a table can be trained again from scratch.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import fields
from importlib.resources import files as resources
from pathlib import Path
from typing import Any

from tdegnn.errors import InputError
from tdegnn.experiments.node_systems import AnyConfig
from tdegnn.nodes.settings import NodeConfig
from tdegnn.rivals.nodes.config import RivalConfig
from tdegnn.rivals.nodes.registry import NODE_NETWORKS
from tdegnn.training.members import GroupDescent

FOLDER = resources("tdegnn.experiments").joinpath("recipes")
GROUPS = ("embedding", "temporal", "spatial")


def read_recipes(dataset: str, path: Path | None = None) -> dict[str, AnyConfig]:
    """The configurations of a dataset, by system.

    Args:
        dataset: Name of a benchmark.
        path: A recipe file of one's own; without it the one that comes with the library.
    """
    source = FOLDER.joinpath(f"{dataset}.toml") if path is None else path
    if not source.is_file():
        known = ", ".join(sorted(entry.name.removesuffix(".toml") for entry in FOLDER.iterdir()))
        raise InputError(f"Expected a dataset with recipes, one of {known}, got {dataset!r}.")
    try:
        sections = tomllib.loads(source.read_text("utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"Expected a recipe in TOML in {source.name}: {error}.") from error
    return {system: _read(system, section, source.name) for system, section in sections.items()}


def write_recipes(path: Path, configs: Mapping[str, AnyConfig]) -> None:
    """Write configurations, by system, to a recipe file."""
    path.write_text("\n".join(_write(system, config) for system, config in configs.items()), "utf-8")


def config_from_record(settings: Mapping[str, Any]) -> AnyConfig:
    """A configuration from its settings, as result lines and recipes have them."""
    kind = RivalConfig if settings.get("system") in NODE_NETWORKS else NodeConfig
    known = {field.name for field in fields(kind)}
    unknown = set(settings) - known
    if unknown:
        raise InputError(f"Expected settings among {', '.join(sorted(known))}, got {sorted(unknown)[0]!r}.")
    groups = {group: _as_typed(GroupDescent, settings[group]) for group in GROUPS if group in settings}
    config: AnyConfig = _as_typed(kind, {**settings, **groups})
    return config


def _as_typed(kind: type, settings: Mapping[str, Any]) -> Any:
    """A dataclass with these settings; a float may be written as 1, by people and by JSON."""
    floats = {field.name for field in fields(kind) if field.type == "float"}
    return kind(
        **{
            name: float(value) if name in floats and isinstance(value, int) else value
            for name, value in settings.items()
        }
    )


def _read(system: str, section: Mapping[str, Any], source: str) -> AnyConfig:
    try:
        return config_from_record({"system": system, **section})
    except (TypeError, InputError) as error:
        raise InputError(f"In the recipe {source}, [{system}]: {error}") from error


def _write(system: str, config: AnyConfig) -> str:
    lines = [f'["{system}"]']
    for name, value in config.to_record().items():
        if isinstance(value, Mapping):
            lines.append(f"{name} = {{ " + ", ".join(f"{key} = {_value(part)}" for key, part in value.items()) + " }")
        elif name != "system":
            lines.append(f"{name} = {_value(value)}")
    return "\n".join(lines) + "\n"


def _value(value: bool | int | float | str) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else repr(value)
