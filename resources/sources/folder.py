"""The listing of a source: its documents, their hashes, and the data of side-cars.

Nothing outside a source's folder is read. Symbolic links that lead out, devices, pipes, and names that look the same as
text are skipped and reported.

A file NAME may have two files beside it: `NAME.meta.yaml` with metadata, and `NAME.elements.json`, its structure from
an external extractor, which is read in its place. Neither is then a document. A map `NAME.elements.json` without a file
NAME is a document, unless NAME is the name of a file that is gone. If any other file beside NAME names groups, NAME is
withheld. In a source where untrusted people choose names, no file describes another.

The attachments of a mail (EML, MSG) are documents too, named below it. They have the groups of the mail.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any

from pipelines.errors import DocumentError, SettingsError, UsageError, code_of_map
from pipelines.fingerprint import document_id
from pipelines.parsing.formats import MARKDOWN, PICTURES, WITH_HEADS
from pipelines.records import Failure, RawDocument
from pipelines.settings.sources import SourceSettings, scheme_of
from resources.connectors.source import named_by_strangers
from resources.hashes import bytes_hash, combined_hash, piecewise
from resources.parsers.registry import ELEMENTS, ELEMENTS_SUFFIX, files_of, media_type_of, require_size
from resources.side_cars import LARGEST_SIDE_CAR, SIDE_CAR, may_restrict, read_side_car
from resources.sources.files import (
    Skipped,
    SourceFolder,
    is_excluded,
    is_hidden,
    is_taken,
    opened_source,
    pieces,
    read_as,
    unfit,
    walk,
)
from resources.sources.landing import FetchResult
from resources.sources.listed_documents import ListedDocuments
from resources.sources.mail_parts import Attachment, holds_parts, parts_of_mail
from resources.sources.memberships import FILE, GONE, ReadMemberships, in_folder, is_file, unread
from resources.sources.overlaps import OWN, Elsewhere
from resources.sources.siblings import Before, Meant, Names, Siblings, StraySideCars, keys_of, orphan_maps
from resources.sources.sorted_spool import TextSet

NOTHING = Before()
_OF_WINDOWS = re.compile(r"[A-Za-z]:[\\/]")
_MOST_BESIDE = 1000
"""Most entries of a folder among which the probably meant one is searched."""
_RENAME = "rename it with its file, or remove it"
_REMOVE = "and it names groups: remove it, or give it a side-car if it is a document"


@dataclass
class FolderListing:
    """The contents of a source. Documents that could not be read, or whose restrictions are unknown, are failures.
    `documents` also keeps the groups that side-cars and heads of files name for documents that could not be read."""

    documents: ListedDocuments = field(default_factory=ListedDocuments)
    skipped: list[Skipped] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    lost: dict[str, str] = field(default_factory=dict)
    """Content hashes, by uri, of files that are gone or withheld although one of their side-cars remains."""
    memberships: ReadMemberships | None = None
    """Members of the source's principals, or None if it does not report them."""
    elsewhere: Elsewhere = OWN
    """Places that belong to other sources, including links to them."""

    def keep_memberships(self, source: str, name: str, said: ReadMemberships) -> None:
        """Store the memberships in a file or from a query."""
        self.memberships = said
        if said.problem:
            self.failures.append(said.failure(source, name))


def source_from(argument: str, known: Sequence[SourceSettings] = ()) -> SourceSettings:
    """Return a source from the command's argument: `NAME=PATH`, PATH or `NAME=ADDRESS`.

    If a known source has this name, its settings are kept. Raise UsageError if the folder does not exist, SettingsError
    if the address is invalid.
    """
    named = "=" in argument and not scheme_of(argument)
    name, _, path = argument.partition("=") if named else ("", "", argument)
    if scheme_of(path):
        return _source_at(name, path, known)
    if not path.strip():
        raise UsageError(f"{argument!r} names no folder; write FOLDER or NAME=FOLDER")
    folder = Path(path).expanduser().resolve()
    if not folder.is_dir():
        raise UsageError(f"{argument}: {_why_no_folder(path, folder)}")
    name = name or folder.name
    if not name:
        raise UsageError(f"{argument}: give the source a name: NAME={path}")
    return _of_name(name, str(folder), known)


def _why_no_folder(path: str, folder: Path) -> str:
    """Return why a path is not a folder, with a suggestion."""
    if folder.exists():
        return f"is not a folder; name the folder that it is in, or look at it with `pincite parse {path}`"
    if path[0] in "\"'“”‘’" or path[-1] in "\"'“”‘’":
        return "no such folder; leave out the quotes that are part of the name"
    if _OF_WINDOWS.match(path):
        drive, rest = path[0].lower(), path[2:].replace("\\", "/")
        return f"no such folder; under WSL it is /mnt/{drive}{rest}"
    near = _nearest_folder(folder)
    whole = f": {folder}" if str(folder) != path else ""
    return f"no such folder{whole}" + (f"; did you mean {near}?" if near else "")


