"""The choice of the documents that a stage must compute again, by fingerprints alone."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pipelines.fingerprint import combine, records_hash

if TYPE_CHECKING:
    import pyarrow as pa

PART = 16
"""Hex digits of each input in a document's fingerprint."""
FIRST = "first with these settings"


@dataclass(frozen=True, slots=True)
class DocumentState:
    """The record of one document in a table's file. `fingerprint` is made from the inputs of its rows, `output` from
    the rows. If the last attempt failed, `failed` is the fingerprint of that attempt, and the rows are those of the
    last good version, if any; if `failed` equals `fingerprint`, the rows are a substitute. If the attempt failed at a
    limit, or for lack of a reader, `limits` is a hash of the limits or of the available readers. `run`, `at` (ISO 8601)
    and `reason` say by which run, when and why the rows were last computed."""

    fingerprint: str
    output: str
    failed: str | None = None
    run: str = ""
    at: str = ""
    reason: str = ""
    limits: str = ""

    @property
    def stands_in(self) -> bool:
        """True if the rows are a substitute for better ones."""
        return self.failed is not None and self.failed == self.fingerprint

    @property
    def last(self) -> str:
        """Fingerprint of the last attempt."""
        return self.fingerprint if self.failed is None else self.failed


@dataclass(frozen=True, slots=True)
class Made:
    """The computed rows of one document: Arrow tables by name, and the hash of each table's rows by name."""

    tables: Mapping[str, pa.Table]
    outputs: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Plan:
    """The plan of a stage: documents to compute, with fingerprints and reasons; unchanged documents; removed
    documents."""

    compute: dict[str, str]
    reasons: dict[str, str]
    keep: dict[str, DocumentState]
    gone: tuple[str, ...]


def input_fingerprint(inputs: Sequence[Mapping[str, DocumentState]], doc_id: str) -> str:
    """Return the outputs of the inputs, shortened and joined in order, so that a difference shows which input
    changed."""
    return ".".join(states[doc_id].output[:PART] if doc_id in states else "" for states in inputs)


def plan(
    inputs: Mapping[str, Mapping[str, DocumentState]],
    previous: Mapping[str, DocumentState] | None,
    retried: Collection[str] = (),
) -> Plan:
    """Plan a stage: a document exists if every input has it, and is computed again if any input changed.

    `inputs` are by table; `previous` is None if this key has no rows yet. A document that failed under the same
    fingerprint, or whose inputs are the same, is computed again only if it is in `retried`.
    """
    compute: dict[str, str] = {}
    reasons: dict[str, str] = {}
    keep: dict[str, DocumentState] = {}
    tables, known = list(inputs.values()), previous or {}
    whole = [doc_id for doc_id in tables[0] if all(doc_id in states for states in tables[1:])]
    for doc_id in whole:
        wanted = input_fingerprint(tables, doc_id)
        state = known.get(doc_id)
        if state and wanted == state.last and doc_id not in retried:
            keep[doc_id] = state
        else:
            compute[doc_id] = wanted
            reasons[doc_id] = FIRST if previous is None else _reason(tuple(inputs), state, wanted)
    present = compute.keys() | keep.keys()
    return Plan(compute, reasons, keep, tuple(doc_id for doc_id in known if doc_id not in present))


def _reason(tables: Sequence[str], state: DocumentState | None, wanted: str) -> str:
    if state is None:
        return "new document"
    if wanted == state.last:
        return "tried again after it failed"
    before, now = state.fingerprint.split("."), wanted.split(".")
    if len(before) != len(now):
        return "no result before"
    changed = [table for table, old, new in zip(tables, before, now, strict=True) if old != new]
    return f"changed: {', '.join(changed)}" if changed else "failed in between"


def output_hash(rows: Sequence[Any]) -> str:
    """Return the hash of one document's rows. Vectors are left out: the text's hash and the table's key identify
    them."""
    return records_hash([_without_vector(row) for row in rows])


def _without_vector(row: Any) -> Any:
    if hasattr(row, "vector"):
        return (row.doc_id, row.index, row.item_id, row.text_hash)
    return row


def bucket_output(documents: Mapping[str, DocumentState]) -> str:
    """Return one hash of the states of a bucket's documents, with which are stale, in a fixed order."""
    return combine(f"{doc_id} {documents[doc_id].output} {documents[doc_id].failed}" for doc_id in sorted(documents))
