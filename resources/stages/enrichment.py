"""Texts written by language models: document summaries, chunk contexts and descriptions of figures.

Prompts are sent as far ahead as the model takes them. Summaries and contexts may also be off or extractive. If a model
gives no usable text, an extractive one is kept and marked (FALLBACK). If a model has not replied yet, the last reply
for the same document or chunk is used, or else an extractive text (WAITING); the document counts as failed, and the
next run tries it again. Each picture is shown to a model once, however many documents have it.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pipelines.errors import ModelError
from pipelines.indexing.enrichment import (
    CHARACTERS,
    Said,
    context_prompts,
    distinct,
    figure_descriptions,
    figure_prompt,
    figures_of,
    summary_prompt,
)
from pipelines.llm.prompts import PromptTemplate, in_language, templates_of
from pipelines.llm.reply_text import clean, runs_of, unusable
from pipelines.parsing.formats import PAGED
from pipelines.parsing.pictures import IMAGE_HASH
from pipelines.ports import LanguageModel, NoReply, Prompt, Reply, ReplyCheck
from pipelines.records import (
    FALLBACK,
    LLM,
    OFF,
    WAITING,
    ChunkContext,
    DocumentSummary,
    Element,
    Failure,
    FigureDescription,
    RawDocument,
)
from pipelines.schemas import from_table
from pipelines.stages import STAGES
from resources.documents.protocol import Task
from resources.documents.requests import figure_images
from resources.engine import Fallback
from resources.hashes import bytes_hash
from resources.parsers.registry import media_type_of
from resources.sources.files import Place
from resources.stages.in_worker import Given, Options, by_part, in_worker, made_by_workers

if TYPE_CHECKING:
    from pipelines.settings.models import EnrichmentSettings
    from resources.documents.pool import DocumentPool
    from resources.engine import Compute, Outcomes, Work, Works
    from resources.state.state import State


# ---------------------------------------------------------------- prompts sent ahead, replies in order


T = TypeVar("T")
WINDOW = 256
"""Documents whose prompts are prepared together, so that all workers have some."""
MOST_WAITING = 10_000
"""Most documents that wait for replies, or are searched for prompts, before the first is returned; this bounds
memory."""


def windows(given: Iterator[Given]) -> Iterator[list[Given]]:
    """Yield documents in blocks of WINDOW, across works. The rows of a work are freed when the next block has none of
    its documents."""
    last: dict[str, Given] = {}
    while window := list(islice(given, WINDOW)):
        here = {each[0].part.first: each for each in window}
        for part in last.keys() - here.keys():
            last[part][0].forget()
        last = here
        yield window
    for work, _ in last.values():
        work.forget()


@dataclass
class _Asked(Generic[T]):
    item: T
    wanted: int = 0
    whole: bool = False
    """True after all of its prompts were taken."""
    said: list[Reply | NoReply] = field(default_factory=list)


def replies_by_document(
    model: LanguageModel, asked: Iterable[tuple[T, Iterable[Prompt]]], unusable: ReplyCheck
) -> Generator[tuple[T, list[Reply | NoReply]], None, None]:
    """Yield each item with the replies to its prompts, in order. Only items whose prompts the model has taken wait for
    replies, and items without prompts in between."""
    coming, waiting, more = iter(asked), deque[_Asked[T]](), True

    def prompts() -> Iterator[Prompt]:
        nonlocal more
        while len(waiting) < MOST_WAITING:
            found = next(coming, None)
            if found is None:
                more = False
                return
            taken = _Asked(found[0])
            waiting.append(taken)
            for prompt in found[1]:
                taken.wanted += 1
                yield prompt
            taken.whole = True

    def whole() -> Iterator[tuple[T, list[Reply | NoReply]]]:
        while waiting and waiting[0].whole and len(waiting[0].said) == waiting[0].wanted:
            done = waiting.popleft()
            yield done.item, done.said

    while more:
        with closing(model.replies(prompts(), unusable)) as replies:
            for reply in replies:
                yield from whole()  # items without prompts
                waiting[0].said.append(reply)
                yield from whole()
        yield from whole()
        assert not waiting, f"{model.name} left prompts unanswered"


# ---------------------------------------------------------------- summaries and contexts


Generated = DocumentSummary | ChunkContext


@dataclass(frozen=True, slots=True)
class Enrichment:
    """One kind of generated text. `identity` returns the key of a row. `mode`, `options` and `characters` come from the
    settings; `options` are for the form without a model. `off` returns a document's rows if the text is turned off.

    `prompts` returns a document's prompts, one for each of its rows, in their order.
    """

    stage: str
    role: str
    mode: str
    characters: int
    options: Options
    identity: Callable[[Any], str]
    off: Callable[[Work, str], Sequence[Generated]]
    prompts: Callable[[Work, str, PromptTemplate], Iterable[Prompt]]


def enrich(state: State, stage: str) -> Compute:
    """Return the function that computes `document_summaries` or `chunk_contexts`."""
    wanted = (_summaries if stage == "document_summaries" else _contexts)(state.settings.enrichment)
    if wanted.mode == OFF:
        return _compute_without_model(wanted)
    return _compute_by_model(state, wanted) if wanted.mode == LLM else in_worker(state, stage, wanted.options)


def _summaries(settings: EnrichmentSettings) -> Enrichment:
    characters, window = settings.summary_characters, settings.summary_window

    def prompts(work: Work, doc_id: str, template: PromptTemplate) -> Iterator[Prompt]:
        title, chunks = _title(work, doc_id), work.all("chunks", doc_id)
        yield summary_prompt(template, title, chunks, characters, window)

    return Enrichment(
        "document_summaries",
        "summary",
        settings.summary,
        characters,
        {"characters": characters, "window": window},
        lambda row: row.doc_id,
        lambda work, doc_id: [DocumentSummary(doc_id, "", OFF)],
        prompts,
    )


def _contexts(settings: EnrichmentSettings) -> Enrichment:
    characters, window = settings.context_characters, settings.context_window

    def without_model(work: Work, doc_id: str) -> Sequence[Generated]:
        rows = work.arrow("chunks", doc_id).select(["index", "chunk_id"]).to_pylist()
        return [ChunkContext(doc_id, row["index"], row["chunk_id"], "", OFF) for row in rows]

    def prompts(work: Work, doc_id: str, template: PromptTemplate) -> Iterator[Prompt]:
        title, chunks = _title(work, doc_id), work.all("chunks", doc_id)
        yield from context_prompts(template, title, chunks, characters, window)

    return Enrichment(
        "chunk_contexts",
        "context",
        settings.context,
        characters,
        {"characters": characters},
        lambda row: row.chunk_id,
        without_model,
        prompts,
    )


def _title(work: Work, doc_id: str) -> str:
    document = work.one("parsed_documents", doc_id)
    return "" if document.title_is_file_name else str(document.title)


def _compute_without_model(stage: Enrichment) -> Compute:
    def run(works: Works) -> Outcomes:
        for work in works:
            yield work, {doc_id: {stage.stage: stage.off(work, doc_id)} for doc_id in work.doc_ids}

    return run


@dataclass(frozen=True, slots=True)
class _Plain:
    """The rows of a document without a model, or the failure to make them."""

    work: Work
    task: Task
    rows: Sequence[Generated] | Failure


def _plain(state: State, stage: Enrichment, window: Sequence[Given]) -> list[_Plain]:
    record = STAGES[stage.stage].tables[stage.stage]
    made: dict[str, tuple[Task, Sequence[Generated] | Failure]] = {
        task.doc_id: (task, result if isinstance(result, Failure) else from_table(record, result.tables[stage.stage]))
        for task, result in made_by_workers(state, stage.stage, window, len(window), stage.options)
    }
    return [_Plain(work, *made[doc_id]) for work, doc_id in window]


def _compute_by_model(state: State, stage: Enrichment) -> Compute:
    """Return the function that buys a stage's texts. Prompts of all works go to the model in order, so that a few
    documents in many parts keep it busy. The rows without a model are made block by block and finished before the model
    is called, since waiting workers would count as hanging."""

    def run(works: Works) -> Outcomes:
        templates = templates_of(stage.role, state.engine.frozen.prompts[stage.role])
        model = state.language_model(stage.role, stage.stage)
        check = reply_check(templates.values(), stage.characters)

        def prompts(plain: _Plain) -> Iterable[Prompt]:
            if isinstance(plain.rows, Failure):
                return ()
            work, doc_id = plain.work, plain.task.doc_id
            language = work.one("parsed_documents", doc_id).language
            return stage.prompts(work, doc_id, in_language(templates, language))

        def make(given: Iterator[Given]) -> Iterator[tuple[str, Any]]:
            asked = ((plain, prompts(plain)) for window in windows(given) for plain in _plain(state, stage, window))
            for done, (plain, said) in enumerate(replies_by_document(model, asked, check), start=1):
                outcome: Any = plain.rows
                if not isinstance(plain.rows, Failure):
                    require_answers(state, said, model)
                    before = {
                        stage.identity(row): row for row in plain.work.earlier_rows(stage.stage, plain.task.doc_id)
                    }
                    bought = [
                        _row(row, reply, before.get(stage.identity(row)), stage.characters, model)
                        for row, reply in zip(plain.rows, said, strict=True)
                    ]
                    outcome = outcome_of(stage.stage, plain.task, bought, said)
                state.run.progress(stage.stage, done, works.documents)
                yield plain.task.doc_id, outcome

        return by_part(works, make)

    return run


def reply_check(templates: Iterable[PromptTemplate], characters: int) -> ReplyCheck:
    """Return a check of replies of about `characters` to prompts made from these templates."""
    told = runs_of(*(text for template in templates for text in (template.system, template.user)))
    return lambda reply: unusable(reply, characters, told)


def require_answers(state: State, said: Sequence[Any], model: Any) -> None:
    """Raise ModelError if the endpoint has stopped answering, unless readers use the generation: the live generation
    gets texts even then."""
    if model.gave_up and not state.serving:
        unanswered = (item for item in said if isinstance(item, NoReply) and item.code in ("unreachable", "rejected"))
        if failed := next(unanswered, None):
            raise ModelError(failed.message, failed.code)


def _row(plain: Generated, said: Reply | NoReply, before: Any, characters: int, model: Any) -> Generated:
    if isinstance(said, Reply):
        by = said.model or model.name
        return replace(plain, text=clean(said.text, characters), method=LLM, model=by, reply=said.key)
    if said.code == "unusable":
        return replace(plain, method=FALLBACK, model=model.name, reply=said.key, note=said.message)
    if before is not None and before.model in model.role.names and before.reply:
        by = before.model
        return replace(plain, text=before.text, method=WAITING, model=by, reply=before.reply, note=said.message)
    return replace(plain, method=WAITING, note=said.message)


def outcome_of(
    stage: str, raw: Any, rows: Sequence[Any], said: Sequence[Any]
) -> Mapping[str, Sequence[Any]] | Fallback:
    """Return the rows of a document, together with its failure if the model has not answered all of its prompts."""
    missing = [item for item in said if isinstance(item, NoReply) and item.code != "unusable"]
    if not missing:
        return {stage: rows}
    first = missing[0]
    message = first.message if len(missing) == 1 else f"{len(missing)} of {len(said)} without a reply: {first.message}"
    return Fallback({stage: rows}, Failure(raw.doc_id, raw.source, raw.uri, stage, first.code, message))


# ---------------------------------------------------------------- figure descriptions


STAGE, ROLE = "figure_descriptions", "figure"
MOST_SHOWN = 10_000
"""Most pictures whose replies are kept in memory. A picture shown again later gets its reply from the reply store."""


@dataclass(frozen=True, slots=True)
class FigureTask:
    """The figures of one document, the prompt in its language, and its rows from the last run."""

    raw: RawDocument
    root: Place
    figures: Sequence[Element]
    template: PromptTemplate
    before: Sequence[FigureDescription] = ()


@dataclass
class _ShownPicture:
    """A picture that was sent in one language, and its reply when it has arrived."""

    said: Said = ""


@dataclass
class _Pictures:
    """The pictures of a document, by `image_hash_of`; `own` has those that this document is the first to send."""

    task: FigureTask
    shown: dict[str, _ShownPicture] = field(default_factory=dict)
    own: list[_ShownPicture] = field(default_factory=list)


def said_of(
    tasks: Iterable[FigureTask],
    model: LanguageModel,
    pool: DocumentPool,
    characters: int,
    unusable: ReplyCheck,
    most_shown: int = MOST_SHOWN,
) -> Iterator[tuple[FigureTask, Mapping[str, Said]]]:
    """Yield each document with the replies to its pictures, by `image_hash_of`. The model sees a picture once per
    language, however many documents show it. Each document's picture is first read from that document, so a document
    cannot get the description of another's picture by stating its hash. Documents are read only as far ahead as the
    model takes prompts."""
    known: OrderedDict[tuple[str, str], _ShownPicture] = OrderedDict()

    def prompts(of: _Pictures) -> Iterator[Prompt]:
        task, pictures = of.task, distinct(of.task.figures)
        images = figure_images(pool, task.raw, task.root, list(pictures.values()))
        for (name, figure), image in zip(pictures.items(), images, strict=True):
            if isinstance(image, str):
                of.shown[name] = _ShownPicture(image)
                continue
            key = _picture_hash(task.raw, figure, image), task.template.language
            if key in known:
                known.move_to_end(key)
                of.shown[name] = known[key]
                continue
            of.shown[name] = known[key] = _ShownPicture()
            of.own.append(known[key])
            while len(known) > most_shown:
                known.popitem(last=False)
            yield figure_prompt(task.template, image, key[0], characters)

    asked = ((of, prompts(of)) for of in map(_Pictures, tasks))
    for of, replies in replies_by_document(model, asked, unusable):
        for shown, reply in zip(of.own, replies, strict=True):
            shown.said = reply
        yield of.task, {name: shown.said for name, shown in of.shown.items()}


def _picture_hash(raw: RawDocument, figure: Element, image: bytes) -> str:
    """Return the hash that identifies a picture: the hash of its bytes, or in a PDF the hash of the drawn box, since
    the page may show more there than the picture."""
    drawn = media_type_of(Path(raw.uri)) in PAGED
    return bytes_hash(image) if drawn else figure.metadata[IMAGE_HASH]


def describe(state: State) -> Compute:
    """Return the function that computes figure descriptions; without a model for the role it makes no descriptions."""
    return _compute_descriptions(state) if ROLE in state.settings.bought_roles else _nothing


def _nothing(works: Works) -> Outcomes:
    for work in works:
        yield work, {doc_id: {STAGE: []} for doc_id in work.doc_ids}


def _compute_descriptions(state: State) -> Compute:
    def run(works: Works) -> Outcomes:
        templates = templates_of(ROLE, state.engine.frozen.prompts[ROLE])
        model, check = state.language_model(ROLE, STAGE), reply_check(templates.values(), CHARACTERS)

        def tasks(given: Iterator[Given]) -> Iterator[FigureTask]:
            for window in windows(given):
                sources = state.listing.documents([doc_id for _, doc_id in window])
                for work, doc_id in window:
                    raw, language = sources[doc_id], work.one("parsed_documents", doc_id).language
                    figures, template = (
                        figures_of(work.all("parsed_elements", doc_id)),
                        in_language(templates, language),
                    )
                    root, before = state.parts.sources.place(raw.source), work.earlier_rows(STAGE, doc_id)
                    yield FigureTask(raw, root, figures, template, before)

        def describe(given: Iterator[Given]) -> Iterator[tuple[str, Mapping[str, Sequence[Any]] | Fallback]]:
            for task, said in said_of(tasks(given), model, state.parts.pool, CHARACTERS, check):
                replies = list(said.values())
                require_answers(state, replies, model)
                before = [row for row in task.before if row.model in model.role.names]
                rows = figure_descriptions(task.figures, said, model.name, before=before)
                yield task.raw.doc_id, outcome_of(STAGE, task.raw, rows, replies)

        return by_part(works, describe)

    return run
