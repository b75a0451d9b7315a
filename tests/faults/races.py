"""Pairs of processes that write to one place at the same moment. Nothing may be lost, torn, or written twice."""

from __future__ import annotations

import io
import json
import random
import threading
import tomllib
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from tests.faults.nursery import Attempt, Fault, Outcome, nursery
from tests.faults.works import (
    CONTENT,
    SAMPLE,
    WORKS,
    check_one_line,
    command,
    compare,
    contents,
    describe_end,
    download_arguments,
    finished_trials,
    run_well,
    study_of,
    trained,
    undisturbed,
    with_fault,
)

NUM_LINES = 500
NUM_PACKED, NUM_PACKS = 60, 6
SYSTEMS = ("TDE-GNN_D", "TDE-GNN_A", "DE-GNN", "GCN", "GAT", "MLP")


def race(kind: str, seed: int, folder: Path) -> str:
    """Let two processes write to one place, and check what is there.

    Args:
        kind: A name in `RACES`.
        seed: Chooses which of them begins how much sooner.
        folder: An empty folder.

    Returns:
        "same".
    """
    RACES[kind](random.Random(f"{kind} {seed}"), folder)
    return "same"


def _run(draw: random.Random, first: Attempt, second: Attempt) -> list[Outcome]:
    """Run two attempts, of which one begins a few milliseconds later."""
    delays = draw.sample([0.0, draw.choice((0.0, 0.001, 0.01, 0.05))], 2)
    pair = [with_fault(each, Fault(delay=delay)) for each, delay in zip((first, second), delays, strict=True)]
    return nursery().run(*pair)


def _check_both_ended(outcomes: list[Outcome]) -> None:
    for outcome in outcomes:
        assert outcome.code == 0, f"ended with {outcome.code}: {describe_end(outcome)}"


def _append(draw: random.Random, folder: Path) -> None:
    path = folder / "lines.jsonl"
    writers = [Attempt("append", {"path": str(path), "writer": name, "num_lines": NUM_LINES}) for name in "ab"]
    _check_both_ended(_run(draw, *writers))
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    found = Counter((line["writer"], line["number"]) for line in lines)
    assert found == Counter((writer, number) for writer in "ab" for number in range(NUM_LINES))


def _reproduce(draw: random.Random, folder: Path) -> None:
    _check_both_ended(_run(draw, *[WORKS["reproduce"].begin(folder)] * 2))
    expected = undisturbed("reproduce").result["lines.jsonl"].splitlines()
    lines = (folder / "lines.jsonl").read_bytes().splitlines()
    assert sorted(lines) == sorted(expected), f"{len(lines)} lines in place of {len(expected)}"


def _predict(draw: random.Random, folder: Path) -> None:
    horizons = draw.sample([1, 2, 3, 4, 6], 2)
    path = folder / "forecast.csv"
    options = ("--out", path, "--quiet")
    allowed = []
    for horizon in horizons:
        run_well(command("predict", trained(0), "--horizon", horizon, *options))
        allowed.append(path.read_bytes())
    seen: set[bytes] = set()
    with _watching(lambda: seen.add(path.read_bytes())):
        _check_both_ended(
            _run(draw, *(command("predict", trained(0), "--horizon", each, *options) for each in horizons))
        )
    seen.add(path.read_bytes())
    assert seen <= set(allowed), "a reader saw a table that nobody wrote"


def _tables(draw: random.Random, folder: Path) -> None:
    path, sizes = folder / "table.csv", draw.sample([100, 1000, 3000, 9000], 2)
    writers = [Attempt("write_tables", {"path": str(path), "num_rows": size, "num_times": 40}) for size in sizes]
    seen: set[int] = set()
    with _watching(lambda: seen.add(len(path.read_bytes().splitlines()))):
        _check_both_ended(_run(draw, *writers))
    seen.add(len(path.read_bytes().splitlines()))
    assert seen <= {size + 1 for size in sizes}, "a reader saw a table that nobody wrote"


def _fit(draw: random.Random, folder: Path) -> None:
    outcomes = _run(draw, *[WORKS["fit"].begin(folder)] * 2)
    _check_one_refused(outcomes)
    compare(WORKS["fit"].result(folder), undisturbed("fit").result)


