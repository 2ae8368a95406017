"""The scores of a generation on golden questions, the history of earlier scores, and the feedback from which new golden
questions are made."""

from __future__ import annotations

import csv
import fcntl
import json
import os
import shlex
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, fields, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from zipfile import BadZipFile

import numpy as np

from pipelines.errors import IndexStateError, UsageError
from pipelines.evaluation.document_map import DocumentMap
from pipelines.evaluation.golden import GoldenQuestion, MappedQuestion, golden_questions, map_questions
from pipelines.evaluation.imports import IMPORTS, Line, Row
from pipelines.evaluation.judging import Corpus, OptionsUse, Outcome, ask_all, question_for, run_json
from pipelines.fingerprint import fingerprint, text_hash
from pipelines.plural import plural
from pipelines.records import Element, ParsedDocument, RawDocument
from pipelines.schemas import from_table
from pipelines.settings.query import MEASURED_HITS
from resources.private_files import for_the_user
from resources.search.answers import Answerer
from resources.search.passages import Searcher
from resources.search.search_options import SearchOptions, filters_from

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pipelines.ports import Vectors
    from resources.engine import Part
    from resources.models.embedders.specs import EmbedderSpec
    from resources.postgres.catalog import Catalog, GenerationRow
    from resources.settings_file import Project
    from resources.state.state import State


# ---------------------------------------------------------------- score history


HEADLINE = ("recall@5", "accuracy_page")
_SHAPING = ("buckets", "parsing", "chunking", "sentences", "enrichment", "embedder")


def headline(run: Mapping[str, Any]) -> str:
    """Return the main scores of a run in a sentence, with their 95 % intervals if it has any."""
    parts = []
    for name in HEADLINE:
        value, interval = run["metrics"].get(name), (run.get("ci95") or {}).get(name)
        if value is not None:
            within = f" ({100 * interval[0]:.1f} to {100 * interval[1]:.1f})" if interval else ""
            parts.append(f"{name} {100 * value:.1f} %{within}")
    count = f" on {plural(run['n'], 'question')}" if "n" in run else ""
    return (", ".join(parts) or "no question has gold in this index") + count


def last_scores(catalog: Catalog, most: int) -> list[dict[str, Any]]:
    """Return the last rows of scores, the newest first: generation, at, questions, the headline's metrics, and the
    settings and models that differ from the generation scored before."""
    generations = {row.generation: row for row in catalog.generations()}
    rows = catalog.scores()
    shown = []
    for before, row in zip([None, *rows], rows, strict=False):
        now, then = generations.get(row["generation"]), generations.get(before["generation"]) if before else None
        changes = _changes(_shape(then), _shape(now)) if now and then else ()
        shown.append(
            {
                "generation": row["generation"],
                "at": row["at"][:16].replace("T", " "),
                "questions": row["name"],
                **{name: _percent(row["metrics"].get(name)) for name in HEADLINE},
                "changed": "; ".join(changes),
            }
        )
    return shown[::-1][:most]


def _percent(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.1f}"


def _shape(row: Any) -> dict[str, Any]:
    """Return the settings and the model that shaped a generation, by dotted keys."""
    shaping = {name: row.settings[name] for name in _SHAPING if name in row.settings}
    return {**dict(_flat(shaping)), "model": row.embedder["name"]}


