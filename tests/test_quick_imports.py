"""Imports without the collector of garbage."""

import gc

import pytest

from tdegnn.quick_imports import collection_paused


@pytest.fixture(autouse=True)
def _as_before():
    was_on = gc.isenabled()
    yield
    (gc.enable if was_on else gc.disable)()


@pytest.mark.parametrize("change", [gc.enable, gc.disable])
def test_collection_pauses_and_is_then_as_before(change):
    change()
    before = gc.isenabled()
    with collection_paused():
        assert not gc.isenabled()
    assert gc.isenabled() is before


def test_collection_goes_on_after_an_import_that_failed():
    gc.enable()
    with pytest.raises(ModuleNotFoundError), collection_paused():
        import no_such_module  # noqa: F401
    assert gc.isenabled()
