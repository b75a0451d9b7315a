"""Damaged run folders: single edits of every JSON file, and flipped, lost and exchanged bytes of any file.

A damaged folder is refused, or everything that is read from it is as before. Edits are also tried with all digests
made anew, as somebody could who wants to: then the schema must refuse them, or the folder must still be usable.
"""

from __future__ import annotations

import atexit
import hashlib
import json
import random
import re
import shutil
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from tdegnn import Forecaster, Graph, InputError, NodeClassifier, NodeRegressor, Panel
from tdegnn.cli.explain import _read_run
from tdegnn.cli.predict_nodes import NewNodes, predict_nodes
from tdegnn.cli.predict_series import NewSeries, predict_series
from tdegnn.cli.series import TableOptions
from tdegnn.data.tables.table import PLAIN_CSV
from tdegnn.files import digest_of
from tdegnn.parts import Part

FIXTURES = Path(__file__).parents[1] / "fixtures"
FILES = ("config.json", "summary.json", "metrics.jsonl", "weights.safetensors", "coefficients.npz")
KINDS = ("latent", "physical", "classifier", "regressor")
OLD_KINDS = (
    "format_1/forecaster",
    "format_1/classifier",
    "format_1/regressor",
    "format_2/forecaster",
    "format_2/classifier",
)
SMALL = dict(num_steps=4, validate_every=2, hidden_channels=3, device="cpu")
NUM_NODES = 12
SEAL = re.compile(rb"tdegnn-sha256:([0-9a-f]{64})")
# What an entry is replaced by: other types, and numbers that are too large, too small or not finite.
OTHERS: tuple[Any, ...] = (
    None, True, False, -1, 0, 1, 2, 1.5, 10**12, 10**400, 1e308, -1e308, float("nan"), float("inf"), "", "x", "four",
    "1", [], {}, [None], [1], ["x", "x"], {"x": 1}, {"name": "x"}, {"class": "X"},
    {"name": "direct", "settings": {"x": 1}},
)  # fmt: skip


class Edit(NamedTuple):
    """One change of a JSON file: the file, where in it, and what was done there."""

    file: str
    place: tuple[Any, ...]
    what: str
    content: bytes


@cache
def trained(name: str, seed: int = 0) -> Path:
    """Return the folder of a small training, made once per process."""
    if name in OLD_KINDS:
        return FIXTURES / name
    root = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, root, ignore_errors=True)
    folder, draw = root / "run", np.random.default_rng(seed)
    if name in ("latent", "physical"):
        _write_series(root, draw)
        panel = _panel(draw)
        if name == "physical":
            Forecaster.physical(**SMALL | dict(validate_every=4, horizon=1)).fit(_targets(panel), run=folder)
        else:
            sizes = {node: {"size": 1.0 + place} for place, node in enumerate("abc")}
            tables = {"series": str(root / "series.csv"), "value": ["y"], "exogenous": ["x"], "time": "time"}
            Forecaster(**SMALL, window=4, order="auto", horizon=2, num_members=2, known=("x",), lowest=-5.0).fit(
                panel, node_features=sizes, run=folder, source={"tables": tables}
            )
        return folder
    features, edges = _nodes()
    frame = pd.DataFrame(features, columns=["a", "b", "c"])
    frame.insert(0, "node", [f"n{node}" for node in range(NUM_NODES)])
    frame.to_csv(root / "features.csv", index=False)
    pd.DataFrame({"source": edges[0], "target": edges[1]}).map(lambda node: f"n{node}").to_csv(
        root / "edges.csv", index=False
    )
    source = {"features_file": str(root / "features.csv"), "edges_file": str(root / "edges.csv")}
    source |= {"separator": None, "decimal": ".", "encoding": "utf-8"}
    given = pd.DataFrame(features, columns=["a", "b", "c"])
    if name == "classifier":
        operator = Part("diffusion", batch_norm=True)
        model = NodeClassifier(**SMALL, order="auto", operator=operator, class_weight={"even": 1.0, "odd": 2.0})
        labels = np.where((np.arange(NUM_NODES) + seed) % 2, "odd", "even")
        model.fit(given, labels, graph=edges, run=folder, source=source)
    else:
        NodeRegressor(**SMALL).fit(given, features[:, :2] * 7 + seed, graph=edges, run=folder, source=source)
    return folder


