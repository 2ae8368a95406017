"""resources/memory.py: garbage is looked for again afterwards, and pandas is there for who asks for it."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from pathlib import Path

import pytest

from resources.child_process import ROOT
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


def test_pyarrow_does_not_import_pandas_and_others_may(tmp_path: Path) -> None:
    (tmp_path / "pandas.py").write_text("__version__ = '3.0.0'\n")
    script = """
import importlib.util, sys
from resources.memory import arrow_without_pandas
arrow_without_pandas()
arrow_without_pandas()
assert importlib.util.find_spec("pyarrow")
import pyarrow
assert pyarrow.chunked_array([[1, 2]]).to_numpy().tolist() == [1, 2]
print("pandas" in sys.modules)
import pandas
assert not [finder for finder in sys.meta_path if type(finder).__module__ == "resources.memory"]
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([ROOT, str(tmp_path)])}
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment)
    assert ran.stdout == "False\n", ran.stderr
