import pytest

from tdegnn.experiments.series_rows import choose_window, linear_errors
from tdegnn.training.devices import choose_placement
from tests.data.conftest import cache, mirror  # noqa: F401  (where the benchmark files are)

CPU = choose_placement("cpu")


@pytest.mark.slow
@pytest.mark.parametrize(("dataset", "window"), [("chickenpox", 52), ("wikimath", 28)])
def test_the_window_of_the_table_is_the_one_the_linear_skip_chooses(mirror, dataset, window):  # noqa: F811
    assert choose_window(dataset, CPU) == window


def test_a_longer_window_helps_the_linear_skip(mirror):  # noqa: F811
    errors = linear_errors("chickenpox", CPU)
    assert list(errors) == [4, 8, 26, 52]
    assert list(errors.values()) == sorted(errors.values(), reverse=True)
    assert errors[4] == pytest.approx(0.5929, abs=1e-3)