def uses(name: str, folder: Path) -> list[Any]:
    """Do all that can be done with a run folder; return what came out."""
    out = folder.parent / "out.csv"
    coefficients, states, order_found = _read_run(folder)
    results: list[Any] = [coefficients, states, order_found]
    if name.rsplit("/", maxsplit=1)[-1] in ("latent", "physical", "forecaster"):
        model = Forecaster.load(folder)
        future = None
        if model.known:
            times = model.fitted_.tail.future_times(2)
            future = Panel.from_array(np.ones((2, 3, 1)), times=times, nodes=model.fitted_.tail.nodes, channels=["x"])
        forecast = model.predict(future=future)
        results += [forecast.to_frame().to_csv(), str(model.explain())]
        if not model.known:
            predict_series(folder, NewSeries(), TableOptions(), out, is_quiet=True, as_json=False)
            results.append(out.read_text())
        elif name == "latent":
            given = NewSeries(trained(name).parent / "series.csv", trained(name).parent / "future.csv")
            predict_series(folder, given, TableOptions(), out, is_quiet=True, as_json=False)
            results.append(out.read_text())
    else:
        kind = NodeRegressor if name.endswith("regressor") else NodeClassifier
        model = kind.load(folder)
        features, edges = _nodes() if "/" not in name else _old_nodes()
        results += [np.asarray(model.predict(features, graph=edges)).tolist(), str(model.explain())]
        if kind is NodeClassifier:
            results.append(model.predict_proba(features, graph=edges).tolist())
            if "/" not in name:
                predict_nodes(folder, NewNodes(), None, PLAIN_CSV, out, is_quiet=True, as_json=False)
                results.append(out.read_text())
    return [*results, model.summary_, model.history_]


@cache
def _uses_of(name: str) -> list[Any]:
    with tempfile.TemporaryDirectory() as folder:
        return uses(name, shutil.copytree(trained(name), Path(folder) / "run"))


def answer(name: str, folder: Path, *, may_differ: bool = False) -> str:
    """Return "refused", or "same" if all that is read is as before.

    Args:
        name: The kind of training.
        folder: Its damaged folder.
        may_differ: Whether the folder may also be usable with other results, which is "read".
    """
    try:
        found = uses(name, folder)
    except InputError as error:
        if "\n" in str(error):
            raise AssertionError("a message of several lines") from error
        return "refused"
    if json.dumps(found) == json.dumps(_uses_of(name)):
        return "same"
    assert may_differ, "a damaged folder was read, and gave other results"
    return "read"


def try_one(seed: int, folder: Path) -> str:
    """Damage a file of a run folder, and use the folder."""
    draw = random.Random(seed)
    name, file = draw.choice(KINDS), draw.choice(FILES)
    run = shutil.copytree(trained(name), folder / "run")
    path = run / file
    content = bytearray(path.read_bytes())
    damage = draw.choice(["flip", "flip", "flip", "cut", "swap", "lose", "double", "scramble"])
    place = draw.randrange(len(content))
    if damage == "flip":
        content[place] ^= 1 << draw.randrange(8)
    elif damage == "cut":
        content = content[:place]
    elif damage == "swap":
        content = bytearray((trained(name, 1) / file).read_bytes())
    elif damage == "double":
        content[place:place] = content[place : place + draw.randrange(1, 200)]
    elif damage == "scramble":
        content[place : place + 8] = draw.randbytes(8)
    if damage == "lose":
        path.unlink()
    else:
        path.write_bytes(content)
    return answer(name, run)


