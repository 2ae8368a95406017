"""Figures shown to a model that sees: each picture once, however many documents have it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pipelines.indexing.figures import (
    CHARACTERS,
    Said,
    distinct,
    figure_descriptions,
    figure_prompt,
    figures_of,
    image_hash_of,
)
from pipelines.ports import LanguageModel, Prompt, ReplyCheck
from pipelines.prompts import PromptTemplate, in_language, templates_of
from pipelines.records import Element, RawDocument
from resources.enriching import outcome_of, reply_check, require_answers
from resources.figures import figure_images

if TYPE_CHECKING:
    from resources.document_pool import DocumentPool
    from resources.stage_work import Compute, Outcome, Work
    from resources.workspace import Workspace

STAGE, ROLE = "figure_descriptions", "figure"


@dataclass(frozen=True, slots=True)
class FigureTask:
    """The figures of one document, and the prompt in its language."""

    raw: RawDocument
    root: Path
    figures: Sequence[Element]
    template: PromptTemplate


def said_of(
    tasks: Iterable[FigureTask],
    model: LanguageModel,
    pool: DocumentPool,
    characters: int,
    unusable: ReplyCheck,
) -> dict[tuple[str, str], Said]:
    """By image hash and language of the prompt, what the model says of each picture: it is asked once,
    however many documents show it. Documents are read as far as the model asks ahead."""
    said: dict[tuple[str, str], Said] = {}
    asked: list[tuple[str, str]] = []

    def prompts() -> Iterator[Prompt]:
        known: set[tuple[str, str]] = set()
        for task in tasks:
            pictures = {(name, task.template.language): figure for name, figure in distinct(task.figures).items()}
            new = {key: figure for key, figure in pictures.items() if key not in known}
            images = figure_images(pool, task.raw, task.root, list(new.values()))
            for key, image in zip(new, images, strict=True):
                if isinstance(image, str):
                    said[key] = image
                else:
                    known.add(key)
                    asked.append(key)
                    yield figure_prompt(task.template, image, key[0], characters)

    for at, reply in enumerate(model.replies(prompts(), unusable)):
        said[asked[at]] = reply
    return said


def describe(workspace: Workspace) -> Compute:
    """The compute of figure descriptions; nothing where the role is not given."""
    return _described(workspace) if ROLE in workspace.settings.bought else _nothing


def _nothing(works: Iterator[Work]) -> Iterator[Outcome]:
    for work in works:
        yield {doc_id: {STAGE: []} for doc_id in work.doc_ids}


def _described(workspace: Workspace) -> Compute:
    def run(works: Iterator[Work]) -> Iterator[Outcome]:
        pending = list(works)
        if not pending:
            return
        templates = templates_of(ROLE, workspace.runner.resolved.prompts[ROLE])
        model, sources = workspace.language_model(ROLE, STAGE), {raw.doc_id: raw for raw in workspace.raw_documents()}

        def task(work: Work, doc_id: str) -> FigureTask:
            language, raw = work.one("parsed_documents", doc_id).language, sources[doc_id]
            figures = figures_of(work.all("parsed_elements", doc_id))
            return FigureTask(raw, workspace.sources.root(raw.source), figures, in_language(templates, language))

        tasks = (task(work, doc_id) for work in pending for doc_id in work.doc_ids)
        said = said_of(tasks, model, workspace.pool, CHARACTERS, reply_check(templates.values(), CHARACTERS))
        for work in pending:
            made: dict[str, object] = {}
            for doc_id in work.doc_ids:
                own = task(work, doc_id)
                replies = {
                    name: said[name, own.template.language] for name in {image_hash_of(item) for item in own.figures}
                }
                require_answers(workspace, list(replies.values()), model)
                rows = figure_descriptions(own.figures, replies, model.name, before=work.before(STAGE, doc_id))
                made[doc_id] = outcome_of(STAGE, sources[doc_id], rows, list(replies.values()))
            yield made

    return run
