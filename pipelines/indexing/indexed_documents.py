"""The rows of a document in the search tables, and the hash that says when to replace them."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from datetime import date

from pipelines.dates import iso_date
from pipelines.fingerprint import fingerprint
from pipelines.groups import is_principal
from pipelines.parsing.cleaning import clean_metadata, clean_text
from pipelines.parsing.titles import begins_title, names_a_kind, without_file_name
from pipelines.records import Chunk, ChunkTerms, ParsedDocument, RawDocument
from pipelines.terms import terms_of

VERSION = 2


@dataclass(frozen=True, slots=True)
class DocumentFacts:
    """The facts about a document, from its side-car or else from the file itself."""

    title: str
    family: str
    effective_date: date | None
    version: str | None
    groups: tuple[str, ...]
    metadata: dict[str, str]


def document_facts(raw: RawDocument, parsed: ParsedDocument) -> DocumentFacts:
    """Return the facts of a document: the side-car wins over the file, and both win over the source's settings.

    Documents of one family are versions of one another. The metadata key `family` names the family, else the title
    without the file's name does.
    """
    metadata = {**parsed.metadata, **clean_metadata(raw.metadata)}
    alone, bare = f"{raw.source}/{raw.uri}", without_file_name(parsed.title, raw.uri)
    family = metadata.get("family") or (alone if _is_unique(parsed, raw.uri) else _fold(bare))
    dated = iso_date(raw.effective_date) if raw.effective_date else parsed.effective_date
    return DocumentFacts(
        title=parsed.title,
        family=family,
        effective_date=date.fromisoformat(dated) if dated else None,
        version=clean_text(raw.version or "") or parsed.version,
        groups=document_groups(raw, parsed.groups),
        metadata=metadata,
    )


def document_groups(raw: RawDocument, of_the_file: tuple[str, ...] | None) -> tuple[str, ...]:
    """Return the groups that may find a document: the groups of its side-car, else of the file itself, else of the
    source's settings. An empty tuple means that the file's sender is not trusted to choose groups, so the source's
    settings apply."""
    own = of_the_file if raw.groups is None else raw.groups
    groups = own or raw.source_groups
    return tuple(group if is_principal(group) else clean_text(group) for group in groups)


def _is_unique(parsed: ParsedDocument, uri: str) -> bool:
    """Say whether a title names a single document: it contains the file's name, alone or with a kind of document."""
    bare = without_file_name(parsed.title, uri)
    return parsed.title_is_file_name or (bare != parsed.title and names_a_kind(bare))


def _fold(title: str) -> str:
    return re.sub(r"\W+", " ", title.casefold()).strip()


def chunk_terms(chunk: Chunk, title: str) -> list[str]:
    """Return the terms of the lexical index: those of the title, the header chain and the chunk's own text.

    A column header counts once if its table has several columns. Summary, context and overlap are left out: with any of
    them, hybrid search ranked worse on three of four test sets.
    """
    chain = [heading for heading in chunk.header_chain if not begins_title(heading, title)]
    text = _heads_once(chunk.text) if "table-row" in chunk.block_types else chunk.text
    return terms_of("\n".join([title, *chain, text]))


def _heads_once(text: str) -> str:
    """Return a table's text with each column header once. Each row repeats all headers, `Head: value | Head: value`; in
    a chunk of ten rows the headers would outweigh the values in ranking."""
    said: set[str] = set()
    lines = []
    for line in text.splitlines():
        cells = line.split(" | ")
        if len(cells) > 1:
            parted = [cell.rpartition(": ") for cell in cells]
            line = " | ".join(value if head in said else head + colon + value for head, colon, value in parted)
            said.update(head for head, _, _ in parted)
        lines.append(line)
    return "\n".join(lines)


def chunk_term_counts(chunk: Chunk, title: str) -> ChunkTerms:
    """Return a chunk's terms and their counts, in the form of the table `chunk_terms`."""
    counts = sorted(Counter(chunk_terms(chunk, title)).items())
    terms, numbers = tuple(term for term, _ in counts), tuple(number for _, number in counts)
    return ChunkTerms(chunk.doc_id, chunk.index, chunk.chunk_id, terms, numbers)


def row_hash(facts: DocumentFacts, *parts: object) -> str:
    """Return a hash of everything that a document's rows show; if the hash is unchanged, the rows need no rewrite."""
    return fingerprint("rows", VERSION, facts.title, facts.family, str(facts.effective_date), facts.version,
                       facts.groups, facts.metadata, parts)  # fmt: skip
