"""The tasks on one document, which convert rows of input tables to rows of output tables, in a worker.

They are the stages of text, and the requests about one document outside an index run. The text is not trusted, so all
of this runs in a confined process (resources/workers/template.py), under limits of time and memory. It imports only
what its tasks need.
"""

from __future__ import annotations

import errno
import gc
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipelines.errors import DocumentError
from pipelines.increments import output_hash
from pipelines.indexing.abbreviations import abbreviations
from pipelines.indexing.enrichment import chunk_contexts, document_summary, own_text_chunks
from pipelines.indexing.indexed_documents import chunk_term_counts
from pipelines.indexing.overlap import CONDITIONAL, UNCONDITIONAL, with_overlap, with_own_overlap
from pipelines.indexing.packed_chunks import packed_chunks
from pipelines.indexing.sentences import NoiseRules, sentences
from pipelines.indexing.structural_chunks import structural_chunks
from pipelines.parsing.elements import Detect, build_elements
from pipelines.parsing.formats import second_reading
from pipelines.records import TABLES, FigurePicture, PagePicture, ParsedFile, RawDocument, StaticVector, tables
from pipelines.schemas import from_table, to_table
from resources.models.text_models import TextModels, detect_language, map_languages
from resources.workers.frames import Message, decode, encode

if TYPE_CHECKING:
    from resources.workers.template import Worker

Rows = Mapping[str, Sequence[Any]]
"""Records by table name."""


@dataclass(frozen=True, slots=True)
class TaskInput:
    """The input of a task: one document. `options` are plain values, `rows` the records of its input tables, `path` and
    `raw` its file if the task reads one.

    Call `report` with the number of each page or picture that has a time limit of its own. Call `again` with the error
    of a reader before another reader tries the document.
    """

    doc_id: str
    options: Mapping[str, Any]
    rows: Rows
    models: TextModels
    report: Callable[[int], None]
    path: Path | None = None
    raw: RawDocument | None = None
    characters: int = 0
    without: Sequence[int] | None = None
    again: Callable[[Exception], None] = lambda error: None

    def all(self, table: str) -> list[Any]:
        return list(self.rows[table])

    def one(self, table: str) -> Any:
        return self.rows[table][0]


@dataclass(frozen=True, slots=True)
class TaskType:
    """A kind of task: the tables that it makes, each name with the type of its records, and the function that does
    it."""

    tables: Mapping[str, type]
    make: Callable[[TaskInput], Rows]
    together: bool = False
    """True if several small documents may be given at once. A file that is read must also be of a text format
    (`Task.together`)."""


# ---------------------------------------------------------------- reading


def require_characters(uri: str, found: int, most: int) -> None:
    """Raise DocumentError `limit_exceeded` if a document yields more text than allowed."""
    if most and found > most:
        raise DocumentError(
            f"{uri}: gives over {most:,} characters of text, more than parsing.max_characters or, for a file of its "
            "size, parsing.max_expansion allows; raise them, or divide the file",
            "limit_exceeded",
        )


def parsed_file(raw: RawDocument, path: Path, characters: int = 0, **options: Any) -> ParsedFile:
    """Parse a file, with the options of `parse_file`.

    Raise DocumentError, with the code `limit_exceeded` if it yields more than `characters` characters (0 means no
    limit)."""
    from resources.parsers.registry import files_of, parse_file

    try:
        parsed = parse_file(files_of(path, raw.media_type)[0], raw.media_type, **options)
    except PermissionError:
        raise DocumentError(
            f"{raw.uri}: no permission to read the file; grant it and index again", "unreadable"
        ) from None
    except FileNotFoundError:
        raise DocumentError(
            f"{raw.uri}: the file was deleted before it was read; the next run lists its folder again", "unreadable"
        ) from None
    except OSError as error:
        if error.errno == errno.EINVAL:  # a package whose table of contents leads outside of it
            raise DocumentError(
                f"{raw.uri}: its parts are not at their stated positions; open it and save it again", "corrupt"
            ) from None
        raise DocumentError(
            f"{raw.uri}: the file cannot be read ({error.strerror}); check its disk", "unreadable"
        ) from None
    require_characters(raw.uri, _written_in(parsed), characters)
    return parsed


