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
from pipelines.llm.prompts import PromptTemplate, in_language, templates_of
from pipelines.parsing.pictures import IMAGE_HASH
from pipelines.ports import LanguageModel, Prompt, ReplyCheck
from pipelines.records import Element, RawDocument
from resources.hashes import bytes_hash
from resources.parsers.registry import MEDIA_TYPES, media_type_of
from resources.sources.files import Place
from resources.stages.enrichment import outcome_of, reply_check, require_answers
from resources.workers.read_figures import figure_images

if TYPE_CHECKING:
    from resources.state.stage_work import Compute, Makeshift, Outcome, Rows, Work
    from resources.state.state import State
    from resources.workers.pool import DocumentPool

STAGE, ROLE = "figure_descriptions", "figure"


@dataclass(frozen=True, slots=True)
class FigureTask:
    """The figures of one document, and the prompt in its language."""

    raw: RawDocument
    root: Place
    figures: Sequence[Element]
    template: PromptTemplate


def said_of(
    tasks: Iterable[FigureTask],
    model: LanguageModel,
    pool: DocumentPool,
    characters: int,
    unusable: ReplyCheck,
) -> dict[tuple[str, str], Said]:
    """By document and `image_hash_of`, what the model says of each picture: it is asked once in a language, however
    many documents show it. Each is read from its own document first: none is told of another's by naming its hash.
    Documents are read as far as the model asks ahead."""
    said: dict[tuple[str, str], Said] = {}
    shown: dict[tuple[str, str], list[tuple[str, str]]] = {}

    def prompts() -> Iterator[Prompt]:
        for task in tasks:
            pictures = distinct(task.figures)
            images = figure_images(pool, task.raw, task.root, list(pictures.values()))
            for (name, figure), image in zip(pictures.items(), images, strict=True):
                place = task.raw.doc_id, name
                if isinstance(image, str):
                    said[place] = image
                    continue
                key = _seen(task.raw, figure, image), task.template.language
                if key not in shown:
                    shown[key] = [place]
                    yield figure_prompt(task.template, image, key[0], characters)
                else:
                    shown[key].append(place)

    replies = list(model.replies(prompts(), unusable))
    for places, reply in zip(shown.values(), replies, strict=True):
        said.update(dict.fromkeys(places, reply))
    return said


def _seen(raw: RawDocument, figure: Element, image: bytes) -> str:
    """What tells a picture that was read from others: the hash that its bytes were found to have; of what a page shows
    in a box, that of the drawing, since more may be drawn there than the picture that the hash is of."""
    drawn = media_type_of(Path(raw.uri)) == MEDIA_TYPES[".pdf"]
    return bytes_hash(image) if drawn else figure.metadata[IMAGE_HASH]


def describe(state: State) -> Compute:
    """The compute of figure descriptions; nothing where the role is not given."""
    return _described(state) if ROLE in state.settings.bought else _nothing


def _nothing(works: Iterator[Work]) -> Iterator[Outcome]:
    for work in works:
        yield {doc_id: {STAGE: []} for doc_id in work.doc_ids}


def _described(state: State) -> Compute:
    def run(works: Iterator[Work]) -> Iterator[Outcome]:
        pending = list(works)
        if not pending:
            return
        templates = templates_of(ROLE, state.runner.frozen.prompts[ROLE])
        model, sources = state.language_model(ROLE, STAGE), {raw.doc_id: raw for raw in state.listing.raw_documents()}

        def task(work: Work, doc_id: str) -> FigureTask:
            language, raw = work.one("parsed_documents", doc_id).language, sources[doc_id]
            figures = figures_of(work.all("parsed_elements", doc_id))
            return FigureTask(raw, state.parts.sources.place(raw.source), figures, in_language(templates, language))

        tasks = (task(work, doc_id) for work in pending for doc_id in work.doc_ids)
        said = said_of(tasks, model, state.parts.pool, CHARACTERS, reply_check(templates.values(), CHARACTERS))
        for work in pending:
            made: dict[str, Rows | Makeshift] = {}
            for doc_id in work.doc_ids:
                own = task(work, doc_id)
                replies = {name: said[doc_id, name] for name in {image_hash_of(item) for item in own.figures}}
                require_answers(state, list(replies.values()), model)
                rows = figure_descriptions(own.figures, replies, model.name, before=work.before(STAGE, doc_id))
                made[doc_id] = outcome_of(STAGE, sources[doc_id], rows, list(replies.values()))
            yield made

    return run
