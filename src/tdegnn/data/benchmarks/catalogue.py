"""The catalogue: all benchmarks, their files, and the statistics that loading them must find.

Importing it reads no file: checksums and sizes are read from `checksums.txt` when they are needed. `load.py` makes
datasets from the files. To add a benchmark, add an entry here and the checksums and sizes of its files; for a new
format, add a module with the name of its folder and a function `read` in it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.resources import files as resources
from pathlib import Path
from typing import Literal

from tdegnn.data.benchmarks.fetch import DataFile, announce, fetch
from tdegnn.errors import DownloadError, InputError, suggest

Kind = Literal["nodes", "series"]

LOADERS: dict[Kind, str] = {"nodes": "load_nodes", "series": "load_panel"}
NUM_SPLITS = 10
# Where each folder was published. Some files were not, or not in this form.
UPSTREAM = {
    "planetoid/": "https://raw.githubusercontent.com/kimiyoung/planetoid/master/data/",
    "geom-gcn/splits/": "https://raw.githubusercontent.com/graphdml-uiuc-jlu/geom-gcn/master/splits/",
    "geom-gcn/structural_neighborhood/": (
        "https://raw.githubusercontent.com/graphdml-uiuc-jlu/geom-gcn/master/structural_neighborhood/"
    ),
    "geom-gcn/film/": "https://raw.githubusercontent.com/graphdml-uiuc-jlu/geom-gcn/master/new_data/film/",
    "heterophilous/": "https://raw.githubusercontent.com/yandex-research/heterophilous-graphs/main/data/",
    "temporal/": "https://raw.githubusercontent.com/benedekrozemberczki/pytorch_geometric_temporal/master/dataset/",
}
RECONSTRUCTED = "temporal/wikimath_reconstructed.npz"
TRAFFIC = ("traffic/la_week_speed.csv", "traffic/la_week_adjacency.csv")
MIRROR_ONLY = (RECONSTRUCTED, *TRAFFIC)
# The only known checksum of this file is the hash that git gives its content. Its size is not known either. It holds
# 1,068 x 731 numbers as text, so it is far below the bound.
GIT_BLOBS = {"temporal/wikivital_mathematics.json": "28aefd607de34627e194f40a80fb50cf549904f4"}
MOST_BYTES = 128 * 2**20

GEOM_GCN = "Pei et al., Geom-GCN: Geometric Graph Convolutional Networks, ICLR 2020"
PLANETOID = "Yang, Cohen and Salakhutdinov, Revisiting Semi-Supervised Learning with Graph Embeddings, ICML 2016"
SEN = "Sen et al., Collective Classification in Network Data, AI Magazine 29(3), 2008"
MUSAE = "Rozemberczki, Allen and Sarkar, Multi-Scale Attributed Node Embedding, Journal of Complex Networks 9(2), 2021"
PLATONOV = "Platonov et al., A Critical Look at the Evaluation of GNNs under Heterophily, ICLR 2023"
DCRNN = "Li et al., Diffusion Convolutional Recurrent Neural Network, ICLR 2018"
TGCN = "Zhao et al., T-GCN: A Temporal Graph Convolutional Network for Traffic Prediction, 2020"
PYG_TEMPORAL = "Rozemberczki et al., PyTorch Geometric Temporal, CIKM 2021"


@dataclass(frozen=True)
class Statistics:
    """Counts of a benchmark; 0 if it has nothing of the kind.

    Attributes:
        nodes: Number of nodes.
        edges: Number of edges without direction and without self-loops.
        directed_edges: Number of edges, each direction counted, without self-loops.
        features: Number of features per node.
        classes: Number of classes of nodes.
        splits: Number of fixed splits.
        steps: Number of steps in time.
    """

    nodes: int
    edges: int
    directed_edges: int
    features: int = 0
    classes: int = 0
    splits: int = 0
    steps: int = 0


@dataclass(frozen=True)
class Benchmark:
    """An entry of the catalogue.

    Attributes:
        name: Name to load it by.
        kind: Nodes to classify, or series to forecast.
        description: What it is, in one line.
        paths: Its files, relative to a mirror.
        license: License of the repository that publishes the files.
        citation: Publications to cite.
        statistics: What loading must find.
        stand_in: A file that replaces `paths` if they are not available.
        relations: A file with the relations of its nodes, which only Geom-GCN needs. `fetch` leaves it out.
    """

    name: str
    kind: Kind
    description: str
    paths: tuple[str, ...]
    license: str
    citation: str
    statistics: Statistics
    stand_in: str | None = None
    relations: str | None = None

    @property
    def files(self) -> tuple[DataFile, ...]:
        """Its files."""
        return tuple(map(data_file, self.paths))

    @property
    def known_files(self) -> tuple[DataFile, ...]:
        """Its files, that of its relations, and last the file that may replace them."""
        others = (path for path in (self.relations, self.stand_in) if path is not None)
        return (*self.files, *map(data_file, others))

    def fetch(self, on_file: Callable[[], None] = lambda: None) -> tuple[Path, ...]:
        """Return the paths of its files, or of the file that replaces them. Download what is missing.

        Args:
            on_file: Called after each file.
        """
        announce(self.name, self.files)
        try:
            return _fetch_all(self.files, on_file)
        except DownloadError as error:
            if self.stand_in is None:
                raise
            stand_in = (data_file(self.stand_in),)
            announce(f"{self.name} (reconstructed)", stand_in)
            try:
                return _fetch_all(stand_in, on_file)
            except DownloadError:
                # The message about the original is more useful than the one about its replacement.
                raise error from None


def _fetch_all(files: tuple[DataFile, ...], on_file: Callable[[], None]) -> tuple[Path, ...]:
    paths = []
    for file in files:
        paths.append(fetch(file))
        on_file()
    return tuple(paths)


def _splits(name: str) -> tuple[str, ...]:
    return tuple(f"geom-gcn/splits/{name}_split_0.6_0.2_{split}.npz" for split in range(NUM_SPLITS))


def _relations(name: str) -> str:
    return f"geom-gcn/structural_neighborhood/outf_nodes_space_relation_{name}_poincare.txt"


def _planetoid(name: str) -> tuple[str, ...]:
    endings = ("allx", "ally", "tx", "ty", "graph", "test.index")
    return tuple(f"planetoid/ind.{name}.{ending}" for ending in endings)


_BENCHMARKS = (
    Benchmark(
        "cora",
        "nodes",
        "Machine learning papers that cite each other; words to topics.",
        _planetoid("cora") + _splits("cora"),
        "MIT; splits not stated",
        f"{SEN}; {PLANETOID}; splits of {GEOM_GCN}",
        Statistics(2_708, 5_278, 10_556, 1_433, 7, NUM_SPLITS),
        relations=_relations("cora"),
    ),
    Benchmark(
        "citeseer",
        "nodes",
        "Computer science papers that cite each other; words to topics.",
        _planetoid("citeseer") + _splits("citeseer"),
        "MIT; splits not stated",
        f"{SEN}; {PLANETOID}; splits of {GEOM_GCN}",
        Statistics(3_327, 4_552, 9_104, 3_703, 6, NUM_SPLITS),
        relations=_relations("citeseer"),
    ),
    Benchmark(
        "pubmed",
        "nodes",
        "Papers on diabetes that cite each other; words to kinds of diabetes.",
        _planetoid("pubmed") + _splits("pubmed"),
        "MIT; splits not stated",
        "Namata et al., Query-Driven Active Surveying for Collective Classification, MLG 2012; "
        f"{PLANETOID}; splits of {GEOM_GCN}",
        Statistics(19_717, 44_324, 88_648, 500, 3, NUM_SPLITS),
        relations=_relations("pubmed"),
    ),
    Benchmark(
        "chameleon",
        "nodes",
        "Wikipedia pages on chameleons that link to each other; nouns to visits in five bins.",
        ("heterophilous/chameleon_directed.npz",),
        "MIT",
        f"{MUSAE}; {GEOM_GCN}; files of {PLATONOV}",
        Statistics(2_277, 31_371, 36_051, 2_325, 5, NUM_SPLITS),
        relations=_relations("chameleon"),
    ),
    Benchmark(
        "squirrel",
        "nodes",
        "Wikipedia pages on squirrels that link to each other; nouns to visits in five bins.",
        ("heterophilous/squirrel_directed.npz",),
        "MIT",
        f"{MUSAE}; {GEOM_GCN}; files of {PLATONOV}",
        Statistics(5_201, 198_353, 216_933, 2_089, 5, NUM_SPLITS),
    ),
    Benchmark(
        "film",
        "nodes",
        "Actors who occur on one Wikipedia page; keywords to five categories.",
        ("geom-gcn/film/out1_graph_edges.txt", "geom-gcn/film/out1_node_feature_label.txt", *_splits("film")),
        "not stated",
        f"Tang et al., Social Influence Analysis in Large-Scale Networks, KDD 2009; {GEOM_GCN}",
        Statistics(7_600, 26_659, 29_926, 932, 5, NUM_SPLITS),
        relations=_relations("film"),
    ),
    Benchmark(
        "chameleon-filtered",
        "nodes",
        "Chameleon without its duplicate nodes, with splits of its own.",
        ("heterophilous/chameleon_filtered_directed.npz",),
        "MIT",
        f"{MUSAE}; {PLATONOV}",
        Statistics(890, 8_854, 13_534, 2_325, 5, NUM_SPLITS),
    ),
    Benchmark(
        "squirrel-filtered",
        "nodes",
        "Squirrel without its duplicate nodes, with splits of its own.",
        ("heterophilous/squirrel_filtered_directed.npz",),
        "MIT",
        f"{MUSAE}; {PLATONOV}",
        Statistics(2_223, 46_998, 65_578, 2_089, 5, NUM_SPLITS),
    ),
    Benchmark(
        "chickenpox",
        "series",
        "Weekly cases of chickenpox in the counties of Hungary.",
        ("temporal/chickenpox.json",),
        "MIT",
        f"Rozemberczki et al., Chickenpox Cases in Hungary, 2021; {PYG_TEMPORAL}",
        Statistics(20, 41, 82, steps=521),
    ),
    Benchmark(
        "pedalme",
        "series",
        "Weekly deliveries by bicycle in parts of London.",
        ("temporal/pedalme_london.json",),
        "MIT",
        PYG_TEMPORAL,
        Statistics(15, 105, 210, steps=35),
    ),
    Benchmark(
        "wikimath",
        "series",
        "Daily visits to Wikipedia pages on mathematics that link to each other.",
        ("temporal/wikivital_mathematics.json",),
        "MIT",
        PYG_TEMPORAL,
        Statistics(1_068, 27_079, 27_079, steps=731),
        stand_in=RECONSTRUCTED,
    ),
    Benchmark(
        "la-week",
        "series",
        "Speed at sensors of highways in Los Angeles, every five minutes, for five and a half days.",
        TRAFFIC,
        "MIT",
        f"{DCRNN}; {TGCN}",
        Statistics(207, 1_313, 2_626, steps=1_612),
    ),
)
CATALOGUE = {benchmark.name: benchmark for benchmark in _BENCHMARKS}


def find_benchmark(name: str, kind: Kind | None = None) -> Benchmark:
    """Return the entry of a name, and of a kind if one is given."""
    names = [benchmark.name for benchmark in CATALOGUE.values() if kind in (None, benchmark.kind)]
    if name in names:
        return CATALOGUE[name]
    hint = f" Use {LOADERS[CATALOGUE[name].kind]}." if name in CATALOGUE else suggest(str(name), names)
    raise InputError(f"Expected the name of a benchmark, one of {', '.join(names)}, got {name!r}.{hint}")


def data_file(path: str) -> DataFile:
    """Return the file at a path, with its checksum, its address and its size."""
    if path in GIT_BLOBS:
        return DataFile(path, f"git-blob:{GIT_BLOBS[path]}", upstream_address(path), MOST_BYTES)
    checksum, size = _checksums()[path]
    return DataFile(path, f"sha256:{checksum}", upstream_address(path), size)


def upstream_address(path: str) -> str | None:
    """Return where the file at a path was published. None if it was not."""
    if path in MIRROR_ONLY:
        return None
    folder = next(folder for folder in UPSTREAM if path.startswith(folder))
    return UPSTREAM[folder] + path.removeprefix(folder)


@cache
def _checksums() -> dict[str, tuple[str, int]]:
    """Return the SHA-256 and the size of each path."""
    lines = resources("tdegnn.data.benchmarks").joinpath("checksums.txt").read_text("utf-8").splitlines()
    return {path: (checksum, int(size)) for checksum, size, path in (line.split(maxsplit=2) for line in lines)}