def _nearest_folder(folder: Path) -> Path | None:
    try:
        beside = [each.name for each in islice(folder.parent.iterdir(), _MOST_BESIDE) if each.is_dir()]
    except OSError:
        return None
    near = difflib.get_close_matches(folder.name, beside, n=1)
    return folder.parent / near[0] if near else None


def _source_at(name: str, address: str, known: Sequence[SourceSettings]) -> SourceSettings:
    """Return a source with an address. Errors repeat the address only if it contains no password."""
    from pydantic import ValidationError

    from resources.connectors.source import require_known

    try:
        SourceSettings(name=name or "NAME", path=address)
    except ValidationError as error:
        told = str(error.errors()[0]["msg"]).removeprefix("Value error, ")
        raise SettingsError(f"--source {name or 'NAME'}=...: {told}") from None
    if not name:
        raise UsageError(f"{address}: give the source a name: NAME={address}")
    source = _of_name(name, address, known)
    require_known(source)
    return source


def _of_name(name: str, path: str, known: Sequence[SourceSettings]) -> SourceSettings:
    for source in known:
        if source.name == name:
            return source.model_copy(update={"path": path})
    return SourceSettings(name=name, path=path)


def list_source(
    source: SourceSettings,
    root: Path,
    max_megabytes: int | None = None,
    before: Before = NOTHING,
    brought: FetchResult | None = None,
    readers: Mapping[str, str] | None = None,
    elsewhere: Elsewhere = OWN,
    without_pictures: Callable[[], str] = lambda: "",
) -> FolderListing:
    """List every file of a source with its hash, in order of uri. A file over `max_megabytes` is a failure, and is not
    read. If the source is not a folder, its files were fetched into `root`, and `brought` has their names and hashes.

    `readers` are the readers in the settings for all sources; the source's own take precedence. Places in `elsewhere`
    are skipped. `without_pictures` returns why picture files are skipped, or "" if they can be read. Raise SourceError
    if a folder cannot be listed, so that an incomplete listing deletes no documents.
    """
    listing = FolderListing()
    with opened_source(source, root, OWN if brought else elsewhere) as folder:
        names = brought.names(elsewhere) if brought else walk(folder, source, True)
        uris = TextSet(_taken_in(listing, names))
        listing.elsewhere = elsewhere.and_also(
            {each.uri: each.message for each in listing.skipped if each.code == "overlap"}
        )
        present = TextSet(chain(uris, (item.uri for item in listing.skipped))) if listing.skipped else uris
        chosen = {**(readers or {}), **source.readers}
        lister = _Lister(source, folder, present, max_megabytes, listing, before, brought, chosen, without_pictures)
        lister.ask_siblings()
        strangers = named_by_strangers(source.scheme)
        lost = {} if strangers else orphan_maps(present, uris)
        if source.memberships:
            listing.keep_memberships(source.name, FILE, lister.memberships())
        for uri in uris:
            if is_hidden(uri) or lister.is_told(uri) or (_is_map(uri, uris) and not strangers):
                continue
            if is_file(uri):
                lister.pass_over(uri)
                continue
            if not is_taken(uri, source):
                continue
            if uri in lost:
                lister.fail(uri, "orphan", _lost_map(uri, lost[uri]))
            else:
                lister.add(uri, uri + ELEMENTS_SUFFIX in uris and not strangers)
        lister.tell_siblings()
    return listing


def _taken_in(listing: FolderListing, found: Iterable[str | Skipped]) -> Iterator[str]:
    """Yield the names of files to list, and add the others to the skipped ones."""
    for each in found:
        if isinstance(each, Skipped):
            listing.skipped.append(each)
        else:
            yield each


def _is_map(uri: str, uris: Names) -> bool:
    return uri.endswith(ELEMENTS_SUFFIX) and uri.removesuffix(ELEMENTS_SUFFIX) in uris


def _lost_map(uri: str, name: str) -> str:
    return (
        f"{uri}: {name}, whose structure it is, is not there, and with it what restricts it: bring that back, remove "
        f"the map, or say in {uri}{SIDE_CAR} what it is"
    )


