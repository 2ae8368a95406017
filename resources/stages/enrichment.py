"""The computes of summaries and contexts: off, extractive, or bought from a language model.

What a model cannot say usefully is said extractively, and marked (FALLBACK). What it has not said yet,
since its endpoint does not answer or a batch is under way, is its last reply for the same document or
chunk, else extractive (WAITING); the document is named as failed, and tried again by the next run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pipelines.errors import ModelError
from pipelines.indexing.enrichment import context_prompts, summary_prompt
from pipelines.llm.prompts import PromptTemplate, in_language, templates_of
from pipelines.llm.reply_text import cleaned, runs_of, unusable
from pipelines.ports import NoReply, Prompt, Reply, ReplyCheck
from pipelines.records import FALLBACK, LLM, OFF, WAITING, ChunkContext, DocumentSummary, Failure
from pipelines.schemas import from_table
from pipelines.stages import STAGES
from resources.stages.answered import answered, windows
from resources.stages.by_worker import Given, Options, by_shard, by_worker, made_by_workers
from resources.state.stage_work import Makeshift
from resources.workers.task import Task

if TYPE_CHECKING:
    from pipelines.settings.models import EnrichmentSettings
    from resources.state.stage_work import Compute, Outcomes, Work, Works
    from resources.state.state import State

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
