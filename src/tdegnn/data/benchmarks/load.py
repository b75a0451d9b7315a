"""Load a benchmark by name: get its files, read them, and check its statistics against the published ones."""

from __future__ import annotations

from dataclasses import asdict
from importlib import import_module
from typing import Any, cast

from tdegnn.data.benchmarks.catalogue import Benchmark, Statistics, find_benchmark
from tdegnn.data.nodes import NodeDataset
from tdegnn.data.panel import Panel
from tdegnn.errors import InputError
from tdegnn.graph import Graph


def load_nodes(name: str) -> NodeDataset:
    """Load nodes to classify: cora, citeseer, pubmed, chameleon, squirrel, film, or a filtered version.

    Missing files are downloaded; see `tdegnn data`.
    """
    benchmark = find_benchmark(name, "nodes")
    dataset: NodeDataset = _read(benchmark)
    found = Statistics(
        **_count_graph(dataset.graph),
        features=dataset.num_features,
        classes=dataset.num_classes,
        splits=dataset.num_splits,
    )
    _check_statistics(benchmark, found)
    return dataset


def load_panel(name: str) -> Panel:
    """Load series to forecast: chickenpox, pedalme, wikimath or la-week.

    Missing files are downloaded; see `tdegnn data`. If the original of wikimath is not available, its reconstruction is
    loaded, and its name and notes say so.
    """
    benchmark = find_benchmark(name, "series")
    panel: Panel = _read(benchmark)
    # Every series of the catalogue has a graph.
    found = Statistics(**_count_graph(cast(Graph, panel.graph)), steps=len(panel.times))
    _check_statistics(benchmark, found)
    return panel


def _read(benchmark: Benchmark) -> Any:
    """Read a benchmark by the module of its format: `geom_gcn.py` for files in `geom-gcn/`."""
    module = import_module(f"tdegnn.data.benchmarks.{benchmark.paths[0].split('/')[0].replace('-', '_')}")
    return module.read(benchmark.name, {path.name: path for path in benchmark.fetch()})


def _count_graph(graph: Graph) -> dict[str, int]:
    # There are no self-loops: each edge is received at both ends.
    num_undirected = graph.with_direction("both").received.nnz // 2
    return {"nodes": graph.num_nodes, "edges": num_undirected, "directed_edges": graph.num_edges}


def _check_statistics(benchmark: Benchmark, found: Statistics) -> None:
    expected, came = asdict(benchmark.statistics), asdict(found)
    differences = [key for key in came if came[key] != expected[key]]
    wrong = [f"{came[key]} {key.replace('_', ' ')} in place of {expected[key]}" for key in differences]
    if wrong:
        raise InputError(
            f"Expected {benchmark.name} as it was published, got {', '.join(wrong)}. "
            f"Check its files: tdegnn data verify {benchmark.name}."
        )
