"""Files of tables as older versions wrote them: all that a footer says as one JSON among the schema's metadata."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.increments import DocumentState
from resources.engine.tables import FOOTER


def written_before(root: Path, name: str, rows: pa.Table, states: Mapping[str, DocumentState], note: str) -> str:
    """Writes such a file beside one of this name; returns its own."""
    table, key, part = name.split("/")
    documents = {doc_id: asdict(states[doc_id]) for doc_id in sorted(states)}
    said = {"table": table, "key": key, "bucket": 0, "note": note, "documents": documents}
    rows, sink = rows.replace_schema_metadata({FOOTER: json.dumps(said).encode()}), pa.BufferOutputStream()
    dictionary = [field.name for field in rows.schema if field.type == pa.string()]
    pq.write_table(rows, sink, compression="zstd", use_dictionary=dictionary, write_statistics=False)
    data = sink.getvalue().to_pybytes()
    made = f"{table}/{key}/{part.partition('-')[0]}-{hashlib.blake2b(data, digest_size=16).hexdigest()}.parquet"
    (root / made).parent.mkdir(parents=True, exist_ok=True)
    (root / made).write_bytes(data)
    return made
