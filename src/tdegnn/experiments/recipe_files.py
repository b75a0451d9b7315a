"""Recipes: the tuned configurations behind the tables, one TOML file per dataset with one section per system.

They were found by `tdegnn sweep` and similar searches, by mean validation accuracy over the ten splits. With a recipe,
a row of a table can be trained again from scratch.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from dataclasses import fields
from importlib.resources import files as resources
from importlib.resources.abc import Traversable
from pathlib import Path
from types import NoneType
from typing import Any, NamedTuple

from tdegnn.errors import InputError, suggest
from tdegnn.experiments.node_systems import AnyConfig
from tdegnn.files import locked, read_whole, write_whole
from tdegnn.nodes.settings import FAMILIES, NodeConfig, upgrade_settings
from tdegnn.parts import PartLike, parts_from_record
from tdegnn.rivals.nodes.config import RivalConfig
from tdegnn.rivals.nodes.registry import NODE_NETWORKS
from tdegnn.training.members import GroupDescent

FOLDER = resources("tdegnn.experiments").joinpath("recipes")
GROUPS = ("embedding", "temporal", "spatial")


class _Expected(NamedTuple):
    accepted: tuple[type, ...]
    words: str


# By the annotation of a setting.
TYPES = {
    "float": _Expected((int, float), "a number"),
    "int": _Expected((int,), "a whole number"),
    "bool": _Expected((bool,), "true or false"),
    "str": _Expected((str,), "text"),
    "float | None": _Expected((int, float, NoneType), "a number"),
    "int | None": _Expected((int, NoneType), "a whole number"),
}


def read_recipes(dataset: str, path: Path | None = None, **own: PartLike) -> dict[str, AnyConfig]:
    """Read the configurations of a dataset, by system.

    Args:
        dataset: Name of a benchmark.
        path: Your own recipe file. If None, the one that comes with the library.
        own: Your classes for the sections that name one: `coefficients=`, `operator=` or `initial_states=`.
    """
    if path is not None and not path.is_file():
        raise InputError(f"Expected a recipe file at {path}, got none. Check the path.")
    source = FOLDER.joinpath(f"{dataset}.toml") if path is None else path
    if not source.is_file():
        known = ", ".join(sorted(entry.name.removesuffix(".toml") for entry in FOLDER.iterdir()))
        raise InputError(f"Expected a dataset with recipes, one of {known}, got {dataset!r}.")
    configs = {}
    for system, section in _read_sections(source).items():
        needed = {name: given for name, given in own.items() if _is_class(section.get(name))}
        try:
            configs[system] = config_from_record({"system": system, **section}, **needed)
            if path is not None:  # tests have checked those that come with the library
                configs[system].check()
        except InputError as error:
            raise InputError(f"In the recipe {source.name}, [{system}]: ", error.message) from error
    return configs


def write_recipes(path: Path, configs: Mapping[str, AnyConfig]) -> None:
    """Write configurations, by system, to a recipe file."""
    write_sections(path, {system: config.to_record() for system, config in configs.items()})


def write_recipe(path: Path, config: AnyConfig) -> None:
    """Write a configuration to a recipe file, in place of the one that the file may have for the same system.

    Several processes may write to the same file. A file that cannot be written completely stays as it was.
    """
    with locked(path):
        others = _read_sections(path) if path.exists() else {}
        write_sections(path, {**others, config.system: config.to_record()})


def config_from_record(settings: Mapping[str, Any], **own: PartLike) -> AnyConfig:
    """Return a configuration from its settings, as result lines and recipes of any version have them.

    Args:
        settings: The settings. Those that are left out have their defaults.
        own: Your classes, if the settings name one: `coefficients=`, `operator=` or `initial_states=`.
    """
    kind = RivalConfig if str(settings.get("system")) in NODE_NETWORKS else NodeConfig
    if kind is NodeConfig:
        settings = upgrade_settings(settings)
    _check_names(kind, settings)
    groups = {group: _as_typed(GroupDescent, settings[group], f" of {group}") for group in GROUPS if group in settings}
    parts = parts_from_record(FAMILIES, settings, own) if kind is NodeConfig else settings
    config: AnyConfig = _as_typed(kind, {**parts, **groups})
    return config


def _as_typed(kind: type, settings: Any, owner: str = "") -> Any:
    """Make a dataclass with these settings. People and JSON may write a float as 1."""
    if not isinstance(settings, Mapping):
        raise InputError(f"Expected settings{owner} by name, got {settings!r}. Correct it.")
    _check_names(kind, settings, owner)
    types = {field.name: field.type for field in fields(kind)}
    return kind(**{name: _checked(f"{name}{owner}", value, types[name]) for name, value in settings.items()})


def _check_names(kind: type, settings: Mapping[str, Any], owner: str = "") -> None:
    known = sorted(field.name for field in fields(kind))
    for name in sorted(set(settings) - {*known}):
        raise InputError(
            f"Expected settings{owner} among {', '.join(known)}, got {name!r}. Correct it.{suggest(name, known)}"
        )


def _checked(name: str, value: Any, kind: Any) -> Any:
    """Return a setting of a type that is written `float`, `int`, `bool` or `str`. Settings of other types are parts."""
    expected = TYPES.get(kind)
    if expected is None:
        return value
    if type(value) not in expected.accepted:  # not `isinstance`: true is no number
        raise InputError(f"Expected {name} to be {expected.words}, got {value!r}. Correct it.")
    return float(value) if kind.startswith("float") and value is not None else value


def _is_class(record: Any) -> bool:
    """Return whether a part in a recipe is a class of the user's own."""
    return isinstance(record, dict) and "class" in record


def _read_sections(source: Path | Traversable) -> dict[str, dict[str, Any]]:
    try:
        content = read_whole(source) if isinstance(source, Path) else source.read_bytes()
        sections = tomllib.loads(content.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"Expected a recipe in TOML in {source.name}, got {error}. Correct it.") from error
    for system, section in sections.items():
        if not isinstance(section, dict):
            raise InputError(f"Expected sections of systems in {source.name}, got {system} = {section!r}. Remove it.")
    return sections


def write_sections(path: Path, sections: Mapping[str, Mapping[str, Any]]) -> None:
    """Write sections of settings, by name, as TOML. Settings that are None are left out."""
    text = "\n".join(_to_toml(system, section) for system, section in sections.items())
    write_whole(path, text.encode())


def _to_toml(system: str, section: Mapping[str, Any]) -> str:
    # TOML has no null: settings that are None are left out.
    lines = [f"{name} = {_value(value)}" for name, value in section.items() if name != "system" and value is not None]
    return "\n".join([f"[{_value(system)}]", *lines]) + "\n"


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{key} = {_value(entry)}" for key, entry in value.items()) + " }"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_value, value)) + "]"
    # The escapes of JSON are also those of TOML, but for one character that JSON does not escape.
    return json.dumps(value).replace("\x7f", "\\u007f") if isinstance(value, str) else repr(value)
