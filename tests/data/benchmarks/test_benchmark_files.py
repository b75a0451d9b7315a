"""The benchmark files, read from a mirror: what comes out is what was published."""

import json
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import torch

from tdegnn.data.benchmarks import catalogue
from tdegnn.data.benchmarks.catalogue import CATALOGUE, Statistics
from tdegnn.data.benchmarks.load import load_nodes, load_panel
from tdegnn.data.benchmarks.temporal import read_wikimath
from tdegnn.data.splits import split_chronologically
from tdegnn.errors import DownloadError
from tests.data.benchmarks.file_server import serving

# Nodes, edges without direction and loops, features, classes, direction.
NODES = {
    "cora": (2_708, 5_278, 1_433, 7, "both"),
    "citeseer": (3_327, 4_552, 3_703, 6, "both"),
    "pubmed": (19_717, 44_324, 500, 3, "both"),
    "chameleon": (2_277, 31_371, 2_325, 5, "out"),
    "squirrel": (5_201, 198_353, 2_089, 5, "out"),
    "film": (7_600, 26_659, 932, 5, "out"),
    "chameleon-filtered": (890, 8_854, 2_325, 5, "out"),
    "squirrel-filtered": (2_223, 46_998, 2_089, 5, "out"),
}
# Steps, nodes, edges without direction and loops, error of the constant 0 on the last tenth of the windows.
SERIES = {
    "chickenpox": (521, 20, 41, 1.117),
    "pedalme": (35, 15, 105, 1.489),
    "wikimath": (731, 1_068, 27_079, 0.831),
}


def pairs(graph):
    """Edges as a set, without direction."""
    return set(map(tuple, graph.edge_index.T.sort(dim=1).values.tolist()))


@pytest.mark.slow
@pytest.mark.parametrize("name", NODES)
def test_nodes_are_those_published(mirror, name):
    dataset = load_nodes(name)
    num_nodes, num_edges, num_features, num_classes, direction = NODES[name]
    assert dataset.name == name
    assert (dataset.num_nodes, len(pairs(dataset.graph))) == (num_nodes, num_edges)
    assert (dataset.num_features, dataset.num_classes, dataset.num_splits) == (num_features, num_classes, 10)
    assert dataset.graph.direction == direction
    assert isinstance(dataset.features, scipy.sparse.csr_array)
    assert set(np.unique(dataset.labels)) == set(range(num_classes))
    assert dataset.training_masks.any(axis=1).all()


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("cora", (1_192, 796, 497)),
        ("citeseer", (1_596, 1_065, 666)),
        ("pubmed", (9_463, 6_310, 3_944)),
        ("chameleon", (1_092, 729, 456)),
        ("squirrel", (2_496, 1_664, 1_041)),
        ("film", (3_648, 2_432, 1_520)),
    ],
)
def test_split_0_has_the_known_sizes(mirror, name, sizes):
    dataset = load_nodes(name)
    parts = (dataset.training_masks, dataset.validation_masks, dataset.test_masks)
    assert tuple(int(masks[0].sum()) for masks in parts) == sizes


@pytest.mark.parametrize(("name", "num_edges"), [("chameleon", 36_101 - 50), ("squirrel", 217_073 - 140)])
def test_the_direction_of_edges_is_kept(mirror, name, num_edges):
    assert load_nodes(name).graph.num_edges == num_edges


@pytest.mark.parametrize("name", ["chameleon", "squirrel"])
def test_splits_of_both_sources_are_the_same(mirror, name):
    masks = load_nodes(name).test_masks
    for split in range(10):
        with np.load(mirror / f"geom-gcn/splits/{name}_split_0.6_0.2_{split}.npz") as arrays:
            np.testing.assert_array_equal(masks[split], arrays["test_mask"])


@pytest.mark.slow
def test_film_is_the_actor_dataset_of_another_source(mirror):
    film = load_nodes("film")
    with np.load(mirror / "heterophilous/actor.npz") as actor:
        np.testing.assert_array_equal(film.features.toarray(), actor["node_features"])
        np.testing.assert_array_equal(film.labels, actor["node_labels"])
        np.testing.assert_array_equal(film.training_masks, actor["train_masks"])
        np.testing.assert_array_equal(film.validation_masks, actor["val_masks"])
        np.testing.assert_array_equal(film.test_masks, actor["test_masks"])
        assert pairs(film.graph) == set(map(tuple, np.sort(actor["edges"], axis=1).tolist()))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["cora", "citeseer", "pubmed"])
def test_citation_graphs_are_those_pyg_reads(mirror, name):
    from torch_geometric.io import read_planetoid_data
    from torch_geometric.utils import remove_self_loops

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = read_planetoid_data(str(mirror / "planetoid"), name)
    ours = load_nodes(name).to_pyg()
    assert torch.equal(ours.x, theirs.x)
    assert torch.equal(ours.y, theirs.y)
    edges = remove_self_loops(theirs.edge_index)[0]
    assert set(map(tuple, ours.edge_index.T.tolist())) == set(map(tuple, edges.T.tolist()))


def test_nodes_in_the_gaps_of_citeseer_have_no_features(mirror):
    citeseer = load_nodes("citeseer")
    index = np.loadtxt(mirror / "planetoid/ind.citeseer.test.index", dtype=int)
    gaps = np.setdiff1d(np.arange(index.min(), index.max()), index)
    assert len(gaps) == 15
    np.testing.assert_array_equal(np.flatnonzero(citeseer.features.sum(axis=1) == 0), gaps)


