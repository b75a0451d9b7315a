"""Imports point one way, so that a reader can start anywhere and only look down."""

import ast
from pathlib import Path

import pytest

import tdegnn

SOURCE = Path(tdegnn.__file__).parent
# What each part may import of this package, besides itself.
BASE = {"errors", "version", "files", "markup"}
ALLOWED = {
    "errors": set(),
    "version": set(),
    "files": {"errors"},
    "markup": {"files"},
    "not_fitted": {"errors"},
    "torchrun": set(),
    "quick_imports": set(),
    "torch_internals": set(),
    "metrics": BASE,
    "kernels": set(),
    "messages": set(),
    "sparse": BASE | {"torch_internals", "kernels", "messages"},
    "sparse_checks": BASE,
    "assembly": BASE,
    "scaled_rows": {"sparse", "assembly"},
    "edge_values": {"sparse", "messages", "torch_internals"},
    "export": BASE | {"sparse"},
    "graph": BASE | {"sparse", "sparse_checks", "assembly", "scaled_rows"},
    "subgraph": {"graph", "assembly"},
    "batches": BASE | {"graph", "subgraph", "parts"},
    "adjacency": {"graph", "sparse"},
    "training_nodes": {"graph"},
    "parts": BASE,
    "ridge": BASE,
    "nystrom": {"ridge"},
    "node_views": {"errors", "files", "graph", "adjacency"},
    "kernel_ridge": {"graph", "ridge", "nystrom", "node_views"},
    "core": BASE | {"torch_internals", "kernels", "messages", "graph", "parts"},
    "operators": BASE | {"sparse", "edge_values", "graph", "adjacency", "training_nodes", "core", "parts"},
    "nets": BASE
    | {
        "kernels",
        "sparse",
        "graph",
        "adjacency",
        "training_nodes",
        "node_views",
        "kernel_ridge",
        "parts",
        "core",
        "operators",
    }
    | {"subgraph"},
    "analysis": BASE,
    "data": BASE | {"graph", "subgraph", "sparse_checks"},
    "runs": BASE,
    "training": BASE
    | {"torch_internals", "torchrun", "sparse", "graph", "subgraph", "training_nodes", "data", "runs", "analysis"}
    | {"core", "parts"},
}
PRODUCT = {*ALLOWED} - {"torch_internals"}
ALLOWED |= {
    "forecasting": PRODUCT,
    "nodes": PRODUCT,
    "reports": PRODUCT | {"forecasting", "nodes"},
    "rivals": PRODUCT | {"forecasting"},
    "experiments": PRODUCT | {"forecasting", "nodes", "rivals"},
    "cli": PRODUCT | {"forecasting", "nodes", "reports", "experiments"},
    "__main__": {"cli"},
}


def part_of(path):
    return path.relative_to(SOURCE).with_suffix("").parts[0]


def imported_parts(path):
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        for name in names:
            if name.split(".")[0] == "tdegnn" and "." in name:
                yield name.split(".")[1]


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_point_one_way(path):
    part = part_of(path)
    if path == SOURCE / "__init__.py":
        return
    assert set(imported_parts(path)) <= ALLOWED[part] | {part}


@pytest.mark.slow
def test_integrate_is_the_only_loop_over_layers():
    loops = [
        path.name
        for path in SOURCE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.For) and isinstance(node.target, ast.Name) and node.target.id == "layer"
    ]
    assert loops == ["integrator.py"]
