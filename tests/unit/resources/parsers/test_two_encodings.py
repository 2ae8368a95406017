"""Texts in two encodings: bytes of windows-1252 among UTF-8, and UTF-8 that was encoded twice."""

from __future__ import annotations

import pytest

from pipelines.plural import plural
from resources.parsers.source_text import decode

STRAY = "{} bytes that are not UTF-8 were read as windows-1252"
TWICE = ("the text was encoded in UTF-8 twice; it was read as it was before",)


@pytest.mark.parametrize(
    ("first", "second", "count"),
    [
        (3 * "The café’s résumé – naïve.\n", "The café’s résumé – naïve “quoted”.\n", 8),
        ("It’s fine.\n", "It’s “fine” too, don’t you think?\nMore – text.\n", 5),
        ("Größe und Maß – überall.\n", "Größe und Maß, überall.\n", 4),
        ("Où est le garçon ?\n", "Élève à l’école.\n", 5),
        ("Año próximo, señor.\n" * 20, "¿Cuándo vendrá la niña?\n", 4),
        ("Ціна – 20 €.\n", "Price: 20 € – net.\n", 2),
    ],
)
def test_bytes_of_windows_among_utf8(first: str, second: str, count: int) -> None:
    data = first.encode() + second.encode("cp1252") + first.encode()
    assert decode(data, "a.txt") == (first + second + first, (STRAY.format(count),))


@pytest.mark.parametrize("cut", [b"caf\xc3\nmore", b"\xd0\n\xd0\xbf", b"\xe2\x80\nmore", b"\x81\x8d"])
def test_cut_characters_stay_replaced(cut: bytes) -> None:
    text, told = decode(5 * "Naïve café, перше résumé.\n".encode() + cut, "a.txt")
    count = text.count("\ufffd")
    assert count and told == (
        f"{plural(count, 'invalid byte')} in UTF-8 text {'was' if count == 1 else 'were'} replaced",
    )


def misread(text: str, codec: str) -> str:
    """UTF-8 read byte by byte; bytes without a character are control characters."""
    pieces = []
    for byte in text.encode():
        try:
            pieces.append(bytes([byte]).decode(codec))
        except UnicodeDecodeError:
            pieces.append(chr(byte))
    return "".join(pieces)


@pytest.mark.parametrize(
    ("text", "codec"),
    [
        ("It’s a café – “naïve”, déjà vu.\n", "cp1252"),
        ("Größe und Maß, überall.\n", "latin-1"),
        ("Prices in € only.\n", "cp1252"),
        ("Привіт, світе. Це текст про відпустку.\n", "cp1251"),
        ("Правила внутреннего распорядка.\n", "cp1252"),
        ("年次有給休暇は二十日とする。\n", "cp1252"),
        ("Η άδεια είναι 24 ημέρες.\n", "cp1252"),
    ],
)
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_utf8_that_was_encoded_twice(text: str, codec: str, mark: str) -> None:
    assert decode((mark + misread(text, codec)).encode(), "a.txt") == (text, TWICE)


def test_utf8_that_was_encoded_three_times() -> None:
    assert decode(misread(misread("It’s a café.", "cp1252"), "cp1252").encode(), "a.txt") == ("It’s a café.", TWICE)


@pytest.mark.parametrize(
    "text",
    [
        "Mojibake such as Ã© is what é becomes.",
        "IRMÃ”, ÁGUA",
        "Straße, Größe",
        "Правила на рік.",
        "plain",
        "São Paulo, João, maçã",
        "Â",
        "5 Â",
        "Рядок – слово",
        "ÃO “NÃO” FAÇA",
    ],
)
def test_text_that_was_encoded_once_stays(text: str) -> None:
    assert decode(text.encode(), "a.txt") == (text, ())
