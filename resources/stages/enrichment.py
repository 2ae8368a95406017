"""Texts written by language models: document summaries, chunk contexts and descriptions of figures.

Prompts are sent as far ahead as the model asks for. Summaries and contexts may also be off or extractive. If a model
gives no usable text, an extractive one is kept and marked (FALLBACK). If a model has not replied yet, the last reply
for the same document or chunk is used, else an extractive text (WAITING); the document is named as failed, and the next
run tries it again. Each picture is shown to a model once, however many documents have it.
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
from pipelines.llm.reply_text import cleaned, runs_of, unusable
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
from resources.hashes import bytes_hash
from resources.parsers.registry import MEDIA_TYPES, media_type_of
from resources.sources.files import Place
from resources.stages.by_worker import Given, Options, by_shard, by_worker, made_by_workers
from resources.state.stage_work import Makeshift
from resources.workers.document_requests import figure_images
from resources.workers.task import Task

if TYPE_CHECKING:
    from pipelines.settings.models import EnrichmentSettings
    from resources.state.stage_work import Compute, Outcomes, Rows, Work, Works
    from resources.state.state import State
    from resources.workers.pool import DocumentPool


# ---------------------------------------------------------------- answered
#
# Documents that a language model is asked about, each with the replies to its prompts: as far ahead as it asks.


T = TypeVar("T")
WINDOW = 256
"""Documents that are made ready for their prompts together."""
MOST_WAITING = 10_000
"""Documents that wait for replies, or in which prompts are looked for, before the first of them is handed back."""


def windows(given: Iterator[Given]) -> Iterator[list[Given]]:
    """Documents by WINDOW, however many works they are of. What was read of a work is let go of when none of the next
    are of it."""
    last: dict[int, Given] = {}
    while window := list(islice(given, WINDOW)):
        here = {each[0].shard: each for each in window}
        for shard in last.keys() - here.keys():
            last[shard][0].forget()
        last = here
        yield window
    for work, _ in last.values():
        work.forget()


@dataclass
class _Asked(Generic[T]):
    item: T
    wanted: int = 0
    whole: bool = False
    """Whether all of its prompts were taken."""
    said: list[Reply | NoReply] = field(default_factory=list)


def answered(
    model: LanguageModel, asked: Iterable[tuple[T, Iterable[Prompt]]], unusable: ReplyCheck
) -> Generator[tuple[T, list[Reply | NoReply]], None, None]:
    """Each of what is asked about with the replies to its prompts, in order. What waits for them is what the model has
    taken prompts of, and what stands between of which it is asked nothing."""
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
                yield from whole()  # what it is asked nothing about
                waiting[0].said.append(reply)
                yield from whole()
        yield from whole()
        assert not waiting, f"{model.name} left prompts unanswered"


# ---------------------------------------------------------------- enrichment
#
# The computes of summaries and contexts: off, extractive, or bought from a language model.
#
# What a model cannot say usefully is said extractively, and marked (FALLBACK). What it has not said yet,
# since its endpoint does not answer or a batch is under way, is its last reply for the same document or
# chunk, else extractive (WAITING); the document is named as failed, and tried again by the next run.


Generated = DocumentSummary | ChunkContext


@dataclass(frozen=True, slots=True)
class Enrichment:
    """One kind of generated text: `identity` tells its rows apart; `mode`, `options` and `characters` are of the
    settings, the options those of the form without a model; `off` makes a document's rows where it is off.

    `prompts` are a document's, one for each of its rows, in their order."""

    stage: str
    role: str
    mode: str
    characters: int
    options: Options
    identity: Callable[[Any], str]
    off: Callable[[Work, str], Sequence[Generated]]
    prompts: Callable[[Work, str, PromptTemplate], Iterable[Prompt]]


def enrich(state: State, stage: str) -> Compute:
    """The compute of `document_summaries` or `chunk_contexts`."""
    wanted = (_summaries if stage == "document_summaries" else _contexts)(state.settings.enrichment)
    if wanted.mode == OFF:
        return _off(wanted)
    return _bought(state, wanted) if wanted.mode == LLM else by_worker(state, stage, wanted.options)


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

    def off(work: Work, doc_id: str) -> Sequence[Generated]:
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
        off,
        prompts,
    )


