"""What commands print in tests does not depend on how long they take."""

import pytest


@pytest.fixture(autouse=True)
def _no_lines_of_progress(monkeypatch):
    monkeypatch.setattr("tdegnn.cli.output.FIRST_LINE", 3600.0)