def _written_in(parsed: ParsedFile) -> int:
    """Count the characters of a parsed file: its runs, table cells, metadata and properties."""
    return sum(
        sum(len(run.text) for run in block.runs)
        + sum(len(run.text) for cell in block.cells for run in cell.runs)
        + sum(len(value) for value in block.metadata.values())
        for block in parsed.blocks
    ) + sum(len(value) for value in parsed.properties.values())


def _read(given: TaskInput) -> ParsedFile:
    from resources.parsers.ocr import OcrSettings
    from resources.parsers.registry import PageGuard

    assert given.raw and given.path
    ocr = OcrSettings(**{**given.options["ocr"], "languages": tuple(given.options["ocr"]["languages"])})
    guard = PageGuard(given.report, None if given.without is None else frozenset(given.without))
    restricts = given.options.get("restricts", True)
    more = {"restricts": restricts, **{name: given.options.get(name, False) for name in ("barcodes", "hidden")}}
    return parsed_file(given.raw, given.path, given.characters, guard=guard, ocr=ocr, **more)


def _elements(given: TaskInput, detect: Detect) -> tuple[ParsedFile, Rows]:
    """Read a file's elements. If its reader finds it damaged or empty, another reader tries it.

    If the second reader fails as well, the first reader's error is raised."""
    assert given.raw
    try:
        return _elements_by(given, detect)
    except Exception as error:  # an unexpected error of our reader counts as a damaged file
        other = _second_reading(given.raw, error)
        if other is None:
            raise
        first = error.with_traceback(None)
    given.again(first)
    raw = replace(given.raw, media_type=other)
    try:
        return _elements_by(replace(given, raw=raw), detect, first)
    except Exception:
        gc.collect()
    raise first


def _second_reading(raw: RawDocument, error: Exception) -> str | None:
    if isinstance(error, (MemoryError, RecursionError)):
        return None
    code = error.code if isinstance(error, DocumentError) else "corrupt"
    return second_reading(raw.media_type, Path(raw.uri).suffix.lower(), code)


def _elements_by(given: TaskInput, detect: Detect, first: Exception | None = None) -> tuple[ParsedFile, Rows]:
    assert given.raw
    parsed = _read(given)
    if first is not None:
        told = f"read by {parsed.origin}, since pincite's own reader ended with: {' '.join(str(first).split())[:300]}"
        parsed = replace(parsed, warnings=(told, *parsed.warnings))
    document, elements = build_elements(given.raw, parsed, detect)
    require_characters(given.raw.uri, len(document.body), given.characters)
    return parsed, {"parsed_documents": [document], "parsed_elements": elements}


def _parse(given: TaskInput) -> Rows:
    return _elements(given, detect_language)[1]


def _look(given: TaskInput) -> Rows:
    """Parse as `_parse` does, and return the parser's own output too. The language is not detected."""
    parsed, rows = _elements(given, lambda text: "")
    return {"parsed_files": [parsed], **rows}


# ---------------------------------------------------------------- stages of text


def _divide(given: TaskInput) -> Rows:
    made = structural_chunks(
        given.one("parsed_documents"),
        given.all("parsed_elements"),
        given.options["clause_tokens"],
        given.all("figure_descriptions"),
        given.options["max_tokens"],
    )
    return {"structural_chunks": made}


def _pack(given: TaskInput) -> Rows:
    options = given.options
    made = packed_chunks(
        given.all("structural_chunks"),
        given.all("parsed_elements"),
        options["target_tokens"],
        options["max_tokens"],
        options["strategy"],
        given.models.passages,
    )
    return {"packed_chunks": made}