def _check_one_refused(outcomes: list[Outcome]) -> None:
    ended = sorted(outcomes, key=lambda outcome: outcome.code)
    _check_both_ended(ended[:1])
    check_one_line(ended[1])


def _save(draw: random.Random, folder: Path) -> None:
    target = folder / "saved"
    savers = [Attempt("save", {"model": str(trained(seed)), "targets": [str(target)]}) for seed in (0, 1)]
    known = []
    for number, saver in enumerate(savers):
        alone = folder / f"alone-{number}"
        run_well(Attempt("save", saver.arguments | {"targets": [str(alone)]}))
        known.append(contents(alone))
    outcomes = _run(draw, *savers)
    # The later one may find a finished folder, and then it does nothing.
    for outcome in outcomes:
        if outcome.code:
            check_one_line(outcome)
    winners = [saved for saved, outcome in zip(known, outcomes, strict=True) if outcome.code == 0]
    assert contents(target) in winners, "the folder is not that of one of them"


def _sweep(draw: random.Random, folder: Path) -> None:
    work = WORKS["sweep, journal"]
    _check_both_ended(_run(draw, *[work.begin(folder)] * 2))
    trials = finished_trials(str(folder / "study.journal"), study_of(folder))
    assert len(trials) == 8, f"{len(trials)} trials in place of 8"
    assert len({json.dumps(settings, sort_keys=True) for settings, _ in trials}) == 8, "a trial was run twice"
    assert (folder / "best.toml").exists(), "neither wrote the recipe"


def _recipes(draw: random.Random, folder: Path) -> None:
    path = folder / "recipe.toml"
    systems = draw.sample(SYSTEMS, 6)
    writers = [
        Attempt("recipes", {"path": str(path), "dataset": "cora", "systems": systems[part::2]}) for part in (0, 1)
    ]
    run_well(Attempt("recipes", {"path": str(folder / "alone.toml"), "dataset": "cora", "systems": systems}))
    with _watching(lambda: tomllib.loads(path.read_text())):
        _check_both_ended(_run(draw, *writers))
    compare(tomllib.loads(path.read_text()), tomllib.loads((folder / "alone.toml").read_text()))


def _download(draw: random.Random, folder: Path) -> None:
    path = folder / SAMPLE
    with _watching(lambda: _check_complete(path)):
        _check_both_ended(_run(draw, *[Attempt("download", download_arguments(folder))] * 2))
    compare(contents(folder), {SAMPLE: CONTENT})


def _check_complete(path: Path) -> None:
    assert len(path.read_bytes()) == len(CONTENT), "a reader saw an incomplete file"


def _pack(draw: random.Random, folder: Path) -> None:
    import pyarrow.parquet

    path = folder / "lines.jsonl"
    _check_both_ended(
        _run(
            draw,
            Attempt("append_results", {"path": str(path), "num_lines": NUM_PACKED}),
            Attempt("pack", {"path": str(path), "num_times": NUM_PACKS}),
        )
    )
    plain = path.read_text().splitlines() if path.exists() else []
    packed = pyarrow.parquet.read_table(io.BytesIO(path.with_suffix(".parquet").read_bytes())).column("line")
    numbers = [json.loads(line)["number"] for line in (*packed.to_pylist(), *plain)]
    assert numbers == list(range(NUM_PACKED)), f"{len(numbers)} lines in place of {NUM_PACKED}"


class _watching:  # noqa: N801
    """Looks again and again while the block runs. What a look raises is raised at the end of the block."""

    def __init__(self, look: Callable[[], object]) -> None:
        self._look, self._is_over, self._error = look, threading.Event(), None
        self._thread = threading.Thread(target=self._watch)

    def _watch(self) -> None:
        try:
            while not self._is_over.wait(0.001):
                try:
                    self._look()
                except FileNotFoundError:
                    continue
        except Exception as error:
            self._error = error

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()
        if self._error is not None:
            raise AssertionError(f"a reader saw a file that cannot be read: {self._error}") from self._error


RACES: dict[str, Callable[[random.Random, Path], None]] = {
    "two that append lines": _append,
    "two reproduce": _reproduce,
    "two predict, and a reader": _predict,
    "two that write tables, and a reader": _tables,
    "two fit": _fit,
    "two save": _save,
    "two sweeps": _sweep,
    "two that write recipes, and a reader": _recipes,
    "two downloads, and a reader": _download,
    "one that appends, one that packs": _pack,
}
