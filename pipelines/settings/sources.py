"""The settings of a source of documents: its folder or address, its groups, and the readers of its files."""

from __future__ import annotations

import difflib
import re
from itertools import pairwise
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, field_validator

from pipelines.groups import group_names, require_few
from pipelines.parsing.formats import OF_ENDING, OWN, UNSTRUCTURED
from pipelines.settings.section import Section

# ---------------------------------------------------------------- readers by the ending of a file's name


def _readable(readers: dict[str, str]) -> dict[str, str]:
    for ending, reader in readers.items():
        found = OF_ENDING.get(ending)
        if found is None:
            near = difflib.get_close_matches(ending, OF_ENDING, n=1)
            hint = f"did you mean {near[0]!r}?" if near else "docs/reference/formats.md has all endings"
            raise ValueError(f"no format ends in {ending!r}; {hint}")
        if reader == OWN and not found.own:
            raise ValueError(f"{ending} has no reader of pincite's own; leave it out")
        if reader == UNSTRUCTURED and found.own and ending not in found.either:
            raise ValueError(f"{ending} is read by pincite's own reader alone; leave it out")
    return readers


Readers = Annotated[dict[str, Literal["auto", "own", "unstructured"]], AfterValidator(_readable)]


# ---------------------------------------------------------------- sources


_OF_HTTP = ("http", "https")
_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*)://")


def scheme_of(path: str) -> str:
    """Return the scheme of an address, such as s3, or "" for a folder."""
    found = _SCHEME.match(path)
    return found[1] if found else ""


class AccessSettings(Section):
    memberships_max_age_hours: float = Field(
        48.0,
        gt=0,
        le=87_600,
        description="For how long what a source said of its principals' members holds; after that nobody is one, until "
        "it is read again by `pincite index` or `pincite sources sync-access`.",
    )
    cron: str = Field(
        "0 * * * *", description="When the schedule `hourly_access` runs the job `sync_access`, once turned on."
    )


class SourceSettings(Section):
    name: str = Field(min_length=1, description="Name of the source; part of every document's identity.")
    path: str = Field(
        min_length=1,
        description="Folder, relative to the settings file; or an address such as `s3://bucket/prefix`.",
    )
    options: dict[str, str] = Field(
        {},
        description="What an address leaves open, such as a bucket's endpoint: docs/guide/sources.md.",
    )
    include: tuple[str, ...] = Field(("**/*",), description="Glob patterns of files to take.")
    exclude: tuple[str, ...] = Field((), description="Glob patterns of files to leave out; they win over include.")
    readers: Readers = Field(
        {}, description="Who reads its files by their endings, as parsing.readers, over which it wins."
    )
    groups: tuple[str, ...] = Field(
        (), description="Who may find these documents; left out, or `[]`, means everyone, unless they were restricted."
    )

    memberships: bool = Field(
        False,
        description="Whether its file `_memberships.csv` says which groups of askers its principals are. Else nobody "
        "is behind them, but where a query of its options tells it: docs/guide/sources.md.",
    )

    @property
    def scheme(self) -> str:
        """Return the scheme of the address, or "" for a folder."""
        return scheme_of(self.path)

    @property
    def place(self) -> str:
        """Return the source's place for messages before a connector has read it: an address without its query, which
        may hold a password by mistake."""
        return self.path.partition("?")[0] if self.scheme else self.path

    @field_validator("path")
    @classmethod
    def _without_password(cls, path: str) -> str:
        """Refuse an address that holds a secret, since addresses are shown, logged and kept."""
        if scheme := scheme_of(path):
            try:
                parts = urlsplit(path)
                # A user name in an HTTP address is often a token.
                secret = parts.password is not None or (parts.username is not None and scheme.endswith(_OF_HTTP))
            except ValueError:
                raise ValueError("not an address: write SCHEME://PLACE") from None
            if secret:
                raise ValueError(
                    "an address with a password or a token is refused, since addresses are shown and kept; leave it "
                    "out and give it by the environment, as docs/guide/sources.md says"
                )
        return path

    @field_validator("groups")
    @classmethod
    def _names(cls, groups: tuple[str, ...]) -> tuple[str, ...]:
        return require_few(group_names(groups)) if groups else ()

    @field_validator("include", "exclude")
    @classmethod
    def _folders(cls, globs: tuple[str, ...]) -> tuple[str, ...]:
        """Refuse `**/` inside a name: it is whole folders, so that a path is matched in time linear in its length."""
        for glob in globs:
            tokens = re.findall(r"\*\*/|\*\*|.", glob, re.DOTALL)
            if any(token == "**/" and before[-1] != "/" for before, token in pairwise(tokens)):
                raise ValueError(f"{glob!r}: **/ stands for whole folders; begin the pattern with it, or write /**/")
        return globs
