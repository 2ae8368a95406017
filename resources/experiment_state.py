"""A state of its own for experiments: indexes under many settings side by side, none of them published.

All of it is that of an ordinary state, so documents are parsed once, a text is embedded once by each embedder, and
what an interrupted run committed is found again. Nothing prunes it. Of the user's state only the sources are read,
and what has been bought or embedded there is taken along: its Parquet files are linked, never written.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from pipelines.errors import IndexStateError, UsageError
from pipelines.fingerprint import combined, fingerprint
from pipelines.settings import Settings, SourceSettings
from pipelines.stages import STAGES
from resources.checks import before_publishing
from resources.connection_address import address_of
from resources.document_listing import adopt_listing, listing_output
from resources.generations import find_generation
from resources.llm.replies import BOUGHT_TABLES
from resources.workspace import Workspace

if TYPE_CHECKING:
    from resources.catalog import GenerationRow

EMBEDDED = "embedded"
MARKER = "made-by-matrix"
"""A file that says which database a state of experiments has, so that no other index is taken for one."""
REUSED = (*BOUGHT_TABLES, *STAGES["chunk_embeddings"].tables, *STAGES["sentence_embeddings"].tables)
_LENT = ("database", "catalog", "tables", "sources", "replies")
_BY_DOCUMENTS = tuple(name for name in STAGES if name not in ("raw_documents", "sentence_links"))

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class MadeIndex:
    """An index that stands. `content` is a hash of all that a question can meet in it; `failed` are the documents
    that are not in it; `seconds` is what making it took, None where it stood."""

    generation: GenerationRow
    content: str
    chunks: int
    failed: list[str]
    seconds: float | None


class ExperimentState(Workspace):
    """`under` gives the same state with the settings of one run."""

    def under(self, settings: Settings) -> ExperimentState:
        """Shares the database, the models and the listing; close it when its runs are done."""
        other = type(self)(replace(self.located, settings=settings), self.run_id, self.progress)
        other.__dict__.update({name: getattr(self, name) for name in _LENT})
        other._lent, other._embedders, other._checked = frozenset(_LENT), self._embedders, self._checked
        other._listed = self.listed()
        return other

    def list_sources(self) -> None:
        """Commits the files of the settings' sources as they are now, in place of those listed before."""
        wanted = {source.name: source.path for source in self.settings.sources}
        for row in self.catalog.sources():
            if wanted.get(row.name) != row.root:
                self.catalog.remove_source(row.name)
        listed = self.listed()
        adopt_listing(self.runner, listed.documents, listed.failures)

    def made(self) -> MadeIndex:
        """The index of these settings: found whole, or made from what there is and audited as one that is
        published. Raises PinciteError."""
        started, found = time.perf_counter(), find_generation(self.catalog, self.settings)
        stood = found is not None and self._standing(found)
        generation = self.ensure_generation() if stood else self._made_anew()
        failed = sorted({f"{item.source}/{item.uri}" for item in self.runner.failures()})
        chunks = self.index_build.index.counts()["chunks"]
        seconds = None if stood else time.perf_counter() - started
        return MadeIndex(generation, self._content(generation), chunks, failed, seconds)

    def _standing(self, found: GenerationRow) -> bool:
        """Whether it holds the files as they are listed now, in rows as they were left."""
        listed = found.built_at is not None and found.built_from == listing_output(self.runner)
        return listed and self.index_build.standing()

    def _made_anew(self) -> GenerationRow:
        buckets = range(self.settings.buckets)
        for stage in _BY_DOCUMENTS:
            self.make(stage, buckets)
        self.link_sentences()
        self.write_index(buckets)
        build = self.index_build
        build.load_links()
        build.index.build_vector_indexes(live=False)
        problems = build.missing_buckets() or [*before_publishing(self), *build.audit()]
        if problems:
            told = "; ".join(f"{code}: {message}" for code, message in problems[:5])
            raise IndexStateError(f"the index of these settings is not sound: {told}", "audit")
        self.catalog.mark_built(build.generation.generation, listing_output(self.runner))
        return self.catalog.generation(build.generation.generation) or build.generation

    def _content(self, generation: GenerationRow) -> str:
        rows = [
            *self.catalog.manifest_of("indexed_documents", generation.schema).values(),
            *self.catalog.manifest_of("loaded_links", generation.schema).values(),
        ]
        outputs = combined(row.output for row in sorted(rows, key=lambda row: (row.table, row.bucket)))
        return fingerprint(generation.key, outputs, generation.statistics)


@contextmanager
def experiment_state(
    user: Workspace, folder: Path, database: str, run_id: str, progress: Progress
) -> Iterator[ExperimentState]:
    """The state of experiments in a folder, open to this process alone, with the user's sources listed.

    Raises UsageError where the folder or the database holds an index that no matrix made, IndexStateError
    (`busy`) while another matrix runs in it."""
    sources = tuple(_sources(user))
    settings = user.settings.model_copy(update={"database": database, "sources": sources})
    state = ExperimentState(replace(user.located, settings=settings, state=folder), run_id, progress)
    try:
        _claim(state)
        with state.database.exclusive("index"):
            _take_along(user.located.state / "parquet", state)
            state.list_sources()
            yield state
    finally:
        state.close()


def _sources(user: Workspace) -> list[SourceSettings]:
    """Those of the settings, and those that the user's state remembers where it holds an index."""
    if (user.located.state / "parquet").is_dir():
        return user.source_settings()
    absolute = [{"path": str(user.located.resolve(source.path))} for source in user.settings.sources]
    return [source.model_copy(update=path) for source, path in zip(user.settings.sources, absolute, strict=True)]


def _claim(state: ExperimentState) -> None:
    folder, database = state.located.state, state.settings.database
    marker, shown = folder / MARKER, database if database == EMBEDDED else address_of(database).shown
    if marker.exists() and marker.read_text(encoding="utf-8") == shown:
        return
    if not marker.exists() and (folder / "parquet").exists():
        raise UsageError(
            f"{folder} holds an index that no matrix made, and experiments must not touch it; name another folder "
            "with --experiments"
        )
    if (database != EMBEDDED or (folder / "postgres").exists()) and state.database.holds_catalog():
        raise UsageError(
            f"the database of the experiments ({shown}) holds an index already, and experiments must not touch it; "
            "give `database` in the matrix file an empty one, or leave it out"
        )
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    marker.write_text(shown, encoding="utf-8")


def _take_along(parquet: Path, state: ExperimentState) -> None:
    """Links files of the user's state whose vectors and replies count wherever they lie, by what they hold."""
    own = state.located.state / "parquet"
    for table in REUSED:
        for file in (parquet / table).rglob("*.parquet"):
            target = own / file.relative_to(parquet)
            if not target.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                _link(file, target)


def _link(file: Path, target: Path) -> None:
    try:
        os.link(file, target)
    except FileNotFoundError:
        return  # pruned meanwhile
    except OSError:  # another disk, or one without links
        partial = target.with_suffix(".partial")
        shutil.copyfile(file, partial)
        os.replace(partial, target)
