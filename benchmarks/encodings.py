"""How many texts in old encodings are read right, by length, beside charset-normalizer.

    python benchmarks/encodings.py [--bytes 30 100 400 2000]

The texts are the example sentences that spaCy has for each language, encoded in every encoding that was common for the
language and can write them, and cut at N bytes. A text is right if all its words are. charset-normalizer is asked as
its documentation says, `from_bytes(data).best()`.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.support.parsing_report import table  # noqa: E402  (the path above finds it)
from pipelines.errors import DocumentError  # noqa: E402
from resources.parsers.source_text import decode  # noqa: E402

WEB = {
    **dict.fromkeys(("uk",), "cp1251 koi8-u"),
    **dict.fromkeys(("ru", "bg", "mk"), "cp1251 koi8-r iso8859-5"),
    "sr": "cp1251 iso8859-5",
    **dict.fromkeys(("pl", "cs", "sk", "hu", "ro", "hr", "sl"), "cp1250 iso8859-2"),
    **dict.fromkeys(("de", "fr", "es", "pt", "it", "sv", "da", "fi", "nb", "nl", "ca"), "cp1252 iso8859-15"),
    "el": "cp1253 iso8859-7", "tr": "cp1254 iso8859-9", "he": "cp1255 iso8859-8", "ar": "cp1256 iso8859-6",
    "fa": "cp1256", **dict.fromkeys(("lt", "lv", "et"), "cp1257 iso8859-13"), "th": "cp874",
    "ja": "cp932 euc_jp iso2022_jp", "zh": "gb18030 big5", "ko": "cp949", "vi": "cp1258",
}  # fmt: skip
"""Encodings of the web by language."""
RARE = {
    **dict.fromkeys(("uk",), "cp1125 mac-cyrillic"), **dict.fromkeys(("ru", "bg"), "cp866 mac-cyrillic"),
    **dict.fromkeys(("pl", "cs", "sk", "hu", "ro", "hr", "sl"), "cp852 mac-latin2"),
    **dict.fromkeys(("de", "fr", "es", "pt", "it", "sv", "da", "fi", "nb", "nl"), "cp850 mac-roman"),
    "el": "cp737", "tr": "cp857", "he": "cp862", **dict.fromkeys(("lt", "lv", "et"), "cp775"),
}  # fmt: skip
"""Encodings of DOS and of the Mac by language."""


def texts(languages: dict[str, str], most: int) -> Iterator[tuple[bytes, str]]:
    """Yield encoded texts of at most `most` bytes with what they say."""
    for language, names in languages.items():
        try:
            sentences = importlib.import_module(f"spacy.lang.{language}.examples").sentences
        except (ModuleNotFoundError, AttributeError):
            continue
        text = " ".join(sentences)
        while len(text) < most:
            text += " " + text
        for name in names.split():
            try:
                data = text.encode(name)[:most]
            except UnicodeEncodeError:
                continue
            if not data.isascii() or name.startswith("iso2022"):
                yield data, data.decode(name, "ignore")


def own(data: bytes) -> str:
    try:
        return decode(data, "a.txt")[0]
    except DocumentError:
        return ""


def beside(data: bytes) -> str:
    from charset_normalizer import from_bytes

    found = from_bytes(data).best()
    return "" if found is None else str(found)


def share(languages: dict[str, str], most: int, read: Callable[[bytes], str]) -> tuple[int, int]:
    """Return how many texts are read right, and how many there are. The last word may be cut."""
    asked = list(texts(languages, most))
    right = sum(read(data).split()[:-1] == said.split()[:-1] for data, said in asked)
    return right, len(asked)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bytes", type=int, nargs="*", default=[30, 100, 400, 2000])
    rows = []
    for most in parser.parse_args().bytes:
        cells = [str(most)]
        for languages in (WEB, RARE):
            for read in (own, beside):
                right, count = share(languages, most, read)
                cells.append(f"{100 * right / count:.0f} % of {count}")
        rows.append(cells)
    heads = ("bytes", "web, pincite", "web, charset-normalizer", "DOS and Mac, pincite", "DOS and Mac, the other")
    print("\n".join(table(heads, rows)))


if __name__ == "__main__":
    main()
