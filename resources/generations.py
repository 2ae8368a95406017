"""The generation that the settings ask for: found, or made with its statistics frozen.

A generation freezes what is decided from the corpus: the preset where the settings say `auto`, and
the overlap floors. Generations that chunk alike share their floors, so that a change of embedder
moves no chunk.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from pipelines.errors import IndexStateError
from pipelines.indexing.overlap import CONDITIONAL, EVERY, FALLBACK_FLOOR, calibrations, cosines_of
from pipelines.ports import Vectors
from pipelines.records import PackedChunk
from pipelines.schemas import from_table
from pipelines.settings import Settings
from pipelines.stages import MAKER, Resolved, chunking_key, generation_key
from resources.embedders.factory import make_embedder
from resources.embedders.specs import EmbedderSpec, choose_preset, resolve, unresolved_identity
from resources.embedders.static import static_identity
from resources.text_worker import sentence_models_identity

if TYPE_CHECKING:
    from resources.catalog import Catalog, GenerationRow
    from resources.stage_runner import StageRunner

_SAMPLE = 2000

StaticVectors = Callable[[Sequence[str]], Vectors]
"""Texts to unit vectors of the chunking settings' own fast embedder."""


def find_generation(catalog: Catalog, settings: Settings) -> GenerationRow | None:
    """The newest generation made with these settings, weights and stage versions."""
    return catalog.find_generation(generation_key(settings, installed(settings)))


def text_models() -> Resolved:
    """The models of the chunking and sentence settings as they are installed."""
    return Resolved(static=static_identity(), sentence_models=sentence_models_identity())


def installed(settings: Settings) -> Resolved:
    """All models as they are here and now, before a generation has frozen anything."""
    return replace(text_models(), embedder=unresolved_identity(settings.embedder))


def spec_of(generation: GenerationRow) -> EmbedderSpec:
    return EmbedderSpec(**{**generation.embedder, "dimension": generation.dimension})


def resolved_of(generation: GenerationRow) -> Resolved:
    statistics = generation.statistics
    floors = {name: values["floor"] for name, values in statistics["overlap"].items()}
    return Resolved(floors, generation.embedder["identity"], **statistics.get("models", {}))


def ensure_generation(
    catalog: Catalog, settings: Settings, runner: StageRunner, static: StaticVectors
) -> GenerationRow:
    """The generation of these settings; made from what has been parsed and packed where there is none."""
    found = find_generation(catalog, settings)
    if found:
        return found
    require_whole(runner, "packed_chunks")
    if not sum(row.rows for row in runner.manifest("packed_chunks").values()):
        failed = "; ".join(f"{item.uri}: {item.message}" for item in catalog.failures()[:5])
        raise IndexStateError(
            "no document gave any text, so there is nothing to make an index of"
            + (f" ({failed})" if failed else "; check the source's folder and its include and exclude patterns"),
            "no_text",
        )
    languages = corpus_languages(runner)
    spec = resolve(settings.embedder, choose_preset(languages))
    dimension = spec.dimension or make_embedder(spec, settings.embedder).dimension
    models = installed(settings)
    statistics = {
        "languages": languages,
        "models": {"static": models.static, "sentence_models": models.sentence_models},
        "chunking": chunking_key(settings, models),
        "overlap": _floors(catalog, settings, runner, static),
    }
    key = generation_key(settings, models)
    return catalog.create_generation(key, settings.model_dump(mode="json"), spec.as_json(), dimension, statistics)


def require_whole(runner: StageRunner, table: str) -> None:
    """Statistics are frozen from the whole corpus, whatever buckets a backfill begins with.

    Raises IndexStateError where a bucket was never made."""
    made = runner.manifest(table)
    missing = [f"{bucket:02d}" for bucket in range(runner.settings.buckets) if bucket not in made]
    if missing:
        raise IndexStateError(
            f"a generation takes its statistics from all buckets, but {table} has not been made for {missing[0]}"
            f"{' and others' if len(missing) > 1 else ''}; materialise {MAKER[table].name} for all buckets first",
            "missing_input",
        )


def corpus_languages(runner: StageRunner) -> dict[str, int]:
    """Documents by language, over all buckets."""
    counts: Counter[str] = Counter()
    for row in runner.manifest("parsed_documents").values():
        counts.update(runner.tables.read(row.file, ["language"])["language"].to_pylist())
    return dict(sorted(counts.items()))


def _floors(
    catalog: Catalog, settings: Settings, runner: StageRunner, static: StaticVectors
) -> Mapping[str, dict[str, Any]]:
    """Calibrations by language: inherited from a generation that chunks alike, else made."""
    alike = chunking_key(settings, installed(settings))
    for generation in reversed(catalog.generations()):
        if generation.statistics.get("chunking") == alike:
            return dict(generation.statistics["overlap"])
    if not settings.chunking.overlap_tokens or settings.chunking.strategy != CONDITIONAL:
        return {}
    cosines = {
        language: cosines_of(static([chunk.text for chunk in chunks]), chunks)
        for language, chunks in _chunks_by_language(runner).items()
    }
    wanted = settings.chunking.overlap_floor
    made = calibrations(cosines, None if wanted == "auto" else wanted)
    return {language: asdict(calibration) for language, calibration in made.items()}


def _chunks_by_language(runner: StageRunner) -> dict[str, list[PackedChunk]]:
    """Packed chunks in reading order, from documents in order of id, up to a sample a language."""
    languages: dict[str, str] = {}
    for row in runner.manifest("parsed_documents").values():
        read = runner.tables.read(row.file, ["doc_id", "language"])
        languages.update(zip(read["doc_id"].to_pylist(), read["language"].to_pylist(), strict=True))
    grouped: dict[str, list[PackedChunk]] = {}
    for _, row in sorted(runner.manifest("packed_chunks").items()):
        for chunk in from_table(PackedChunk, runner.tables.read(row.file)):
            sample = grouped.setdefault(languages.get(chunk.doc_id, "und"), [])
            if len(sample) < _SAMPLE:
                sample.append(chunk)
    return dict(sorted(grouped.items()))


def floor_for(resolved: Resolved, language: str) -> float:
    return resolved.floors.get(language, resolved.floors.get(EVERY, FALLBACK_FLOOR))
