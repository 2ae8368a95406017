"""The state for the experiments of a matrix: a separate state with several indexes, none of them published.

It works like an ordinary state, so an interrupted run finds its committed work. It is never pruned. Documents are
parsed once, and each embedder embeds a text once. The user's state is only read: its sources are listed, and its files
with paid replies and vectors are linked.
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
from pipelines.fingerprint import combine, fingerprint
from pipelines.settings.base import Settings
from pipelines.settings.sources import SourceSettings
from pipelines.stages import STAGES
from resources.checks.audit import tuned_audit
from resources.checks.stages import before_publishing
from resources.llm.replies import BOUGHT_TABLES
from resources.postgres.address import address_of
from resources.stages.indexed_documents import IndexBuild
from resources.stages.make import link_sentences, make, write_index
from resources.state.generation import find_generation
from resources.state.listing import listing_output, replace_listing
from resources.state.run import Run, StageProgress
from resources.state.state import SHARED, State

if TYPE_CHECKING:
    from resources.engine.tables import ParquetTables
    from resources.postgres.catalog import GenerationRow

EMBEDDED = "embedded"
MARKER = "made-by-matrix"
"""Name of the file with the database of a state of experiments, which prevents that another index is used as one."""
REUSED = (*BOUGHT_TABLES, *STAGES["chunk_embeddings"].tables, *STAGES["sentence_embeddings"].tables)
_BY_DOCUMENTS = tuple(name for name in STAGES if name not in ("raw_documents", "sentence_links"))


@dataclass(frozen=True, slots=True)
class MadeIndex:
    """A complete index. `content` is a hash of everything in it that questions can find; `failed` has the documents
    that are missing in it; `seconds` is the time that building it took, None if it already existed."""

    generation: GenerationRow
    content: str
    chunks: int
    failed: list[str]
    seconds: float | None


def open_experiment(state: State, settings: Settings) -> State:
    """Return the state of experiments under the settings of one run, with its listing; close it when its runs are
    done."""
    parts = state.parts.with_settings(settings, *SHARED)
    return State(parts.project, state.run.for_other_state(), parts, listed=state.listing.now())


def list_sources(state: State) -> None:
    """Commit the current files of the settings' sources, replacing the earlier listing."""
    wanted = {source.name: source.path for source in state.settings.sources}
    for row in state.catalog.sources():
        if wanted.get(row.name) != row.root:
            state.catalog.remove_source(row.name)
    listed = state.listing.now()
    state.listing.keep_memberships()
    replace_listing(state.engine, listed.documents, listed.failures)


def made_index(state: State) -> MadeIndex:
    """Return the index of these settings: a complete one, or one built from committed work and audited like a published
    one. Raise PinciteError."""
    started, found = time.perf_counter(), find_generation(state.catalog, state.settings)
    stood = found is not None and _up_to_date(state, found)
    generation = state.ensure_generation() if stood else _make_index(state)
    failed = sorted({f"{item.source}/{item.uri}" for item in state.engine.failures()})
    chunks = IndexBuild(state).index.counts()["chunks"]
    seconds = None if stood else time.perf_counter() - started
    return MadeIndex(generation, _content(state, generation), chunks, failed, seconds)


def _up_to_date(state: State, found: GenerationRow) -> bool:
    """Say whether the index contains the files of the current listing, and its rows are unchanged."""
    listed = found.built_at is not None and found.built_from == listing_output(state.engine)
    return listed and IndexBuild(state).is_unchanged()


def _make_index(state: State) -> GenerationRow:
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
    state.catalog.mark_built(build.generation.generation, listing_output(state.engine))
    return state.catalog.generation(build.generation.generation) or build.generation


def _content(state: State, generation: GenerationRow) -> str:
    catalog = state.catalog
    rows = [
        *catalog.index_commits("indexed_documents", generation.schema).values(),
        *catalog.index_commits("loaded_links", generation.schema).values(),
    ]
    outputs = combine(row.output for row in sorted(rows, key=lambda row: (row.table, row.first)))
    return fingerprint(generation.key, outputs, generation.statistics)


@contextmanager
def experiment_state(user: State, folder: Path, database: str, run_id: str, progress: StageProgress) -> Iterator[State]:
    """Open the state of experiments in a folder, to this process alone, with the user's sources listed.

    Raise UsageError if the folder or the database holds an index that no matrix made, IndexStateError (`busy`) while
    another matrix runs in it."""
    sources = tuple(_sources(user))
    settings = user.project.settings.model_copy(update={"database": database, "sources": sources, "tables": None})
    state = State(replace(user.project, settings=settings, state=folder), Run(run_id, progress))
    try:
        _claim(state)
        with state.database.exclusive("index"):
            _take_along(user, state)
            list_sources(state)
            yield state
    finally:
        state.close()


def _sources(user: State) -> list[SourceSettings]:
    """Return the sources of the settings; if the user's state has an index, also its remembered sources."""
    if user.project.settings.tables or (user.project.state / "parquet").is_dir():
        return user.parts.sources.known_sources()
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
            f"{folder} holds an index that no matrix made, which experiments must not change; name another folder "
            "with --experiments"
        )
    if (database != EMBEDDED or (folder / "postgres").exists()) and state.database.holds_catalog():
        raise UsageError(
            f"the database of the experiments ({shown}) holds an index already, and experiments must not touch it; "
            "give `database` in the matrix file an empty one, or leave it out"
        )
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    marker.write_text(shown, encoding="utf-8")


def _take_along(user: State, state: State) -> None:
    """Link the files of the user's state with vectors and replies, which are found by content and so are valid in any
    state."""
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
        return  # pruned in the meantime
    except OSError:  # another disk, or one that cannot link
        partial = target.with_suffix(".partial")
        shutil.copyfile(file, partial)
        os.replace(partial, target)
