"""The findings of `verify` and the audits as data: their codes, meanings and remedies."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from resources.postgres.catalog import schema_name
from resources.postgres.database import REMADE

Finding = tuple[str, str]
"""A code, and a message that names one thing."""

SHOWN = 3
"""Most findings of one problem that are named, to keep a report short; the rest are counted."""
REPORT = (
    "run `pincite index --retry-failed`; if it is found again, report it with its message. The live index still serves"
)

_RUN = "run `pincite index`"
_ALL = "run `pincite index --retry-failed`, which looks at everything again"
_REWRITE = (
    "a run does not notice values changed by hand: delete the row of the document, `DELETE FROM {schema}.documents "
    "WHERE doc_id = '...'`, and run `pincite index`"
)
_RELINK = "delete all links, `DELETE FROM {schema}.sentence_links`, and run `pincite index`"
_KEPT = "`pincite generations prune --keep 1` drops all but the live one"
PROBLEMS: Mapping[str, tuple[str, str]] = {
    "not_published": ("no generation is published", f"{_RUN} or `pincite generations publish ID`"),
    "missing_tables": ("tables are gone", REMADE),
    "damaged_schema": (
        "tables, or parts of them, that are gone or changed, after which the rest was not checked",
        REMADE,
    ),
    "leftover_schema": ("schemas of no generation", "drop each with `DROP SCHEMA ... CASCADE`"),
    "dimension": ("vector columns of another dimension", REMADE),
    "settings": (
        "settings of the generation that cannot be read",
        "index with this version and publish the new generation",
    ),
    "missing_bucket": ("buckets that were not made", _ALL),
    "missing_file": ("committed files that are gone", f"restore them, or {_RUN}"),
    "missing_raw_file": (
        "raw files that are not in the store, so that only the machine with their source can read them",
        "run `pincite index --retry-failed` where the sources can be read, which copies them again",
    ),
    "damaged_file": ("files whose content is not the one in their name", f"restore them, or delete them and {_RUN}"),
    "miscounted_file": ("files with other numbers of rows than their commits say", f"delete them and {_RUN}"),
    "embedder": ("vectors of another embedder", f"delete the files and {_RUN}"),
    "unfinished": ("stages that are not up to date with their inputs", _RUN),
    "missing_document": ("documents not served", _RUN),
    "extra_document": (
        "documents served that are not listed, or in another bucket than theirs",
        "delete them, `DELETE FROM {schema}.documents WHERE doc_id = '...'`, and run `pincite index`",
    ),
    "changed_document": ("documents that differ from Parquet", _REWRITE),
    "duplicate_document": ("documents stored twice", _REWRITE),
    "duplicate_name": ("names of documents stored twice", _RUN),
    "missing_name": ("names of documents missing", _REWRITE),
    "extra_name": ("surplus names of documents", _REWRITE),
    "changed_name": ("names of documents that differ from Parquet", _REWRITE),
    "duplicate_abbreviation": ("abbreviations stored twice", _RUN),
    "missing_abbreviation": ("abbreviations missing", _REWRITE),
    "extra_abbreviation": ("surplus abbreviations", _REWRITE),
    "changed_abbreviation": ("abbreviations that differ from Parquet", _REWRITE),
    "duplicate_chunk": ("chunks stored twice", _RUN),
    "duplicate_sentence": ("sentences stored twice", _RUN),
    "missing_chunk": ("chunks missing", _RUN),
    "extra_chunk": ("surplus chunks", _RUN),
    "changed_chunk": ("chunks that differ from Parquet", _REWRITE),
    "missing_sentence": ("sentences missing", _RUN),
    "extra_sentence": ("surplus sentences", _RUN),
    "changed_sentence": ("sentences that differ from Parquet", _REWRITE),
    "postings": (
        "postings that are not those of the chunks",
        "delete those of the bucket, `DELETE FROM {schema}.postings WHERE bucket = ...`, and run `pincite index`",
    ),
    "terms": ("frozen frequencies of terms that are wrong", "run `pincite index`, which counts them again"),
    "missing_link": ("links missing", _RELINK),
    "extra_link": ("surplus links", _RELINK),
    "changed_link": ("links that differ from Parquet", _RELINK),
    "groups": ("documents with other groups than they have now", _REWRITE),
    "deleted_document": ("documents served that were deleted", _RUN),
    "changed_rows": ("rows that were changed from outside", ""),
    "nameless_failure": ("failures without path, stage, code or reason", _ALL),
    "unrecorded_failure": ("documents failed without a record of it", _ALL),
    "false_failure": ("failures recorded of documents that did not fail", _ALL),
    "overlap": (
        "sources that overlap",
        "do what it says, then run `pincite index`, which withholds what one of them would show to others in any case",
    ),
    "row_security": ("tables whose rows groups do not keep apart", _RUN),
    "policy": ("policies of row-level security that are not pincite's", _RUN),
    "query_role": (
        "rights of the role pincite_query that it should not have",
        "run `pincite index`, which takes rights back; an administrator changes what the role is, `ALTER ROLE "
        "pincite_query NOLOGIN NOSUPERUSER NOBYPASSRLS NOCREATEDB NOCREATEROLE`, its memberships, and what is granted "
        "or made outside of the index",
    ),
}
"""The meaning of each code's findings, and the remedy, by code."""

