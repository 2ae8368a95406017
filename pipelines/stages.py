"""The stages as data: for each, the tables it makes, the tables it reads, and the settings that shape it.

A stage's key is the hash of everything but documents that shapes its result: its version, its
settings, and the keys of the stages before it. Tables of different keys are kept side by side, so
switching back to settings used before finds their results again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pipelines import tokens
from pipelines.fingerprint import fingerprint
from pipelines.records import tables
from pipelines.settings.base import Settings

UNPARTITIONED = -1
"""Number in place of a bucket's for a table without partitions."""
TERMS_VERSION = "terms-3"
"""The version of the terms that pipelines/terms.py makes. The key of `chunks`, which has a table of terms, does not
include it: raise that stage's version too."""
NAMES_VERSION = 1
"""The version of the names that pipelines/names.py makes."""


@dataclass(frozen=True, slots=True)
class Frozen:
    """The frozen values of a generation: overlap floors by language; the identities of the embedder, of the static
    vectors that decide on overlap, and of the models that split sentences; and the prompts of the roles used in
    enrichment, by role and language."""

    floors: Mapping[str, float] = field(default_factory=dict)
    embedder: str = ""
    static: str = ""
    sentence_models: str = ""
    prompts: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Stage:
    """One asset. It makes `tables` (name to record type) from `inputs` (table names), and `shaped_by` gives the
    settings and frozen values that shape it, by name. Raise `version` when the code of the stage makes other results of
    the same inputs. The stage also `looks_at` tables that never decide alone: if they
    change, an input changes too, or the result is the same. A stage that is not `parted` makes one table of all
    documents."""

    name: str
    version: int
    tables: Mapping[str, type]
    inputs: tuple[str, ...]
    shaped_by: Callable[[Settings, Frozen], dict[str, Any]]
    looks_at: tuple[str, ...] = ()
    parted: bool = True


def _settings(settings: Settings, section: str, *names: str) -> dict[str, Any]:
    return {f"{section}.{name}": getattr(getattr(settings, section), name) for name in names}


def _reply_values(settings: Settings, frozen: Frozen, role: str) -> dict[str, Any]:
    """Return the values that shape the replies to a role's prompts; return {} if no model is used."""
    if role not in settings.bought_roles:
        return {}
    # Results stay under the key of the model that they were begun with, though another one may write the new ones.
    model, temperature = settings.llm.role(role).first
    return {"model": model, "temperature": temperature, "prompts": dict(frozen.prompts.get(role, {}))}


def _enrichment_values(settings: Settings, frozen: Frozen, role: str) -> dict[str, Any]:
    mode = getattr(settings.enrichment, role)
    if mode == "off":
        return {f"enrichment.{role}": mode}
    windowed = mode == "llm" or role == "summary"
    names = (role, f"{role}_characters", *([f"{role}_window"] if windowed else []))
    return {**_settings(settings, "enrichment", *names), **_reply_values(settings, frozen, role)}


def _stages() -> tuple[Stage, ...]:
    return (
        Stage("raw_documents", 1, tables("raw_documents"), (), lambda s, r: {}),
        Stage(
            "parsed_elements",
            10,
            tables("parsed_documents", "parsed_elements"),
            ("raw_documents",),
            # Off, bar codes are in no key, so that what was parsed before they could be read stays.
            lambda s, r: _settings(
                s,
                "parsing",
                *("ocr", "ocr_languages", "ocr_seconds", "hidden"),
                *(["barcodes"] if s.parsing.barcodes else []),
            ),
        ),
        Stage(
            "figure_descriptions",
            1,
            tables("figure_descriptions"),
            ("parsed_documents", "parsed_elements"),
            lambda s, r: _reply_values(s, r, "figure"),
        ),
        Stage(
            "structural_chunks",
            5,
            tables("structural_chunks"),
            ("parsed_documents", "parsed_elements", "figure_descriptions"),
            lambda s, r: _settings(s, "chunking", "clause_tokens", "max_tokens"),
        ),
        Stage(
            "packed_chunks",
            6,
            tables("packed_chunks"),
            ("structural_chunks", "parsed_elements"),
            lambda s, r: {
                **_settings(s, "chunking", "strategy", "target_tokens", "max_tokens"),
                "token_count": tokens.NAME,
                "static_vectors": r.static if s.chunking.strategy == "cluster" else "",
            },
        ),
        Stage(
            "chunks",
            6,
            tables("chunks", "chunk_terms"),
            ("packed_chunks", "parsed_documents"),
            lambda s, r: {
                **_settings(s, "chunking", "overlap_tokens"),
                "overlap_floors": dict(r.floors),
                "static_vectors": r.static,
            },
        ),
        Stage(
            "sentences",
            6,
            tables("sentences", "filtered_sentences"),
            ("chunks", "parsed_documents", "parsed_elements", "structural_chunks"),
            lambda s, r: {
                **_settings(s, "sentences", "min_characters", "min_words", "min_confidence", "form_labels"),
                "sentence_models": r.sentence_models,
            },
        ),
        Stage(
            "abbreviations",
            1,
            tables("abbreviations"),
            ("parsed_documents", "parsed_elements"),
            lambda s, r: {},
        ),
        Stage(
            "document_summaries",
            2,
            tables("document_summaries"),
            ("chunks", "parsed_documents", "sentences"),
            lambda s, r: _enrichment_values(s, r, "summary"),
        ),
        Stage(
            "chunk_contexts",
            4,
            tables("chunk_contexts"),
            ("chunks", "parsed_documents", "sentences"),
            lambda s, r: _enrichment_values(s, r, "context"),
        ),
        Stage(
            "chunk_embeddings",
            1,
            tables("chunk_embeddings"),
            ("chunks", "document_summaries", "chunk_contexts"),
            lambda s, r: {"embedder": r.embedder},
            ("sentences",),
        ),
        Stage(
            "sentence_embeddings",
            1,
            tables("sentence_embeddings", "sentence_search_embeddings"),
            ("sentences", "chunks", "chunk_embeddings"),
            lambda s, r: {"embedder": r.embedder, **_settings(s, "sentences", "embedded")},
            ("document_summaries", "chunk_contexts"),
        ),
        Stage(
            "sentence_links",
            3,
            tables("sentence_links"),
            ("sentences", "sentence_embeddings"),
            # The embedder's name decides which of the floors holds; its identity is in the key before.
            lambda s, r: _settings(s, "sentences", "related_floor", s.sentences.floors_setting, "related_most"),
            parted=False,
        ),
    )


