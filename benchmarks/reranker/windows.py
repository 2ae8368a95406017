"""Windows that the reranker reads, and questions made from texts. The module needs neither pincite nor a package."""

from __future__ import annotations

import json
import lzma
import random
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

LONGEST_WINDOW = 460
"""Characters of a window, which are about 110 tokens of English prose; what is over 128 tokens is cut."""
LONGEST_HEADER = 150
"""Characters of the headings before the sentences of a window."""
_WORD = re.compile(r"\w+")
_NUMBER = re.compile(r"\d[\d.,]*")
ASKING = ("what is", "how much", "what was the", "how many", "which", "tell me")


@dataclass(frozen=True, slots=True)
class Text:
    """A passage in sentences. `corpus` is the name of its set or package, `headings` lead to it."""

    corpus: str
    language: str
    headings: tuple[str, ...]
    sentences: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Asked:
    """A question of a set with its candidates in the shipped order, as places in a list of texts.

    `near` is the sentence of each candidate that is nearest to the question, `values` are the measures of each by name,
    and `places` has the candidates that hold each place of the gold; it is empty for a question without an answer."""

    corpus: str
    question: str
    candidates: tuple[int, ...]
    near: tuple[int, ...]
    values: Mapping[str, Sequence[float]]
    places: tuple[tuple[int, ...], ...] = ()
    answerable: bool = True

    @property
    def gold(self) -> set[int]:
        """Return the places in `candidates` that answer the question."""
        return {at for place in self.places for at in place}


@dataclass(frozen=True, slots=True)
class Pair:
    """A question made from a text, and the window that answers it."""

    corpus: str
    language: str
    question: str
    window: str
    kind: str = field(default="cloze")


def header(headings: Sequence[str]) -> str:
    """Return the first and the last two headings, each once and not longer than LONGEST_HEADER together."""
    kept = dict.fromkeys(" ".join(one.split()) for one in [*headings[:1], *headings[1:][-2:]] if one.strip())
    return " › ".join(one[: LONGEST_HEADER // len(kept)] for one in kept)


def window(headings: Sequence[str], sentences: Sequence[str], near: int, longest: int = LONGEST_WINDOW) -> str:
    """Return the headings and the nearest sentence with as many neighbours, by turns after and before it, as fit."""
    start = header(headings)
    left, first, last = longest - len(start), near, near + 1
    left -= len(sentences[near]) if sentences else 0
    grown = True
    while grown and sentences:
        grown = False
        if last < len(sentences) and len(sentences[last]) < left:
            left, last, grown = left - len(sentences[last]) - 1, last + 1, True
        if first > 0 and len(sentences[first - 1]) < left:
            left, first, grown = left - len(sentences[first - 1]) - 1, first - 1, True
    return ". ".join(one for one in (start, " ".join(sentences[first:last])) if one)


def starts(text: Text) -> list[int]:
    """Return sentences whose windows cover the text, a window's length apart."""
    found, length = [0], 0
    for at, sentence in enumerate(text.sentences):
        length += len(sentence)
        if length > LONGEST_WINDOW - LONGEST_HEADER and at + 1 < len(text.sentences):
            found.append(at + 1)
            length = 0
    return found


# ---------------------------------------------------------------- made questions


def misspelt(word: str, chance: random.Random) -> str:
    """Return a word with two neighbouring letters exchanged, one left out or one doubled."""
    if len(word) < 4:
        return word
    at, kind = chance.randrange(1, len(word) - 1), chance.randrange(3)
    if kind == 0:
        return word[:at] + word[at + 1] + word[at] + word[at + 2 :]
    return word[:at] + (word[at + 1 :] if kind == 1 else word[at] + word[at:])


def roughened(text: str, chance: random.Random, dropped: float, wrong: float) -> str:
    """Return the words of a text without case and marks, some left out and some misspelt."""
    words = [word.lower() for word in _WORD.findall(text)]
    kept = [word for word in words if chance.random() >= dropped] or words[:1]
    return " ".join(misspelt(word, chance) if chance.random() < wrong else word for word in kept)


def cloze(text: Text, at: int, chance: random.Random) -> Pair:
    """Return a sentence with words left out as a question; its number becomes what is asked for. In one of four, the
    sentence is not in the window, which its neighbours make."""
    sentence = text.sentences[at]
    asked = roughened(_NUMBER.sub(" ", sentence, count=1), chance, chance.choice((0.2, 0.4, 0.6)), 0.04)
    if _NUMBER.search(sentence) or chance.random() < 0.3:
        asked = f"{chance.choice(ASKING)} {asked}"
    rest = text.sentences
    if len(rest) > 2 and chance.random() < 0.25:
        rest, at = rest[:at] + rest[at + 1 :], min(at, len(rest) - 2)
    return Pair(text.corpus, text.language, asked[:200], window(text.headings, rest, at))


def headed(text: Text, chance: random.Random) -> Pair:
    """Return the last heading as a question to the text below it, which is shown without that heading."""
    told = re.sub(r"^(Chapter )?[\d.\s]+", "", text.headings[-1]) or text.headings[-1]
    asked = told if chance.random() < 0.5 else roughened(told, chance, 0.15, 0.05)
    shown = window(text.headings[:-1], text.sentences, chance.choice(starts(text)))
    return Pair(text.corpus, text.language, asked[:200], shown, "heading")


def made(texts: Sequence[Text], each: int, seed: int) -> list[Pair]:
    """Return the questions made from texts: `each` of sentences, and one of a heading that says something."""
    chance, pairs = random.Random(seed), []
    for text in texts:
        able = [at for at, one in enumerate(text.sentences) if len(_WORD.findall(one)) >= 6]
        pairs += [cloze(text, at, chance) for at in chance.sample(able, min(each, len(able)))]
        if len(text.headings) > 1 and len(_WORD.findall(text.headings[-1])) >= 3:
            pairs.append(headed(text, chance))
    return pairs


# ---------------------------------------------------------------- files


def write_lines(file: Path, values: Iterable[Any]) -> None:
    """Write dataclasses as packed JSON lines."""
    with lzma.open(file, "wt", encoding="utf-8") as out:
        out.writelines(json.dumps(asdict(value), ensure_ascii=False) + "\n" for value in values)


def read_lines(file: Path) -> Iterator[dict[str, Any]]:
    """Return what write_lines wrote, as dictionaries."""
    with lzma.open(file, "rt", encoding="utf-8") as found:
        yield from (json.loads(line) for line in found)


def read_texts(file: Path) -> list[Text]:
    return [Text(one["corpus"], one["language"], tuple(one["headings"]), tuple(one["sentences"]))
            for one in read_lines(file)]  # fmt: skip


def read_asked(file: Path) -> list[Asked]:
    return [Asked(**{**one, **{name: tuple(one[name]) for name in ("candidates", "near")},
                     "places": tuple(map(tuple, one["places"]))}) for one in read_lines(file)]  # fmt: skip
