"""Imported by the server that runs are forked from, and by nobody else: what every run would load."""

import gc
import tempfile
from pathlib import Path

import openai  # noqa: F401
import pgvector.psycopg  # noqa: F401
import pyarrow.parquet  # noqa: F401

import assets.definitions  # noqa: F401
import pincite.run
import pincite.text.reports  # noqa: F401
from resources.dagster_instance.home import dagster_home
from resources.dagster_instance.run_history import run_history
from tests.faults import work_here

work_here.MODELS.load()
with tempfile.TemporaryDirectory() as folder, run_history(dagster_home(Path(folder))):
    pass  # loads the parts of Dagster that dagster.yaml names
gc.collect()
gc.freeze()  # a collection in a fork would else write to every page that it shares
