"""resources/processes.py: garbage is looked for again afterwards, whatever happened, and by whoever had it so."""

from __future__ import annotations

import gc

import pytest

from resources.memory import without_collection


def test_collecting_goes_on_afterwards() -> None:
    assert gc.isenabled()
    with without_collection():
        assert not gc.isenabled()
        with without_collection():
            pass
        assert not gc.isenabled()
    assert gc.isenabled()


def test_collecting_goes_on_after_an_import_that_fails() -> None:
    with pytest.raises(ModuleNotFoundError), without_collection():
        import no_such_package  # type: ignore[import-not-found]  # noqa: F401
    assert gc.isenabled()


def test_who_does_not_collect_is_left_so() -> None:
    gc.disable()
    try:
        with without_collection():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
