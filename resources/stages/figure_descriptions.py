"""Figures shown to a model that sees: each picture once, however many documents have it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from pipelines.indexing.enrichment import (
    CHARACTERS,
    Said,
    distinct,
    figure_descriptions,
    figure_prompt,
    figures_of,
)
from pipelines.llm.prompts import PromptTemplate, in_language, templates_of
from pipelines.parsing.pictures import IMAGE_HASH
from pipelines.ports import LanguageModel, Prompt, ReplyCheck
from pipelines.records import Element, FigureDescription, RawDocument
from resources.hashes import bytes_hash
from resources.parsers.registry import MEDIA_TYPES, media_type_of
from resources.sources.files import Place
from resources.stages.answered import answered, windows
from resources.stages.by_worker import Given, by_shard
from resources.stages.enrichment import outcome_of, reply_check, require_answers
from resources.workers.document_requests import figure_images

if TYPE_CHECKING:
    from resources.state.stage_work import Compute, Makeshift, Outcomes, Rows, Works
    from resources.state.state import State
    from resources.workers.pool import DocumentPool

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