def _overlap(given: TaskInput) -> Rows:
    """Overlap chunks: similar neighbours for structural chunks, all neighbours for recursive ones, none for others."""
    document, packed = given.one("parsed_documents"), given.all("packed_chunks")
    strategy, tokens = given.options["strategy"], given.options["overlap_tokens"]
    bodies = {document.doc_id: document.body}
    if strategy == CONDITIONAL and tokens:
        floors, every = given.options["floors"], given.options["floor"]
        vectors = given.models.passages([chunk.text for chunk in packed])
        made = with_overlap(packed, vectors, bodies, floors.get(document.language, every), tokens)
    else:
        made = with_own_overlap(packed, bodies, tokens if strategy == UNCONDITIONAL else 0)
    return {"chunks": made, "chunk_terms": [chunk_term_counts(chunk, document.title) for chunk in made]}


def _sentences(given: TaskInput) -> Rows:
    found, noise = sentences(
        given.one("parsed_documents"),
        given.all("parsed_elements"),
        given.all("structural_chunks"),
        given.all("chunks"),
        given.models.split,
        NoiseRules(**given.options),
    )
    return {"sentences": found, "filtered_sentences": noise}


def _abbreviations(given: TaskInput) -> Rows:
    return {"abbreviations": abbreviations(given.one("parsed_documents"), given.all("parsed_elements"))}


def _summary(given: TaskInput) -> Rows:
    order = [chunk.chunk_id for chunk in own_text_chunks(given.all("chunks"))]
    made = document_summary(
        given.doc_id, given.all("sentences"), order, given.options["characters"], given.options["window"]
    )
    return {"document_summaries": [made]}


def _contexts(given: TaskInput) -> Rows:
    document = given.one("parsed_documents")
    made = chunk_contexts(document, given.all("chunks"), given.all("sentences"), given.options["characters"])
    return {"chunk_contexts": made}


def _figures(given: TaskInput) -> Rows:
    from resources.documents.figures import figure_pictures

    assert given.raw and given.path and given.without is not None
    figures = given.all("parsed_elements")
    return {
        "figure_pictures": list(figure_pictures(given.path, given.raw.media_type, figures, given.report, given.without))
    }


def _pages(given: TaskInput) -> Rows:
    from resources.documents.figures import page_pictures

    assert given.path and given.without is not None
    drawn = page_pictures(given.path, given.options["pages"], given.report, given.without)
    return {"page_pictures": list(drawn)}


def _static_vectors(given: TaskInput) -> Rows:
    """Embed packed chunks, to calibrate the overlap floor."""
    chunks = given.all("packed_chunks")
    vectors = given.models.passages([chunk.text for chunk in chunks])
    rows = [
        StaticVector(given.doc_id, chunk.index, tuple(vector))
        for chunk, vector in zip(chunks, vectors.tolist(), strict=True)
    ]
    return {"static_vectors": rows}


_READ = ("parsed_documents", "parsed_elements")

TASK_TYPES: Mapping[str, TaskType] = {
    "parsed_elements": TaskType(tables(*_READ), _parse, together=True),
    "structural_chunks": TaskType(tables("structural_chunks"), _divide, together=True),
    "packed_chunks": TaskType(tables("packed_chunks"), _pack, together=True),
    "chunks": TaskType(tables("chunks", "chunk_terms"), _overlap, together=True),
    "sentences": TaskType(tables("sentences", "filtered_sentences"), _sentences, together=True),
    "abbreviations": TaskType(tables("abbreviations"), _abbreviations, together=True),
    "document_summaries": TaskType(tables("document_summaries"), _summary, together=True),
    "chunk_contexts": TaskType(tables("chunk_contexts"), _contexts, together=True),
    "look": TaskType({"parsed_files": ParsedFile, **tables(*_READ)}, _look),
    "figure_pictures": TaskType({"figure_pictures": FigurePicture}, _figures),
    "page_pictures": TaskType({"page_pictures": PagePicture}, _pages),
    "static_vectors": TaskType({"static_vectors": StaticVector}, _static_vectors, together=True),
}


# ---------------------------------------------------------------- function of a worker


