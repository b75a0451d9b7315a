"""`tdegnn data`: list, download and verify the benchmarks, show where their files are, and store large graphs."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tdegnn.cli.options import AsJson, DirectionChoice, Quiet
from tdegnn.cli.output import print_json, print_table, progress_bar
from tdegnn.errors import InputError

if TYPE_CHECKING:
    from tdegnn.data.benchmarks.catalogue import Benchmark
    from tdegnn.data.benchmarks.fetch import DataFile
    from tdegnn.graph import Direction

data = typer.Typer(
    help="List, download and verify benchmarks; check your own tables; store a large graph.", no_args_is_help=True
)

Names = Annotated[list[str] | None, typer.Argument(metavar="NAME", help="Names of benchmarks.", show_default=False)]


@data.command("list")
def list_benchmarks(as_json: AsJson = False) -> None:
    """List the benchmarks, and which of them are on this machine."""
    from tdegnn.data.benchmarks.catalogue import CATALOGUE

    if as_json:
        print_json([_to_record(benchmark) for benchmark in CATALOGUE.values()])
        return
    rows = []
    for benchmark in CATALOGUE.values():
        counts = benchmark.statistics
        numbers = [counts.nodes, counts.edges, counts.features, counts.classes, counts.steps]
        columns = [f"{number:,}" if number else "-" for number in numbers]
        rows.append([benchmark.name, benchmark.kind, *columns, _place_of(benchmark), benchmark.license])
    header = ["name", "kind", "nodes", "edges", "features", "classes", "steps", "where", "license"]
    print_table("Benchmarks (edges without direction and self-loops)", header, rows)
    typer.echo("Download one with: tdegnn data fetch NAME")


@data.command()
def fetch(
    names: Names = None,
    is_all: Annotated[bool, typer.Option("--all", help="Download all benchmarks.")] = False,
    quiet: Quiet = False,
) -> None:
    """Download benchmarks into the cache. Files in a mirror folder are used in place."""
    if bool(names) == is_all:
        raise InputError("Expected names of benchmarks or --all, got both or neither. Try: tdegnn data list")
    benchmarks = _choose(names)
    total = sum(len(benchmark.files) for benchmark in benchmarks)
    with progress_bar(total, "files", is_quiet=quiet) as tick:
        for benchmark in benchmarks:
            paths = benchmark.fetch(on_file=partial(tick, benchmark.name))
            if not quiet:
                count = "1 file" if len(paths) == 1 else f"{len(paths)} files"
                typer.echo(f"{benchmark.name:<20} {count:<9} {_place_of(benchmark)}")
    if quiet:
        typer.echo(f"{len(benchmarks)} of {len(benchmarks)} benchmarks are here.")


@data.command()
def verify(names: Names = None, quiet: Quiet = False, as_json: AsJson = False) -> None:
    """Verify the checksums of the files on this machine."""
    from tdegnn.data.benchmarks.fetch import locate

    wrong: list[dict[str, str]] = []
    num_right = num_absent = 0
    for benchmark in _choose(names):
        for file in benchmark.known_files:
            path = locate(file)
            if path is None:
                num_absent += 1
            elif (got := file.checksum_of(path)) == file.checksum:
                num_right += 1
            else:
                cure = f"tdegnn data fetch {benchmark.name}" if path == file.cached else "replace it in the mirror"
                wrong.append({"file": str(path), "expected": file.checksum, "got": got, "cure": cure})
    if as_json:
        print_json({"right": num_right, "absent": num_absent, "wrong": wrong})
    else:
        for entry in wrong:
            typer.echo("{file}: expected {expected}, got {got}. Do: {cure}".format(**entry))
        if not quiet or not wrong:
            typer.echo(f"{num_right} right, {len(wrong)} wrong, {num_absent} not here.")
    if wrong:
        raise typer.Exit(1)


@data.command()
def where(
    name: Annotated[str | None, typer.Argument(help="Name of a benchmark, to list its files.")] = None,
    as_json: AsJson = False,
) -> None:
    """Print the cache folder (TDEGNN_CACHE) and the mirror (TDEGNN_MIRROR), and where a benchmark's files are."""
    from tdegnn.data.benchmarks.fetch import cache_folder, mirror, without_password

    benchmarks = [] if name is None else _choose([name])
    files = {file.path: _place_of_file(file) for benchmark in benchmarks for file in benchmark.known_files}
    source = mirror()
    if isinstance(source, str):
        source = without_password(source)
    if as_json:
        print_json({"cache": str(cache_folder()), "mirror": source and str(source), "files": files})
        return
    typer.echo(f"{'cache':<9} {cache_folder()}")
    typer.echo(f"{'mirror':<9} {source or 'none; files come from where they were published'}")
    for path, place in files.items():
        typer.echo(f"{place:<9} {path}")


@data.command()
def store(
    edges: Annotated[Path, typer.Argument(help="npy (two rows), Parquet (source, target[, weight]) or safetensors.")],
    out: Annotated[Path, typer.Argument(help="Folder to write. It must not hold a graph yet.")],
    nodes: Annotated[
        int | None, typer.Option(help="Number of nodes.", min=1, show_default="one more than the largest in the edges")
    ] = None,
    weights: Annotated[
        Path | None,
        typer.Option("--weights", help="npy: one weight per edge.", show_default="those of the file, if any"),
    ] = None,
    direction: DirectionChoice = None,
    keep_self_loops: Annotated[bool, typer.Option("--keep-self-loops", help="Keep edges to the same node.")] = False,
    as_json: AsJson = False,
) -> None:
    """Write the edges of a large graph, with numbers for nodes, to a folder from which `classify` maps them."""
    from tdegnn.data.graphs.stored_graph import FACTS, StoredGraph

    received: Direction = "both" if direction is None else direction.value
    graph = StoredGraph.write(out, edges, nodes, weights, received, keep_self_loops=keep_self_loops)
    facts = {"nodes": graph.num_nodes, "edges": graph.num_edges, "is_weighted": graph.is_weighted}
    if as_json:
        print_json({"folder": str(out), **facts, "direction": graph.direction})
        return
    typer.echo(f"{graph.num_nodes:,} nodes and {graph.num_edges:,} edges, each direction counted.")
    typer.echo(f"Train on it: tdegnn classify --edges {out / FACTS} --batches ranges ...")


def _choose(names: list[str] | None) -> list[Benchmark]:
    """Return the benchmarks of these names, or all if there is no name."""
    from tdegnn.data.benchmarks.catalogue import CATALOGUE, find_benchmark

    return [find_benchmark(name) for name in names or CATALOGUE]


def _place_of_file(file: DataFile) -> str:
    from tdegnn.data.benchmarks.fetch import locate

    path = locate(file)
    if path is None:
        return "not here"
    return "cached" if path == file.cached else "mirror"


def _place_of(benchmark: Benchmark) -> str:
    """Return where all of its files are, several places joined by a plus."""
    places = set(map(_place_of_file, benchmark.files))
    if "not here" not in places:
        return " + ".join(sorted(places))
    *_, last = map(_place_of_file, benchmark.known_files)
    is_replaced = benchmark.stand_in is not None and last != "not here"
    return f"{last} (reconstructed)" if is_replaced else "not here"


def _to_record(benchmark: Benchmark) -> dict[str, Any]:
    files = [asdict(file) for file in benchmark.known_files]
    return asdict(benchmark) | {"where": _place_of(benchmark), "files": files}
