"""The update of each stage of a state: the function that computes it, and the repair of damaged files.

Damage to a file is noticed when it is read. All committed files are then checked, a damaged one counts as never made,
and the earlier stages make it again: from the sources, from stored replies, and from vectors in other files. Each
document is processed by a worker process (resources/documents/pool.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

from pipelines.errors import IndexStateError, Waiting
from pipelines.plural import plural
from pipelines.stages import STAGE_OF_TABLE, STAGES
from resources.memory import give_back

if TYPE_CHECKING:
    from pipelines.ports import Progress
    from pipelines.records import RawDocument
    from pipelines.settings.base import Settings
    from pipelines.stages import Frozen
    from resources.documents.pool import DocumentPool, Result
    from resources.engine import Compute, Outcomes, StageReport, Works
    from resources.postgres.catalog import GenerationRow
    from resources.sources.registry import SourceRegistry
    from resources.stages.in_worker import Given, Options
    from resources.state.state import State


# ---------------------------------------------------------------- stages of text
#
# A stage is computed by a function from works to outcomes, which resources/engine/engine.py runs.


WINDOW = 64


def compute_of(state: State, stage: str) -> Compute:
    """Return the function that computes a stage of text."""
    from resources.stages import enrichment
    from resources.stages.in_worker import in_worker

    settings, progress = state.settings, state.run.progress_of(stage)
    if stage == "parsed_elements":
        return parse(state.parts.pool, settings, state.parts.sources, progress)
    if stage == "figure_descriptions":
        return enrichment.describe(state)
    if stage in ("document_summaries", "chunk_contexts"):
        return enrichment.enrich(state, stage)
    return in_worker(state, stage, OPTIONS[stage](settings, state.engine.frozen))


def parse(pool: DocumentPool, settings: Settings, sources: SourceRegistry, progress: Progress) -> Compute:
    """Return the function that parses documents. They are passed to workers in blocks of WINDOW, across parts, largest
    first, so that all workers are busy. Each part is returned, and committed, when it is complete."""
    from resources.documents.protocol import parse_task
    from resources.stages.in_worker import by_part

    def prepare(window: Sequence[RawDocument]) -> list[RawDocument]:
        sources.prepare(window)
        return sorted(window, key=lambda raw: -raw.size)

    def run(works: Works) -> Outcomes:
        def parse_each(given: Iterator[Given]) -> Iterator[tuple[str, Result]]:
            raws: Iterator[RawDocument] = (work.one("raw_documents", doc_id) for work, doc_id in given)
            windows = iter(lambda: list(islice(raws, WINDOW)), [])
            ordered = (raw for window in windows for raw in prepare(window))
            tasks = (parse_task(raw, sources.place(raw.source), settings.parsing) for raw in ordered)
            for task, result in pool.run(tasks, lambda: works.documents, progress):
                yield task.doc_id, result

        return by_part(works, parse_each)

    return run


# ---------------------------------------------------------------- options of each stage's tasks


def _chunks(settings: Settings, frozen: Frozen) -> Options:
    from resources.state.generation import floor_for

    return {
        "strategy": settings.chunking.strategy,
        "overlap_tokens": settings.chunking.overlap_tokens,
        "floors": dict(frozen.floors),
        "floor": floor_for(frozen, ""),
    }


OPTIONS: Mapping[str, Callable[[Settings, Frozen], Options]] = {
    "abbreviations": lambda settings, _: {},
    "structural_chunks": lambda settings, _: settings.chunking.model_dump(include={"clause_tokens", "max_tokens"}),
    "packed_chunks": lambda settings, _: settings.chunking.model_dump(
        include={"target_tokens", "max_tokens", "strategy"}
    ),
    "chunks": _chunks,
    "sentences": lambda settings, _: settings.sentences.model_dump(
        include={"min_characters", "min_words", "min_confidence", "form_labels"}
    ),
}
"""Options of a stage's tasks in resources/documents/tasks.py."""


# ---------------------------------------------------------------- bringing stages up to date


T = TypeVar("T")

_GONE = frozenset({"damaged_file", "missing_file"})
_BEFORE_GENERATIONS = ("parsed_elements", "figure_descriptions", "structural_chunks", "packed_chunks", "abbreviations")
"""Stages from which a generation's statistics are computed, and stages that do not need a generation."""


def make(state: State, stage: str, buckets: Sequence[int]) -> StageReport:
    """Update a partitioned stage of text or vectors. Damaged files of earlier stages are made again first."""
    return with_repair(state, lambda: _make(state, stage, buckets), before=stage)