def _title(work: Work, doc_id: str) -> str:
    document = work.one("parsed_documents", doc_id)
    return "" if document.title_is_file_name else str(document.title)


def _off(stage: Enrichment) -> Compute:
    def run(works: Works) -> Outcomes:
        for work in works:
            yield work, {doc_id: {stage.stage: stage.off(work, doc_id)} for doc_id in work.doc_ids}

    return run


@dataclass(frozen=True, slots=True)
class _Plain:
    """The rows of a document without a model, or why there are none."""

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


def _bought(state: State, stage: Enrichment) -> Compute:
    """Prompts of all works go to the model in order, so that few documents in many shards keep it busy. The rows
    without a model are made window by window, and whole before it is asked: workers that wait meanwhile would count as
    hanging."""

    def run(works: Works) -> Outcomes:
        templates = templates_of(stage.role, state.runner.frozen.prompts[stage.role])
        model = state.language_model(stage.role, stage.stage)
        check = reply_check(templates.values(), stage.characters)

        def prompts(plain: _Plain) -> Iterable[Prompt]:
            if isinstance(plain.rows, Failure):
                return ()
            work, doc_id = plain.work, plain.task.doc_id
            language = work.one("parsed_documents", doc_id).language
            return stage.prompts(work, doc_id, in_language(templates, language))

        def made(given: Iterator[Given]) -> Iterator[tuple[str, Any]]:
            asked = ((plain, prompts(plain)) for window in windows(given) for plain in _plain(state, stage, window))
            for done, (plain, said) in enumerate(answered(model, asked, check), start=1):
                outcome: Any = plain.rows
                if not isinstance(plain.rows, Failure):
                    require_answers(state, said, model)
                    before = {stage.identity(row): row for row in plain.work.before(stage.stage, plain.task.doc_id)}
                    bought = [
                        _row(row, reply, before.get(stage.identity(row)), stage.characters, model.name)
                        for row, reply in zip(plain.rows, said, strict=True)
                    ]
                    outcome = outcome_of(stage.stage, plain.task, bought, said)
                state.run.progress(stage.stage, done, works.documents)
                yield plain.task.doc_id, outcome

        return by_shard(works, made)

    return run


def reply_check(templates: Iterable[PromptTemplate], characters: int) -> ReplyCheck:
    """Judges replies of about `characters` to prompts made from these templates."""
    told = runs_of(*(text for template in templates for text in (template.system, template.user)))
    return lambda reply: unusable(reply, characters, told)


def require_answers(state: State, said: Sequence[Any], model: Any) -> None:
    """An endpoint that answers nobody ends the run of a generation that nobody is served from; into the
    live one, text goes all the same. Raises ModelError."""
    if model.gave_up and not state.serving:
        unanswered = (item for item in said if isinstance(item, NoReply) and item.code in ("unreachable", "rejected"))
        if failed := next(unanswered, None):
            raise ModelError(failed.message, failed.code)


def _row(plain: Generated, said: Reply | NoReply, before: Any, characters: int, model: str) -> Generated:
    if isinstance(said, Reply):
        return replace(plain, text=cleaned(said.text, characters), method=LLM, model=model, reply=said.key)
    if said.code == "unusable":
        return replace(plain, method=FALLBACK, model=model, reply=said.key, note=said.message)
    if before is not None and before.model == model and before.reply:
        return replace(plain, text=before.text, method=WAITING, model=model, reply=before.reply, note=said.message)
    return replace(plain, method=WAITING, note=said.message)


def outcome_of(
    stage: str, raw: Any, rows: Sequence[Any], said: Sequence[Any]
) -> Mapping[str, Sequence[Any]] | Makeshift:
    """The rows of a document; with its failure where the model has not answered all of its prompts."""
    missing = [item for item in said if isinstance(item, NoReply) and item.code != "unusable"]
    if not missing:
        return {stage: rows}
    first = missing[0]
    message = first.message if len(missing) == 1 else f"{len(missing)} of {len(said)} without a reply: {first.message}"
    return Makeshift({stage: rows}, Failure(raw.doc_id, raw.source, raw.uri, stage, first.code, message))


