"""The generation for the settings: the newest match, or a new one with frozen statistics.

A generation freezes the decisions that depend on the corpus: the preset if the settings say `auto`, and the overlap
floors. Generations with the same chunking settings share their floors, so a swap of the embedder changes no chunk. The
static vectors for the floors are made by worker processes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from pipelines.errors import IndexStateError
from pipelines.records import UNKNOWN_LANGUAGE, Failure, PackedChunk
from pipelines.settings.base import Settings
from pipelines.stages import STAGE_OF_TABLE, STAGES, Frozen, chunking_key, generation_key, stage_keys
from resources.models.embedders.e5_weights import static_identity
from resources.models.embedders.specs import OTHER_SCRIPT, EmbedderSpec, choose_preset, resolve, unresolved_identity
from resources.models.text_models import sentence_models_identity

if TYPE_CHECKING:
    from pipelines.ports import TextEmbedder, Vectors
    from resources.documents.pool import DocumentPool
    from resources.engine import Engine
    from resources.postgres.catalog import Catalog, GenerationRow


# ---------------------------------------------------------------- static vectors


def static_vectors(pool: DocumentPool, chunks: Sequence[PackedChunk]) -> tuple[list[PackedChunk], Vectors]:
    """Return chunks in order of their documents, with their static unit vectors, shape (chunks, dimension).

    The worker processes of the pool compute them. Documents that exceed a limit are left out; the stage `chunks`
    reports them.
    """
    import numpy as np

    from resources.documents.protocol import InputRows, Task
    from resources.engine.vectors import matrix

    own = {doc_id: list(same) for doc_id, same in groupby(chunks, lambda chunk: chunk.doc_id)}
    tasks = (
        Task(
            "static_vectors",
            doc_id,
            "",
            doc_id,
            inputs=InputRows("packed_chunks", PackedChunk, same),
            stage="chunks",
            size=sum(len(chunk.text) for chunk in same),
        )
        for doc_id, same in own.items()
    )
    made = {task.doc_id: result for task, result in pool.run(tasks, len(own)) if not isinstance(result, Failure)}
    kept = [chunk for doc_id in own if doc_id in made for chunk in own[doc_id]]
    blocks = [matrix(made[doc_id].tables["static_vectors"]["vector"]) for doc_id in own if doc_id in made]
    return kept, np.concatenate(blocks) if blocks else np.zeros((0, 0), dtype=np.float32)


# ---------------------------------------------------------------- generation


_SAMPLE = 2000
_PLACES = {"database", "tables", "tables_cache_mb", "shards"}
"""Settings of storage places. A generation does not record them, since they do not affect it and a database address may
contain a password."""
LEAST_DRIFT = 100
"""Least change of a corpus, in chunks, that counts as drift, since a few chunks are a large share of a small corpus."""

StaticVectors: TypeAlias = "Callable[[Sequence[PackedChunk]], tuple[list[PackedChunk], Vectors]]"
"""A function that returns the readable ones of the given chunks, with their unit vectors from the fast embedder of the
chunking settings."""


def find_generation(catalog: Catalog, settings: Settings) -> GenerationRow | None:
    """Return the newest generation made with these settings, weights and stage versions."""
    return catalog.find_generation(generation_key(settings, installed_models(settings)))


def text_models(settings: Settings) -> Frozen:
    """Return the installed models of the chunking and sentence settings, and the current prompts of the roles that
    indexing uses."""
    return Frozen(static=static_identity(), sentence_models=sentence_models_identity(), prompts=_prompts(settings))


def _prompts(settings: Settings) -> dict[str, dict[str, str]]:
    if not settings.bought_roles:
        return {}
    from resources.prompts import read_prompts

    own = settings.enrichment.prompts
    found = read_prompts(Path(own) if own else None)
    return {role: found[role] for role in settings.bought_roles}


def installed_models(settings: Settings) -> Frozen:
    """Return all models in their installed versions, before a generation has frozen any values."""
    return replace(text_models(settings), embedder=unresolved_identity(settings.embedder))


def spec_of(generation: GenerationRow) -> EmbedderSpec:
    return EmbedderSpec(**{**generation.embedder, "dimension": generation.dimension})


def frozen_from(statistics: Mapping[str, Any], embedder: str) -> Frozen:
    """Return the values that the stages need from a generation's statistics, with the identity of its embedder."""
    floors = {name: values["floor"] for name, values in statistics["overlap"].items()}
    return Frozen(floors, embedder, **statistics.get("models", {}))


def frozen_of(generation: GenerationRow) -> Frozen:
    return frozen_from(generation.statistics, generation.embedder["identity"])