_TABLES = "`pincite verify` names the rows that are not as Parquet has them, and what mends them; else: " + REPORT
_MAKE = "run `pincite index`, which makes it again"
_WALKS = (
    "drop it, `DROP INDEX {schema}.chunks_embedding`, and run `pincite index`, which builds it again and lets searches "
    "compare every row if that does not help"
)
AUDITED: Mapping[str, tuple[str, str]] = {
    "chunk_next_not_mutual": ("Chunks have a neighbour that does not know them.", _TABLES),
    "chunk_without_postings": ("Chunks cannot be found by their words.", _TABLES),
    "count": ("A bucket has another number of chunks in Postgres than in Parquet.", _MAKE),
    "coverage": ("Less than .98 of a document's text is in its chunks.", REPORT),
    "disagree": ("Rows in Postgres are not those of Parquet.", _TABLES),
    "empty_document": ("A document has text, but no chunk.", _TABLES),
    "filter": ("A search of the vector index with a filter misses rows that match, or does not use the index.", _WALKS),
    "link_budget": ("More links than the budget allows.", REPORT),
    "link_twice": ("A link is there twice.", REPORT),
    "link_within_chunk": ("A link lies within one chunk.", REPORT),
    "link_without_sentence": ("A link has an end that is no sentence.", _TABLES),
    "links_of_sentence": ("A sentence has more links than `sentences.related_most`.", REPORT),
    "orphan_chunk": ("A chunk is of no document.", _TABLES),
    "orphan_sentence": ("A sentence lies in no chunk of its document.", _TABLES),
    "posting_without_chunk": ("The word index names a chunk that is not there.", _TABLES),
    "recall": ("The vector index finds less than .92 of the exact neighbours.", _WALKS),
    "repeated_sentence": ("A sentence has the id of another.", REPORT),
    "sentence_next": ("A sentence does not have its neighbours as NEXT and PREVIOUS.", REPORT),
    "sentence_next_not_mutual": ("Sentences have a neighbour that does not know them.", _TABLES),
    "sentence_order": ("Sentences are not in reading order.", REPORT),
    "sentence_paragraph": ("A sentence lies outside its paragraph.", REPORT),
    "sentence_text": ("A sentence is not the text at its place in its chunk.", REPORT),
    "uneven_postings": ("A word has more chunks than weights, or fewer.", _TABLES),
    "vector": ("A vector is not of unit length.", "mend the model, delete the file that holds it, run `pincite index`"),
    "vector_index": ("A vector index is missing or invalid.", _MAKE),
    "vectors": ("The number of vectors is not the number of texts.", REPORT),
    "weak_link": ("A link is weaker than the floor.", REPORT),
    "zero_vector": ("A vector is zero.", "mend the model; then as for `changed_chunk` or `changed_sentence`"),
}
"""The meaning and the remedy of the findings of audits and checks, by code. The errors `audit` and `check_failed` name
these codes in their messages. The message of each finding names the object."""

SECURED = frozenset({"row_security", "policy", "query_role"})
"""Codes of problems that a run repairs in every generation."""


def group_findings(findings: Iterable[Finding], generation: int | None = None, kept: bool = False) -> Iterator[Finding]:
    """Yield one problem for each code: its meaning, the first findings, the number of others, the remedy."""
    first: dict[str, list[str]] = {}
    counts: dict[str, int] = {}
    for code, message in findings:
        counts[code] = counts.get(code, 0) + 1
        if counts[code] <= SHOWN:
            first.setdefault(code, []).append(message)
    for code, shown in first.items():
        what = PROBLEMS[code][0] if code in PROBLEMS else ""
        more = f"; and {counts[code] - SHOWN} more" if counts[code] > SHOWN else ""
        text = f"{what}: {'; '.join(shown)}{more}" if what else f"{'; '.join(shown)}{more}"
        remedy = remedy_of(code, "" if generation is None else schema_name(generation))
        if generation is not None:
            text = f"generation {generation}: {text}"
            remedy = _KEPT if kept and code not in SECURED else remedy
        yield code, f"{text}. {remedy[:1].upper()}{remedy[1:]}" if remedy else text


def remedy_of(code: str, schema: str) -> str:
    """Return the remedy for a finding in the generation of this schema."""
    return (PROBLEMS[code] if code in PROBLEMS else AUDITED[code])[1].replace("{schema}", schema)