# ---------------------------------------------------------------- figure descriptions
#
# Figures shown to a model that sees: each picture once, however many documents have it.


STAGE, ROLE = "figure_descriptions", "figure"
MOST_SHOWN = 10_000
"""Pictures whose replies are remembered. What is shown again after so many others has the reply that is kept of it."""


@dataclass(frozen=True, slots=True)
class FigureTask:
    """The figures of one document, the prompt in its language, and its rows as they were made last."""

    raw: RawDocument
    root: Place
    figures: Sequence[Element]
    template: PromptTemplate
    before: Sequence[FigureDescription] = ()


@dataclass
class _Shown:
    """A picture that was shown in a language, and what was said of it when the reply is there."""

    said: Said = ""


@dataclass
class _Pictures:
    """The pictures of a document, by `image_hash_of`; `own` are those that it is the first to show."""

    task: FigureTask
    shown: dict[str, _Shown] = field(default_factory=dict)
    own: list[_Shown] = field(default_factory=list)


def said_of(
    tasks: Iterable[FigureTask],
    model: LanguageModel,
    pool: DocumentPool,
    characters: int,
    unusable: ReplyCheck,
    most_shown: int = MOST_SHOWN,
) -> Iterator[tuple[FigureTask, Mapping[str, Said]]]:
    """Each document with what the model says of its pictures, by `image_hash_of`: it is asked once in a language,
    however many documents show one. Each is read from its own document first: none is told of another's by naming its
    hash. Documents are read as far as the model asks ahead."""
    known: OrderedDict[tuple[str, str], _Shown] = OrderedDict()

    def prompts(of: _Pictures) -> Iterator[Prompt]:
        task, pictures = of.task, distinct(of.task.figures)
        images = figure_images(pool, task.raw, task.root, list(pictures.values()))
        for (name, figure), image in zip(pictures.items(), images, strict=True):
            if isinstance(image, str):
                of.shown[name] = _Shown(image)
                continue
            key = _seen(task.raw, figure, image), task.template.language
            if key in known:
                known.move_to_end(key)
                of.shown[name] = known[key]
                continue
            of.shown[name] = known[key] = _Shown()
            of.own.append(known[key])
            while len(known) > most_shown:
                known.popitem(last=False)
            yield figure_prompt(task.template, image, key[0], characters)

    asked = ((of, prompts(of)) for of in map(_Pictures, tasks))
    for of, replies in answered(model, asked, unusable):
        for shown, reply in zip(of.own, replies, strict=True):
            shown.said = reply
        yield of.task, {name: shown.said for name, shown in of.shown.items()}


def _seen(raw: RawDocument, figure: Element, image: bytes) -> str:
    """What tells a picture that was read from others: the hash that its bytes were found to have; of what a page shows
    in a box, that of the drawing, since more may be drawn there than the picture that the hash is of."""
    drawn = media_type_of(Path(raw.uri)) == MEDIA_TYPES[".pdf"]
    return bytes_hash(image) if drawn else figure.metadata[IMAGE_HASH]


def describe(state: State) -> Compute:
    """The compute of figure descriptions; nothing where the role is not given."""
    return _described(state) if ROLE in state.settings.bought else _nothing


def _nothing(works: Works) -> Outcomes:
    for work in works:
        yield work, {doc_id: {STAGE: []} for doc_id in work.doc_ids}


def _described(state: State) -> Compute:
    def run(works: Works) -> Outcomes:
        templates = templates_of(ROLE, state.runner.frozen.prompts[ROLE])
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
                    root, before = state.parts.sources.place(raw.source), work.before(STAGE, doc_id)
                    yield FigureTask(raw, root, figures, template, before)

        def described(given: Iterator[Given]) -> Iterator[tuple[str, Rows | Makeshift]]:
            for task, said in said_of(tasks(given), model, state.parts.pool, CHARACTERS, check):
                replies = list(said.values())
                require_answers(state, replies, model)
                rows = figure_descriptions(task.figures, said, model.name, before=task.before)
                yield task.raw.doc_id, outcome_of(STAGE, task.raw, rows, replies)

        return by_shard(works, described)

    return run
