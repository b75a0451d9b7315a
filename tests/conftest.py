"""Under pytest, shapes in signatures are checked at every call.

Not in `tdegnn.graph` and `tdegnn.analysis`, the doors through which users come in with arrays of any kind: they
check by themselves, and tests look at what they say.
"""

from collections import Counter

from jaxtyping import install_import_hook

CHECKED = [
    "core",
    "data",
    "experiments",
    "forecasting.baselines",
    "forecasting.frames",
    "forecasting.intervals",
    "forecasting.linear_skip",
    "forecasting.series_training",
    "nets",
    "operators",
    "rivals",
    "runs",
    "sparse",
    "training",
]
install_import_hook([f"tdegnn.{part}" for part in CHECKED], "beartype.beartype")

import pytest  # noqa: E402
import torch  # noqa: E402

DEVICES = [
    "cpu",
    pytest.param(
        "cuda",
        marks=[pytest.mark.cuda, pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")],
    ),
]


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest) -> torch.device:
    return torch.device(request.param)


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


@pytest.fixture
def as_a_user(monkeypatch):
    """No shape checks of the test run come before the library's own."""
    monkeypatch.setattr("jaxtyping.config.jaxtyping_disable", True)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the files with most slow tests first, so that no worker is left alone with one of them at the end."""
    slow = Counter(item.path for item in items if item.get_closest_marker("slow"))
    items.sort(key=lambda item: (-slow[item.path], str(item.path)))


@pytest.fixture(autouse=True)
def _no_lines_of_progress(monkeypatch):
    """What commands print in tests does not depend on how long they take."""
    monkeypatch.setattr("tdegnn.cli.output.FIRST_LINE", 3600.0)
