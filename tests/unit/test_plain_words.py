"""Docstrings and comments of the product are plain sentences: their first words, and phrases that nobody else uses.

ruff's D401 holds the first rule, that a function's docstring begins with a verb; the others are here.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator

import pytest

from tests.support.places import ROOT

PRODUCT = ("pipelines", "resources", "assets", "pincite")
OPENINGS = ("Of", "By", "As", "And", "But", "That", "Those", "What", "Whether", "Without", "Where there is none")
PHRASES = (
    *("that of", "is none", "none of these", "so many", "such as are", "what stands", "what is there"),
    *("as it was made", "made anew", "is told", "tells nothing", "whoever", "for what", "of what"),
    *("of equals", "told from", "told apart", "in the place of", "all the same"),
)
_SENTENCE = re.compile(r"(?:\A|(?<=[.!?] )|(?<=[.!?]\n)|(?<=\n\n))\s*(?:- )?(\w[^.!?]*)", re.DOTALL)
_OPENING = re.compile(rf"(?:{'|'.join(OPENINGS)})\b")
_PHRASE = re.compile(rf"\b(?:{'|'.join(PHRASES)})\b", re.IGNORECASE)
_BARE = re.compile(
    r"\b(?:as|than|if|since|where) (?:it|they|there|these|those|that|others|some)"
    r" (?:does|do|did|is|are|was|were|has|have|had|can|could|may|might|must)(?=[.;,)]|\Z)"
)
"""An auxiliary without its verb at the end of a clause: "as it does", "than there are", "if it can"."""
_QUOTED = re.compile(r"`[^`]*`|\"[^\"]*\"")


def prose(source: str) -> Iterator[tuple[int, str]]:
    """Yield line and text of every docstring, of functions, classes, modules and constants, and of every comment."""
    for node in ast.walk(ast.parse(source)):
        for inner in getattr(node, "body", ()) if isinstance(getattr(node, "body", None), list) else ():
            if (
                isinstance(inner, ast.Expr)
                and isinstance(inner.value, ast.Constant)
                and isinstance(inner.value.value, str)
            ):
                yield inner.lineno, inspect_clean(inner.value.value)
    block: list[str] = []
    first = last = 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            if block and token.start[0] != last + 1:
                yield first, "\n".join(block)
                block = []
            first = token.start[0] if not block else first
            last = token.start[0]
            block.append(token.string.lstrip("#").strip())
    if block:
        yield first, "\n".join(block)


def inspect_clean(text: str) -> str:
    return "\n".join(line.strip() for line in text.strip().splitlines())


def offences(source: str) -> list[str]:
    """Return what breaks rule 2 or 3, or ends with a bare auxiliary, each with its line."""
    found = []
    for line, text in prose(source):
        plain = _QUOTED.sub("`it`", text)
        found += [f"{line}: begins with {m[1][:30]!r}" for m in _SENTENCE.finditer(plain) if _OPENING.match(m[1])]
        joined = " ".join(plain.split()).replace("None", "`None`")
        found += [f"{line}: ends with {m[0]!r}" for m in _BARE.finditer(joined)]
        found += [f"{line}: says {m[0]!r}" for m in _PHRASE.finditer(joined)]
    return found


def files() -> list[str]:
    return sorted(
        path.relative_to(ROOT).as_posix()
        for top in PRODUCT
        for path in (ROOT / top).rglob("*.py")
        if path.stat().st_size
    )


@pytest.mark.parametrize("top", PRODUCT)
def test_docstrings_and_comments_are_plain(top: str) -> None:
    found = {
        name: told for name in files() if name.startswith(f"{top}/") and (told := offences((ROOT / name).read_text()))
    }
    assert found == {}


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ('"""Of a lamp: how bright."""', 1),
        ('"""Lamps. What they cost is known."""', 1),
        ('"""Lamps.\n\nBut for one, all are lit."""', 1),
        ('"""Lamps.\n\n- As bright as day.\n- Lit."""', 1),
        ('"""A lamp, of what it is made."""', 1),
        ('"""A lamp whose light\nis none."""', 1),
        ('X = 1\n"""Whether it is lit."""', 1),
        ("# Without oil it is dark.\n", 1),
        ('"""Lamps burn longer than they did."""', 1),
        ('def lit():\n    """Light a lamp, if there is one that can be lit."""', 0),
        ('def lit():\n    # So many lamps.\n    """Return true."""', 1),
        ('"""A lamp `as it was made`, "is told" of. Offices are lit. Bylaws too."""', 0),
        ('X = "But for one"', 0),
    ],
)
def test_offences_are_found(source: str, count: int) -> None:
    assert len(offences(source)) == count, offences(source)
