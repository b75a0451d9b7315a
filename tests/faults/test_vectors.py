"""`tdegnn explain` with vectors of any kind: a report or one line."""

import warnings

import pytest

from tdegnn import InputError, cli, explain
from tests.faults.vector_fuzz import try_one


def run(capsys, *words):
    with pytest.raises(SystemExit) as end:
        cli.main(["explain", *words])
    printed = capsys.readouterr()
    return end.value.code, printed.out, printed.err


def test_a_vector_may_be_longer_than_the_name_of_a_file(capsys):
    text = ",".join(["0.015625000000"] * 64)
    code, out, err = run(capsys, text, "-q")
    assert (code, err) == (0, "")
    assert out.startswith(("Stable", "Unstable"))
    code, _, err = run(capsys, f"{text},0")
    assert (code, err) == (2, "Error: Expected at most 64 coefficients, got 65.\n")


@pytest.mark.parametrize("text", ["x" * 100_000, "0," * 5000, "1e400", "nan", "\x1b[31m", "caf\udce9"])
def test_what_is_no_vector_is_refused_in_a_short_line(capsys, text):
    code, out, err = run(capsys, text)
    assert (code, out) == (2, "")
    assert err.startswith("Error: Expected ")
    assert err.count("\n") == 1
    assert len(err) < 400
    assert err[:-1].isprintable()


@pytest.mark.parametrize("vector", [[1e300, -1e300, 1.0], [1e308, 1e308], [2e11, 1 - 2e11]])
def test_numbers_whose_sum_is_lost_in_rounding_are_refused(vector):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(InputError, match=r"Expected coefficients of at most 1e\+11, got .* cannot tell whether"):
            explain(vector)


@pytest.mark.slow
def test_fuzzed_vectors_are_read_or_refused(tmp_path):
    answers = [try_one(seed, tmp_path) for seed in range(400)]
    assert set(answers) == {"read", "refused"}
