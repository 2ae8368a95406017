"""Every error a person can meet, as one tree.

PinciteError                  exit 1, code in JSON
├── UsageError                exit 2: the arguments are wrong
│   └── SettingsError         exit 2: the settings file or a key of it
├── SourceError               a source cannot be listed, or its folder has changed
├── DocumentError             one document; the others continue
├── DatabaseError             Postgres cannot be reached, started or used
├── ModelError                a model cannot be loaded or answers wrongly
│   └── RefusedText           the model accepts other texts, but not these
├── VectorFileError           one file of vectors; the others are imported
├── Waiting                   exit 0: paid work is in progress elsewhere; a later run continues
└── IndexStateError           no index yet, wrong embedder, a damaged state, a run in progress
    └── DamagedFile           a Parquet file is not the one that was written

A message names the thing (file, setting, address) and the remedy. pincite/codes.py says what every code means.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pipelines.ports import Vectors


class PinciteError(Exception):
    """The base of all errors; `code` is stable and appears in JSON, the message is for people."""

    exit_code = 1
    default_code = "error"

    def __init__(self, message: str, code: str | None = None) -> None:
        super().__init__(message)
        self.code = code or self.default_code


class UsageError(PinciteError):
    exit_code = 2
    default_code = "usage"


class SettingsError(UsageError):
    default_code = "settings"


class SourceError(PinciteError):
    default_code = "source"


class DocumentError(PinciteError):
    """The failure of one document at one stage: `encrypted`, `no_text`, `empty`, `empty_parse`, `corrupt`,
    `limit_exceeded`, `timeout`, `unsupported`, `unreadable`, `changed` (while it was read), `crashed`."""

    default_code = "document"


PASSING = frozenset({"changed", "unreadable", "unreachable", "rejected", "pending", "budget"})
"""Codes of temporary failures: every run tries these documents again."""
LIMITED = frozenset({"timeout", "crashed", "limit_exceeded", "element_map_limit"})
"""Codes of failures that depend on limits: documents are tried again under other limits, or if their bytes change."""
UNREAD = frozenset({"corrupt", "empty_parse", "no_text", "unsupported"})
"""Codes of failures that depend on the reader: documents are tried again when other readers are installed."""

WITHHELD = frozenset({"side_car", "front_matter", "element_map", "element_map_limit", "orphan", "overlap"})
"""Codes of failures after which a document's groups are unknown: it is served to nobody, in no version."""


def code_of_map(code: str) -> str:
    """Return the code of a failure to read a structural map. Its groups are known only after a successful parse, so the
    code makes the document withheld. The code of a temporary failure is unchanged."""
    if code not in PASSING | WITHHELD:
        code = "element_map_limit" if code in LIMITED else "element_map"
    return code


class DatabaseError(PinciteError):
    default_code = "database"


class ModelError(PinciteError):
    """The failure of a model; `done` has the vectors that were made before it, by text."""

    default_code = "model"

    def __init__(self, message: str, code: str | None = None, done: Mapping[str, Vectors] | None = None) -> None:
        super().__init__(message, code)
        self.done = done or {}


class RefusedText(ModelError):
    """The refusal of a model to make vectors of some texts. `refused` has the model's message about each text, `codes`
    the reason if it is not `refused_text`. `vectors` has a row for every requested text, zero for refused ones; it is
    None if all were refused."""

    default_code = "refused_text"

    def __init__(
        self,
        message: str,
        refused: Mapping[str, str],
        vectors: Vectors | None = None,
        codes: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.refused, self.vectors, self.codes = refused, vectors, codes or {}

    def code_of(self, text: str) -> str:
        return self.codes.get(text, self.default_code)


class VectorFileError(PinciteError):
    """The refusal of a file of vectors, none of whose rows is used; its codes begin with `vectors_`."""

    default_code = "vectors_unreadable"
    row: int | None = None
    """Number of the faulty row, from 1."""


class Waiting(PinciteError):
    exit_code = 0
    default_code = "pending"


class IndexStateError(PinciteError):
    """An error of the index's state; each kind has its own code."""


class DamagedFile(IndexStateError):
    default_code = "damaged_file"
