"""Work that one process begins and another one finishes, and what it leaves if nothing disturbs it."""

from __future__ import annotations

import atexit
import hashlib
import importlib.util
import tempfile
import threading
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from tests.data.benchmarks.file_server import FileServer
from tests.faults.nursery import ROOT, SAMPLE, Attempt, Fault, Outcome, nursery

EXAMPLES = ROOT / "examples"
NUM_NODES = 30
QUICK_FIT = ("--steps", "12", "--members", "1", "--hidden-channels", "4", "--device", "cpu", "--quiet")
QUICK_CLASSIFIER = ("--steps", "30", "--hidden-channels", "8", "--device", "cpu", "--quiet")
QUICK_SWEEP = ("cora", "--system", "TDE-GNN_D", "--trials", "8", "--batch", "4", "--splits", "2", "--finalists", "2")
SAVED = ("a", "b", "c")
CONTENT = bytes(range(256)) * 20_000
CHECKSUM = f"sha256:{hashlib.sha256(CONTENT).hexdigest()}"


@dataclass(frozen=True)
class Work:
    """Work in a folder.

    Attributes:
        begin: Returns the attempt that does it in an empty folder.
        finish: Returns the attempt that finishes it after a fault.
        result: Returns what must be the same as without a fault.
        prepare: Puts into the folder what was there before.
        check: Raises an AssertionError if a fault broke something that was already finished.
    """

    begin: Callable[[Path], Attempt]
    finish: Callable[[Path], Attempt]
    result: Callable[[Path], dict[str, Any]]
    prepare: Callable[[Path], None] = lambda _: None
    check: Callable[[Path], None] = lambda _: None


@dataclass(frozen=True)
class Undisturbed:
    """A work without faults: its folder, its result, how long it took, and its file operations."""

    folder: Path
    result: dict[str, Any]
    seconds: float
    num_operations: int
    num_growing: int