def try_flip(name: str, file: str, bit: int, folder: Path) -> str:
    """Flip one bit of a file."""
    run = shutil.copytree(trained(name), folder / "run")
    content = bytearray((run / file).read_bytes())
    content[bit // 8] ^= 1 << bit % 8
    (run / file).write_bytes(content)
    return answer(name, run)


def single_edits(folder: Path) -> Iterator[Edit]:
    """Yield all changes of one entry in the JSON files of a run folder."""
    for file in ("config.json", "summary.json"):
        value = json.loads((folder / file).read_text())
        for place, what, changed in _changes(value):
            yield Edit(file, place, what, json.dumps(changed).encode())
    first, *others = (folder / "metrics.jsonl").read_bytes().splitlines(keepends=True)
    for place, what, changed in _changes(json.loads(first)):
        yield Edit("metrics.jsonl", place, what, json.dumps(changed).encode() + b"\n" + b"".join(others))


def _changes(value: Any) -> Iterator[tuple[tuple[Any, ...], str, Any]]:
    """Yield places in a JSON value, what is done there, and the changed value."""
    text = json.dumps(value)
    for place in _places(value):
        for other in OTHERS:
            yield place, f"becomes {other!r:.40}", _replaced(json.loads(text), place, other)
        changed = json.loads(text)
        parent = _at(changed, place[:-1])
        kept = parent.pop(place[-1])
        yield place, "is missing", changed
        if isinstance(kept, dict | list):
            nested = json.loads(text)
            entry = _at(nested, place)
            entry.update(unknown=1) if isinstance(entry, dict) else entry.append(1)
            yield place, "has an unknown entry", nested
        yield place, "is nested", _replaced(json.loads(text), place, [kept])
    yield (), "has an unknown entry", {**value, "unknown": 1}


def _places(value: Any) -> Iterator[tuple[Any, ...]]:
    entries = value.items() if isinstance(value, dict) else enumerate(value[:2]) if isinstance(value, list) else ()
    for key, entry in entries:
        yield (key,)
        yield from ((key, *rest) for rest in _places(entry))


def _at(value: Any, place: tuple[Any, ...]) -> Any:
    for key in place:
        value = value[key]
    return value


def _replaced(value: Any, place: tuple[Any, ...], other: Any) -> Any:
    _at(value, place[:-1])[place[-1]] = other
    return value


def apply_edit(edit: Edit, folder: Path, *, is_signed: bool) -> None:
    """Change a run folder. If `is_signed`, all digests are those of the changed files."""
    config = json.loads((folder / "config.json").read_text())
    (folder / edit.file).write_bytes(edit.content)
    if is_signed and "sha256" in config and edit.place != ("sha256",):
        _sign(folder, config["sha256"])


def _sign(folder: Path, before: str) -> None:
    try:
        config = json.loads((folder / "config.json").read_text())
        del config["sha256"]
        now = digest_of(config)
        (folder / "config.json").write_text(json.dumps({**config, "sha256": now}))
        for name in ("weights.safetensors", "coefficients.npz"):
            content = (folder / name).read_bytes()
            (folder / name).write_bytes(sealed(content.replace(before.encode(), now.encode())))
        summary = json.loads((folder / "summary.json").read_text())
        summary["files"] = {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in FILES[2:]}
        summary = {**summary, "config_sha256": now}
        summary.pop("sha256", None)
        (folder / "summary.json").write_text(json.dumps({**summary, "sha256": digest_of(summary)}))
    except (KeyError, TypeError, AttributeError):
        return  # the edit left nothing to sign


def sealed(content: bytes) -> bytes:
    """Return a file of tensors or arrays with the checksum of what is in it now."""
    start, stop = SEAL.search(content).span(1)
    digest = hashlib.sha256(content[:start] + b"0" * 64 + content[stop:]).hexdigest()
    return content[:start] + digest.encode() + content[stop:]


def _write_series(root: Path, draw: np.random.Generator) -> None:
    times = pd.date_range("2024-01-01", periods=70).astype(str)
    rows = [(node, time, draw.normal(), 1.0) for node in "abc" for time in times]
    table = pd.DataFrame(rows, columns=["node", "time", "y", "x"])
    table[table["time"] < times[64]].to_csv(root / "series.csv", index=False)
    table[table["time"] >= times[64]].drop(columns="y").to_csv(root / "future.csv", index=False)


def _panel(draw: np.random.Generator) -> Panel:
    values = np.sin(np.arange(60)[:, None, None] / 3 + np.arange(3)[:, None] + np.zeros(2))
    values = values + 0.1 * draw.normal(size=values.shape)
    return Panel.from_array(
        values,
        times=pd.date_range("2024-01-01", periods=60),
        nodes=["a", "b", "c"],
        channels=["y", "x"],
        graph=Graph([[0, 1], [1, 2]], 3),
    )


def _targets(panel: Panel) -> Panel:
    return Panel.from_array(
        panel.values[..., :1], times=panel.times, nodes=panel.nodes, channels=["y"], graph=panel.graph
    )


def _nodes() -> tuple[np.ndarray, np.ndarray]:
    draw = np.random.default_rng(7)
    return draw.normal(size=(NUM_NODES, 3)), np.stack([np.arange(NUM_NODES), (np.arange(NUM_NODES) + 1) % NUM_NODES])


def _old_nodes() -> tuple[np.ndarray, np.ndarray]:
    given = json.loads((FIXTURES / "format_1" / "nodes.json").read_text())
    return np.array(given["features"], dtype=np.float32), np.array(given["edges"])
