"""What `verify` may find, as data: codes, what they mean, and what mends it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from resources.postgres.catalog import schema_name
from resources.postgres.database import REMADE

Finding = tuple[str, str]
"""A code, and a message that names one thing."""

SHOWN = 3
"""Findings of a problem that are named; the rest are counted."""

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
    "damaged_schema": ("something of the tables is gone or another, and the rest was not looked at", REMADE),
    "leftover_schema": ("schemas of no generation", "drop each with `DROP SCHEMA ... CASCADE`"),
    "dimension": ("vector columns of another dimension", REMADE),
    "settings": ("its settings cannot be read", "index with this version and publish the new generation"),
    "missing_bucket": ("not made", _ALL),
    "missing_file": ("committed files that are gone", f"restore them, or {_RUN}"),
    "missing_raw_file": (
        "raw files that are not in the store, so that no machine but that of their source can read them",
        "run `pincite index --retry-failed` where the sources can be read, which copies them again",
    ),
    "damaged_file": ("files whose content is not the one in their name", f"restore them, or delete them and {_RUN}"),
    "miscounted_file": ("files with other numbers of rows than their commits say", f"delete them and {_RUN}"),
    "embedder": ("vectors of another embedder", f"delete the files and {_RUN}"),
    "unfinished": ("not up to date with what it is made from", _RUN),
    "missing_document": ("documents not served", _RUN),
    "extra_document": (
        "documents served that are not listed, or in another bucket than theirs",
        "delete them, `DELETE FROM {schema}.documents WHERE doc_id = '...'`, and run `pincite index`",
    ),
    "changed_document": ("documents that are not as Parquet has them", _REWRITE),
    "duplicate_document": ("documents there twice", _REWRITE),
    "duplicate_chunk": ("chunks there twice", _RUN),
    "duplicate_sentence": ("sentences there twice", _RUN),
    "missing_chunk": ("chunks missing", _RUN),
    "extra_chunk": ("chunks too many", _RUN),
    "changed_chunk": ("chunks that are not as Parquet has them", _REWRITE),
    "missing_sentence": ("sentences missing", _RUN),
    "extra_sentence": ("sentences too many", _RUN),
    "changed_sentence": ("sentences that are not as Parquet has them", _REWRITE),
    "postings": (
        "postings that are not those of the chunks",
        "delete those of the bucket, `DELETE FROM {schema}.postings WHERE bucket = ...`, and run `pincite index`",
    ),
    "terms": ("frozen frequencies of terms", "run `pincite index`, which counts them again"),
    "missing_link": ("links missing", _RELINK),
    "extra_link": ("links too many", _RELINK),
    "changed_link": ("links that are not as Parquet has them", _RELINK),
    "groups": ("documents with other groups than they have now", _REWRITE),
    "deleted_document": ("documents served that were deleted", _RUN),
    "changed_rows": ("rows that are not as they were left", ""),
    "nameless_failure": ("failures without path, stage, code or reason", _ALL),
    "unrecorded_failure": ("documents failed without a record of it", _ALL),
    "false_failure": ("failures recorded of documents that did not fail", _ALL),
    "vector_index": ("", _RUN),
    "row_security": ("tables whose rows groups do not keep apart", _RUN),
    "policy": ("policies of row-level security that are not pincite's", _RUN),
    "query_role": (
        "rights of the role pincite_query that it should not have",
        "run `pincite index`, which takes rights back; an administrator changes what the role is, `ALTER ROLE "
        "pincite_query NOLOGIN NOSUPERUSER NOBYPASSRLS NOCREATEDB NOCREATEROLE`, its memberships, and what is granted "
        "or made outside of the index",
    ),
}
"""Code to what its findings are, and the remedy; those of audit and checks say it themselves."""


SECURED = frozenset({"row_security", "policy", "query_role"})
"""What a run mends in every generation."""


def told(findings: Iterable[Finding], generation: int | None = None, kept: bool = False) -> Iterator[Finding]:
    """One problem for each code: what it is, the first findings, how many more, the remedy."""
    first: dict[str, list[str]] = {}
    counts: dict[str, int] = {}
    for code, message in findings:
        counts[code] = counts.get(code, 0) + 1
        if counts[code] <= SHOWN:
            first.setdefault(code, []).append(message)
    for code, shown in first.items():
        what, remedy = PROBLEMS.get(code, ("", ""))
        more = f"; and {counts[code] - SHOWN} more" if counts[code] > SHOWN else ""
        text = f"{what}: {'; '.join(shown)}{more}" if what else f"{'; '.join(shown)}{more}"
        if generation is not None:
            text = f"generation {generation}: {text}"
            remedy = _KEPT if kept and code not in SECURED else remedy.replace("{schema}", schema_name(generation))
        yield code, f"{text}. {remedy[:1].upper()}{remedy[1:]}" if remedy else text
