"""The names that a source's folder holds, told without following a link out of it, whatever is swapped meanwhile."""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from pipelines.errors import SourceError
from pipelines.settings.sources import SourceSettings
from resources.sources.files import OfAnother, SourceFolder
from resources.sources.overlaps import OWN, Elsewhere

UNCLEAN = re.compile(r"[\x00-\x1f\ud800-\udfff]")
LONGEST_NAME = 4000
"""Bytes of a name with its folders, which Linux opens at most 4096 of."""
_GONE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)


@dataclass(frozen=True, slots=True)
class Skipped:
    """A file that is no document, and why: `unsupported`, `symlink`, `not_a_file`, `name`; or `overlap`, a place of
    another source."""

    source: str
    uri: str
    code: str
    message: str


def opened_source(source: SourceSettings, root: Path, elsewhere: Elsewhere = OWN) -> SourceFolder:
    """Raises SourceError."""
    try:
        return SourceFolder(root, elsewhere)
    except OSError as error:
        raise SourceError(f"source {source.name!r}: cannot list {root}: {error.strerror}") from None


def hidden(uri: str) -> bool:
    """Return whether a name begins with a dot, or lies in a folder whose name does: neither is a document."""
    return any(part.startswith(".") and part not in (".", "..") for part in uri.split("/"))


def walk(folder: SourceFolder, source: SourceSettings, with_hidden: bool = False) -> Iterator[str | Skipped]:
    """Every file below, but hidden ones. A folder that was moved, or exchanged for a link, since its name was read has
    no files. Raises SourceError where one cannot be listed: an incomplete listing deletes nothing.

    `with_hidden` gives hidden files too, but none of hidden folders."""
    pending = [""]
    while pending:
        below = pending.pop()
        try:
            found = list(_entries(folder, below))
        except OSError as error:
            if below and error.errno in _GONE:
                continue
            raise SourceError(
                f"source {source.name!r}: cannot list {folder.root / below}: {error.strerror}; "
                "nothing was changed, since files there would count as deleted"
            ) from None
        for uri, state in found:
            if hidden(uri):
                if with_hidden and not stat.S_ISDIR(state.st_mode) and _problem(folder, uri, state) is None:
                    yield uri
                continue
            problem = _problem(folder, uri, state)
            if problem:
                yield Skipped(source.name, uri.encode("utf-8", "backslashreplace").decode(), *problem)
            elif stat.S_ISDIR(state.st_mode):
                pending.append(uri)
            else:
                yield uri


def _entries(folder: SourceFolder, below: str) -> Iterator[tuple[str, os.stat_result]]:
    """Names in a folder and what each is: a link is a link."""
    with folder.folder(below) as descriptor, os.scandir(descriptor) as entries:
        for entry in entries:
            with suppress(FileNotFoundError):
                yield (f"{below}/{entry.name}" if below else entry.name), entry.stat(follow_symlinks=False)


def _problem(folder: SourceFolder, uri: str, state: os.stat_result) -> tuple[str, str] | None:
    mode = state.st_mode
    if why := folder.elsewhere.why(uri) or (folder.why(state) if stat.S_ISDIR(mode) else None):
        return "overlap", why
    if UNCLEAN.search(uri):
        return "name", "the name has control characters or is not UTF-8; rename it"
    if len(os.fsencode(uri)) > LONGEST_NAME:
        return "name", "the name with its folders is too long; shorten it"
    if stat.S_ISLNK(mode):
        try:
            mode = folder.state(folder.resolved(uri)).st_mode
        except OfAnother as error:
            return "overlap", f"a link to a file that is not the source's own: {error.strerror}"
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ENOTDIR):
                return "symlink", "a link that leads nowhere"
            return "symlink", "a link out of the source, or to itself, is not followed"
        if stat.S_ISDIR(mode):
            return "symlink", "a link to a folder is not followed"
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        return "not_a_file", "a pipe, socket or device is not read"
    return None


@cache
def _pattern(glob: str) -> re.Pattern[str]:
    """A glob over relative paths: ** is any folders, * and ? stay within a name.

    What follows a star is taken where it stands first, for good, since a later star takes all that an earlier one
    could: only the last of either kind, which the end binds, tries further places."""
    folders, parts = re.findall(r"\*\*/|\*\*", glob), re.split(r"\*\*/|\*\*", glob)
    pattern = "" if folders else _names(parts[0], last=True)
    for at, (star, part) in enumerate(zip(folders, parts[1:], strict=True), start=1):
        begins = "(?:.*?/)??" if star == "**/" else ".*?"
        pattern += "" if at > 1 else _names(parts[0])
        pattern += f"{begins}{_names(part, last=True)}" if at == len(folders) else f"(?>{begins}{_names(part)})"
    return re.compile(rf"\A{pattern}\Z", re.DOTALL)


def _names(part: str, last: bool = False) -> str:
    """The pattern of a glob without **; `last` where nothing but the end follows."""
    first, *others = ["".join("[^/]" if sign == "?" else re.escape(sign) for sign in text) for text in part.split("*")]
    starred = [f"(?>[^/]*?{text})" for text in others]
    if others and last:
        starred[-1] = f"[^/]*{others[-1]}"
    return first + "".join(starred)


def taken(uri: str, source: SourceSettings) -> bool:
    included = any(_pattern(glob).match(uri) for glob in source.include)
    return included and not any(_pattern(glob).match(uri) for glob in source.exclude)