def _flat(values: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{above}{name}.")
        else:
            yield f"{above}{name}", value


def _changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    for name in dict.fromkeys([*before, *now]):
        if before.get(name) != now.get(name):
            yield f"{name} {before.get(name)} → {now.get(name)}"


# ---------------------------------------------------------------- vectors of questions


MOST_KEPT = 20_000
"""Most vectors to keep in the file: 30 MB of the shipped models' vectors."""


class QuestionVectors:
    """The vectors of questions that runs of a state ask again and again, in a file. With them, a run that embeds
    nothing else loads no model."""

    def __init__(self, file: Path) -> None:
        self._file, self._used = file, set[tuple[str, bytes]]()
        self._known: dict[tuple[str, bytes], NDArray[np.float32]] = {}
        with suppress(OSError, ValueError, KeyError, BadZipFile), np.load(file, allow_pickle=False) as stored:
            for model in {name.partition(".")[0] for name in stored.files}:
                keys, vectors = stored[f"{model}.keys"].tolist(), stored[f"{model}.vectors"]
                self._known |= {(model, key): vector for key, vector in zip(keys, vectors, strict=True)}
        self._stored = len(self._known)

    def vectors_of(
        self, embedder: EmbedderSpec, texts: Sequence[str], embed: Callable[[Sequence[str]], Vectors]
    ) -> Vectors:
        """Return the vectors of questions by an embedder. Unknown ones are embedded, all at once."""
        model = fingerprint(embedder.as_json())
        keys = [(model, text_hash(text).encode()) for text in texts]
        new = {key: text for key, text in zip(keys, texts, strict=True) if key not in self._known}
        if new:
            self._known.update(zip(new, embed(list(new.values())), strict=True))
        self._used.update(keys)
        return np.stack([self._known[key] for key in keys])

    def save(self) -> None:
        """Write the file if there are new vectors: all that are known, or those used now if there are too many."""
        if len(self._known) == self._stored:
            return
        kept = self._known.keys() if len(self._known) <= MOST_KEPT else self._used
        arrays: dict[str, NDArray[Any]] = {}
        for model in {model for model, _ in kept}:
            own = [key for key in kept if key[0] == model]
            arrays[f"{model}.keys"] = np.array([key for _, key in own])
            arrays[f"{model}.vectors"] = np.stack([self._known[key] for key in own])
        written = self._file.with_suffix(".new")
        with written.open("wb") as stream:
            np.savez(stream, **arrays)  # type: ignore[arg-type]
        written.replace(self._file)


# ---------------------------------------------------------------- golden questions


def read_questions(file: Path) -> list[GoldenQuestion]:
    """Return the golden questions of a JSON-lines file. Raise UsageError that names the line and the key."""
    return golden_questions(_lines(file), str(file), filters_from)


def import_questions(kind: str, file: Path) -> list[Line]:
    """Return the questions of a file of other people's (one of IMPORTS) as lines that `read_questions` reads.

    Raise UsageError that names the place in the file, also if `read_questions` would refuse a line."""
    text = _text_of(file).removeprefix("\ufeff")
    if kind == "squad":
        try:
            content: Any = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise UsageError(f"{file}: not valid JSON ({error}); correct the file", "golden") from None
    else:
        content = _table_rows(text, file)
    lines = IMPORTS[kind](content, str(file))
    golden_questions(enumerate(lines, start=1), f"{file}, as imported", filters_from)
    return lines


def _table_rows(text: str, file: Path) -> Iterator[tuple[int, Row]]:
    """Yield (line of the file, non-empty cells by column). The separator is the comma, semicolon or tab: the one most
    frequent in the first line."""
    head = text.partition("\n")[0]
    reader = csv.reader(text.splitlines(keepends=True), delimiter=max(",;\t", key=head.count), strict=True)
    columns: list[str] = []
    try:
        for cells in reader:
            if not columns:
                columns = [name.strip() for name in cells]
                if twice := next((name for name in columns if name and columns.count(name) > 1), None):
                    raise UsageError(f"{file} line 1: column {twice!r} occurs twice; rename one", "golden")
            elif len(cells) > len(columns):
                table = f"a table of {plural(len(columns), 'column')}"
                raise UsageError(
                    f"{file} line {reader.line_num}: {plural(len(cells), 'cell')} in {table}; correct it", "golden"
                )
            elif any(cells):
                yield reader.line_num, {name: cell for name, cell in zip(columns, cells, strict=False) if cell.strip()}
    except csv.Error as error:
        raise UsageError(
            f"{file} line {reader.line_num}: not a table with separators ({error}); correct it", "golden"
        ) from None


_FORMS = {".csv": "csv", ".tsv": "csv", ".json": "squad"}
"""The form that `pincite eval --import` reads files of these endings in."""
_SHEETS = (".xlsx", ".xls", ".ods")


def _remedy(file: Path) -> str:
    if form := _FORMS.get(file.suffix.lower()):
        command = f"pincite eval --import {form} {shlex.quote(str(file))} --output questions.jsonl"
        return f"correct the line, or read a file of that form: {command}"
    return "correct the line"


def _text_of(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        sheet = file.suffix.lower() in _SHEETS
        told = "save the sheet as CSV, then pincite eval --import csv" if sheet else "check the file"
        raise UsageError(
            f"golden questions {file} cannot be read ({getattr(error, 'strerror', None) or error}); {told}"
        ) from None


def _lines(file: Path) -> Iterator[tuple[int, Any]]:
    """Yield (line number, value) of a JSON-lines file. Raise UsageError that names the line."""
    lines = _text_of(file).split("\n")  # strings may hold other ends of lines, such as U+2028
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
            json.dumps(value, ensure_ascii=False).encode()  # fails for half a surrogate pair, which is not valid text
        except (ValueError, RecursionError) as error:
            raise UsageError(f"{file}, line {number}: not valid JSON ({error}); {_remedy(file)}") from None
        yield number, value


def corpus_of(state: State) -> tuple[list[DocumentMap], Corpus]:
    """Return maps of all documents, and the spans of all chunks, under the state's settings."""
    raws = {raw.doc_id: raw for raw in state.listing.raw_documents()}
    parts = state.engine.parts(("parsed_documents", "parsed_elements"), require=True)
    maps = [made for part in parts for made in _maps(part, raws)]
    spans: dict[str, list[list[tuple[int, int]]]] = {}
    for read in state.engine.table("chunks").pieces(["doc_id", "spans"]):
        for doc_id, chunk in zip(read["doc_id"].to_pylist(), read["spans"].to_pylist(), strict=True):
            spans.setdefault(doc_id, []).append([(span["start"], span["end"]) for span in chunk])
    return maps, Corpus({made.doc_id: made for made in maps}, spans)


def _maps(part: Part, raws: dict[str, RawDocument]) -> Iterator[DocumentMap]:
    elements: dict[str, list[Element]] = {}
    for element in from_table(Element, part.read("parsed_elements")):
        elements.setdefault(element.doc_id, []).append(element)
    for document in from_table(ParsedDocument, part.read("parsed_documents")):
        raw = raws[document.doc_id]
        yield DocumentMap.from_elements(raw.source, raw.uri, document, elements.get(document.doc_id, []))


@dataclass(frozen=True, slots=True)
class Examination:
    """Golden questions with their gold mapped to one generation, ready for any settings of `query`."""

    generation: GenerationRow
    questions: list[MappedQuestion]
    unmapped: list[dict[str, Any]]
    corpus: Corpus


@dataclass(frozen=True, slots=True)
class Evaluated:
    """A run of golden questions. `run` is an element of `runs` in the JSON of `eval`; `outcomes` and `hits` (ids of the
    ranked chunks) are by question, in the order of the file."""

    run: dict[str, Any]
    outcomes: list[Outcome]
    hits: list[list[str]]


TOGETHER = 50
"""Questions that are asked in one transaction. A generation cannot be dropped before its end."""


def examination(state: State, questions: Sequence[GoldenQuestion], generation: GenerationRow) -> Examination:
    """Find the places that golden questions name in the documents of a generation."""
    maps, corpus = corpus_of(state.of_generation(generation))
    mapped, unmapped = map_questions(questions, maps)
    return Examination(generation, mapped, unmapped, corpus)


def examine(
    state: State,
    examination: Examination,
    name: str,
    *,
    k: int = MEASURED_HITS,
    strategy: str | None = None,
    rerank: str | Sequence[str] | None = None,
    groups: Sequence[str] = (),
    with_options: OptionsUse | None = None,
    answers: bool = False,
    exact: bool = False,
    vectors: QuestionVectors | None = None,
) -> Evaluated:
    """Ask all questions under the state's settings of `query`, one after the other. With `answers`, each is also
    answered as `pincite ask` answers it, a choice with its options. With `exact`, no vector index is used, since no two
    are built alike. Questions whose `vectors` are known are not embedded."""
    if k < 1:
        raise UsageError(f"k must be a whole number from 1, not {k}")
    searcher, settings = Searcher(state, exact), state.settings.query
    searcher.tools.vectors = vectors
    asked = SearchOptions.from_texts(k, strategy, rerank, groups=groups, generation=examination.generation.generation)
    chosen = settings.rerank if asked.rerank is None else asked.rerank
    found: list[list[str]] = []
    readings, reading = ExitStack(), searcher.asking(asked.generation)

    def options_within(golden: GoldenQuestion) -> SearchOptions:
        if not golden.filters and not golden.groups:
            return asked
        return replace(asked, filters=filters_from(golden.filters, tuple(dict.fromkeys((*groups, *golden.groups)))))

    def search(question: Any, most: int, golden: GoldenQuestion) -> Sequence[Any]:
        nonlocal reading
        if len(found) % TOGETHER == 0:
            readings.close()
            reading = readings.enter_context(searcher.asking(asked.generation))
        hits = searcher.retrieve(question, reading.index, replace(options_within(golden), k=most), reading).hits
        found.append([hit.passage.chunk_id for hit in hits])
        state.run.progress("questions", len(found), len(examination.questions))
        return hits

    def answering(golden: GoldenQuestion) -> dict[str, Any]:
        return answerer.ask(golden.question, golden.options, options_within(golden))

    answerer, with_options = Answerer(state, searcher), with_options or "none"
    if (strategy or settings.strategy) != "lexical":
        texts = [question_for(mapped, with_options).text for mapped in examination.questions]
        searcher.tools.prepare(examination.generation.embedder, texts)
    with readings:
        outcomes = ask_all(
            examination.questions,
            search,
            examination.corpus,
            time.perf_counter,
            k=k,
            options=with_options,
            answering=answering if answers else None,
        )
    run = run_json(
        outcomes,
        examination.unmapped,
        name=name,
        strategy=strategy or settings.strategy,
        rerank=[each for each in chosen if each != "none"],
    )
    return Evaluated(run, outcomes, found)


def evaluate(state: State, file: Path, *, generation: GenerationRow | None = None, **options: Any) -> dict[str, Any]:
    """Run the golden questions of a file on the live generation or another, and return an element of `runs` in the JSON
    of `eval`. `options` are those of `examine`.

    Raise IndexStateError if nothing is published yet."""
    return _evaluate(state, read_questions(file), file.stem, generation, options)


def evaluate_feedback(state: State, **options: Any) -> dict[str, Any]:
    """Run the unreviewed questions for which people named an answer, in the way of `evaluate`.

    Raise UsageError if there are none.
    """
    waiting = FeedbackFile(state.project.state).waiting()
    if not waiting:
        raise UsageError(
            "no feedback waits for review; people give it on the web page if serve.feedback is set", "golden"
        )
    questions = golden_questions(enumerate(golden_lines(waiting).values(), start=1), "feedback", filters_from)
    return _evaluate(state, questions, "feedback", None, options)


def _evaluate(
    state: State,
    questions: Sequence[GoldenQuestion],
    name: str,
    generation: GenerationRow | None,
    options: Mapping[str, Any],
) -> dict[str, Any]:
    asked = generation or state.catalog.live()
    if asked is None:
        raise IndexStateError("no generation is published yet; run `pincite index`", "no_index")
    return examine(state, examination(state, questions, asked), name, **options).run


# ---------------------------------------------------------------- feedback
#
# <state>/feedback.jsonl holds what people said of hits: whether a passage answers the question that it was found for.
# Only the owner of the state may read it. A line waits until an operator accepts it, which adds a golden question to
# the file of publish.golden, or rejects it. Its id stays for a while, so that a replay is not reviewed again. Several
# processes may write: one at a time reads the file, and replaces it whole.


FEEDBACK = "feedback.jsonl"
ACCEPTED, REJECTED = "accepted", "rejected"
LONGEST_QUESTION, LONGEST_QUOTE, LONGEST_NAME = 1_000, 1_000, 200
"""Most characters of a stored question, of a quotation, and of the name of an asker."""
MOST_WAITING, MOST_OF_ONE, MOST_AN_HOUR = 2_000, 500, 100
"""Most waiting lines in all and of one asker, and most lines that one asker may add in an hour, since a person reviews
all of them."""
MOST_BYTES: Final = 8 << 20
MOST_DECIDED = 5_000
"""Most ids of decided lines that are kept; the last ones are kept."""
_ID = 12


@dataclass(frozen=True, slots=True)
class Feedback:
    """A question, a place in a document, and whether the place answers it. `groups` are the groups of the asker, if the
    document is restricted. `at` is a time of UTC in ISO form."""

    question: str
    answers: bool
    source: str
    uri: str
    page: int | None
    quote: str
    groups: tuple[str, ...]
    asked_by: str
    at: str
    generation: int

    @property
    def id(self) -> str:
        """The id of a verdict, which is the same for both verdicts of an asker on one place for one question."""
        return text_hash(json.dumps([*self._place, self.asked_by]))[:_ID]

    @property
    def golden_id(self) -> str:
        """Return the id of the golden question, which is the same for all askers."""
        return f"{'asked' if self.answers else 'asked-not'}-{text_hash(json.dumps(self._place))[:_ID]}"

    @property
    def _place(self) -> list[Any]:
        return [self.question.casefold(), self.source, self.uri, self.page, self.quote]


def golden_line(said: Feedback) -> dict[str, Any]:
    """Return feedback as a golden question. A wrong place is stated by its text, if any, since another passage of its
    page may be right."""
    page = {"page": said.page} if said.page is not None and (said.answers or not said.quote) else {}
    quote = {"quote": said.quote} if said.quote else {}
    return {
        "id": said.golden_id,
        "question": said.question,
        "gold" if said.answers else "wrong": [{"uri": said.uri, "source": said.source, **page, **quote}],
        **({"groups": list(said.groups)} if said.groups else {}),
        "note": f"feedback of {said.at[:10]}",
    }


def golden_lines(said: Iterable[Feedback]) -> dict[str, dict[str, Any]]:
    """Return feedback as golden questions, by id. If several people gave the same feedback, the last is used."""
    return {line["id"]: line for line in map(golden_line, said)}


class FeedbackFile:
    """The feedback of one state."""

    def __init__(self, state: Path) -> None:
        self._state, self._file = state, state / FEEDBACK

    def waiting(self) -> list[Feedback]:
        """Return the feedback that nobody has reviewed, in order of arrival. Raise IndexStateError if the file is
        damaged."""
        return list(self._read()[0].values())

    def add(self, said: Feedback) -> bool:
        """Store a verdict, replacing an earlier one by the same asker; return False if it is already stored.

        Raise IndexStateError `too_many` if too many wait for review.
        """
        with self._changing() as (waiting, decided):
            if said.id in decided:
                return False
            if (known := waiting.get(said.id)) is not None:
                waiting[said.id] = said
                return known.answers != said.answers
            _require_room(list(waiting.values()), said)
            waiting[said.id] = said
            return True

    def decide(self, ids: Sequence[str], decision: str) -> None:
        """Mark lines as decided, after which they no longer wait."""
        with self._changing() as (waiting, decided):
            for each in ids:
                if waiting.pop(each, None) is not None:
                    decided[each] = decision
            for each in list(decided)[:-MOST_DECIDED]:
                del decided[each]

    def find(self, ids: Sequence[str]) -> list[Feedback]:
        """Return the waiting lines with these ids, which may be shortened. Raise UsageError for an id that matches no
        line or several lines."""
        waiting, found = self._read()[0], dict[str, Feedback]()
        for each in ids:
            named = [name for name in waiting if each and name.startswith(each)]
            if len(named) != 1:
                told = f"several lines begin with it: {', '.join(sorted(named))}" if named else "no feedback has it"
                raise UsageError(f"id {each!a}: {told}; `pincite golden list` shows what waits for review")
            found[named[0]] = waiting[named[0]]
        return list(found.values())

    # ------------------------------------------------------------ the file

    @contextmanager
    def _changing(self) -> Iterator[tuple[dict[str, Feedback], dict[str, str]]]:
        """Yield the waiting and the decided lines, and write them back if the block succeeds and has changed them."""
        try:
            with _private(self._state / f"{FEEDBACK}.lock") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                waiting, decided = self._read()
                before = dict(waiting), dict(decided)
                yield waiting, decided
                if (waiting, decided) == before:
                    return
                lines = [{"id": name, "review": review} for name, review in decided.items()]
                lines += [asdict(said) for said in waiting.values()]
                text = "".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in lines)
                if len(text.encode()) > MOST_BYTES:
                    raise _too_many(f"{MOST_BYTES >> 20} MB of feedback wait")
                partial = self._file.with_suffix(".partial")
                with _private(partial, anew=True) as descriptor, os.fdopen(os.dup(descriptor), "wb") as stream:
                    stream.write(text.encode())
                    stream.flush()
                    os.fsync(descriptor)
                os.replace(partial, self._file)
        except OSError as error:
            told = f"{self._file}: feedback cannot be kept ({error.strerror or error})"
            raise IndexStateError(told, "unwritable") from None

    def _read(self) -> tuple[dict[str, Feedback], dict[str, str]]:
        waiting: dict[str, Feedback] = {}
        decided: dict[str, str] = {}
        number = 0
        try:
            with self._file.open("rb") as stream:
                data = stream.read(MOST_BYTES + 1)
            if len(data) > MOST_BYTES:
                raise ValueError(f"it has more than {MOST_BYTES >> 20} MB")
            for line in data.decode().split("\n"):
                number += 1
                if not line:
                    continue
                values = json.loads(line)
                if "review" in values:
                    decided[str(values["id"])] = str(values["review"])
                else:
                    said = _feedback(values)
                    waiting[said.id] = said
        except FileNotFoundError:
            return {}, {}
        except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
            raise IndexStateError(
                f"{self._file} line {number}: the line is not in pincite's form ({error}); correct or delete it",
                "damaged_file",
            ) from None
        return waiting, decided


_KINDS: Mapping[str, type | tuple[type, ...]] = {
    "question": str, "answers": bool, "source": str, "uri": str, "page": (int, type(None)), "quote": str,
    "groups": list, "asked_by": str, "at": str, "generation": int,
}  # fmt: skip


def _feedback(values: Any) -> Feedback:
    if set(values) != {each.name for each in fields(Feedback)}:
        raise ValueError("it has other keys than it should")
    wrong = [name for name, kind in _KINDS.items() if not isinstance(values[name], kind)]
    if wrong or not all(isinstance(group, str) for group in values["groups"]):
        raise ValueError(f"{', '.join(wrong) or 'groups'} has a value of another kind")
    datetime.fromisoformat(values["at"])
    return Feedback(**{**values, "groups": tuple(values["groups"])})


@contextmanager
def _private(path: Path, anew: bool = False) -> Iterator[int]:
    """Open a file that only its owner may read."""
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | (os.O_TRUNC if anew else 0)
    descriptor = os.open(path, flags, 0o600)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _require_room(waiting: Sequence[Feedback], said: Feedback) -> None:
    own = [each for each in waiting if each.asked_by == said.asked_by]
    since = datetime.fromisoformat(said.at) - timedelta(hours=1)
    lately = sum(datetime.fromisoformat(each.at) > since for each in own)
    if len(waiting) >= MOST_WAITING or len(own) >= MOST_OF_ONE:
        raise _too_many(f"{len(waiting)} answers wait for review")
    if lately >= MOST_AN_HOUR:
        raise _too_many(f"you have said this of {lately} passages within an hour")


def _too_many(told: str) -> IndexStateError:
    return IndexStateError(f"{told}, so no more is accepted now; try again later", "too_many")


def now() -> str:
    """Return the current time in UTC, in ISO form, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


# ---------------------------------------------------------------- review


def accept(project: Project, said: Sequence[Feedback]) -> dict[str, Any]:
    """Add feedback to the golden questions of the project, and mark it as accepted: {"file", "added", "known"}.

    Questions whose id is already in the file are not added again. Raise UsageError if the project names no file, or if
    the file would become invalid.
    """
    named = project.settings.publish.golden
    if named is None:
        raise UsageError(
            "publish.golden names no file for accepted questions; set it, such as `publish: {golden: golden.jsonl}`"
        )
    file = project.resolve(named)
    there = _text_of(file) if file.exists() else ""
    known = {question.id for question in read_questions(file)} if there.strip() else set()
    lines = {name: line for name, line in golden_lines(said).items() if name not in known}
    if lines:
        golden_questions(enumerate(lines.values(), start=1), "feedback", filters_from)
        text = "".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in lines.values())
        try:
            with for_the_user(), file.open("a", encoding="utf-8") as stream:
                stream.write(text if not there or there.endswith("\n") else f"\n{text}")
        except OSError as error:
            raise UsageError(f"{file}: golden questions cannot be added ({error.strerror or error})") from None
    FeedbackFile(project.state).decide([each.id for each in said], ACCEPTED)
    counts = Counter(each.golden_id in lines for each in said)
    return {"file": str(file), "added": len(lines), "known": counts[False]}
