"""Imports without the collector of garbage."""

import gc
import weakref

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


def test_what_was_imported_is_old_so_that_the_next_collection_skips_it_and_a_full_one_does_not():
    class Made:
        """An object that is in a cycle with itself."""

    gc.enable()
    with collection_paused():
        made = Made()
        made.itself = made
    assert any(each is made for each in gc.get_objects(generation=2))
    found = weakref.ref(made)
    del made
    gc.collect()
    assert found() is None


def test_objects_that_the_user_has_frozen_stay_so():
    # The collector lists all objects but frozen ones. Their number would not do: others may die meanwhile.
    kept = [[]]

    def is_frozen():
        return not any(each is kept for each in gc.get_objects())

    gc.enable()
    assert not is_frozen()
    gc.freeze()
    try:
        with collection_paused():
            pass
        assert is_frozen()
    finally:
        gc.unfreeze()
    assert not is_frozen()