@pytest.mark.parametrize("name", SERIES)
def test_series_are_those_published(mirror, name):
    panel = load_panel(name)
    num_steps, num_nodes, num_edges, _ = SERIES[name]
    assert panel.values.shape == (num_steps, num_nodes, 1)
    assert panel.values.dtype == np.float64
    assert len(panel.times) == num_steps
    assert len(set(panel.nodes)) == panel.graph.num_nodes == num_nodes
    assert len(pairs(panel.graph)) == num_edges
    assert panel.graph.direction == "both"
    assert np.isfinite(panel.values).all()
    assert " unit" in panel.notes[-1]


@pytest.mark.parametrize("name", SERIES)
def test_the_constant_zero_has_the_known_error(mirror, name):
    panel = load_panel(name)
    test = split_chronologically(len(panel.times), 4).test
    assert np.square(panel.values[test.start : test.stop]).mean() == pytest.approx(SERIES[name][3], abs=5e-4)


def test_series_have_the_names_and_times_of_their_files(mirror):
    chickenpox, pedalme, wikimath = map(load_panel, SERIES)
    assert chickenpox.nodes[:2] == ("BACS", "BARANYA")
    assert (chickenpox.name, chickenpox.graph.is_weighted, list(chickenpox.times)) == (
        "chickenpox",
        False,
        list(range(521)),
    )
    assert pedalme.nodes == tuple(map(str, range(15)))
    assert pedalme.graph.is_weighted
    assert (wikimath.times[0], wikimath.times[-1]) == (pd.Timestamp("2019-03-16"), pd.Timestamp("2021-03-15"))
    assert wikimath.graph.is_weighted


def test_a_reconstruction_says_so(mirror):
    wikimath = load_panel("wikimath")
    assert wikimath.name == "wikimath (reconstructed)"
    assert wikimath.notes[0].startswith("Reconstructed from published derived data")
    np.testing.assert_allclose(wikimath.values.mean(axis=0), 0, atol=1e-9)
    np.testing.assert_allclose(wikimath.values.std(axis=0), 1)


def write_wikimath(path, **more):
    """A file of four days and three pages in the format of the original."""
    visits = [[3, 10, 5], [5, 30, 5], [7, 20, 5], [9, 40, 5]]
    document = {"edges": [[0, 1], [2, 1]], "weights": [2, 1], "time_periods": 4, **more}
    document |= {str(day): {"index": day, "y": row} for day, row in enumerate(visits)}
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(document))


@pytest.mark.parametrize("names", [None, {"Zero": 1, "Ring": 0, "Topology": 2}])
def test_wikimath_as_it_was_published_is_read(tmp_path, names):
    path = tmp_path / "wikivital_mathematics.json"
    write_wikimath(path, **({"node_ids": names} if names else {}))
    panel = read_wikimath(path)
    assert panel.name == "wikimath"
    assert panel.nodes == (("Ring", "Zero", "Topology") if names else ("0", "1", "2"))
    np.testing.assert_allclose(panel.values[:, 0, 0], np.array([-3, -1, 1, 3]) / np.sqrt(5))
    assert (panel.values[:, 2] == 0).all()
    assert list(panel.times) == list(pd.date_range("2019-03-16", "2019-03-19"))
    assert panel.graph.edge_weight.tolist() == [2, 1]


def test_the_original_of_wikimath_comes_before_its_reconstruction(cache, tmp_path, monkeypatch):
    wikimath = CATALOGUE["wikimath"]
    original = tmp_path / wikimath.paths[0]
    write_wikimath(original)
    blob = wikimath.files[0].checksum_of(original).removeprefix("git-blob:")
    monkeypatch.setitem(catalogue.GIT_BLOBS, wikimath.paths[0], blob)
    monkeypatch.setitem(CATALOGUE, "wikimath", replace(wikimath, statistics=Statistics(3, 2, 2, steps=4)))
    monkeypatch.setenv("TDEGNN_MIRROR", str(tmp_path))
    panel = load_panel("wikimath")
    assert panel.name == "wikimath"
    assert not any("econstructed" in note for note in panel.notes)


def reader(folder):
    """What a server reads from a folder."""
    return lambda path: (folder / path).read_bytes() if (folder / path).is_file() else None


def test_one_corrupt_file_of_a_mirror_is_named_and_not_kept(mirror, cache, monkeypatch):
    broken = "planetoid/ind.cora.tx"
    healthy = reader(mirror)
    with serving(lambda path: b"rotten" if path == broken else healthy(path)) as server:
        monkeypatch.setenv("TDEGNN_MIRROR", server.address)
        with pytest.raises(DownloadError, match=f"Expected {broken} from {server.address}/{broken} to have the checks"):
            load_nodes("cora")
        assert not [path for path in cache.rglob("*tx*") if path.suffix != ".lock"]
        server.read = healthy
        assert load_nodes("cora").num_nodes == 2_708


@pytest.mark.slow
def test_all_benchmarks_come_through_an_http_mirror(mirror, cache, monkeypatch):
    with serving(reader(mirror)) as server:
        monkeypatch.setenv("TDEGNN_MIRROR", server.address)
        for benchmark in CATALOGUE.values():
            load = load_nodes if benchmark.kind == "nodes" else load_panel
            assert load(benchmark.name).graph.num_nodes == benchmark.statistics.nodes
    asked = [path for path, _ in server.asked]
    assert len(asked) == len(set(asked)) == 70
    # Now everything is in the cache, and no server is needed.
    monkeypatch.delenv("TDEGNN_MIRROR")
    assert load_nodes("cora").num_nodes == 2_708
