"""The states of a file's documents as its footer carries them: columns, compressed, in base64.

A footer may be text only, and one in JSON took longer to read than the rows. Files of older versions have their states
as JSON; both are read.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from pipelines.increments import DocumentState
from pipelines.schemas import schema_of

if TYPE_CHECKING:
    import pyarrow as pa

DOC_ID = "doc_id"


@cache
def states_schema() -> pa.Schema:
    """doc_id, then the fields of DocumentState."""
    import pyarrow as pa

    return pa.schema([pa.field(DOC_ID, pa.string()), *schema_of(DocumentState)])


def states_table(documents: Mapping[str, DocumentState]) -> pa.Table:
    """In order of their ids."""
    import pyarrow as pa

    names = sorted(documents)
    states = [documents[name] for name in names]
    columns = [list(map(attrgetter(field.name), states)) for field in fields(DocumentState)]
    return pa.Table.from_arrays([pa.array(column, pa.string()) for column in (names, *columns)], schema=states_schema())


def packed(states: pa.Table) -> bytes:
    """What a footer carries of these states."""
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_stream(sink, states_schema(), options=options) as stream:
        stream.write_table(states.combine_chunks())
    return b64encode(sink.getvalue())


def unpacked(data: bytes) -> pa.Table:
    import pyarrow as pa

    with pa.ipc.open_stream(b64decode(data)) as stream:
        return stream.read_all()


def table_of_json(documents: Mapping[str, Mapping[str, Any]]) -> pa.Table:
    """The same of a footer of an older version."""
    return states_table({doc_id: DocumentState(**state) for doc_id, state in documents.items()})


def as_states(states: pa.Table) -> dict[str, DocumentState]:
    """doc_id to state."""
    names, *columns = (states[field.name].to_pylist() for field in states_schema())
    return dict(zip(names, map(DocumentState, *columns), strict=True))
