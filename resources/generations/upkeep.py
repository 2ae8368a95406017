"""The upkeep of generations beside the one that a run makes, so that they receive changes of documents too.

The live one is updated with its own settings and embedder before the new one is filled. The others, kept for a
rollback, receive deletions and changes of groups, so that none of them shows a document that nobody may see any more.
`prune` removes old generations: their tables, and unreferenced Parquet and raw files.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from pipelines.errors import ModelError, PinciteError, SettingsError, UsageError
from pipelines.ranges import bucket_range
from pipelines.records import RawDocument
from pipelines.stages import STAGES
from resources.engine import StageReport
from resources.postgres.catalog import IndexCommit, commit_index_rows, each_generation
from resources.postgres.generation_tables import GenerationTables
from resources.postgres.row_security import shut_where_damaged
from resources.postgres.statements import query
from resources.stages.indexed_documents import PARTS, IndexBuild
from resources.stages.make import freeze_terms, link_sentences, make, with_repair, write_index
from resources.state import generation as generations
from resources.state.listing import listing_output
from resources.state.run import Problems

if TYPE_CHECKING:
    from psycopg import Connection

    from resources.postgres.catalog import GenerationRow
    from resources.state.state import State

_BY_DOCUMENTS = tuple(name for name in STAGES if name not in ("raw_documents", "sentence_links"))


def update_other_generations(state: State) -> StageReport:
    """Update all generations but the one of the settings, as far as possible. If one fails, raise its error after the
    others are done."""
    return with_repair(state, lambda: _update_other_generations(state), before="parsed_elements")


def bring_up_to_date(state: State, asset: str, buckets: Sequence[int] | None = None) -> StageReport | None:
    """Bring the stage or the rows in Postgres that an asset makes up to date in these buckets, by default in all,
    without listing anything. Return its report, None for an asset that freezes something in the generation."""
    every = range(state.settings.buckets) if buckets is None else buckets
    if asset == "corpus_statistics":
        state.ensure_generation()
    elif asset == "term_statistics":
        freeze_terms(state)
    elif asset == "sentence_links":
        state.ensure_generation()
        return link_sentences(state)
    elif asset == "indexed_documents":
        return write_index(state, every)
    elif asset == "parsed_elements":
        with restricted_whatever(state):
            report = make(state, asset, every)
        restrict(state)
        return report
    else:
        return make(state, asset, every)
    return None


def nothing_to_keep(state: State) -> bool:
    """Say whether the generation of the settings is the only one."""
    target = generations.find_generation(state.catalog, state.settings)
    return all(target and row.generation == target.generation for row in state.catalog.generations())


def _update_other_generations(state: State) -> StageReport:
    report, started = StageReport("kept_generations"), time.perf_counter()
    target = generations.find_generation(state.catalog, state.settings)
    live = state.catalog.live()

    def bring(generation: GenerationRow) -> None:
        if target and generation.generation == target.generation:
            return
        if live and generation.generation == live.generation:
            _follow(state, generation, report)
        else:
            _withdraw(state, generation, report)

    each_generation(state.catalog, bring)
    report.seconds = time.perf_counter() - started
    state.run.reports[report.stage] = report
    return report


def _follow(state: State, live: GenerationRow, report: StageReport) -> None:
    """Apply all changes to the live generation. If its embedder is no longer available, or this version makes different
    chunks, apply only deletions and changes of groups, which need no new rows."""
    name = f"generation {live.generation}"
    try:
        beside = state.with_generation(live)
    except SettingsError as error:
        _withdraw(state, live, report)
        report.notes[name] = f"receives deletions and groups only: {error}"
        return
    if not generations.reproducible(live, beside.settings):
        _withdraw(state, live, report)
        report.notes[name] = "receives deletions and groups only: this version or its models make other chunks of it"
        return
    try:
        _update(state, beside, report)
    except ModelError as error:
        _withdraw(state, live, report)
        report.notes[name] = f"receives deletions and groups only: {error}"
    finally:
        beside.close()


def _update(state: State, beside: State, report: StageReport) -> None:
    from resources.generations.publish import AUDITED_SHARE

    buckets = range(beside.settings.buckets)
    for stage in _BY_DOCUMENTS:
        make(beside, stage, buckets)
    link_sentences(beside)
    written = write_index(beside, buckets)
    report.computed += written.computed
    report.gone += written.gone
    report.kept += written.kept
    report.written += written.written
    report.total += written.total
    embedded = [beside.run.reports[name] for name in ("chunk_embeddings", "sentence_embeddings")]
    report.notes["texts embedded"] = sum(each.notes["texts embedded"] for each in embedded)
    problems = _finish(beside, audited=written.computed + written.gone > AUDITED_SHARE * max(1, written.kept))
    if problems:
        report.notes[f"problems of generation {beside.ensure_generation().generation}"] = str(problems)


def _finish(beside: State, audited: bool) -> Problems:
    """Complete a generation that is in use; return the problems found."""
    from resources.checks.audit import standing_problems, tuned_audit
    from resources.checks.hnsw_recall import to_be_judged

    build = IndexBuild(beside)
    build.load_links()
    made = build.build_vector_indexes(live=True)
    audited = audited or bool(made.built) or to_be_judged(build.generation, build.index.counts())
    problems = tuned_audit(build, made, live=True) if audited else standing_problems(build.index)
    if not problems:
        beside.catalog.mark_built(build.generation.generation, listing_output(beside.engine))
    return problems


def restrict(state: State) -> None:
    """Apply new restrictions to every generation before any other work, so that a later failure leaves no document
    accessible: withheld documents are removed, and stricter groups take effect.

    A generation whose tables cannot be written is closed, and its error is raised after all others are restricted. A
    run of some buckets restricts only those.
    """
    from resources.state.access import hidden_documents

    report, hidden = StageReport("kept_generations"), hidden_documents(state)

    def restricts(doc_id: str, before: tuple[str, ...], now: tuple[str, ...] | None) -> bool:
        return doc_id in hidden if now is None else bool(now) and not (before and set(before) <= set(now))

    def reach(generation: GenerationRow) -> None:
        with shut_where_damaged(state.database, generation):
            with_repair(state, partial(_withdraw, state, generation, report, restricts), before="parsed_elements")

    each_generation(state.catalog, reach)


def _withdraw(
    state: State,
    generation: GenerationRow,
    report: StageReport,
    wanted: Callable[[str, tuple[str, ...], tuple[str, ...] | None], bool] = lambda doc_id, before, now: True,
) -> None:
    """Remove the documents that are no longer listed, and set the current groups of the others. Both apply only to
    documents for which `wanted`(id, groups before, groups now) is true."""
    from resources.state.access import groups_now

    index = GenerationTables(state.database, generation)
    gone: dict[int, list[str]] = {}
    regrouped: dict[int, dict[str, tuple[str, ...]]] = {}
    own = state.run.buckets
    for ids, groups in groups_now(state, generation):
        for doc_id, (bucket, before) in index.document_groups(*ids).items():
            if own is not None and bucket not in own:
                continue
            if doc_id not in groups:
                if wanted(doc_id, before, None):
                    gone.setdefault(bucket, []).append(doc_id)
            elif (now := groups[doc_id]) is not None and now != before and wanted(doc_id, before, now):
                regrouped.setdefault(bucket, {})[doc_id] = now
    committed = state.catalog.index_commits("indexed_documents", generation.schema)
    parts = state.catalog.index_commits(PARTS, generation.schema).values()
    buckets = generation.settings.get("buckets", state.settings.buckets)
    for bucket in sorted(gone.keys() | regrouped.keys()):
        last = committed.get(bucket_range(bucket, buckets)[0])
        changed = {*gone.get(bucket, ()), *regrouped.get(bucket, ())}

        def commit(
            connection: Connection[Any],
            left: str,
            rows: int,
            before: IndexCommit | None = last,
            touched: Collection[str] = changed,
        ) -> None:
            # The rows no longer match their inputs: they are written again, even if the inputs stay the same.
            own = [replace(before, output=left, rows=rows)] if before else []
            own += [row for row in parts if any(row.first <= doc_id < row.after for doc_id in touched)]
            commit_index_rows(connection, [replace(row, input="", run_id=state.run.id) for row in own])

        index.replace(bucket, [], gone.get(bucket, []), regrouped=regrouped.get(bucket), commit=commit)
    if gone and state.run.alone:  # dangling links stay for a while; publishing loads the links again
        index.delete_dangling_links()
    report.gone += sum(map(len, gone.values()))
    report.computed += sum(map(len, regrouped.values()))


@contextmanager
def restricted_whatever(state: State) -> Iterator[None]:
    """Apply the known restrictions even if a run or its listing fails in this context.

    Raise that error, with a note if the restrictions could not be written.
    """
    try:
        yield
    except Exception as error:
        try:
            _restrict_what_is_known(state)
        except PinciteError as failed:
            if isinstance(error, PinciteError) and str(failed) != str(error):
                error.args = (f"{error}; and what restricts documents does not hold everywhere: {failed}",)
            raise error from failed
        raise


def _restrict_what_is_known(state: State) -> None:
    try:
        if state.run.alone:
            state.listing.restrict()
    finally:
        restrict(state)


# ---------------------------------------------------------------- removal


def needed_raw_files(state: State, keys: Collection[str], kept: Iterable[GenerationRow]) -> set[str]:
    """Return the names of the raw files of all documents in a listing under these keys, or in the kept generations:
    while a run updates a generation, its rows belong to an earlier listing.

    Raise IndexStateError if a listing cannot be read, since its documents are then unknown.
    """
    from pipelines.schemas import from_table
    from resources.sources.stored_documents import names_of, wanted_names

    names = set[str]()
    for key in keys:
        for read in state.engine.table("raw_documents", key=key).reads(required=True):
            names |= wanted_names(from_table(RawDocument, read))
    for generation in kept:
        for content in GenerationTables(state.database, generation).content_hashes().values():
            names.update(names_of(content, mapped=True))
    return names


ASKED = ("hyde", "rerank", "answer")
"""Stages whose replies answer questions, so no stored row depends on them."""


def prune(state: State, keep: int, dry_run: bool = False) -> dict[str, Any]:
    """Drop all but `keep` generations; kept are first the live one, then the one for a rollback, then the newest. Drop
    the commits, failures and files that belong to no remaining generation.

    Files that no commit names are deleted too, and raw files in a store that nothing kept was made from. Replies of
    language models to questions are deleted; replies about documents are kept, since they were paid for. Imported
    vectors for the present settings are kept, with their generation.

    Return {"dropped", "kept", "files", "bytes"}. Raise UsageError for a `keep` under 1.
    """
    from resources.stages.embedded_items import imported_vectors as waiting

    if keep < 1:
        raise UsageError(f"--keep {keep}: keep at least 1; the live generation always stays")
    catalog, tables = state.catalog, state.parts.tables
    with state.database.exclusive("index"):
        live, previous = catalog.live(), catalog.previous()

        def worth(row: GenerationRow) -> tuple[bool, bool, int]:
            return live is not None and row.generation == live.generation, row.generation == previous, row.generation

        best = sorted(catalog.generations(), key=worth, reverse=True)
        sizes = tables.sizes()
        awaited, imported = waiting(state, sizes)
        kept = [row for at, row in enumerate(best) if at < keep or row == awaited]
        dropped = [row for row in best if row not in kept]
        keys = generations.kept_keys(state.settings, kept)
        needed = catalog.files_under(keys)
        garbage = sorted(sizes.keys() - needed - imported)
        stored = state.parts.sources.stored
        held = stored.stored_sizes() if stored else {}
        loose = sorted(held.keys() - needed_raw_files(state, keys, kept)) if held else []
        if not dry_run:
            for row in dropped:
                catalog.drop_generation(row)
            catalog.forget_keys(keys)
            tables.delete(garbage)
            if stored and loose:
                stored.delete(loose)
            with state.parts.replies.transaction() as connection:
                connection.execute(query("llm", "forget_replies"), {"stages": list(ASKED)})
    return {
        "dropped": sorted(row.generation for row in dropped),
        "kept": sorted(row.generation for row in kept),
        "files": len(garbage) + len(loose),
        "bytes": sum(sizes[name] for name in garbage) + sum(held[name] for name in loose),
    }
