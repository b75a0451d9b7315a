"""Vectors of coefficients as people might type them, and worse, for `tdegnn explain`."""

import contextlib
import io
import json
import random
import warnings
from pathlib import Path

from tdegnn.cli.explain import explain
from tdegnn.errors import TdegnnError

ODD_NUMBERS = [
    *("", " ", "nan", "-nan", "inf", "-inf", "infinity", "1e308", "-1e308", "1e309", "1e-308", "5e-324", "-0.0", "0"),
    *("1e11", "1e12", "1e15", "-1e16", "1_000", "_1", "1__0", "0x10", "1e", "e5", "1.", ".5", ".", "+1", "--1", "1-"),
    *("\uff11", "\u0661", "\u2212" + "1", "\u00bd", "\U0001d7d9", "\u00a01", "1\u2003", "\ud800", "\x00", "\n1", "1;2"),
    *("1" * 400, "0." + "1" * 400, "1e" + "9" * 30, "1e-" + "9" * 30, "True", "None", "1j", "1+2j", "'1'", "[1]", "é"),
]
TIDY = [[1], [2, -1], [3, -3, 1], [4, -6, 4, -1], [1.4, 0.2, -0.6], [0.5, 0.5], [0, 1], [-1, 2], [1, 0, 0, 0]]


def try_one(seed: int, folder: Path) -> str:
    """Explain the vector of a seed. Return "read" or "refused". A warning of NumPy is a failure."""
    randomly = random.Random(seed)
    text = _vector(randomly)
    as_json, quiet = randomly.random() < 0.5, randomly.random() < 0.2
    tolerance = randomly.choice([None, None, 0.0, 1e-12, 0.02, 0.5, 0.999999, 1.0, -1.0, float("nan")])
    printed = io.StringIO()
    with warnings.catch_warnings(), contextlib.redirect_stdout(printed), contextlib.chdir(folder):
        warnings.simplefilter("error")
        try:
            explain(text, tolerance=tolerance, quiet=quiet, as_json=as_json)
        except TdegnnError as error:
            if len(error.as_options()) > 600:
                raise AssertionError(f"a long message: {error}") from error
            return "refused"
    if as_json:
        assert json.loads(printed.getvalue())["verdict"]
    else:
        assert "able" in printed.getvalue()
    return "read"


def _vector(randomly: random.Random) -> str:
    kind = randomly.choice(["typed", "sum", "sum", "sum", "odd", "long", "noise", "bytes"])
    if kind == "typed":
        return ",".join(map(str, randomly.choice(TIDY)))
    if kind == "noise":
        return "".join(randomly.choices("0123456789.,-+eE_ naninf\t", k=randomly.randint(0, 60)))
    if kind == "bytes":
        return bytes(randomly.choices(range(1, 256), k=randomly.randint(1, 40))).decode(errors="surrogateescape")
    if kind == "long":
        return ",".join([randomly.choice(["0", "1", "0.5", "1e-9"])] * randomly.choice([63, 64, 65, 1000, 20_000]))
    numbers = _summing_to_one(randomly)
    if kind == "odd":
        numbers.insert(randomly.randrange(len(numbers) + 1), randomly.choice(ODD_NUMBERS))
    joined = randomly.choice([",", ", ", " ,", ",\t"]).join(numbers)
    return joined + randomly.choice(["", "", "", ",", " "])


def _summing_to_one(randomly: random.Random) -> list[str]:
    """Return numbers of wild scales that sum to one, exactly or nearly."""
    count = randomly.choice([1, 2, 3, 4, 5, 8, 16, 32, 64])
    scale = 10.0 ** randomly.choice([0, 0, 0, 1, 3, 6, 10, 11, 15, 100, 300, -5, -100, -310])
    numbers = [randomly.choice([0.0, 1.0, -1.0, randomly.gauss(0, 1), 5e-324]) * scale for _ in range(count - 1)]
    rest = 1.0 - sum(numbers) + randomly.choice([0.0, 0.0, 0.0, 1e-16, -9.9e-5, 1.01e-4, 1.0])
    numbers.insert(randomly.randrange(len(numbers) + 1), rest)
    form = randomly.choice(["{!r}", "{!r}", "{:.6g}", "{:.17e}", "{:+f}"])
    return [form.format(number) for number in numbers]
