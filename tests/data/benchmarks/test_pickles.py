import os
import pickle
from collections import Counter, defaultdict
from functools import partial

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis.extra.numpy import array_shapes, arrays, scalar_dtypes

from tdegnn import InputError
from tdegnn.data.benchmarks.pickles import read_pickle

NUMBERS = arrays(scalar_dtypes().filter(lambda dtype: dtype.kind in "biufc"), array_shapes())


class Payload:
    """Unpickled by anybody else, it calls a function."""

    def __init__(self, function, *arguments):
        self.call = (function, arguments)

    def __reduce__(self):
        return self.call


@pytest.fixture
def path(tmp_path):
    return tmp_path / "pickle"


@pytest.mark.slow
@settings(deadline=None)
@given(NUMBERS)
def test_arrays_come_back_as_they_were(tmp_path_factory, values):
    path = tmp_path_factory.getbasetemp() / "arrays"
    path.write_bytes(pickle.dumps(values, 4))
    found = read_pickle(path)
    assert found.dtype.newbyteorder("=") == values.dtype.newbyteorder("=")
    np.testing.assert_array_equal(found, values)


@pytest.mark.parametrize("home", [b"scipy.sparse._csr", b"scipy.sparse.csr"])
def test_sparse_matrices_come_back_from_their_old_and_new_home(path, home):
    matrix = scipy.sparse.random(5, 7, 0.4, format="csr", random_state=0)
    pickled = pickle.dumps(scipy.sparse.csr_matrix(matrix), 3)
    path.write_bytes(pickled.replace(b"cscipy.sparse._csr\n", b"c" + home + b"\n"))
    np.testing.assert_array_equal(read_pickle(path).toarray(), matrix.toarray())


def test_the_containers_of_python_2_come_back(path):
    path.write_bytes(b"ccollections\ndefaultdict\n(c__builtin__\nlist\ntRI0\n(lI1\naI2\nas.")
    assert read_pickle(path) == {0: [1, 2]}
    path.write_bytes(pickle.dumps(defaultdict(list, {0: [np.int64(1)]}), 4))
    assert read_pickle(path) == {0: [1]}


@pytest.mark.parametrize(
    ("harm", "name"),
    [
        (Payload(os.system, "true"), "posix.system"),
        (Payload(eval, "1"), "builtins.eval"),
        (Payload(getattr, [], "append"), "builtins.getattr"),
        (Payload(partial, print), "functools.partial"),
        ({"deep": [np.array([Payload(exec, "")], dtype=object)]}, "builtins.exec"),
        (Counter("aa"), "collections.Counter"),
    ],
)
@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_a_pickle_that_asks_for_anything_else_is_refused(path, harm, name, protocol, monkeypatch):
    path.write_bytes(pickle.dumps(harm, protocol))
    asked = r"asks for (\S+)\. Do not open .*pickle by other means"
    with pytest.raises(InputError, match=asked) as caught:
        read_pickle(path)
    assert "\n" not in str(caught.value)
    # Older protocols name builtins as Python 2 did, and ask for the encoder of bytes first.
    if protocol == 4:
        assert f"asks for {name}." in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"hello", pickle.dumps([1, 2, 3])[:-1], b"\x80\x63."])
def test_what_is_no_pickle_is_refused(path, content):
    path.write_bytes(content)
    with pytest.raises(InputError, match="Expected a pickle in .*, got something else"):
        read_pickle(path)
