"""Imported by the server that runs are forked from, and by nobody else: what every run would load."""

import openai  # noqa: F401
import pgvector.psycopg  # noqa: F401
import pyarrow.parquet  # noqa: F401

import assets.definitions  # noqa: F401
import pincite.index_run  # noqa: F401
from resources.text_worker import MODELS, _prepare

_prepare(tuple(MODELS))