STAGES: Mapping[str, Stage] = {stage.name: stage for stage in _stages()}
"""The stages by name, each after the stages that make its inputs."""
STAGE_OF_ROLE = {"figure": "figure_descriptions", "summary": "document_summaries", "context": "chunk_contexts"}
"""The stage whose texts each role of a language model writes."""
WHOLE_CORPUS = frozenset({"raw_documents", "sentence_links"})
"""Stages that run once for all documents: sources are listed once, and any two sentences may be near each other."""
KEEPING = "parsed_elements"
"""The stage whose tables keep the last good version of a document that fails at it. A document that fails later is in
no table from there on, until it succeeds. Readers are served its last version from Postgres while the same
generation is live."""
STAGE_OF_TABLE: Mapping[str, Stage] = {table: stage for stage in STAGES.values() for table in stage.tables}
"""The stage that makes each table, by the table's name."""


def stage_keys(settings: Settings, frozen: Frozen) -> dict[str, str]:
    """Return the keys of all stages under these settings and frozen statistics, by name. Names are not hashed, so
    renaming a setting changes no key. Nor is anything that says where rows lie: buckets, files, machines."""
    keys: dict[str, str] = {}
    for name, stage in STAGES.items():
        before = [keys[STAGE_OF_TABLE[table].name] for table in stage.inputs]
        values = list(stage.shaped_by(settings, frozen).values())
        shape = values[0] if len(values) == 1 else values or None
        keys[name] = fingerprint(name, stage.version, shape, before)
    return keys


_SHOWN = 12
"""Characters of a key that are shown to people; enough to distinguish versions."""


def stage_key(name: str, settings: Settings, frozen: Frozen) -> str:
    """Return the key of one stage; see `stage_keys`."""
    return stage_keys(settings, frozen)[name]


def generation_key(settings: Settings, installed: Frozen) -> str:
    """Return the key that distinguishes generations before their statistics are frozen: all settings that shape one,
    the stages' versions, and the identities of the models (of every preset for auto). The number of buckets is part of
    it, since buckets partition the rows in Postgres."""
    return fingerprint("generation", _shape(settings, installed), settings.buckets)


def _shape(settings: Settings, installed: Frozen) -> list[Any]:
    return [list(stage_keys(settings, installed).values()), settings.chunking.overlap_floor, TERMS_VERSION]


IN_POSTGRES = ("corpus_statistics", "term_statistics", "indexed_documents", "search_index")
"""Names of the assets that are not stages and belong to one generation."""


def code_versions(settings: Settings, installed: Frozen) -> dict[str, str]:
    """Return by asset a version that changes with everything that shapes its rows: settings, installed models, prompts
    and the version of its stage and of those before. It needs no database, so it includes neither the values that a
    generation froze from its corpus nor the number of buckets."""
    keys = {name: f"{STAGES[name].version}-{key[:_SHOWN]}" for name, key in stage_keys(settings, installed).items()}
    return {**keys, **dict.fromkeys(IN_POSTGRES, fingerprint("index", _shape(settings, installed))[:_SHOWN])}


def chunking_key(settings: Settings, installed: Frozen) -> str:
    """Return the key of the chunking: generations with equal keys have equal overlap floors, whatever their
    embedder."""
    return fingerprint(stage_keys(settings, installed)["chunks"], settings.chunking.overlap_floor)
