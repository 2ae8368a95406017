"""Sources: named folders, listed and hashed, with side-car metadata.

Nothing outside a source's folder is read: symbolic links that lead out are skipped and named, as
are devices, pipes and names that cannot be told apart in text.

Beside a file NAME may stand `NAME.meta.yaml`, what is known of it, and `NAME.elements.json`, its
structure as an external extractor found it, read in its place. Neither is a document then; a map
without its file is one.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from pipelines.errors import DocumentError, SourceError, UsageError
from pipelines.fingerprint import document_id
from pipelines.indexing.cleaning import clean_metadata, clean_text
from pipelines.indexing.dates import iso_date
from pipelines.records import Failure, RawDocument
from pipelines.settings import SourceSettings
from resources.hashes import content_hash

SIDE_CAR = ".meta.yaml"
_LARGEST_SIDE_CAR = 1 << 16
_OWN_KEYS = ("title", "effective_date", "version", "groups", "metadata")
_UNCLEAN = re.compile(r"[\x00-\x1f\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Skipped:
    """A file that is no document, and why: `unsupported`, `symlink`, `not_a_file`, `name`."""

    source: str
    uri: str
    code: str
    message: str


@dataclass
class Listing:
    """What a source holds. Documents that could not be read or have a wrong side-car are failures."""

    documents: list[RawDocument] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)


def source_from(argument: str, known: Sequence[SourceSettings] = ()) -> SourceSettings:
    """`NAME=PATH` or PATH of the command; settings of a source of that name are kept.

    Raises UsageError where the folder does not exist."""
    name, _, path = argument.partition("=") if "=" in argument else ("", "", argument)
    folder = Path(path).expanduser().resolve()
    if not folder.is_dir():
        what = "is not a folder" if folder.exists() else "no such folder"
        raise UsageError(f"--source {argument}: {what}: {folder}")
    name = name or folder.name
    if not name:
        raise UsageError(f"--source {argument}: give the source a name: NAME={path}")
    for source in known:
        if source.name == name:
            return source.model_copy(update={"path": str(folder)})
    return SourceSettings(name=name, path=str(folder))


def list_source(source: SourceSettings, root: Path, max_megabytes: int | None = None) -> Listing:
    """Every file of a source, hashed, in order of its uri; one over `max_megabytes` is a failure, and is not read.

    Raises SourceError where the folder itself cannot be listed: an incomplete listing deletes nothing."""
    from resources.parsers.registry import ELEMENTS_SUFFIX

    listing = Listing()
    uris = set(walk(root, root, source, listing))
    maps = {uri for uri in uris if uri.endswith(ELEMENTS_SUFFIX) and uri.removesuffix(ELEMENTS_SUFFIX) in uris}
    for uri in sorted(uris - maps):
        if not uri.endswith(SIDE_CAR) and taken(uri, source):
            _add(source, root, uri, uri + ELEMENTS_SUFFIX in maps, max_megabytes, listing)
    return listing


def walk(root: Path, folder: Path, source: SourceSettings, listing: Listing) -> Iterator[str]:
    try:
        entries = list(os.scandir(folder))
    except OSError as error:
        if folder == root:
            raise SourceError(f"source {source.name!r}: cannot list {root}: {error.strerror}") from None
        raise SourceError(
            f"source {source.name!r}: cannot list {folder}: {error.strerror}; "
            "nothing was changed, since files there would count as deleted"
        ) from None
    for entry in entries:
        uri = os.path.relpath(entry.path, root)
        if entry.name.startswith("."):
            continue
        problem = _problem(root, uri, entry)
        if problem:
            shown = uri.encode("utf-8", "backslashreplace").decode()
            listing.skipped.append(Skipped(source.name, shown, *problem))
        elif entry.is_dir():
            yield from walk(root, Path(entry.path), source, listing)
        else:
            yield uri


def _problem(root: Path, uri: str, entry: os.DirEntry[str]) -> tuple[str, str] | None:
    if _UNCLEAN.search(uri):
        return "name", "the name has control characters or is not UTF-8; rename it"
    if entry.is_symlink():
        target = Path(os.path.realpath(entry.path))
        try:
            if entry.is_dir() or not target.is_relative_to(root.resolve()):
                return "symlink", "a link to a folder or out of the source is not followed"
        except OSError:
            return "symlink", "a link that leads to itself"
    try:
        mode = entry.stat().st_mode
    except OSError:
        return ("symlink", "a link that leads nowhere") if entry.is_symlink() else None
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


def _add(
    source: SourceSettings, root: Path, uri: str, mapped: bool, max_megabytes: int | None, listing: Listing
) -> None:
    from resources.parsers.registry import ELEMENTS, files_of, media_type_of, require_size

    media_type = ELEMENTS if mapped else media_type_of(Path(uri))
    if media_type is None:
        listing.skipped.append(Skipped(source.name, uri, "unsupported", "no parser for this kind of file"))
        return
    try:
        side_car = read_side_car(root / (uri + SIDE_CAR), root)
        files = files_of(root / uri, media_type)
        size = sum(file.stat().st_size for file in files)
        require_size(uri, size, max_megabytes)
        content = content_hash(*files)
    except (OSError, ValueError, DocumentError) as error:
        doc_id = document_id(source.name, uri)
        listing.failures.append(Failure(doc_id, source.name, uri, "raw_documents", *_told(error, root / uri)))
        return
    listing.documents.append(
        RawDocument(
            doc_id=document_id(source.name, uri),
            source=source.name,
            uri=uri,
            content_hash=content,
            size=size,
            media_type=media_type,
            title=side_car.get("title"),
            effective_date=side_car.get("effective_date"),
            version=side_car.get("version"),
            groups=side_car.get("groups"),
            source_groups=source.groups,
            metadata=side_car.get("metadata", {}),
        )
    )


def _told(error: OSError | ValueError | DocumentError, path: Path) -> tuple[str, str]:
    """Code and message."""
    if isinstance(error, DocumentError):
        return error.code, str(error)
    if isinstance(error, OSError):
        return "unreadable", f"{error.strerror}: {path}"
    return "side_car", f"{error}: {path}"


def read_side_car(path: Path, root: Path) -> dict[str, Any]:
    """The values of `NAME.meta.yaml` (NAME with its extension); empty where there is none.

    Raises ValueError naming the file and what is wrong with it: a side-car that cannot be
    understood may restrict its document, so the document is not taken without it."""
    import yaml

    if not os.path.lexists(path):
        return {}
    if not path.is_file() or not Path(os.path.realpath(path)).is_relative_to(root.resolve()):
        raise ValueError(f"{path.name} is no plain file within the source")
    if path.stat().st_size > _LARGEST_SIDE_CAR:
        raise ValueError(f"{path.name} is over {_LARGEST_SIDE_CAR >> 10} KB")
    try:
        # BaseLoader builds nothing but text, lists and mappings.
        values = yaml.load(path.read_text(encoding="utf-8"), Loader=yaml.BaseLoader) or {}
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"{path.name} is not valid YAML: {' '.join(str(error).split())}") from None
    if not isinstance(values, dict):
        raise ValueError(f"{path.name} must be a mapping")
    unknown = [str(key) for key in values if key not in _OWN_KEYS]
    if unknown:
        raise ValueError(f"{path.name}: unknown key {unknown[0]!r}; put free keys under metadata; known: {_OWN_KEYS}")
    # Nothing but plain values is shown or joined: a few anchors in lists of lists are gigabytes as text.
    given = {key: values[key] for key in ("title", "effective_date", "version") if values.get(key)}
    if deep := [key for key, value in given.items() if not isinstance(value, str)]:
        raise ValueError(f"{path.name}: {deep[0]} must be one value, not a list or mapping")
    dated = values.get("effective_date")
    if dated is not None and iso_date(str(dated)) is None:
        raise ValueError(f"{path.name}: effective_date {str(dated)!r} is not a date; write YYYY-MM-DD")
    groups = values.get("groups")
    if groups is not None:
        named = groups.split(",") if isinstance(groups, str) else groups
        if not isinstance(named, list) or not all(isinstance(group, str) for group in named):
            raise ValueError(f"{path.name}: groups must be a list of names")
        groups = tuple(group.strip() for group in named if group.strip())
        if unclean := [group for group in groups if _UNCLEAN.search(group)]:
            raise ValueError(f"{path.name}: group {unclean[0]!r} has control characters or is not Unicode")
    texts = {key: text for key, value in given.items() if (text := clean_text(value))}
    free = values.get("metadata") or {}
    if not isinstance(free, dict):
        raise ValueError(f"{path.name}: metadata must be a mapping of keys to values")
    deep = [str(key) for key, value in free.items() if not isinstance(value, str)]
    if deep:
        raise ValueError(f"{path.name}: metadata {deep[0]!r} must be one value, not a list or mapping")
    return {**texts, "groups": groups, "metadata": clean_metadata(free)}