class _Lister:
    """A builder that adds the files of one source to its listing. Each file is read through one descriptor."""

    def __init__(
        self,
        source: SourceSettings,
        folder: SourceFolder,
        present: Names,
        max_megabytes: int | None,
        listing: FolderListing,
        before: Before,
        brought: FetchResult | None,
        readers: Mapping[str, str],
        without_pictures: Callable[[], str],
    ) -> None:
        self._source, self._folder, self._present, self._brought = source, folder, present, brought
        self._max_megabytes, self._listing, self._readers = max_megabytes, listing, readers
        self._without_pictures = without_pictures
        self._groups: tuple[str, ...] | None = None
        self._target: str | None = None
        self._strangers = named_by_strangers(source.scheme)
        self._strays = StraySideCars(before)
        self._siblings: dict[str, tuple[str, Meant]] = {}
        self._withholding: dict[str, str] = {}

    def fail(self, uri: str, code: str, message: str) -> None:
        name = self._source.name
        self._listing.failures.append(Failure(document_id(name, uri), name, uri, "raw_documents", code, message))

    def memberships(self) -> ReadMemberships:
        if self._brought and FILE not in self._present:
            return GONE  # a copy fetched earlier may still be in the folder
        try:
            if self._brought:
                self._brought.content(FILE)
            return in_folder(self._folder)
        except DocumentError as error:
            return unread(error)

    def pass_over(self, uri: str) -> None:
        """Skip a file of memberships. Report it as skipped unless the source reads its memberships from it."""
        if uri != FILE or not self._source.memberships:
            told = f"it may say who is behind principals: set `memberships: true` for a {FILE} at the source's root"
            self._listing.skipped.append(Skipped(self._source.name, uri, "memberships", told))

    # ------------------------------------------------------------ siblings

    def ask_siblings(self) -> None:
        """Read every file that may be meant as a side-car once, and record those that restrict documents."""
        before = self._strays.before
        siblings = Siblings(self._source, self._present, before.lost)
        for name in siblings:
            meant = siblings.meaning_of(name)
            own = name.endswith(SIDE_CAR)
            if not (self._orphan_restricts(name) if own else self._names_groups(name, meant.whole)):
                if own and meant.missing:
                    self._add_orphan(name, meant.missing, restricts=False)
                continue
            for key in meant.keys:
                self._siblings.setdefault(key, (name, meant))
            if meant.missing:
                self._add_orphan(name, meant.missing, restricts=True)
            elif media_type_of(Path(name)):
                self._withholding[name] = ""

    def _add_orphan(self, side_car: str, name: str, restricts: bool) -> None:
        self._strays.side_cars[side_car] = name
        self.fail(side_car, "orphan", f"{side_car}: {name}, which it describes, is not there: {_RENAME}")
        if restricts:
            self._strays.restricts(side_car)
            content = self._strays.before.contents.get(name)
            self._listing.lost.update({name: content} if content else {})

    def _orphan_restricts(self, side_car: str) -> bool:
        try:
            return self._read_side_car(side_car).get("groups") is not None
        except ValueError:
            return True

    def _names_groups(self, sibling: str, whole: bool) -> bool:
        try:
            content = self._sibling_content(sibling, whole)
        except ValueError:
            return True
        return content is not None and may_restrict(content, media_type_of(Path(sibling)))

    def _sibling_content(self, name: str, whole: bool) -> bytes | None:
        """Return the beginning of a sibling. Return None if it has no content: a link to a folder, a broken link, or a
        file that git stores elsewhere. Raise ValueError if it cannot be read."""
        if self._brought:
            try:
                self._brought.content(name)
            except DocumentError as error:
                if error.code == "unsupported" and not whole:
                    return None
                raise ValueError(str(error)) from None
        else:
            place = self._folder.root / name
            if place.is_symlink() and (place.is_dir() or not place.exists()):
                return None
        return self._side_car_content(name)

    def is_told(self, uri: str) -> bool:
        """Say whether a file is not a document and is handled elsewhere: a side-car, or a file meant as one."""
        if self._strangers:
            return False
        return uri.endswith(SIDE_CAR) or uri in self._strays.side_cars or uri in self._withholding

    def tell_siblings(self) -> None:
        """Report the siblings that withhold a document, and those that a parser could read."""
        skipped = self._listing.skipped
        skipped[:] = [item for item in skipped if item.code != "unsupported" or item.uri not in self._withholding]
        for name, uri in self._withholding.items():
            told = f"which may restrict {uri}: name it {uri}{SIDE_CAR}, or remove it" if uri else _REMOVE
            if name not in self._strays.side_cars:
                self.fail(name, "orphan", f"{name}: not the name of a side-car, {told}")

    def _require_undoubted(self, uri: str, content: str) -> None:
        """Raise ValueError if a document names no groups itself, but one of its siblings does, or a sibling of the file
        to which it links."""
        if self._groups is not None:
            return
        places = [uri] if self._target in (None, uri) else [uri, self._target or uri]
        found = next((self._siblings[key] for place in places for key in keys_of(place) if key in self._siblings), None)
        if found is None:
            return
        sibling = found[0]
        self._withholding[sibling] = self._withholding.get(sibling) or uri
        self._listing.lost.update({uri: content} if content else {})
        raise ValueError(
            f"{uri}: withheld, since {sibling} beside it names groups or principals, or cannot be read, and is not its "
            f"side-car: write who may find it in {uri}{SIDE_CAR}, or remove {sibling}"
        )

    # ------------------------------------------------------------ documents

    def add(self, uri: str, mapped: bool) -> None:
        media_type = ELEMENTS if mapped else media_type_of(Path(uri), self._readers)
        if media_type is None or (self._strangers and media_type == ELEMENTS):
            self._skip(uri, "no parser for this kind of file")
            return
        if media_type in PICTURES and (why := self._without_pictures()):
            self._skip(uri, f"a picture is read by OCR, and {why}")
            return
        doc_id, self._groups = document_id(self._source.name, uri), None
        try:
            side_car = self._side_car(uri)
            self._require_known(uri, side_car)
            self._groups = side_car.get("groups")
            size, content = self._content_of(uri, media_type)
            self._require_undoubted(uri, content)
            self._require_known(uri, side_car, content)
        except (DocumentError, ValueError) as error:
            self._listing.documents.restrict(doc_id, self._groups)
            code = "side_car" if isinstance(error, ValueError) else error.code
            self.fail(uri, code_of_map(code) if media_type == ELEMENTS else code, str(error))
            if holds_parts(uri):
                self._fail_parts(uri, code, str(error), self._groups)
            return
        found = RawDocument(
            doc_id=doc_id,
            source=self._source.name,
            uri=uri,
            content_hash=content,
            size=size,
            media_type=media_type,
            title=side_car.get("title"),
            effective_date=side_car.get("effective_date"),
            version=side_car.get("version"),
            groups=() if self._strangers else self._groups,
            source_groups=self._source.groups,
            metadata=side_car.get("metadata", {}),
        )
        self._listing.documents.add(found)
        if holds_parts(uri) and media_type != ELEMENTS:
            self._add_parts(found)

    def _skip(self, uri: str, message: str) -> None:
        self._listing.skipped.append(Skipped(self._source.name, uri, "unsupported", message))

    def _add_parts(self, mail: RawDocument) -> None:
        """List the attachments of a mail, with the groups of the mail. Groups at the head of an attachment are ignored,
        since an untrusted person may have written it."""
        try:
            with read_as(mail.uri), self._folder.open_file(self._folder.resolve(mail.uri)) as stream:
                parts = list(parts_of_mail(stream, mail.uri))
        except DocumentError as error:
            self._listing.skipped.append(Skipped(self._source.name, mail.uri, "attachments", str(error)))
            self._fail_parts(mail.uri, error.code, str(error), mail.groups)
            return
        for part in parts:
            uri = f"{mail.uri}/{part.below}"
            self._add_part(mail, uri, part)
            if part.undivided:
                self._listing.skipped.append(Skipped(self._source.name, uri, "attachments", part.undivided))
                self._fail_parts(uri, "limit_exceeded", part.undivided, mail.groups)

    def _fail_parts(self, mail: str, code: str, message: str, groups: tuple[str, ...] | None) -> None:
        """Mark the known attachments of a mail as failed, so that their last version is kept, or withheld, together
        with the mail's."""
        for uri in self._strays.before.below(mail + "/"):
            self._listing.documents.restrict(document_id(self._source.name, uri), groups)
            self.fail(uri, code, message)

    def _add_part(self, mail: RawDocument, uri: str, part: Attachment) -> None:
        media_type = media_type_of(Path(uri), self._readers)
        if media_type is None or is_excluded(uri, self._source):
            return
        if media_type in PICTURES and (why := self._without_pictures()):
            self._skip(uri, f"a picture is read by OCR, and {why}")
            return
        doc_id = document_id(self._source.name, uri)
        try:
            if problem := unfit(uri):
                raise DocumentError(f"{uri}: {problem}", "name")
            require_size(uri, len(part.content), self._max_megabytes)
        except DocumentError as error:
            self._listing.documents.restrict(doc_id, mail.groups)
            self.fail(uri, error.code, str(error))
            return
        content = combined_hash([bytes_hash(part.content)])
        self._listing.documents.add(
            replace(mail, doc_id=doc_id, uri=uri, content_hash=content, size=len(part.content), media_type=media_type,
                    title=None, groups=mail.groups or ())
        )  # fmt: skip

    def _content_of(self, uri: str, media_type: str) -> tuple[int, str]:
        """Return size and hash of a document. If a sibling withholds it and it also cannot be read, the former is
        reported."""
        try:
            with read_as(uri):
                return self._content(uri, media_type)
        except DocumentError:
            self._require_undoubted(uri, "")
            raise

    def _require_known(self, uri: str, side_car: Mapping[str, Any], content: str = "") -> None:
        doubt = None if side_car else self._strays.doubt(uri, content)
        if doubt:
            raise DocumentError(doubt, "orphan")

    def _side_car(self, uri: str) -> dict[str, Any]:
        """Return the data of a file's side-car. For a link, its target's side-car counts too. Raise ValueError."""
        self._target = None
        if self._strangers:
            return {}
        own = self._read_side_car(uri + SIDE_CAR)
        try:
            target = self._target = self._folder.resolve(uri)
        except OSError:
            return own
        linked = self._read_side_car(target + SIDE_CAR) if target != uri else {}
        return {**linked, **own, "groups": own.get("groups") or linked.get("groups")} if linked else own

    def _read_side_car(self, name: str) -> dict[str, Any]:
        """Return the values of a side-car, or an empty mapping if the file does not exist. Raise ValueError."""
        content = self._side_car_content(name)
        return {} if content is None else read_side_car(name, content, self._source.name)

    def _side_car_content(self, name: str) -> bytes | None:
        """Return the beginning of a side-car, at most LARGEST_SIDE_CAR + 1 bytes. Return None if it does not exist now
        and did not exist when names were listed. Raise ValueError."""
        try:
            if self._brought and name in self._present:
                self._brought.content(name)
            self._folder.state(name)
        except (FileNotFoundError, NotADirectoryError):
            if name in self._present:
                raise ValueError(f"{name}: the side-car went away while it was read; the next run reads it") from None
            return None
        except DocumentError as error:
            raise ValueError(str(error)) from None
        except OSError as error:
            raise ValueError(f"{name} cannot be read ({error.strerror})") from None
        try:
            with self._folder.open_file(self._folder.resolve(name)) as stream:
                return stream.read(LARGEST_SIDE_CAR + 1)
        except PermissionError:
            raise ValueError(f"{name}: no permission to read it; grant it and index again") from None
        except (OSError, DocumentError):
            raise ValueError(f"{name} is no plain file within the source") from None

    def _content(self, uri: str, media_type: str) -> tuple[int, str]:
        """Return size and hash of a document's files. The groups at its head are kept even if it is too large to
        read."""
        hashes, total = [], 0
        for file in files_of(Path(uri), media_type):
            size, content = self._one_file(uri, file, total)
            total += size
            hashes.append(content)
        return total, combined_hash(hashes)

    def _one_file(self, uri: str, file: Path, before: int) -> tuple[int, str]:
        """Return size and hash of one file of a document; `before` is the size of its other files. The file is read if
        its hash is unknown."""
        kind = media_type_of(file)
        with_head = kind in WITH_HEADS and not self._strangers and (kind == MARKDOWN or self._groups is None)
        known = self._known_content(file, with_head and kind == MARKDOWN)
        if known:
            require_size(uri, before + known[0], self._max_megabytes)
            if not with_head:
                return known
        target = self._target if str(file) == uri else None
        with self._folder.open_file(target or self._folder.resolve(str(file))) as stream:
            if with_head:
                from resources.parsers.text.front_matter import HEAD_BYTES, groups_at_head

                assert kind is not None
                self._groups = self._groups or groups_at_head(stream.read(HEAD_BYTES), uri, kind)
                stream.seek(0)
            if known:
                return known
            whole, size = piecewise(), 0
            for piece in pieces(stream, uri, before, self._max_megabytes):
                size += len(piece)
                whole.update(piece)
        return size, whole.hexdigest()

    def _known_content(self, file: Path, with_head: bool) -> tuple[int, str] | None:
        """Return size and hash of a fetched file, or None if the source is a folder. Raise DocumentError. If the file
        was too large to fetch and its head might restrict it, the error's code makes it withheld."""
        try:
            return self._brought.content(str(file)) if self._brought else None
        except DocumentError as error:
            if with_head and error.code == "limit_exceeded":
                raise DocumentError(f"{error}; groups at its head are unknown", "front_matter") from None
            raise
