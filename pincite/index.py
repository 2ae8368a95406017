"""The Python API of an existing index: open_index() returns an Index, which has a method for every command that reads
it or changes which generation is served. pincite/run.py has the functions that create and update it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from datetime import datetime
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from pipelines.errors import IndexStateError, UsageError
from pipelines.settings.query import HITS
from resources.private_files import private_umask
from resources.search.search_options import SearchOptions
from resources.settings_file import Project, project_at
from resources.state.run import Run, silent

if TYPE_CHECKING:
    import polars as pl

    from pincite.parsed import Parsed
    from pipelines.evaluation.judging import OptionsUse
    from resources.evaluation.suggest import Example
    from resources.search.documents import SentenceInPlace, ServedDocuments
    from resources.search.page_pictures import IndexedFiles
    from resources.search.passages import Searcher
    from resources.state.state import State

Progress = Callable[[str, int, int], None]


def open_index(
    place: Project | str | Path | None = None,
    progress: Progress | None = None,
    *,
    new: bool = False,
    seconds: float | None = None,
) -> Index:
    """Open the index of a project, a settings file or a state folder; the default is the project of the current folder,
    as for the command.

    With `new` the index need not exist yet: methods such as plan() and parse() need none. Each SQL statement of a
    question may take `seconds`. Use the index as a context manager, or call close(). Raise IndexStateError if there is
    no index.
    """
    project = project_at(place)
    if not new and not project.state.is_dir():
        what = "is a file, and no state folder" if project.state.exists() else "does not exist"
        raise IndexStateError(
            f"no index exists yet: {project.state} {what}; run `pincite index FOLDER`, or name another with --state",
            "no_index",
        )
    return Index(project, progress, seconds)


class _Opened:
    """A state and the objects that search it, each opened at first use."""

    def __init__(self, project: Project, progress: Progress, seconds: float | None = None) -> None:
        self._project, self._progress, self._seconds = project, progress, seconds
        self._closing = ExitStack()

    @cached_property
    def state(self) -> State:
        from resources.state.state import State

        state = State(self._project, Run(progress=self._progress))
        self._closing.callback(state.close)
        return state

    @cached_property
    def searcher(self) -> Searcher:
        from resources.search.passages import Searcher

        return Searcher(self.state, seconds=self._seconds)

    @cached_property
    def documents(self) -> ServedDocuments:
        from resources.search.documents import ServedDocuments

        return ServedDocuments(self.state, self.searcher)

    @cached_property
    def files(self) -> IndexedFiles:
        from resources.search.page_pictures import IndexedFiles

        return IndexedFiles(self.state)

    def close(self) -> None:
        self._closing.close()


class Index:
    """An index that can be asked. Several threads may ask questions."""

    def __init__(self, project: Project, progress: Progress | None = None, seconds: float | None = None) -> None:
        self._project, self._progress, self._seconds = project, progress or silent, seconds
        self._opened = _Opened(self._project, self._progress, seconds)

    @property
    def _state(self) -> State:
        return self._opened.state

    @property
    def _searcher(self) -> Searcher:
        return self._opened.searcher

    def __enter__(self) -> Index:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._opened.close()

    @private_umask()
    def import_vectors(
        self, places: Sequence[str | Path], *, check: bool = False, unchecked: bool = False
    ) -> dict[str, Any]:
        """Import vectors of exported texts from files, folders and URIs. Return the JSON of `pincite import-vectors`.
        With `check` nothing is imported, only reported.

        With `unchecked` no vector is compared with the embedder's own. Refused files are in the result. Raise
        IndexStateError, ModelError or UsageError.
        """
        from resources.exchange.vectors import import_vectors

        return import_vectors(self._state, [str(place) for place in places], check, unchecked)

    def query(
        self,
        text: str,
        k: int = HITS,
        strategy: str | None = None,
        rerank: str | Sequence[str] | None = None,
        filters: Sequence[str] = (),
        groups: Sequence[str] = (),
        generation: int | None = None,
    ) -> dict[str, Any]:
        """Return the JSON of `pincite query`: the best k passages, each with document, page and boxes. `filters` have
        the form of `--filter`, such as `date>=2024-05`."""
        return self._searcher.query(text, SearchOptions.from_texts(k, strategy, rerank, filters, groups, generation))

    def ask(
        self,
        text: str,
        options: Sequence[str] | Mapping[str, str] = (),
        k: int = HITS,
        strategy: str | None = None,
        rerank: str | Sequence[str] | None = None,
        filters: Sequence[str] = (),
        groups: Sequence[str] = (),
        generation: int | None = None,
        found: Callable[[dict[str, Any]], None] | None = None,
    ) -> dict[str, Any]:
        """Return the JSON of `pincite ask`: an answer with the places that support it, or declined. `options` are
        answers to choose from, by letter. `found` is called with the passages before the answer is made."""
        from resources.search.answers import Answerer

        search = SearchOptions.from_texts(k, strategy, rerank, filters, groups, generation)
        return Answerer(self._state, self._searcher).ask(text, options, search, found)

    def show(
        self,
        chunk: str,
        image: str | Path | None = None,
        groups: Sequence[str] = (),
        generation: int | None = None,
    ) -> dict[str, Any]:
        """Return the JSON of `pincite show`: a passage by its chunk_id, or by the id's first characters if they are
        unique. If `image` names a file, draw the passage's page into it."""
        from resources.search.page_pictures import show

        found = self._searcher.chunk(chunk, groups, generation)
        return show(self._state, found, Path(image) if image is not None else None)

    @property
    def documents(self) -> ServedDocuments:
        """The documents that are served, and their text."""
        return self._opened.documents

    @property
    def files(self) -> IndexedFiles:
        """The files of documents, if they are unchanged since they were indexed, and pictures of their pages."""
        return self._opened.files

    def sentences_in_place(
        self, chunk_ids: Sequence[str], groups: Sequence[str] = (), generation: int | None = None
    ) -> dict[str, list[SentenceInPlace]]:
        """Return the sentences of passages, by chunk, each with its start in the passage's text and its boxes."""
        from resources.search.documents import sentences_in_place
        from resources.search.search_options import asked_groups

        with self._searcher.reading(generation) as (connection, index):
            index.ask_for(asked_groups(groups))
            return sentences_in_place(connection, index.generation.number, chunk_ids)

    def keep_connections(self, most: int) -> None:
        """Keep at most `most` idle connections to the database open between questions."""
        self._state.database.most_idle = most

    @private_umask()
    def evaluate(
        self,
        questions: str | Path | None,
        *,
        matrix: str | Path | None = None,
        experiments: str | Path | None = None,
        **options: Any,
    ) -> dict[str, Any]:
        """Return the JSON of `pincite eval`: {"runs"}; with a matrix file also "failed", "resumed", "tables",
        "results", "files". If `questions` is None, the feedback that waits for review is scored.

        A matrix makes separate indexes in the folder `experiments`, by default in the state folder.
        """
        if questions is None:
            from resources.evaluation.golden import evaluate_feedback

            return {"runs": [evaluate_feedback(self._state, **options)]}
        if matrix is None:
            from resources.evaluation.golden import evaluate

            return {"runs": [evaluate(self._state, Path(questions), **options)]}
        from resources.evaluation.matrix import FOLDER, asking_from, run_matrix

        folder = Path(experiments) if experiments is not None else self._project.state / FOLDER
        return run_matrix(self._state, Path(questions), Path(matrix), folder.resolve(), asking_from(**options))

    def suggest(
        self, count: int, groups: Sequence[str] = (), output: str | Path | None = None, **options: Any
    ) -> dict[str, Any]:
        """Return the JSON of `pincite eval --suggest`: {"questions", "model", "notes"}. `output` is a new file for the
        questions, in the form that `evaluate` reads."""
        from resources.evaluation.suggest import require_new, suggest, write_new

        if output is not None:
            require_new(Path(output))
        result = suggest(self._state, count, groups, **options)
        if output is not None:
            write_new(Path(output), result["questions"])
        return result

    def examples(self, count: int = 4) -> Iterator[Example]:
        """Yield example questions that this index answers, from a few public documents. They are made by the rules of
        `suggest`, and no language model is called."""
        from resources.evaluation.suggest import examples

        options = self._without_model()

        def answered_from(question: str) -> set[tuple[str, str]]:
            if options is None:
                found = self.ask(question)
                return (
                    {(item["source"], item["uri"]) for item in found["citations"]} if not found["declined"] else set()
                )
            return {(hit["source"], hit["uri"]) for hit in self._searcher.query(question, options)["hits"]}

        return examples(self.documents, answered_from, count)

    def _without_model(self) -> SearchOptions | None:
        """Return the search options that avoid a language model if the settings use one, or None if they use none."""
        from pipelines.query.rerankers import asks_model as reranking_asks
        from pipelines.query.routes import asks_model as strategy_asks

        settings = self._project.settings
        asks = settings.llm.asks("answer") or strategy_asks(settings.query.strategy)
        return SearchOptions.from_texts(1, "hybrid", ()) if asks or reranking_asks(settings.query.rerank) else None

    def explain(self, chunk: str, groups: Sequence[str] = (), generation: int | None = None) -> dict[str, Any]:
        """Return the JSON of `pincite explain`: how a passage was made, from its document to its vector."""
        from resources.reports.explain import explain

        return explain(self._state, self._searcher.chunk(chunk, groups, generation), groups)

    def verify(self) -> dict[str, Any]:
        """Return the JSON of `pincite verify`: {"ok", "problems": [{"code", "message"}], "notes"}."""
        from resources.checks.verify import verify

        return verify(self._state)

    def plan(self, sources: Sequence[str] = ()) -> dict[str, Any]:
        """Return the JSON of `pincite plan`: the work of the next run and its cost. Writes nothing and needs no index.

        `sources` are folders, as for `pincite index --source`; the default is all known sources.
        """
        from resources.reports.plan import plan

        return plan(self._project, sources, self._progress)

    def links(self, generation: int | None = None, groups: Sequence[str] = (), strongest: int = 5) -> dict[str, Any]:
        """Return the JSON of `pincite links`: the number of links between related sentences, their minimum cosine, and
        the strongest links."""
        from resources.evaluation.link_sweep import links

        return links(self._state, generation, groups, strongest)

    def sweep_links(
        self,
        thresholds: Sequence[float] = (),
        golden: str | Path | None = None,
        generation: int | None = None,
        groups: Sequence[str] = (),
        with_options: OptionsUse = "none",
    ) -> dict[str, Any]:
        """Return the JSON of `pincite links --sweep`: the links that other minimum cosines would give, and the scores
        of golden questions with them. Writes nothing."""
        from resources.evaluation.link_sweep import sweep

        file = Path(golden) if golden is not None else None
        return sweep(self._state, thresholds, file, generation, groups, with_options)

    def generations(self) -> list[dict[str, Any]]:
        """Return every generation with its rows, size, scores, and the reason if it is not live."""
        from resources.reports.status import generations

        return generations(self._state)

    @private_umask()
    def publish(self, generation: int, force: bool = False) -> dict[str, Any]:
        """Make a generation the live one: {"live", "previous"}. Raise IndexStateError if the generation may not be
        published."""
        from resources.generations.publish import publish_by_hand

        return publish_by_hand(self._state, generation, force)

    @private_umask()
    def rollback(self) -> dict[str, Any]:
        """Make the previous generation live again, until the next publish: {"live", "previous"}."""
        from resources.generations.publish import rollback

        return rollback(self._state)

    @private_umask()
    def prune(self, keep: int = 2, dry_run: bool = False) -> dict[str, Any]:
        """Drop old generations and their files: {"dropped", "kept", "files", "bytes"}."""
        from resources.generations.upkeep import prune

        return prune(self._state, keep, dry_run)

    def table(self, name: str) -> pl.LazyFrame:
        """Return a table of the live generation as a polars LazyFrame. Its files are read when you collect it, and only
        the columns that you select. It has all documents, including those that only some groups may see. See
        docs/guide/tables.md.

        Raise UsageError for an unknown name, and IndexStateError if nothing is published.
        """
        from resources.reports.tables import table

        return table(self._state, name)

    def status(self) -> dict[str, Any]:
        """Return the JSON of `pincite status`."""
        from resources.reports.status import status

        return status(self._state)

    def asked_status(self, groups: Sequence[str] = (), operator: bool = False) -> dict[str, Any]:
        """Return the parts of the state's status that an asker of these groups may see. An operator may see all."""
        from resources.reports.status import asked_status

        return asked_status(self._state, self._searcher, groups, operator)

    def read_at(self) -> dict[str, datetime]:
        """Return the time of the last complete reading of each source."""
        return {row.name: row.indexed_at for row in self._state.catalog.sources() if row.indexed_at}

    def sources(self) -> list[dict[str, Any]]:
        from resources.reports.status import sources

        return sources(self._state)

    def check_source(self, source: str) -> dict[str, Any]:
        """Return the JSON of `pincite sources check`: the first entries of a source, which is given by name or in the
        form of `--source`. Nothing is indexed, and no index is needed. Raise SourceError or UsageError."""
        from resources.reports.plan import known_source
        from resources.sources.check import check_source

        return check_source(known_source(self._project, source))

    def sync_access(self, sources: Sequence[str] = ()) -> list[dict[str, Any]]:
        """Read the members of these sources' principals again; the default is all sources. Return the JSON of `pincite
        sources sync-access`. Nothing is indexed, and a run in progress does not delay it. Raise UsageError for an
        unknown name."""
        from resources.state.access import sync

        return sync(self._state, sources)

    @private_umask()
    def remove_source(self, name: str) -> int:
        """Forget a source. Return the number of documents that the next index run will remove."""
        return self._state.listing.forget(name)

    def parse(self, file: str | Path, image: str | Path | None = None, pages: str | None = None) -> dict[str, Any]:
        """Return the JSON of `pincite parse`: the structural map of one file. If `image` names a folder, draw pictures
        of the pages there and return {"images", "warnings"}. `pages`, such as "3-7,12", are the pages to draw. No index
        is needed.

        Raise UsageError or DocumentError.
        """
        from pincite.parsed import pages_from

        if pages and image is None:
            raise UsageError("`pages` selects pages to draw; name a folder for the pictures as `image`")
        ranges = pages_from(pages) if pages else []
        with self.open_parsed(file) as found:
            return found.map() if image is None else found.draw(Path(image), ranges)

    def open_parsed(self, file: str | Path) -> AbstractContextManager[Parsed]:
        """Parse one file and return its records: `with index.parsed(file) as found` has found.reading and
        found.elements(). No index is needed. Raise UsageError or DocumentError."""
        from pincite.parsed import open_parsed

        return open_parsed(Path(file), self._project.settings.parsing, self._progress)