def reproducible(generation: GenerationRow, settings: Settings) -> bool:
    """Say whether this version, with the installed weights and the generation's settings, would make the same results
    as the generation."""
    frozen = frozen_of(generation)
    keys, here = stage_keys(settings, frozen), replace(installed_models(settings), prompts=frozen.prompts)
    return keys == dict(generation.keys or keys) and generation.key == generation_key(settings, here)


def ensure_generation(
    catalog: Catalog,
    settings: Settings,
    engine: Engine,
    static: StaticVectors,
    embedder: Callable[[EmbedderSpec], TextEmbedder],
) -> GenerationRow:
    """Return the generation of these settings.

    Create one from the parsed and packed documents if there is no match, or if the corpus has changed too much since
    its statistics were frozen. Raise IndexStateError if a bucket was never packed or no document has text.
    """
    found = find_generation(catalog, settings)
    if found and not _has_drifted(found, settings, engine):
        return found
    require_whole(engine, "packed_chunks")
    chunks = engine.table("packed_chunks").rows
    if not chunks:
        failed = "; ".join(f"{item.uri}: {item.message}" for item in engine.failures()[:5])
        raise IndexStateError(
            "no document gave any text, so there is nothing to make an index of"
            + (f" ({failed})" if failed else "; check the source's folder and its include and exclude patterns"),
            "no_text",
        )
    languages = corpus_languages(engine)
    words = corpus_words(engine)
    spec = resolve(settings.embedder, choose_preset(words))
    dimension = spec.dimension or embedder(spec).dimension
    models = installed_models(settings)
    statistics = {
        "packed_chunks": chunks,
        "languages": languages,
        "words": words,
        "models": {"static": models.static, "sentence_models": models.sentence_models, "prompts": dict(models.prompts)},
        "chunking": chunking_key(settings, models),
        "precision": "full" if settings.vector_index.precision == "full" else "half",
        "overlap": _floors([] if found else catalog.generations(), settings, engine, static),
    }
    return catalog.create_generation(
        generation_key(settings, models),
        settings.model_dump(mode="json", exclude=_PLACES),
        spec.as_json(),
        dimension,
        statistics,
        stage_keys(settings, frozen_from(statistics, spec.identity)),
    )


def kept_keys(settings: Settings, kept: Sequence[GenerationRow]) -> set[str]:
    """Return the keys of all results that these generations, or a run with these settings, may reuse."""
    keys = {key for row in kept for key in (row.schema, *row.keys.values())}
    for row in kept:
        if not row.keys:
            keys |= set(stage_keys(settings, frozen_of(row)).values())
    return keys | set(stage_keys(settings, text_models(settings)).values())


def _has_drifted(generation: GenerationRow, settings: Settings, engine: Engine) -> bool:
    """Say whether the size of the corpus has changed so much that its frozen statistics no longer describe it. A change
    of a few chunks never counts."""
    packed = engine.table("packed_chunks")
    before: int | None = generation.statistics.get("packed_chunks")
    if engine.unmade("packed_chunks") or packed.lost or before is None:
        return False
    small, large = sorted((before, packed.rows))
    return small > 0 and large - small >= LEAST_DRIFT and large > (1 + settings.publish.drift) * small


def require_frozen(found: GenerationRow | None) -> GenerationRow:
    """Return the generation that a run of some buckets found. Raise IndexStateError (`missing_input`) if it is
    missing."""
    if found is None:
        raise IndexStateError(
            "the statistics of the whole corpus were not frozen with these settings, and a run of some buckets does "
            "not do it; materialise corpus_statistics first",
            "missing_input",
        )
    return found


def require_whole(engine: Engine, table: str) -> None:
    """Require every bucket of a table, since statistics are frozen from the whole corpus, even if a backfill begins
    with some buckets.

    Raise IndexStateError (`missing_input`) if a bucket was never made.
    """
    missing = engine.unmade(table, lost=True)
    if missing:
        raise IndexStateError(
            f"a generation takes its statistics from all buckets, but {table} has not been made for bucket "
            f"{missing[0]:02d}{' and others' if len(missing) > 1 else ''}; materialise {STAGE_OF_TABLE[table].name} "
            "for all buckets first",
            "missing_input",
        )


def corpus_languages(engine: Engine) -> dict[str, int]:
    """Count the documents by language, over all buckets."""
    counts: Counter[str] = Counter()
    for read in engine.table("parsed_documents").pieces(["language"]):
        counts.update(read["language"].to_pylist())
    return dict(sorted(counts.items()))


