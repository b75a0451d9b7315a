"""Where tests find the benchmark files: in the folder that TDEGNN_MIRROR names, or not at all."""

import os
from pathlib import Path

import pytest

from tests.data.benchmarks.file_server import serving

MIRROR = os.environ.get("TDEGNN_MIRROR", "")


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache and no mirror, for one test."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("TDEGNN_CACHE", str(folder))
    monkeypatch.delenv("TDEGNN_MIRROR", raising=False)
    # Files of this machine do not come through a proxy.
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    return folder


@pytest.fixture
def mirror(cache, monkeypatch):
    """The folder with the benchmark files, set as the mirror."""
    if not MIRROR:
        pytest.skip("TDEGNN_MIRROR names no folder with the benchmark files")
    monkeypatch.setenv("TDEGNN_MIRROR", MIRROR)
    return Path(MIRROR)


@pytest.fixture
def files():
    """The files of `server`, by path; a test fills it."""
    return {}


@pytest.fixture
def server(cache, files):
    with serving(files.get) as running:
        yield running
