"""Random and damaged inputs by the thousand: `make fuzz MINUTES=30`.

A fuzzer is a module of this folder with a function `try_one(seed, folder)`, which makes the input of a seed, reads it,
and returns "read", "refused" or "same". Any other end is a failure: another exception, a crash of the process, more
than ten seconds, too much memory. Seeds that failed once are kept in `corpus/`, and the tests try them again.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from itertools import count, cycle
from pathlib import Path

from tests.faults.nursery import Attempt, Outcome, nursery

FOLDER = Path(__file__).parent
CORPUS = FOLDER / "corpus"
NAMES = ("array_fuzz", "table_fuzz", "vector_fuzz", "folder_damage", "folder_flips", "folder_edits")
ANSWERS = ("read", "refused", "same")
# Seconds that an input may take.
SLOWEST = 10.0
BATCH_SECONDS = 20.0
# Seconds after which a process is replaced by a new one.
LONGEST_BATCH = 300.0


@dataclass
class Tries:
    """What came of the seeds of a fuzzer.

    Attributes:
        answers: How often each answer was given.
        failures: What went wrong, by seed.
    """

    answers: Counter[str] = field(default_factory=Counter)
    failures: dict[int, str] = field(default_factory=dict)

    @property
    def num_tried(self) -> int:
        return sum(self.answers.values()) + len(self.failures)

    def add(self, outcome: Outcome) -> int:
        """Add what a process reported: a seed before it is tried, the seed and the answer afterwards.

        Returns:
            The number of seeds that were begun.
        """
        lines = [line for line in outcome.report if isinstance(line, list)]
        for seed, *answer in lines:
            if answer and answer[0] in ANSWERS:
                self.answers[answer[0]] += 1
            elif answer:
                self.failures[seed] = answer[-1]
        if lines and len(lines[-1]) == 1:  # the process ended in the middle of this seed
            self.failures[lines[-1][0]] = _describe_crash(outcome.code, outcome.err)
        return sum(len(line) == 1 for line in lines)

    def __str__(self) -> str:
        parts = [f"{self.answers[answer]:,} {answer}" for answer in ANSWERS if self.answers[answer]]
        return ", ".join([*parts, f"{len(self.failures)} failed"])


def find_fuzzers() -> list[str]:
    """Return the fuzzers that exist, and those that they need too."""
    return [name for name in NAMES if (FOLDER / f"{name}.py").exists() and (FOLDER / f"{_needed_by(name)}.py").exists()]


def _needed_by(name: str) -> str:
    return "folder_damage" if name.startswith("folder") else name


def count_inputs(name: str) -> int:
    """Return the number of different inputs of a fuzzer that has a fixed list of them."""
    (outcome,) = nursery().run(Attempt("count_inputs", {"name": name}))
    return int(next(line for line in outcome.report if isinstance(line, int)))


def read_corpus(name: str) -> list[int]:
    """Return the seeds of a fuzzer that failed once."""
    path = CORPUS / f"{name}.txt"
    lines = path.read_text().splitlines() if path.exists() else []
    return [int(line.split("#")[0]) for line in lines if line.split("#")[0].strip()]


def add_to_corpus(name: str, failures: dict[int, str]) -> None:
    """Keep seeds that failed."""
    CORPUS.mkdir(exist_ok=True)
    known = set(read_corpus(name))
    with (CORPUS / f"{name}.txt").open("a") as stream:
        stream.writelines(f"{seed}  # {text}\n" for seed, text in failures.items() if seed not in known)


def try_seeds(name: str, seeds: list[int], tries: Tries | None = None, slowest: float = SLOWEST) -> Tries:
    """Try seeds of a fuzzer, in processes of their own.

    Args:
        name: The fuzzer.
        seeds: The seeds.
        tries: What to add to.
        slowest: Seconds that a seed may take.
    """
    tries = Tries() if tries is None else tries
    waiting = list(seeds)
    while waiting:
        with tempfile.TemporaryDirectory() as folder:
            limits = {"slowest": slowest, "longest": LONGEST_BATCH}
            attempt = Attempt("fuzz", {"name": name, "seeds": waiting, "folder": folder, **limits})
            (outcome,) = nursery().run(attempt, limit=2 * LONGEST_BATCH)
        num_begun = tries.add(outcome)
        if num_begun == 0:
            raise AssertionError(f"{name} could not begin: {outcome.err[-500:]}")
        waiting = waiting[num_begun:]
    return tries


def _describe_crash(code: int, complaint: str) -> str:
    """Return how a process ended in the middle of an input, on one line."""
    if "Timeout (" in complaint:
        return "took too long"
    lines = [line.strip() for line in complaint.splitlines() if line.strip()]
    return f"the process ended with {code}: {lines[0][:200] if lines else ''}"


def fuzz(minutes: float, seed: int) -> dict[str, Tries]:
    """Try fresh seeds of all fuzzers in turn, for some minutes. Failures are added to the corpus."""
    names, end = find_fuzzers(), time.monotonic() + 60 * minutes
    for name in NAMES:
        if name not in names:
            print(f"{name}: missing")
    if not names:
        return {}
    tries = {name: Tries() for name in names}
    sizes, starts = dict.fromkeys(names, 20), {name: count(seed) for name in names}
    for name in names:
        try_seeds(name, read_corpus(name), tries[name])
        for key, text in tries[name].failures.items():
            print(f"{name}, seed {key} of the corpus: {text}", flush=True)
    for name in cycle(names):
        begun = time.monotonic()
        if begun >= end:
            break
        known = set(tries[name].failures)
        try_seeds(name, [next(starts[name]) for _ in range(sizes[name])], tries[name])
        new = {key: text for key, text in tries[name].failures.items() if key not in known}
        if new:
            add_to_corpus(name, new)
            for key, text in new.items():
                print(f"{name}, seed {key}: {text}", flush=True)
        seconds = max(time.monotonic() - begun, 0.01)
        sizes[name] = max(1, min(5000, int(sizes[name] * min(4.0, BATCH_SECONDS / seconds))))
    return tries


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0, help="how long to try (default: 30)")
    parser.add_argument("--seed", type=int, help="the first seed (default: a random one)")
    options = parser.parse_args()
    seed = random.SystemRandom().randrange(10**9) if options.seed is None else options.seed
    print(f"First seed: {seed}. The same seeds again: make fuzz SEED={seed}", flush=True)
    found = fuzz(options.minutes, seed)
    for name, tries in found.items():
        print(f"{name}: {tries.num_tried:,} tried, {tries}")
    return int(any(tries.failures for tries in found.values()))


if __name__ == "__main__":
    sys.exit(main())
