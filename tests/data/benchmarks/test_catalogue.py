import re
from dataclasses import replace

import pytest

from tdegnn import InputError
from tdegnn.data.benchmarks import catalogue
from tdegnn.data.benchmarks.catalogue import CATALOGUE, data_file, find_benchmark, upstream_address
from tdegnn.data.benchmarks.load import load_nodes, load_panel
from tdegnn.errors import DownloadError

GITHUB = "https://raw.githubusercontent.com"


def test_the_catalogue_has_twelve_benchmarks():
    assert list(CATALOGUE) == [
        *("cora", "citeseer", "pubmed", "chameleon", "squirrel", "film", "chameleon-filtered", "squirrel-filtered"),
        *("chickenpox", "pedalme", "wikimath", "la-week"),
    ]
    assert all(name == benchmark.name for name, benchmark in CATALOGUE.items())


def test_every_file_has_a_checksum_and_every_checksum_a_file():
    files = {file.path: file for benchmark in CATALOGUE.values() for file in benchmark.known_files}
    assert all(re.fullmatch("sha256:[0-9a-f]{64}|git-blob:[0-9a-f]{40}", file.checksum) for file in files.values())
    assert all(0 < file.most_bytes <= catalogue.MOST_BYTES for file in files.values())
    assert set(files) == set(catalogue._checksums()) | set(catalogue.GIT_BLOBS)


def test_sizes_are_those_of_the_files(mirror):
    for path in catalogue._checksums():
        assert (mirror / path).stat().st_size == data_file(path).most_bytes


@pytest.mark.parametrize("name", CATALOGUE)
def test_every_entry_says_what_it_is(name):
    benchmark = CATALOGUE[name]
    assert benchmark.description.endswith(".")
    assert benchmark.citation
    assert benchmark.license
    assert len(benchmark.paths) == {"planetoid": 16, "geom-gcn": 12, "traffic": 2}.get(
        benchmark.paths[0].split("/")[0], 1
    )


@pytest.mark.parametrize(
    ("path", "address"),
    [
        ("planetoid/ind.cora.allx", f"{GITHUB}/kimiyoung/planetoid/master/data/ind.cora.allx"),
        (
            "geom-gcn/splits/film_split_0.6_0.2_0.npz",
            f"{GITHUB}/graphdml-uiuc-jlu/geom-gcn/master/splits/film_split_0.6_0.2_0.npz",
        ),
        (
            "geom-gcn/film/out1_graph_edges.txt",
            f"{GITHUB}/graphdml-uiuc-jlu/geom-gcn/master/new_data/film/out1_graph_edges.txt",
        ),
        (
            "heterophilous/squirrel_directed.npz",
            f"{GITHUB}/yandex-research/heterophilous-graphs/main/data/squirrel_directed.npz",
        ),
        (
            "temporal/chickenpox.json",
            f"{GITHUB}/benedekrozemberczki/pytorch_geometric_temporal/master/dataset/chickenpox.json",
        ),
        ("temporal/wikimath_reconstructed.npz", None),
    ],
)
def test_a_path_of_the_layout_has_an_address(path, address):
    assert upstream_address(path) == address
    assert data_file(path).address == address


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: find_benchmark("squirel"), r"one of cora, .*, la-week, got 'squirel'. Did you mean 'squirrel'\?$"),
        (lambda: find_benchmark("Cora"), r"got 'Cora'. Did you mean 'cora'\?"),
        (lambda: find_benchmark("imagenet"), r"got 'imagenet'.$"),
        (lambda: load_nodes("chickenpox"), "one of cora, .*, squirrel-filtered, got 'chickenpox'. Use load_panel.$"),
        (lambda: load_panel("cora"), "one of chickenpox, pedalme, wikimath, la-week, got 'cora'. Use load_nodes.$"),
        (lambda: load_panel("wikimat"), r"Did you mean 'wikimath'\?$"),
    ],
)
def test_a_wrong_name_is_refused_with_the_right_ones(call, message):
    with pytest.raises(InputError, match=message):
        call()


def test_a_stand_in_comes_only_where_the_original_cannot_be_had(cache, tmp_path, monkeypatch):
    monkeypatch.setenv("TDEGNN_MIRROR", str(tmp_path))
    wikimath = find_benchmark("wikimath")
    with pytest.raises(DownloadError, match="wikivital_mathematics.json in the mirror"):
        wikimath.fetch()
    original = tmp_path / wikimath.paths[0]
    original.parent.mkdir()
    original.write_text("{}")
    # What is there but wrong is an error, never passed over in silence.
    with pytest.raises(InputError, match="git-blob:28aefd607de34627e194f40a80fb50cf549904f4, got git-blob:9e26dfeeb6e"):
        wikimath.fetch()


def test_what_is_not_as_published_is_refused(mirror, monkeypatch):
    cora = CATALOGUE["cora"]
    monkeypatch.setitem(CATALOGUE, "cora", replace(cora, statistics=replace(cora.statistics, edges=5_429, classes=8)))
    with pytest.raises(
        InputError,
        match="got 5278 edges in place of 5429, 7 classes in place of 8. Check its files: tdegnn data verify",
    ):
        load_nodes("cora")