class DocumentTasks:
    """The work of a worker on each batch of documents; implements resources/workers/template.py's Function."""

    def __init__(self, models: TextModels | None = None) -> None:
        self._models = models or TextModels()
        map_languages()

    def load(self, kinds: Sequence[str] = ()) -> None:
        from resources.parsers.registry import parser_of

        self._models.load()
        map_languages(make=True)
        detect_language("")
        for kind in kinds:
            with suppress(DocumentError):  # the document itself tells what is not installed
                parser_of(kind)

    def warm(self) -> None:
        detect_language("")

    def __call__(self, request: Message, worker: Worker) -> tuple[dict[str, Any], dict[str, Any]]:
        """Do a task. Return, for each stored table, the hash of each document's rows; and the tables made of the
        documents, encoded."""
        value, task = request.value, TASK_TYPES[request.value["task"]]
        models = self._models.watching(worker.loading)
        rows = {name: _by_document(from_table(TABLES[name], decode(blob))) for name, blob in request.blobs.items()}
        made = [
            task.make(
                TaskInput(
                    doc_id=told["doc_id"],
                    options=value["options"],
                    rows={name: own.get(told["doc_id"], []) for name, own in rows.items()},
                    models=models,
                    report=lambda number: worker.say("page", number=number),
                    path=Path(told["path"]) if told["path"] else None,
                    raw=_raw(told["raw"]),
                    characters=told["characters"],
                    without=value["without"],
                    again=lambda error: self._again(request, error, worker),
                )
            )
            for told in value["documents"]
        ]
        blobs = {
            name: encode(to_table(record, itertools.chain.from_iterable(each[name] for each in made)))
            for name, record in task.tables.items()
        }
        size = sum(len(blob) for blob in blobs.values())
        if size > value["most_bytes"]:
            raise DocumentError(
                f"{value['name']}: {value['stage']} makes {size >> 20:,} MB of output, far more than its input: "
                "divide the file",
                "limit_exceeded",
            )
        hashes = {name: [output_hash(each[name]) for each in made] for name in task.tables if name in TABLES}
        return {"outputs": hashes}, blobs

    def _again(self, request: Message, error: Exception, worker: Worker) -> None:
        """Report the error of a document whose reading is tried again, since the next attempt may end the process."""
        if len(request.value["documents"]) == 1:
            worker.say("again", **self.failure(request, error, worker))

    def failure(self, request: Message, error: Exception, worker: Worker) -> dict[str, Any]:
        """Return code and message of a failure."""
        code, message = _error_code_and_text(request.value, error, worker.memory_mb)
        return {"code": code, "message": message}


def _error_code_and_text(value: Mapping[str, Any], error: Exception, memory_mb: int) -> tuple[str, str]:
    name = str(value["name"])
    if isinstance(error, DocumentError):
        base = name.rsplit("/", 1)[-1]
        return error.code, str(error) if base in str(error) else f"{name}: {error}"
    if isinstance(error, MemoryError):
        gc.collect()
        return "limit_exceeded", f"{name}: needs more memory than parsing.memory_mb ({memory_mb}) allows"
    if isinstance(error, RecursionError):
        return "limit_exceeded", f"{name}: its structure is nested too deeply"
    reason = " ".join(f"{type(error).__name__}: {error}".split())[:300]
    if value["documents"][0]["path"] is None:
        return "corrupt", f"{name}: {value['stage']} cannot be made of it ({reason}); report this, with the file"
    return "corrupt", f"{name}: cannot be parsed ({reason}); open it and save it again"


def _by_document(rows: Iterable[Any]) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for row in rows:
        found.setdefault(row.doc_id, []).append(row)
    return found


def _raw(value: dict[str, Any] | None) -> RawDocument | None:
    """Return the listed file with the fields that parsing needs. The only one from its side-car is the title."""
    if value is None:
        return None
    raw = RawDocument("", "", "", "", 0, "", None, None, None, None, (), {})
    return replace(raw, **value)
