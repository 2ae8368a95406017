"""The import of other question sets as golden questions: the UNLP 2026 shared task, SQuAD, and your own tables.

Each function takes the parsed content of a file, and returns the lines that `pincite eval` reads. Errors name the place
in the file.

- UNLP 2026 (shared task on multi-domain document understanding): a table with Question_ID, Question, A to F,
  Correct_Answer, Doc_ID and Page_Num; gold is the page.
- SQuAD 1.1 and 2.0 (Rajpurkar et al. 2016, 2018; also what annotation tools write): gold is the paragraph that a
  question is asked of, in the document that is named as the article is; one that is marked impossible has no gold.
- A table: `question` and the keys of a place of gold (`uri`, `source`, `page`, `page_end`, `quote`, `start`, `end`) as
  columns, and if wanted `id`, `answer`, options under single letters (`A`, `B`), and `filter`. Rows with the same id
  are more places of one question.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from pipelines.errors import UsageError

Line = dict[str, Any]
"""One golden question as JSON."""
Row = Mapping[str, str]
"""Cells of a table by column; cells that a row lacks are left out."""
Rows = Iterable[tuple[int, Row]]
"""(line of the file, row)."""

LETTERS: Final = "ABCDEFGHIJ"
_UNLP = ("Question_ID", "Question", "Correct_Answer", "Doc_ID", "Page_Num")
_NUMBERS = ("page", "page_end", "start", "end")
_PLACE = ("uri", "source", *_NUMBERS, "quote")
_COLUMNS = ("id", "question", "answer", "filter", *_PLACE)
_MEANT: Final = {
    **dict.fromkeys(("file", "filename", "file_name", "path", "document", "doc", "name", "url"), "uri"),
    **dict.fromkeys(("pages", "page_start", "page_number"), "page"),
    **dict.fromkeys(("query", "text"), "question"),
    **dict.fromkeys(("gold", "evidence", "passage", "context"), "quote"),
}
"""Other words that tables have for a column."""


def from_unlp(rows: Rows, origin: str) -> list[Line]:
    """Return the questions of the shared task. Raise UsageError that names line and column."""
    lines: list[Line] = []
    for number, row in rows:
        where = f"{origin} line {number}"
        for name in _UNLP:
            if not row.get(name, "").strip():
                raise _error(f"{where}: column {name!r} is missing or empty, which a file of the shared task has")
        options = _options(row)
        lines.append(
            {
                "id": f"unlp-{row['Question_ID'].strip()}",
                "question": row["Question"].strip(),
                **({"options": options} if options else {}),
                "answer": row["Correct_Answer"].strip(),
                "gold": [{"uri": row["Doc_ID"].strip(), "page": _number(row, "Page_Num", where)}],
            }
        )
    return lines


def from_squad(content: Any, origin: str) -> list[Line]:
    """Return the questions of a file in SQuAD's form. Raise UsageError that names article and paragraph."""
    lines: list[Line] = []
    for number, article in enumerate(_member(content, "data", list, origin)):
        where = f"{origin}: data[{number}]"
        title = _member(article, "title", str, where)
        for at, paragraph in enumerate(_member(article, "paragraphs", list, where)):
            here = f"{where}.paragraphs[{at}]"
            context = _member(paragraph, "context", str, here)
            for which, asked in enumerate(_member(paragraph, "qas", list, here)):
                lines.append(_squad_line(asked, title, context, f"{here}.qas[{which}]"))
    return lines


def _squad_line(asked: Any, title: str, context: str, where: str) -> Line:
    question = _member(asked, "question", str, where).strip()
    name = asked.get("id")
    if not isinstance(name, str | int):
        raise _error(f"{where}: key 'id' is missing, by which results name the question")
    if asked.get("is_impossible"):
        return {"id": str(name), "question": question, "gold": []}
    answers = [_member(each, "text", str, f"{where}.answers") for each in _member(asked, "answers", list, where)]
    answer = {"answer": answers[0]} if answers else {}
    return {"id": str(name), "question": question, **answer, "gold": [{"uri": title, "quote": context}]}


def from_table(rows: Rows, origin: str) -> list[Line]:
    """Return the questions of a table. Raise UsageError that names line and column, and the nearest known column."""
    found: dict[str, Line] = {}
    for number, row in rows:
        where = f"{origin} line {number}"
        for name in row:
            _require_known(name, where)
        asked, place = row.get("question", "").strip(), _place(row, where)
        name = row.get("id", "").strip() or str(number)
        options, filters = _options(row), row.get("filter", "").strip()
        line: Line = {
            **({"question": asked} if asked else {}),
            **({"options": options} if options else {}),
            **({"answer": row["answer"].strip()} if row.get("answer", "").strip() else {}),
            **({"filter": [filters]} if filters else {}),
        }
        if name in found:
            if other := next((key for key, value in line.items() if found[name].get(key) != value), None):
                raise _error(f"{where}: id {name!r} stands above with another {other}")
        elif not asked:
            raise _error(f"{where}: column 'question' is missing or empty")
        else:
            found[name] = {"id": name, **line, "gold": []}
        found[name]["gold"] += [place] if place else []
    return list(found.values())


IMPORTS: Final[Mapping[str, Callable[[Any, str], list[Line]]]] = {
    "unlp": from_unlp,
    "squad": from_squad,
    "csv": from_table,
}
"""The import functions by the names that `pincite eval --import` takes. `squad` gets parsed JSON, the others get
rows."""


def _place(row: Row, where: str) -> Line:
    place: Line = {name: row[name].strip() for name in ("uri", "source", "quote") if row.get(name, "").strip()}
    place |= {name: _number(row, name, where) for name in _NUMBERS if row.get(name, "").strip()}
    if place and "uri" not in place:
        raise _error(f"{where}: column 'uri' is missing or empty, so {', '.join(map(repr, place))} name no document")
    return place


def _options(row: Row) -> dict[str, str]:
    return {letter: row[letter].strip() for letter in LETTERS if row.get(letter, "").strip()}


def _number(row: Row, name: str, where: str) -> int:
    text = row[name].strip()
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise _error(f"{where}: column {name!r} must be a whole number, not {text[:40]!r}")
    return int(text)


def _require_known(name: str, where: str) -> None:
    if name in _COLUMNS or name in LETTERS:
        return
    plain = "_".join(name.lower().split())
    near = [_MEANT[plain]] if plain in _MEANT else difflib.get_close_matches(plain, _COLUMNS, n=1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    raise _error(f"{where}: column {name!r} is not known; {hint}known ones: {', '.join(_COLUMNS)}, letters for options")


def _member(value: Any, key: str, kind: type, where: str) -> Any:
    if not isinstance(value, dict):
        raise _error(f"{where}: expected an object, not {type(value).__name__}")
    if not isinstance(value.get(key), kind):
        raise _error(f"{where}: key {key!r} is missing or is no {'list' if kind is list else 'text'}")
    return value[key]


def _error(message: str) -> UsageError:
    return UsageError(message, code="golden")
