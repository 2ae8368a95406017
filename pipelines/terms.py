"""The terms of the lexical index, the same for documents and questions, in any language.

Every word is normalised by its own script, never by the language of the text around it, so a question in one language
agrees with a document in another. Folding: compatibility forms, case, accents, stress marks, soft hyphens, apostrophes
inside Cyrillic words, ё as е, ґ as г, and Latin look-alikes inside Cyrillic words (common in PDF files). Then, by
script:

- Latin: the English Snowball stemmer (Porter2), which only cuts endings in other languages;
- Cyrillic, Greek, Armenian, Georgian: the first six letters;
- ideographs, kana, hangul and scripts written without spaces: bigrams;
- raised digits: separate from a number or a word of at least four letters, since they are powers or note references
  (10⁶, 2021¹, leave²); joined to a shorter word, which is a unit (m²);
- numbers: whole, `1,234` as `1234` and the decimal comma as a point; words with digits: whole.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import cache, lru_cache
from typing import Any

STEM_LETTERS = 6
LONGEST = 64
"""Most characters of a term; longer words are cut, so that a term always fits an index entry."""

_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u2e80-\u2fff\u3005-\u3007\u3040-\u31ff"
_UNSPACED += "\u3400-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\U00020000-\U0003ffff"
_HYPHENS = dict.fromkeys([0xAD, 0x200B, 0x200C, 0x200D, 0x2060, 0xFEFF])
_APOSTROPHES = dict.fromkeys(map(ord, "’ʼ‘`´′＇"), "'")
_SIGNS: dict[int, Any] = {**_APOSTROPHES, **_HYPHENS}
_A_SIGN = re.compile(f"[{''.join(map(chr, _SIGNS))}]")
_CYRILLIC_FOLD = str.maketrans({"ё": "е", "ґ": "г", "'": None})
_LOOK_ALIKES = str.maketrans("aceiopxyk", "асеіорхук")
_LATIN = re.compile(r"[a-z]")
_CYRILLIC = re.compile(r"[\u0400-\u052f]")
_RAISED_APART = re.compile("(?<=[0-9)\\]])(?=[⁰¹²³⁴-⁹⁺⁻])|(?<=[^\\W\\d_⁰¹²³⁴-⁹]{4})(?=[⁰¹²³⁴-⁹⁺⁻])")
_RAISED = re.compile("[⁰¹²³⁴-⁹⁺⁻]")
_THOUSANDS = re.compile(r"[1-9]\d{0,2}(?:,\d{3})+(?:\.\d+)?")
_PLAIN = re.compile(r"\d+(?:[.,]\d+)*|[a-z][a-z0-9]*(?:'[a-z0-9]+)*")


@lru_cache(maxsize=1)
def _any_script() -> re.Pattern[str]:
    """Return a pattern of words with their marks and inner apostrophes, of numbers, and of runs without spaces."""
    mark = f"[{_marks()}]"
    letter = rf"(?:[^\W_{_UNSPACED}]{mark}*)"
    run = rf"[{_UNSPACED}](?:[{_UNSPACED}]|{mark})*"
    return re.compile(rf"\d+(?:[.,]\d+)*|{run}|(?!\d){letter}+(?:'{letter}+)*")


@lru_cache(maxsize=1)
def _any_place() -> re.Pattern[str]:
    """Return a pattern of runs without spaces, and of runs of the characters that words have before folding."""
    signs = "".join(map(chr, _SIGNS)) + "'"
    part = rf"(?:(?![{_UNSPACED}])[^\W_]|[{_marks()}{signs}]|(?<=\d)[.,](?=\d))"
    return re.compile(rf"([{_UNSPACED}][{_UNSPACED}{_marks()}]*)|{part}+")


@lru_cache(maxsize=1)
def _marks() -> str:
    return "".join(chr(code) for code in range(0x300, 0x10000) if unicodedata.category(chr(code)) in ("Mn", "Mc"))


def _number(text: str) -> str:
    if not text.isascii():
        text = "".join(str(unicodedata.decimal(letter, letter)) for letter in text)
    if _THOUSANDS.fullmatch(text):
        return text.replace(",", "")
    return text.replace(",", ".")


def _without_marks(word: str) -> str:
    return "".join(letter for letter in unicodedata.normalize("NFD", word) if not unicodedata.combining(letter))


@cache
def _stemmer() -> Any:
    """Return the class of the English stemmer; its package imports the stemmers of forty languages."""
    from snowballstemmer.english_stemmer import EnglishStemmer

    return EnglishStemmer


def _stem(word: str) -> str:
    """Return one folded word of one script, cut or stemmed; words with digits are unchanged."""
    if any(letter.isdigit() for letter in word):
        return word
    first = ord(word[0])
    if first < 0x250 or 0x1E00 <= first < 0x1F00:
        return str(_stemmer()().stemWord(word))  # a stemmer keeps state: one for each call
    if 0x370 <= first < 0x590 or 0x10A0 <= first < 0x1100 or 0x1F00 <= first < 0x2000:
        return word[:STEM_LETTERS]
    return word


@lru_cache(maxsize=1 << 16)
def _normal(word: str) -> tuple[str, ...]:
    """Return the terms of one matched word: one term, or several if an apostrophe divides the word."""
    if word[0].isdigit():
        return (_number(word),)
    if _CYRILLIC.search(word):
        word = "".join(letter for letter in word.translate(_CYRILLIC_FOLD) if not 0x300 <= ord(letter) < 0x370)
        return (_stem(word.translate(_LOOK_ALIKES) if _LATIN.search(word) else word),)
    if not word.isascii():
        first = ord(word[0])
        folds = first < 0x800 or 0x1E00 <= first < 0x2000
        word = _without_marks(word) if folds else unicodedata.normalize("NFC", word)
    parts = word.removesuffix("'s").split("'") if "'" in word else [word]
    return tuple(_stem(part) for part in parts if part)


def _bigrams(run: str) -> list[str]:
    return [run[at : at + 2] for at in range(len(run) - 1)] or [run]


def terms_of(text: str) -> list[str]:
    """Return the terms of a text in order, with repeats; return [] for text without letters and digits."""
    if text.isascii():
        found = _PLAIN.findall(text.lower().replace("`", "'"))
    else:
        if _A_SIGN.search(text):  # most texts have no such sign, and looking for one is cheaper than replacing
            text = text.translate(_SIGNS)
        if _RAISED.search(text):
            text = _RAISED_APART.sub(" ", text)
        folded = unicodedata.normalize("NFKC", text).casefold()
        found = _any_script().findall(unicodedata.normalize("NFC", folded))
    terms: list[str] = []
    for word in found:
        if word[0] >= "\u0e00" and _is_unspaced(word[0]):
            terms.extend(_bigrams(word))
        else:
            terms.extend(_normal(word[:LONGEST]))
    return terms


def terms_in_place(text: str) -> Iterator[tuple[int, int, list[str]]]:
    """Yield (start, end, terms) of each word of a text, in order.

    Together the terms equal those of `terms_of`, except next to width or height variants of characters. In scripts
    without spaces, two neighbouring letters count as a word, so words overlap.
    """
    for found in _any_place().finditer(text):
        start, end = found.span()
        if found[1] is None:
            if terms := terms_of(found[0]):
                yield start, end, terms
            continue
        for at in range(start, max(end - 1, start + 1)):
            yield at, min(at + 2, end), terms_of(text[at : min(at + 2, end)])


@lru_cache(maxsize=1 << 14)
def _is_unspaced(letter: str) -> bool:
    return re.match(f"[{_UNSPACED}]", letter) is not None
