"""What must hold after each stage of a run, as problems (code, message). Assets check it, `verify` and the
audit before publishing build on it.

A check looks at what its stage computed in this run, at everything where the stage did not run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from pipelines.indexing.sentence_links import STEP, floor_for
from pipelines.stages import MAKER, WHOLE
from resources import skeleton_checks
from resources.audit import Problems, audit
from resources.mending import after, mended
from resources.vectors import matrix

if TYPE_CHECKING:
    from resources.workspace import Workspace

LEAST_COVERAGE = 0.98
"""Share of a document's characters, white space apart, that must be in its chunks or headings."""
_UNIT = 0.01


def check(workspace: Workspace, name: str) -> Problems:
    """The problems that a check of CHECKS finds; kept for the end of the run."""
    workspace.problems[name] = mended(workspace, lambda: CHECKS[name][1](workspace), before=after(CHECKS[name][0]))
    return workspace.problems[name]


def _buckets(workspace: Workspace, table: str, everywhere: bool = False) -> list[int]:
    report = workspace.reports.get(MAKER[table].name)
    if report is None or everywhere:
        return sorted(workspace.runner.manifest(table))
    return [bucket for bucket, counts in report.buckets.items() if counts.get("computed")]


def empty_documents(workspace: Workspace, everywhere: bool = False) -> Problems:
    """Every document that was parsed has at least one chunk."""
    workspace.ensure_generation()
    problems, held = [], workspace.runner.held()
    for bucket in _buckets(workspace, "chunks", everywhere):
        parsed = _column(workspace, "parsed_documents", bucket, "doc_id")
        bare = sorted(set(parsed) - set(_column(workspace, "chunks", bucket, "doc_id")) - held.keys())
        problems += [("empty_document", f"{doc_id} has text but no chunk") for doc_id in bare]
    return problems


def text_coverage(workspace: Workspace, everywhere: bool = False) -> Problems:
    """At least LEAST_COVERAGE of a document's characters are in its chunks or in its headings."""
    workspace.ensure_generation()
    problems, held = [], workspace.runner.held()
    for bucket in _buckets(workspace, "chunks", everywhere):
        for doc_id, share in coverage(workspace, bucket).items():
            if share < LEAST_COVERAGE and doc_id not in held:
                problems.append(("coverage", f"only {share:.3f} of the text of {doc_id} is in its chunks"))
    return problems


def coverage(workspace: Workspace, bucket: int) -> dict[str, float]:
    """doc_id to the share of its body's characters, white space apart, that its chunks and headings hold."""
    spans: dict[str, list[tuple[int, int]]] = {}
    chunks = workspace.tables.read(workspace.manifest_file("chunks", bucket), ["doc_id", "spans"])
    for doc_id, own in zip(chunks["doc_id"].to_pylist(), chunks["spans"].to_pylist(), strict=True):
        spans.setdefault(doc_id, []).extend((span["start"], span["end"]) for span in own)
    columns = ["doc_id", "kind", "start", "end"]
    elements = workspace.tables.read(workspace.manifest_file("parsed_elements", bucket), columns)
    for doc_id, kind, start, end in zip(*(elements[name].to_pylist() for name in columns), strict=True):
        if kind == "heading":
            spans.setdefault(doc_id, []).append((start, end))
    parsed = workspace.tables.read(workspace.manifest_file("parsed_documents", bucket), ["doc_id", "body"])
    bodies = zip(parsed["doc_id"].to_pylist(), parsed["body"].to_pylist(), strict=True)
    return {doc_id: _covered(body, spans.get(doc_id, [])) for doc_id, body in bodies}


def _covered(body: str, spans: Iterable[tuple[int, int]]) -> float:
    wanted = held = at = 0
    for start, end in sorted(spans):
        held += len("".join(body[max(start, at) : end].split()))
        at = max(at, end)
    wanted = len("".join(body.split()))
    return held / wanted if wanted else 1.0


def unsound_vectors(workspace: Workspace, table: str, items: str, everywhere: bool = False) -> Problems:
    """A vector for every item, each finite and of unit length."""
    import numpy as np

    workspace.ensure_generation()
    problems, held = [], workspace.runner.held()
    for bucket in _buckets(workspace, table, everywhere):
        read = workspace.tables.read(workspace.manifest_file(table, bucket), ["item_id", "vector"])
        wanted = workspace.manifest_row(items, bucket).rows
        if held:
            wanted = sum(doc_id not in held for doc_id in _column(workspace, items, bucket, "doc_id"))
        if read.num_rows != wanted:
            problems.append(("vectors", f"bucket {bucket:02d} has {read.num_rows} vectors of {wanted} {items}"))
        lengths = np.linalg.norm(matrix(read["vector"]), axis=1) if read.num_rows else np.ones(0)
        for row in np.flatnonzero(~(np.abs(lengths - 1.0) < _UNIT)):
            problems.append(("vector", f"the vector of {read['item_id'][int(row)]} has length {lengths[row]:.3f}"))
    return problems