def corpus_words(engine: Engine) -> dict[str, int]:
    """Count the words of all packed chunks by their documents' languages, in tokens of the chunking tokenizer.

    Documents without a known language count as OTHER_SCRIPT if most of their letters are not Latin."""
    languages = _languages(engine)
    counts: Counter[str] = Counter()
    for read in engine.table("packed_chunks").pieces(["doc_id", "tokens", "text"]):
        pairs = zip(read["doc_id"].to_pylist(), read["tokens"].to_pylist(), strict=True)
        for at, (doc_id, tokens) in enumerate(pairs):
            language = languages.get(doc_id) or UNKNOWN_LANGUAGE
            if language == UNKNOWN_LANGUAGE and not _mostly_latin(read["text"][at].as_py()):
                language = OTHER_SCRIPT
            counts[language] += tokens
    return dict(sorted(counts.items()))


def _mostly_latin(text: str) -> bool:
    letters = [letter < "\u0250" or "\u1e00" <= letter < "\u1f00" for letter in text if letter.isalpha()]
    return 2 * sum(letters) >= len(letters)


def _languages(engine: Engine) -> dict[str, str]:
    """Return the language of every document by its id."""
    languages: dict[str, str] = {}
    for read in engine.table("parsed_documents").pieces(["doc_id", "language"]):
        languages.update(zip(read["doc_id"].to_pylist(), read["language"].to_pylist(), strict=True))
    return languages


def _floors(
    others: Sequence[GenerationRow], settings: Settings, engine: Engine, static: StaticVectors
) -> Mapping[str, dict[str, Any]]:
    """Return overlap calibrations by language: inherited from the newest generation with the same chunking settings, or
    else computed."""
    from pipelines.indexing.overlap import CONDITIONAL, calibrations, cosines_of

    models = installed_models(settings)
    for generation in reversed(others):
        if generation.statistics.get("chunking") == chunking_key(settings, models):
            return dict(generation.statistics["overlap"])
    if not settings.chunking.overlap_tokens or settings.chunking.strategy != CONDITIONAL:
        return {}
    found = {language: static(chunks) for language, chunks in _chunks_by_language(engine).items()}
    cosines = {language: cosines_of(vectors, chunks) for language, (chunks, vectors) in found.items() if chunks}
    wanted = settings.chunking.overlap_floor
    made = calibrations(cosines, None if wanted == "auto" else wanted)
    return {language: asdict(calibration) for language, calibration in made.items()}


def _chunks_by_language(engine: Engine) -> dict[str, list[PackedChunk]]:
    """Return packed chunks by language in reading order, in order of document ids, at most _SAMPLE for each
    language."""
    languages = _languages(engine)
    grouped: dict[str, list[PackedChunk]] = {}
    for chunk in engine.table("packed_chunks").records():
        sample = grouped.setdefault(languages.get(chunk.doc_id, UNKNOWN_LANGUAGE), [])
        if len(sample) < _SAMPLE:
            sample.append(chunk)
    return dict(sorted(grouped.items()))


@dataclass(frozen=True, slots=True)
class Swap:
    """The progress of an asset under the present settings: `present` counts its documents made with them, in
    `generation` (None before it exists). Readers are served `served` documents from the generation `live`. It is
    `complete` if all of it is made with the present settings."""

    present: int
    served: int
    complete: bool
    generation: int | None
    live: int | None


def swap_of(catalog: Catalog, settings: Settings, engine: Engine, generation: GenerationRow | None, asset: str) -> Swap:
    """Return the progress of a stage, or of an asset in Postgres. `generation` is the settings' own, if known."""
    live, now = catalog.live(), generation or find_generation(catalog, settings)
    numbers = (now.generation if now else None, live.generation if live else None)
    if asset in STAGES:
        table = next(iter(STAGES[asset].tables))
        served = engine.table(table, key=live.keys[asset]).documents if live and asset in live.keys else 0
        return Swap(engine.table(table).documents, served, not engine.unmade(table), *numbers)
    present, others = (catalog.index_commits("indexed_documents", row.schema) if row else {} for row in (now, live))
    complete = (
        now is not None and numbers[0] == numbers[1] if asset == "search_index" else len(present) == settings.buckets
    )
    counts = [sum(commit.documents for commit in commits.values()) for commits in (present, others)]
    return Swap(counts[0], counts[1], complete, *numbers)


def floor_for(frozen: Frozen, language: str) -> float:
    from pipelines.indexing.overlap import EVERY, FALLBACK_FLOOR

    return frozen.floors.get(language, frozen.floors.get(EVERY, FALLBACK_FLOOR))
