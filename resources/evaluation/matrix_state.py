"""A state of its own for experiments: indexes under many settings side by side, none of them published.

All of it is that of an ordinary state, so documents are parsed once, a text is embedded once by each embedder, and
what an interrupted run committed is found again. Nothing prunes it. Of the user's state only the sources are read,
and what has been bought or embedded there is taken along: its Parquet files are linked, never written.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from pipelines.errors import IndexStateError, UsageError
from pipelines.fingerprint import combined, fingerprint
from pipelines.settings.base import Settings
from pipelines.settings.sources import SourceSettings
from pipelines.stages import STAGES
from resources.checks.audit import tuned_audit
from resources.checks.stages import before_publishing
from resources.llm.replies import BOUGHT_TABLES
from resources.postgres.address import address_of
from resources.stages.indexed_documents import IndexBuild
from resources.stages.make import link_sentences, make, write_index
from resources.state.committed_listing import adopt_listing, listing_output
from resources.state.generation import find_generation
from resources.state.run import Run, StageProgress
from resources.state.state import SHARED, State

if TYPE_CHECKING:
    from resources.parquet.tables import ParquetTables
    from resources.postgres.catalog import GenerationRow

EMBEDDED = "embedded"
MARKER = "made-by-matrix"
"""A file that says which database a state of experiments has, so that no other index is taken for one."""
REUSED = (*BOUGHT_TABLES, *STAGES["chunk_embeddings"].tables, *STAGES["sentence_embeddings"].tables)
_BY_DOCUMENTS = tuple(name for name in STAGES if name not in ("raw_documents", "sentence_links"))


@dataclass(frozen=True, slots=True)
class MadeIndex:
    """An index that stands. `content` is a hash of all that a question can meet in it; `failed` are the documents
    that are not in it; `seconds` is what making it took, None where it stood."""

    generation: GenerationRow
    content: str
    chunks: int
    failed: list[str]
    seconds: float | None


def under(state: State, settings: Settings) -> State:
    """The state of experiments under the settings of one run, with its listing; close it when its runs are done."""
    parts = state.parts.under(settings, *SHARED)
    return State(parts.project, state.run.beside(), parts, listed=state.listing.now())


def list_sources(state: State) -> None:
    """Commits the files of the settings' sources as they are now, in place of those listed before."""
    wanted = {source.name: source.path for source in state.settings.sources}
    for row in state.parts.catalog.sources():
        if wanted.get(row.name) != row.root:
            state.parts.catalog.remove_source(row.name)
    listed = state.listing.now()
    state.listing.keep_memberships()
    adopt_listing(state.runner, listed.documents, listed.failures)


def made_index(state: State) -> MadeIndex:
    """The index of these settings: found whole, or made from what there is and audited as one that is
    published. Raises PinciteError."""
    started, found = time.perf_counter(), find_generation(state.parts.catalog, state.settings)
    stood = found is not None and _standing(state, found)
    generation = state.ensure_generation() if stood else _made_anew(state)
    failed = sorted({f"{item.source}/{item.uri}" for item in state.runner.failures()})
    chunks = IndexBuild(state).index.counts()["chunks"]
    seconds = None if stood else time.perf_counter() - started
    return MadeIndex(generation, _content(state, generation), chunks, failed, seconds)


def _standing(state: State, found: GenerationRow) -> bool:
    """Whether it holds the files as they are listed now, in rows as they were left."""
    listed = found.built_at is not None and found.built_from == listing_output(state.runner)
    return listed and IndexBuild(state).standing()


def _made_anew(state: State) -> GenerationRow:
    buckets = range(state.settings.buckets)
    for stage in _BY_DOCUMENTS:
        make(state, stage, buckets)
    link_sentences(state)
    write_index(state, buckets)
    build = IndexBuild(state)
    build.load_links()
    made = build.build_vector_indexes(live=False)
    problems = build.missing_buckets() or [*before_publishing(state), *tuned_audit(build, made, live=False)]
    if problems:
        told = "; ".join(f"{code}: {message}" for code, message in problems[:5])
        raise IndexStateError(f"the index of these settings is not sound: {told}", "audit")
    state.parts.catalog.mark_built(build.generation.generation, listing_output(state.runner))
    return state.parts.catalog.generation(build.generation.generation) or build.generation


def _content(state: State, generation: GenerationRow) -> str:
    catalog = state.parts.catalog
    rows = [
        *catalog.manifest_of("indexed_documents", generation.schema).values(),
        *catalog.manifest_of("loaded_links", generation.schema).values(),
    ]
    outputs = combined(row.output for row in sorted(rows, key=lambda row: (row.table, row.bucket)))
    return fingerprint(generation.key, outputs, generation.statistics)


@contextmanager
def experiment_state(user: State, folder: Path, database: str, run_id: str, progress: StageProgress) -> Iterator[State]:
    """The state of experiments in a folder, open to this process alone, with the user's sources listed.

    Raises UsageError where the folder or the database holds an index that no matrix made, IndexStateError
    (`busy`) while another matrix runs in it."""
    sources = tuple(_sources(user))
    settings = user.project.settings.model_copy(update={"database": database, "sources": sources, "tables": None})
    state = State(replace(user.project, settings=settings, state=folder), Run(run_id, progress))
    try:
        _claim(state)
        with state.parts.database.exclusive("index"):
            _take_along(user, state)
            list_sources(state)
            yield state
    finally:
        state.close()


def _sources(user: State) -> list[SourceSettings]:
    """Those of the settings, and those that the user's state remembers where it holds an index."""
    if user.project.settings.tables or (user.project.state / "parquet").is_dir():
        return user.parts.sources.known()
    absolute = [{"path": str(user.project.resolve(source.path))} for source in user.project.settings.sources]
    return [
        source.model_copy(update=path) for source, path in zip(user.project.settings.sources, absolute, strict=True)
    ]


def _claim(state: State) -> None:
    folder, database = state.project.state, state.project.settings.database
    marker, shown = folder / MARKER, database if database == EMBEDDED else address_of(database).shown
    if marker.exists() and marker.read_text(encoding="utf-8") == shown:
        return
    if not marker.exists() and (folder / "parquet").exists():
        raise UsageError(
            f"{folder} holds an index that no matrix made, and experiments must not touch it; name another folder "
            "with --experiments"
        )
    if (database != EMBEDDED or (folder / "postgres").exists()) and state.parts.database.holds_catalog():
        raise UsageError(
            f"the database of the experiments ({shown}) holds an index already, and experiments must not touch it; "
            "give `database` in the matrix file an empty one, or leave it out"
        )
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    marker.write_text(shown, encoding="utf-8")


def _take_along(user: State, state: State) -> None:
    """Links files of the user's state whose vectors and replies count wherever they lie, by what they hold."""
    tables, own = user.parts.tables, state.project.state / "parquet"
    for table in REUSED:
        for name in tables.files(table):
            if not (own / name).exists():
                (own / name).parent.mkdir(parents=True, exist_ok=True)
                _link(tables, name, own / name)


def _link(tables: ParquetTables, name: str, target: Path) -> None:
    try:
        file = Path(tables.place(name))
        os.link(file, target)
    except (FileNotFoundError, IndexStateError):
        return  # pruned meanwhile
    except OSError:  # another disk, or one without links
        partial = target.with_suffix(".partial")
        shutil.copyfile(file, partial)
        os.replace(partial, target)