def unsound_sentence_vectors(workspace: Workspace, everywhere: bool = False) -> Problems:
    """The same of the vectors that links are made from and of those that are searched."""
    tables = ("sentence_embeddings", "sentence_search_embeddings")
    return [problem for table in tables for problem in unsound_vectors(workspace, table, "sentences", everywhere)]


def disagreements(workspace: Workspace) -> Problems:
    """Parquet and Postgres hold the same documents, chunks and sentences."""
    return workspace.index_build.disagreements()


def broken_skeleton(workspace: Workspace, everywhere: bool = False) -> Problems:
    """NEXT and PREVIOUS, and the place of every sentence in its chunk."""
    workspace.ensure_generation()
    problems = []
    for bucket in _buckets(workspace, "sentences", everywhere):
        sentences = workspace.tables.read(workspace.manifest_file("sentences", bucket), skeleton_checks.SENTENCES)
        chunks = workspace.tables.read(workspace.manifest_file("chunks", bucket), skeleton_checks.CHUNKS)
        problems += skeleton_checks.skeleton_problems(sentences, chunks)
    return problems


def unsound_links(workspace: Workspace) -> Problems:
    """RELATED_TO against all sentences, and the budgets. The floor is the one that the links were made with."""
    import pyarrow as pa

    embedder, tables = workspace.ensure_generation().embedder["name"], workspace.tables
    settings, file = workspace.settings.sentences, workspace.manifest_file("sentence_links", WHOLE)
    files = [
        workspace.manifest_file("sentences", bucket) for bucket in _buckets(workspace, "sentences", everywhere=True)
    ]
    sentences = pa.concat_tables([tables.read(name, skeleton_checks.ENDS) for name in files])
    floor = max(float(tables.note(file)), floor_for(settings, embedder) - STEP)
    return skeleton_checks.related_problems(tables.read(file), sentences, settings.related_most, floor)


def audit_problems(workspace: Workspace) -> Problems:
    """What the audit of this run found; where none was made, it is made now."""
    if workspace.built is not None:
        # A part of a backfill is no fault; it is not published.
        return [problem for problem in workspace.built.problems if problem[0] != "missing_bucket"]
    return audit(workspace.index_build.index)


def _column(workspace: Workspace, table: str, bucket: int, name: str) -> list[str]:
    values: list[str] = workspace.tables.read(workspace.manifest_file(table, bucket), [name])[name].to_pylist()
    return values


def before_publishing(workspace: Workspace) -> Problems:
    """The checks of all that a generation is made of, also of what other runs than this one made."""
    return [
        *empty_documents(workspace, everywhere=True),
        *text_coverage(workspace, everywhere=True),
        *broken_skeleton(workspace, everywhere=True),
        *unsound_vectors(workspace, "chunk_embeddings", "chunks", everywhere=True),
        *unsound_sentence_vectors(workspace, everywhere=True),
        *unsound_links(workspace),
        *disagreements(workspace),
    ]


Check = Callable[["Workspace"], Problems]

CHECKS: Mapping[str, tuple[str, Check]] = {
    "no_empty_documents": ("chunks", empty_documents),
    "text_coverage": ("chunks", text_coverage),
    "sentence_skeleton": ("sentences", broken_skeleton),
    "chunk_vectors": ("chunk_embeddings", lambda workspace: unsound_vectors(workspace, "chunk_embeddings", "chunks")),
    "sentence_vectors": ("sentence_embeddings", unsound_sentence_vectors),
    "links_in_budget": ("sentence_links", unsound_links),
    "parquet_and_postgres_agree": ("indexed_documents", disagreements),
    "audited": ("search_index", audit_problems),
}
"""Name of the check to the stage it is of, and the check."""
DESCRIPTIONS: Mapping[str, str] = {
    "no_empty_documents": "Every document that was parsed has at least one chunk.",
    "text_coverage": f"At least {LEAST_COVERAGE:.0%} of every document's characters are in its chunks or headings.",
    "sentence_skeleton": "One NEXT and one PREVIOUS but at a document's ends; every sentence at its place in a chunk.",
    "chunk_vectors": "A vector for every chunk, finite and of unit length.",
    "sentence_vectors": "Two vectors for every sentence, to link and to search, finite and of unit length.",
    "links_in_budget": "RELATED_TO at most 2n and all edges at most 5n for n sentences; each link sound.",
    "parquet_and_postgres_agree": "Parquet and Postgres hold the same documents, chunks and sentences.",
    "audited": "No orphans, vector indexes valid, nearest neighbours and filtered searches as the exact ones.",
}