def contents(folder: Path) -> dict[str, bytes]:
    """Return the content of all files in a folder, except locks and what killed processes left unfinished."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.name.startswith(".")
    }


def compare(result: dict[str, Any], expected: dict[str, Any]) -> None:
    """Raise an AssertionError that names what is missing, what is new and what differs."""
    different = [name for name in expected if name in result and result[name] != expected[name]]
    if result != expected:
        missing, new = sorted(expected.keys() - result.keys()), sorted(result.keys() - expected.keys())
        raise AssertionError(f"missing: {missing}; new: {new}; different: {different}")


def command(*arguments: object) -> Attempt:
    """Return the attempt that runs a command."""
    return Attempt("command", {"arguments": [str(argument) for argument in arguments]})


def run_well(attempt: Attempt) -> Outcome:
    """Run an attempt that should succeed."""
    (outcome,) = nursery().run(attempt)
    assert outcome.code == 0, f"ended with {outcome.code}: {describe_end(outcome)}"
    return outcome


def describe_end(outcome: Outcome) -> str:
    """Return the last line that a process complained, for a message."""
    lines = outcome.err.strip().splitlines()
    is_stuck = "stuck; " if outcome.is_stuck else ""
    return is_stuck + ("a traceback, " if "Traceback" in outcome.err else "") + (lines[-1][:300] if lines else "")


def check_one_line(outcome: Outcome) -> None:
    """Raise an AssertionError unless a command refused with one line."""
    is_one_line = outcome.err.startswith("Error: ") and outcome.err.count("\n") == 1
    assert outcome.code == 2, f"ended with {outcome.code}: {describe_end(outcome)}"
    assert is_one_line, f"complained in another way than in one line: {describe_end(outcome)}"


def with_fault(attempt: Attempt, fault: Fault) -> Attempt:
    """Return the attempt with a fault."""
    return replace(attempt, fault=fault)


@cache
def scratch() -> Path:
    """Return a folder that is removed when this process ends."""
    folder = tempfile.TemporaryDirectory(prefix="tdegnn-faults-")
    atexit.register(folder.cleanup)
    return Path(folder.name)


@cache
def trained(seed: int) -> Path:
    """Return the run folder of a small forecaster."""
    folder = scratch() / f"trained-{seed}"
    run_well(_fit(folder, "--seed", seed))
    return folder


@cache
def server_address() -> str:
    """Return the address of a server that has one file, until this process ends."""
    server = FileServer({SAMPLE: CONTENT}.get)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return str(server.address)


def has_database() -> bool:
    """Return whether there is a PostgreSQL to try."""
    return importlib.util.find_spec("pgserver") is not None


@cache
def database_address() -> str:
    """Return the address of a PostgreSQL server, which ends with this process."""
    scratch().chmod(0o755)  # as root, PostgreSQL runs as a user of its own
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a runtime folder that is not set
        import pgserver

        server = pgserver.get_server(scratch() / "database", cleanup_mode="delete")
    atexit.register(server.cleanup)
    return str(server.get_uri())


@cache
def node_files() -> tuple[Path, Path, Path]:
    """Return tables of features, labels and edges."""
    nodes = range(NUM_NODES)
    tables = {
        "features": ["node,a,b,c", *(f"n{i},{(i % 3 == 0) + i % 7 / 20},{(i % 3 == 1) + i % 5 / 9},1" for i in nodes)],
        "labels": ["node,label", *(f"n{i},{('' if i % 6 == 0 else 'abc'[i % 3])}" for i in nodes)],
        "edges": ["source,target", *(f"n{i},n{(i + 3) % NUM_NODES}" for i in nodes)],
    }
    features, labels, edges = (scratch() / f"{name}.csv" for name in tables)
    for path, lines in zip((features, labels, edges), tables.values(), strict=True):
        path.write_text("\n".join(lines) + "\n")
    return features, labels, edges


def _fit(folder: Path, *options: object) -> Attempt:
    return command(
        "fit", EXAMPLES / "cases.csv", "--edges", EXAMPLES / "borders.csv", *QUICK_FIT, "--out", folder, *options
    )


def _classify(folder: Path, *options: object) -> Attempt:
    features, labels, edges = node_files()
    files = ("--features", features, "--labels", labels, "--edges", edges)
    return command("classify", *files, *QUICK_CLASSIFIER, "--out", folder, *options)


def _save(folder: Path) -> Attempt:
    return Attempt("save", {"model": str(trained(0)), "targets": [str(folder / name) for name in SAVED]})


def _reproduce(folder: Path) -> Attempt:
    options = ("--system", "white noise", "--seeds", 2, "--out", folder / "lines.jsonl", "--quiet")
    return command("reproduce", "order-found", *options)


def _predict(ending: str) -> Work:
    def begin(folder: Path) -> Attempt:
        return command("predict", trained(0), "--out", folder / f"forecast.{ending}", "--quiet")

    def prepare(folder: Path) -> None:
        run_well(command("predict", trained(0), "--horizon", 2, "--out", folder / f"forecast.{ending}", "--quiet"))

    def check(folder: Path) -> None:
        older = scratch() / f"older-{ending}"
        if not older.exists():
            prepare(older)
        known = [contents(older), undisturbed(f"predict, {ending}").result]
        assert contents(folder) in known, "the table is neither the old one nor the new one"

    return Work(begin, begin, contents, prepare, check)


def _download(folder: Path) -> Attempt:
    return Attempt("download", download_arguments(folder / "cache"))


def download_arguments(cache_folder: Path) -> dict[str, Any]:
    """Return the arguments of a download."""
    known = {"checksum": CHECKSUM, "size": len(CONTENT)}
    return {"address": server_address(), "cache": str(cache_folder), **known}


def _sweep(storage: Callable[[Path], str]) -> Work:
    def begin(folder: Path) -> Attempt:
        places = ("--storage", storage(folder), "--study", study_of(folder), "--recipe", str(folder / "best.toml"))
        return Attempt("sweep", {"arguments": [*QUICK_SWEEP, *places, "--device", "cpu", "--quiet"]})

    def result(folder: Path) -> dict[str, Any]:
        return {
            "recipe": (folder / "best.toml").read_bytes(),
            "trials": finished_trials(storage(folder), study_of(folder)),
        }

    return Work(begin, begin, result)


def study_of(folder: Path) -> str:
    """Return the name of the study of a folder. A database is shared by all, so each folder has a study of its own."""
    return "-".join(folder.parts[-2:])


def finished_trials(storage: str, study: str) -> list[Any]:
    """Return settings and value of the finished trials of a study."""
    outcome = run_well(Attempt("describe_study", {"storage": storage, "name": study}))
    return [line for line in outcome.report if isinstance(line, list)]


def _training(begin: Callable[..., Attempt]) -> Work:
    return Work(
        lambda folder: begin(folder / "run"),
        lambda folder: begin(folder / "run", "--resume"),
        lambda folder: contents(folder / "run"),
    )


WORKS: dict[str, Work] = {
    "fit": _training(_fit),
    "classify": _training(_classify),
    "reproduce": Work(_reproduce, _reproduce, contents),
    "save": Work(_save, _save, contents),
    "predict, csv": _predict("csv"),
    "predict, parquet": _predict("parquet"),
    "download": Work(_download, _download, contents),
    "sweep, journal": _sweep(lambda folder: str(folder / "study.journal")),
    "sweep, sqlite": _sweep(lambda folder: f"sqlite:///{folder / 'study.db'}"),
    "sweep, PostgreSQL": _sweep(lambda _: database_address()),
}


@cache
def undisturbed(kind: str) -> Undisturbed:
    """Do a work without faults."""
    folder, work = Path(tempfile.mkdtemp(dir=scratch())), WORKS[kind]
    work.prepare(folder)
    outcome = run_well(work.begin(folder))
    counts = outcome.counts
    return Undisturbed(folder, work.result(folder), outcome.seconds, counts["operations"], counts["growing"])
