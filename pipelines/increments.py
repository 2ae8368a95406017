"""Which documents a stage must compute again, decided by fingerprints alone."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipelines.fingerprint import combined, fingerprint


@dataclass(frozen=True, slots=True)
class DocumentState:
    """What a table's file says of one document. `fingerprint` is of what its rows were made from,
    `output` of the rows. Where the last attempt failed, `failed` is the fingerprint it failed
    under, and the rows are those of the last good version, if any."""

    fingerprint: str
    output: str
    failed: str | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """Documents to compute, with their fingerprints; those kept as they are; those gone."""

    compute: dict[str, str]
    keep: dict[str, DocumentState]
    gone: tuple[str, ...]


def input_fingerprint(inputs: Sequence[Mapping[str, DocumentState]], doc_id: str) -> str:
    return combined(states[doc_id].output if doc_id in states else "" for states in inputs)


def plan(
    inputs: Sequence[Mapping[str, DocumentState]],
    previous: Mapping[str, DocumentState],
    retried: Collection[str] = (),
) -> Plan:
    """The first input decides which documents exist; all of them decide what is computed again.

    A document that failed under the same fingerprint is tried again only if it is among `retried`."""
    compute: dict[str, str] = {}
    keep: dict[str, DocumentState] = {}
    for doc_id in inputs[0]:
        wanted = input_fingerprint(inputs, doc_id)
        state = previous.get(doc_id)
        same_failure = state is not None and wanted == state.failed and doc_id not in retried
        if state and (same_failure or (state.failed is None and wanted == state.fingerprint)):
            keep[doc_id] = state
        else:
            compute[doc_id] = wanted
    return Plan(compute, keep, tuple(doc_id for doc_id in previous if doc_id not in inputs[0]))


def output_hash(rows: Sequence[Any]) -> str:
    """Hash of one document's rows. A vector is left out: its text's hash and the table's key stand
    for it."""
    return fingerprint([_without_vector(row) for row in rows])


def _without_vector(row: Any) -> Any:
    if hasattr(row, "vector"):
        return (row.doc_id, row.index, row.item_id, row.text_hash)
    return row


def bucket_output(documents: Mapping[str, DocumentState]) -> str:
    """Hash of a whole bucket's documents and of which are stale, in a fixed order."""
    return combined(f"{doc_id} {documents[doc_id].output} {documents[doc_id].failed}" for doc_id in sorted(documents))
