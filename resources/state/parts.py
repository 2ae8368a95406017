"""The services of a state (database, files, sources, workers, models), each opened at first use or earlier."""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pipelines.settings.base import Settings
from resources.child_process import protect_children
from resources.memory import without_collection
from resources.private_files import shut
from resources.settings_file import Project
from resources.sources.registry import SourceRegistry

if TYPE_CHECKING:
    from pipelines.stages import Frozen
    from resources.documents.pool import DocumentPool
    from resources.engine.tables import ParquetTables
    from resources.llm.model import BoughtModel
    from resources.llm.replies import ReplyStore
    from resources.models.embedders.loaded import Embedders
    from resources.object_store.objects import LocalCache, ObjectStore
    from resources.postgres.catalog import Catalog
    from resources.postgres.database import Database
    from resources.sources.stored_documents import StoredDocuments


# ---------------------------------------------------------------- warmup


FEW_BYTES = 32_000
"""Bytes of added files up to which no imports begin early, since the files are parsed sooner. An edited file does not
count, since most of its texts are known."""


class Warmup:
    """The early start of worker processes, and of the slow imports for an embedder that runs here."""

    def __init__(self, parts: Parts) -> None:
        self._parts, self._asked = parts, False
        self._threads: list[threading.Thread] = []

    def begin(self, folders: Iterable[Path]) -> None:
        """Begin to load what workers need if these folders have more than a few documents. A first run, which creates
        its database, need not wait for that before it loads them."""
        from resources.documents.pool import FEW_DOCUMENTS

        kinds = _kinds(folders)
        if kinds.total() > FEW_DOCUMENTS:
            self._parts.pool.begin(sorted(kinds))

    def start(self, documents: int, added_bytes: int) -> None:
        """Start the worker processes for `documents` documents. If enough bytes are added, allow the imports to begin
        while they parse."""
        self._parts.pool.warm(documents)
        self._asked = added_bytes > FEW_BYTES

    def import_models(self) -> None:
        """Begin the imports for a model that is named in the settings in a thread while this process waits for others.
        They begin once, and only after `start`. A shipped preset needs none of them on a processor."""
        embedder = self._parts.project.settings.embedder
        if self._asked and not self._threads and embedder.model is not None and embedder.endpoint is None:
            self._threads.append(threading.Thread(target=_import_models, daemon=True, name="warm"))
            self._threads[0].start()

    def join(self) -> None:
        """Wait for the imports to end. They may run only while this process waits for others, since two threads that
        share the interpreter are slower than one after the other."""
        for thread in self._threads:
            thread.join()


_LOOKED_AT = 100
"""Most files of all folders whose names are looked at to know which readers to load."""


def _kinds(folders: Iterable[Path]) -> Counter[str]:
    """Count the first files in these folders by media type."""
    from resources.parsers.registry import media_type_of

    names = (Path(name) for folder in folders for _, _, names in os.walk(folder) for name in names)
    kinds = (media_type_of(name) for name in islice(names, _LOOKED_AT))
    return Counter(kind for kind in kinds if kind is not None)


def _import_models() -> None:
    """Import the slow packages, so that the interpreter loads them while worker processes parse."""
    with without_collection():
        import sentence_transformers  # noqa: F401


# ---------------------------------------------------------------- parts


def _installed_models(settings: Settings) -> Frozen:
    """Return the installed models, for migrations of the database."""
    from resources.state.generation import installed_models

    return installed_models(settings)


T = TypeVar("T")


class _LazyPart(Generic[T]):
    """A part that was passed by name, or else is created by a function at first use."""

    def __init__(self, make: Callable[[Any], T]) -> None:
        self._make, self._name = make, make.__name__

    def __get__(self, parts: Parts, owner: type[Parts]) -> T:
        found: T = parts.open_part(self._name, self._make)
        return found


class Parts:
    """The parts of one state under one project's settings, each opened at first use.

    `given` maps names to replacements, or to parts that another object has opened and will close. The parts named in
    `lent` are those of `lender`, which opens and closes them.
    """

    def __init__(self, project: Project, lender: Parts | None = None, lent: Collection[str] = (), **given: Any) -> None:
        protect_children()
        if lender is None:
            shut(project.state)
        self.project = project
        self._lender, self._lent = lender, frozenset(lent)
        self._opened, self._given = dict(given), frozenset(given)

    def open_part(self, name: str, make: Callable[[Parts], Any]) -> Any:
        if name in self._lent:
            return getattr(self._lender, name)
        if name not in self._opened:
            self._opened[name] = make(self)
        return self._opened[name]

    @_LazyPart
    def database(self) -> Database:
        from resources.postgres.database import Database

        inputs = self.project.settings, _installed_models
        return Database(self.project.settings.database, self.project.state, inputs=inputs)

    @_LazyPart
    def catalog(self) -> Catalog:
        from resources.postgres.catalog import Catalog

        if not self.database.is_fenced:  # else it was done before the lock was taken
            self.database.migrate()
        return Catalog(self.database)

    @_LazyPart
    def store(self) -> ObjectStore | None:
        """Return the object store of tables and raw files, or None if tables are in the state folder and raw files stay
        in their sources."""
        address = self.project.settings.tables
        if not address:
            return None
        from resources.object_store import open_store

        return open_store(address)

    @_LazyPart
    def copies(self) -> LocalCache:
        from resources.object_store.objects import LocalCache

        return LocalCache(self.project.state / "cache", self.project.settings.tables_cache_mb << 20)

    @_LazyPart
    def tables(self) -> ParquetTables:
        from resources.engine.files import StoredFiles
        from resources.engine.tables import ParquetTables
        from resources.postgres.catalog import WrittenFiles

        if self.store is None:
            return ParquetTables(str(self.project.state / "parquet"))
        return ParquetTables(StoredFiles(self.store, self.copies, WrittenFiles(lambda: self.catalog.database)))

    @_LazyPart
    def replies(self) -> ReplyStore:
        from resources.llm.replies import ReplyStore

        return ReplyStore(self.database, self.tables)

    @_LazyPart
    def sources(self) -> SourceRegistry:
        return SourceRegistry(self.project, self.catalog, stored=self.stored_documents)

    @_LazyPart
    def stored_documents(self) -> StoredDocuments | None:
        """Return the raw files in the object store, if there is one."""
        if not self.store:
            return None
        from resources.sources.stored_documents import StoredDocuments

        return StoredDocuments(self.store, self.copies)

    @_LazyPart
    def pool(self) -> DocumentPool:
        from resources.documents.pool import DocumentPool

        state = self.project.state
        usable = state.is_dir() and os.access(state, os.W_OK)
        return DocumentPool(self.project.settings.parsing, state / "work" if usable else None)

    @_LazyPart
    def embedders(self) -> Embedders:
        from resources.models.embedders.loaded import Embedders

        return Embedders()

    @_LazyPart
    def language_model(self) -> Callable[..., BoughtModel]:
        """Return the function that makes the model of a role, from resources/llm/factory.py."""
        from resources.llm.factory import language_model

        return language_model

    def with_settings(self, settings: Settings, *lent: str) -> Parts:
        """Return the parts of the same state under other settings; the parts named in `lent` are shared."""
        return Parts(replace(self.project, settings=settings), self, lent)

    def release(self, name: str) -> None:
        """Close a part that was opened here. The next use opens it again."""
        part = None if name in self._given else self._opened.pop(name, None)
        if part is not None:
            part.close()

    def close(self) -> None:
        for name in ("pool", "database", "store"):
            self.release(name)
