"""`tdegnn predict`: the classes of nodes, by a trained run, as a table."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tdegnn.cli.classify import FeaturesFile
from tdegnn.cli.options import (
    AsJson,
    Decimal,
    Device,
    DeviceOption,
    EdgesFile,
    Encoding,
    Quiet,
    Separator,
    make_csv_format,
)
from tdegnn.cli.output import print_json
from tdegnn.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tdegnn.data.csv_files import CsvFormat
    from tdegnn.data.node_tables import NodeTables
    from tdegnn.estimators.node_classifier import NodeClassifier


def predict(
    run: Annotated[Path, typer.Argument(help="Run folder of `tdegnn classify`.", readable=False)],
    features: FeaturesFile = None,
    edges: EdgesFile = None,
    out: Annotated[
        Path, typer.Option("--out", "-o", help="CSV: node, label, probability of each class.", dir_okay=False)
    ] = Path("predictions.csv"),
    separator: Separator = None,
    decimal: Decimal = ".",
    encoding: Encoding = "utf-8",
    device: Device = DeviceOption.AUTO,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Predict the classes of nodes: of the training's own, or of others with the same features."""
    if (features is None) != (edges is None):
        raise InputError("Expected --features and --edges, or neither for the nodes of the training, got one of them.")
    from tdegnn.estimators.node_classifier import NodeClassifier
    from tdegnn.training.run_folder import RunFolder

    model = NodeClassifier.load(run)
    data = RunFolder.open(run).config["data"]
    model.set_params(device=device.value)
    if features is None or edges is None:
        tables = _read_training_nodes(data, run)
    else:
        csv_format = make_csv_format(separator, decimal, encoding)
        tables = _read(features, edges, data, csv_format)
    probabilities = model.predict_proba(tables.features, graph=tables.graph)
    labels = model.classes_[probabilities.argmax(axis=1)]
    _write(out, model, tables.names, labels.tolist(), probabilities.tolist())
    counts = {str(name): int((labels == name).sum()) for name in model.classes_.tolist()}
    if as_json:
        print_json({"predictions": str(out), "nodes": len(labels), "counts": counts, "notes": list(tables.notes)})
        return
    if not quiet:
        for note in tables.notes:
            typer.echo(f"Note: {note}")
        typer.echo(", ".join(f"{name}: {count}" for name, count in counts.items()))
    typer.echo(f"{len(labels)} nodes in {out}")


def _read(features: Path, edges: Path, data: dict[str, Any], csv_format: CsvFormat) -> NodeTables:
    from tdegnn.data.node_tables import read_node_tables

    return read_node_tables(features, edges, data["direction"], csv_format)


def _read_training_nodes(data: dict[str, Any], run: Path) -> NodeTables:
    """The nodes of the training, from where they came from."""
    from tdegnn.data.load import load_nodes
    from tdegnn.data.node_tables import NodeTables

    if "benchmark" in data:
        dataset = load_nodes(data["benchmark"]).with_direction(data["direction"])
        return NodeTables(tuple(map(str, range(dataset.num_nodes))), dataset.features, dataset.graph)
    if "features_file" not in data:
        raise InputError(f"Expected --features and --edges: {run} does not say where its data came from. Add them.")
    csv_format = make_csv_format(data["separator"], data["decimal"], data["encoding"])
    return _read(Path(data["features_file"]), Path(data["edges_file"]), data, csv_format)


def _write(
    out: Path, model: NodeClassifier, names: Sequence[str], labels: list[Any], probabilities: list[list[float]]
) -> None:
    from tdegnn.training.whole_files import explained, write_whole

    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(["node", "label", *(f"probability_{name}" for name in model.classes_.tolist())])
    for name, label, row in zip(names, labels, probabilities, strict=True):
        writer.writerow([name, label, *(f"{value:.6g}" for value in row)])
    with explained(out.parent):
        out.parent.mkdir(parents=True, exist_ok=True)
    write_whole(out, stream.getvalue().encode())
