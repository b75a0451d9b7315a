"""`tdegnn predict` for a run of a node classifier: the classes of nodes, as a table."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer

from tdegnn.cli.options import DeviceOption, FeaturesFile, make_csv_format
from tdegnn.cli.output import print_json, print_notes
from tdegnn.cli.tables import check_table, write_table
from tdegnn.errors import InputError
from tdegnn.quick_imports import collection_paused

if TYPE_CHECKING:
    from tdegnn.cli.stored_sources import StoredNodes
    from tdegnn.data.tables.csv_files import CsvFormat
    from tdegnn.data.tables.nodes import NodeTables


@dataclass(frozen=True)
class NewNodes:
    """Options about nodes that a classifier has not seen."""

    PANEL: ClassVar[str] = "For a run of tdegnn classify"

    features: FeaturesFile = None
    device: Annotated[
        DeviceOption | None,
        typer.Option("--device", help="Where to compute.", show_default="auto: a GPU if there is one"),
    ] = None


def predict_nodes(
    run: Path,
    new: NewNodes,
    edges: Path | None,
    csv_format: CsvFormat,
    out: Path,
    *,
    is_quiet: bool,
    as_json: bool,
) -> None:
    """Predict the classes of nodes, of the training or of others with the same features."""
    if (new.features is None) != (edges is None):
        raise InputError("Expected --features and --edges, or neither for the nodes of the training, got one of them.")
    check_table(out)
    with collection_paused():
        import pandas as pd

        from tdegnn.cli.stored_sources import NodesSource
        from tdegnn.nodes.classifier import NodeClassifier
        from tdegnn.runs.run_folder import CONFIG
        from tdegnn.runs.schema import checked

    model = NodeClassifier.load(run)
    source = checked(NodesSource, {"data": model.fitted_.config["data"]}, run / CONFIG).data
    model.set_params(device=(new.device or DeviceOption.AUTO).value)
    if new.features is None or edges is None:
        tables = _read_training_nodes(source, run)
    else:
        tables = _read(new.features, edges, source, csv_format)
    probabilities = model.predict_proba(tables.to_input(), graph=tables.graph)
    labels = model.classes_[probabilities.argmax(axis=1)]
    columns = {f"probability_{name}": row for name, row in zip(model.classes_, probabilities.T, strict=True)}
    table = pd.DataFrame({"node": tables.names, "label": labels, **columns})
    write_table(table, out)
    counts = {str(name): int((labels == name).sum()) for name in model.classes_.tolist()}
    if as_json:
        facts = {"predictions": str(out), "nodes": len(labels), "counts": counts, "notes": list(tables.notes)}
        print_json(facts | {"by_node": table.to_dict("records")})
        return
    if not is_quiet:
        print_notes(tables.notes)
        typer.echo(", ".join(f"{name}: {count}" for name, count in counts.items()))
    typer.echo(f"{len(labels)} nodes in {out}")


def _read(features: Path, edges: Path, source: StoredNodes, csv_format: CsvFormat) -> NodeTables:
    from tdegnn.data.tables.nodes import read_node_tables

    return read_node_tables(features, edges, source.direction, csv_format)


def _read_training_nodes(source: StoredNodes, run: Path) -> NodeTables:
    """Read the nodes of the training from their files."""
    from tdegnn.data.benchmarks.load import load_nodes
    from tdegnn.data.tables.nodes import NodeTables

    if source.benchmark is not None:
        dataset = load_nodes(source.benchmark).with_direction(source.direction)
        return NodeTables(tuple(map(str, range(dataset.num_nodes))), dataset.features, dataset.graph)
    if source.features_file is None or source.edges_file is None:
        raise InputError(f"Expected --features and --edges: {run} does not hold the paths of its data. Add them.")
    csv_format = make_csv_format(source.separator, source.decimal, source.encoding)
    return _read(Path(source.features_file), Path(source.edges_file), source, csv_format)
