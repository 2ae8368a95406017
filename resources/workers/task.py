"""What a worker of resources/workers/pool.py is asked to do: to one document, or to several small ones at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from pipelines.errors import code_of_map
from pipelines.records import Failure, RawDocument
from pipelines.schemas import to_table
from resources.parsers.registry import ELEMENTS, MEDIA_TYPES, OF_TEXT
from resources.sources.files import Place
from resources.workers.tasks import KINDS

if TYPE_CHECKING:
    import pyarrow as pa

    from pipelines.settings.base import ParsingSettings

PDF = MEDIA_TYPES[".pdf"]
PARSING = "parsed_elements"
MOST_PARTS_LOST = 5
"""Pages or pictures of one document, before it is given up."""
_BY_PAGE = ("parsed_elements", "look")


@dataclass(frozen=True, slots=True)
class Rows:
    """One input table out of records."""

    table: str
    record: type
    records: Sequence[Any]

    def __call__(self) -> dict[str, pa.Table]:
        return {self.table: to_table(self.record, self.records)}


@dataclass(frozen=True, slots=True)
class Framed:
    """A batch as it is sent: one frame, and how many bytes its tables may have."""

    frame: bytes
    most_bytes: int


def _none() -> Mapping[str, pa.Table]:
    return {}


@dataclass(frozen=True, slots=True)
class Task:
    """What is to be done to a document: a kind of resources/workers/tasks.py for a stage.

    `inputs` gives its rows when a worker is free, of about `size` bytes. A task that reads the file has `raw` and where
    it is read from, `root`; `without` are the parts of it that are left out, pages or pictures by number, where the
    worker says which one it begins; None where it does not, as in the first reading of a PDF."""

    kind: str
    doc_id: str
    source: str
    uri: str
    options: Mapping[str, Any] = field(default_factory=dict)
    inputs: Callable[[], Mapping[str, pa.Table]] = _none
    raw: RawDocument | None = None
    root: Place | None = None
    without: frozenset[int] | None = None
    stage: str = ""
    size: int = 0

    @property
    def together(self) -> bool:
        """Whether it may be given to a worker with others of its kind: no page of it has a time of its own."""
        return KINDS[self.kind].together and (self.raw is None or self.raw.media_type in OF_TEXT)

    @property
    def failing_stage(self) -> str:
        """The stage that a failure is told of."""
        return self.stage or self.kind

    def failure(self, code: str, message: str) -> Failure:
        if self.raw is not None and self.raw.media_type == ELEMENTS and self.failing_stage == PARSING:
            code = code_of_map(code)
        return Failure(self.doc_id, self.source, self.uri, self.failing_stage, code, message)

    def after_failure(self, page: int | None) -> Task | None:
        """How to go on when the worker failed, at `page` if that is known; None to give up."""
        if self.without is None:
            paged = self.raw is not None and self.raw.media_type == PDF and self.kind in _BY_PAGE
            return replace(self, without=frozenset()) if paged else None
        if page is None or len(self.without) == MOST_PARTS_LOST:
            return None
        return replace(self, without=self.without | {page})

    @property
    def file(self) -> dict[str, Any] | None:
        """What a worker is told of the file: not who may find it."""
        if self.raw is None:
            return None
        told = asdict(self.raw)
        return {name: told[name] for name in ("doc_id", "source", "uri", "content_hash", "size", "media_type", "title")}


def parse_task(raw: RawDocument, root: Place, settings: ParsingSettings, kind: str = PARSING) -> Task:
    """The task of parsing a file that is read from `root`."""
    ocr = {"mode": settings.ocr, "languages": list(settings.ocr_languages), "seconds": settings.ocr_seconds}
    options = {"ocr": ocr, "restricts": raw.groups != ()}
    return Task(kind, raw.doc_id, raw.source, raw.uri, options, raw=raw, root=root, stage=PARSING, size=raw.size)


@dataclass(frozen=True, slots=True)
class Batch:
    """What a worker is given at once: a task, or several of one kind and options that each take little. `inputs` are
    their rows, those of one document after those of the other."""

    tasks: tuple[Task, ...]
    inputs: Mapping[str, pa.Table]

    @property
    def first(self) -> Task:
        return self.tasks[0]

    @property
    def alone(self) -> bool:
        return len(self.tasks) == 1

    @property
    def doc_ids(self) -> list[str]:
        return [task.doc_id for task in self.tasks]

    def after_failure(self, page: int | None) -> list[Task]:
        """How to go on when the worker failed; nothing where its one document is given up. Of several nobody knows
        which did it: each is tried alone."""
        if not self.alone:
            return list(self.tasks)
        following = self.first.after_failure(page)
        return [following] if following else []


@dataclass(frozen=True, slots=True)
class Made:
    """A document's rows as a worker made them: a table by name, and the hash of the rows of each."""

    tables: Mapping[str, pa.Table]
    outputs: Mapping[str, str]