def _make(state: State, stage: str, buckets: Sequence[int]) -> StageReport:
    if stage not in _BEFORE_GENERATIONS:
        state.ensure_generation()
    lost = lost_buckets(state, stage) if state.engine.damaged_files else set()
    buckets = sorted({*buckets, *state.run.rebuilt, *lost})
    if stage == "chunk_embeddings":
        require_replies(state)
    if stage in ("chunk_embeddings", "sentence_embeddings"):
        from resources.stages.embeddings import embed

        return embed(state, stage, buckets)

    def compute(works: Works) -> Outcomes:
        if next(iter(works), None):  # else a run that only removed documents would import the code of every stage
            yield from compute_of(state, stage)(works)

    if stage == "parsed_elements":
        state.warmup.import_models()
    before = len(state.run.models)
    report = state.run_stage(stage, buckets, compute)
    for model in state.run.models[before:]:
        report.notes.update({"model": model.name, "currency": state.settings.llm.currency, **asdict(model.spent)})
    return report


def require_replies(state: State) -> None:
    """Raise Waiting if documents of a generation that readers do not use wait for a batch: embedding it now would embed
    it twice."""
    waiting = {item.doc_id: item.message for item in state.engine.failures() if item.code == "pending"}
    if waiting and not state.serving:
        count = plural(len(waiting), "document waits", "documents wait")
        raise Waiting(
            f"{count} for a batch of the language model ({next(iter(waiting.values()))}); run `pincite index` "
            "again to collect it"
        )


def list_documents(state: State, buckets: Sequence[int], sources: Sequence[str], allow_deletions: bool) -> StageReport:
    """Commit the listing of the named sources, of all known ones by default."""

    def do() -> StageReport:
        lost = lost_buckets(state, "raw_documents")
        report = state.listing.commit(buckets, sources, lost, allow_deletions)
        state.run.rebuilt.update(lost)
        return state.run.report(report)

    return with_repair(state, do)


def guard(state: State, allow_deletions: bool) -> None:
    """Refuse the present listing if it would delete most of a source. Raise SourceError."""
    with_repair(state, lambda: state.listing.guard(allow_deletions))


def link_sentences(state: State) -> StageReport:
    """Update the links RELATED_TO of all sentences."""
    from resources.stages.sentence_links import link_sentences

    report = state.run.report(with_repair(state, lambda: link_sentences(state), before="sentence_links"))
    give_back()
    return report


def freeze_terms(state: State) -> GenerationRow:
    """Return the generation with its terms counted over all chunks, for the weights of the lexical index."""
    from resources.stages.indexed_documents import IndexBuild

    build = IndexBuild(state)
    with_repair(state, build.freeze_terms, before="indexed_documents")
    return build.generation


def write_index(state: State, buckets: Sequence[int]) -> StageReport:
    """Make the rows of these buckets in Postgres equal to Parquet."""
    from resources.stages.indexed_documents import IndexBuild

    def do() -> StageReport:
        return IndexBuild(state).write(sorted({*buckets, *state.run.rebuilt}))

    report = state.run.report(with_repair(state, do, before="indexed_documents"))
    give_back()
    return report


# ---------------------------------------------------------------- damaged files


def with_repair(state: State, do: Callable[[], T], before: str | None = None) -> T:
    """Call `do` and return its result. If it finds a damaged file, find all damaged files, make those of the stages
    before `before` again, and call `do` again. If `before` is not given, nothing is made again, since a later run does
    that."""
    told = set[str]()
    while True:
        try:
            return do()
        except IndexStateError as error:
            if error.code not in _GONE or str(error) in told:
                raise
            told.add(str(error))
        state.engine.mark_damaged(_keys(state))
        if before is not None:
            _remake(state, before)


def stage_after(asset: str) -> str:
    """Return the stage after a stage. Return any other name unchanged: every stage comes before it."""
    names = [*STAGES, "indexed_documents"]
    return names[names.index(asset) + 1] if asset in STAGES else asset


def _keys(state: State) -> set[str]:
    """Return the keys of all results under the present settings, and of the kept generations."""
    keys = {state.engine.key(stage) for stage in STAGES}
    keys.update(key for row in state.catalog.generations() for key in row.keys.values())
    return keys


def lost_buckets(state: State, stage: str) -> set[int]:
    """Return the buckets with a damaged or missing committed file of the stage, limited to those that this run may
    make."""
    count, own = state.settings.buckets, state.run.buckets
    found = {bucket for table in STAGES[stage].tables for bucket in state.engine.table(table).lost_buckets(count)}
    return found if own is None else found & own


def _remake(state: State, before: str) -> None:
    for stage in STAGES:
        if stage == before:
            return
        lost = lost_buckets(state, stage)
        if not lost:
            continue
        earlier = state.run.reports.get(stage)
        if stage == STAGE_OF_TABLE["raw_documents"].name:
            report = list_documents(state, sorted(lost), (), allow_deletions=False)
        elif not STAGES[stage].parted:
            report = link_sentences(state)
        else:
            report = make(state, stage, sorted(lost))
        if earlier:
            state.run.report(earlier.with_more(report))
        if STAGES[stage].parted:
            state.run.rebuilt.update(lost)
