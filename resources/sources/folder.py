"""Sources: named folders, listed and hashed, with side-car metadata.

Nothing outside a source's folder is read: symbolic links that lead out are skipped and named, as
are devices, pipes and names that cannot be told apart in text.

Beside a file NAME may stand `NAME.meta.yaml`, what is known of it, and `NAME.elements.json`, its
structure as an external extractor found it, read in its place. Neither is a document then; a map
`NAME.elements.json` of no file is one, unless NAME is that of a file which is gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

from pipelines.errors import DocumentError, SettingsError, UsageError, code_of_map
from pipelines.fingerprint import document_id
from pipelines.parsing.formats import MARKDOWN
from pipelines.records import Failure, RawDocument
from pipelines.settings.sources import SourceSettings, scheme_of
from resources.hashes import combined_hash, piecewise
from resources.parsers.registry import ELEMENTS, ELEMENTS_SUFFIX, files_of, media_type_of, require_size
from resources.parsers.text.front_matter import HEAD_BYTES, groups_at_head
from resources.sources.files import SourceFolder, pieces, read_as
from resources.sources.landing import Brought
from resources.sources.listed_documents import ListedDocuments
from resources.sources.memberships import FILE, GONE, Told, in_folder, is_file, unread
from resources.sources.orphans import Before, Contents, Names, orphan_maps, orphan_side_cars
from resources.sources.scratch import TextSet
from resources.sources.side_cars import LARGEST_SIDE_CAR, MEANT, SIDE_CAR, may_restrict, read_side_car
from resources.sources.walk import Skipped, opened_source, taken, walk

NOTHING = Before()


@dataclass
class Listing:
    """What a source holds. Documents that could not be read, or of which is not known who may find them, are failures;
    `documents` knows what side-cars and heads of files say of who may find them, read or not."""

    documents: ListedDocuments = field(default_factory=ListedDocuments)
    skipped: list[Skipped] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    lost: dict[str, str] = field(default_factory=dict)
    """Contents of files that are gone, and whose side-car is left, by uri."""
    memberships: Told | None = None
    """Who is behind the source's principals; None where it does not tell."""

    def told(self, source: str, name: str, said: Told) -> None:
        """Keeps what a file, or a query, says of memberships."""
        self.memberships = said
        if said.problem:
            self.failures.append(said.failure(source, name))


def source_from(argument: str, known: Sequence[SourceSettings] = ()) -> SourceSettings:
    """`NAME=PATH` or PATH of the command, or NAME=ADDRESS; settings of a source of that name are kept.

    Raises UsageError where the folder does not exist, SettingsError where the address cannot be meant."""
    named = "=" in argument and not scheme_of(argument)
    name, _, path = argument.partition("=") if named else ("", "", argument)
    if scheme_of(path):
        return _addressed(name, path, known)
    folder = Path(path).expanduser().resolve()
    if not folder.is_dir():
        what = "is not a folder" if folder.exists() else "no such folder"
        raise UsageError(f"--source {argument}: {what}: {folder}")
    name = name or folder.name
    if not name:
        raise UsageError(f"--source {argument}: give the source a name: NAME={path}")
    return _of_name(name, str(folder), known)


def _addressed(name: str, address: str, known: Sequence[SourceSettings]) -> SourceSettings:
    """The address is repeated in what is raised only when no password stands in it."""
    from pydantic import ValidationError

    from resources.connectors.registry import require_known

    try:
        SourceSettings(name=name or "NAME", path=address)
    except ValidationError as error:
        told = str(error.errors()[0]["msg"]).removeprefix("Value error, ")
        raise SettingsError(f"--source {name or 'NAME'}=...: {told}") from None
    if not name:
        raise UsageError(f"--source {address}: give the source a name: NAME={address}")
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
    brought: Brought | None = None,
    readers: Mapping[str, str] | None = None,
) -> Listing:
    """Every file of a source, hashed, in order of its uri; one over `max_megabytes` is a failure, and is not read.
    `brought` knows names and hashes of one that is no folder, and whose files were brought into `root`; `readers` are
    those that the settings choose for all sources; the source's own win.

    Raises SourceError where a folder cannot be listed: an incomplete listing deletes nothing."""
    listing = Listing()
    with opened_source(source, root) as folder:
        uris = TextSet(_taken_in(listing, brought.names() if brought else walk(folder, source)))
        present = TextSet(chain(uris, (item.uri for item in listing.skipped))) if listing.skipped else uris
        chosen = {**(readers or {}), **source.readers}
        lister = _Lister(source, folder, present, max_megabytes, listing, before, brought, chosen)
        lister.find_orphans(before.contents)
        lost = orphan_maps(present, uris)
        if source.memberships:
            listing.told(source.name, FILE, lister.memberships())
        for uri in uris:
            if uri.endswith(SIDE_CAR) or uri in lister.orphans.side_cars or _is_map(uri, uris):
                continue
            if is_file(uri):
                lister.pass_over(uri)
                continue
            if not taken(uri, source):
                continue
            if uri in lost:
                lister.fail(uri, "orphan", _lost_map(uri, lost[uri]))
            else:
                lister.add(uri, uri + ELEMENTS_SUFFIX in uris)
    return listing


def _taken_in(listing: Listing, found: Iterable[str | Skipped]) -> Iterator[str]:
    """The names of files; the others are skipped."""
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
    """Adds the files of one source to its listing, each as one descriptor shows it."""

    def __init__(
        self,
        source: SourceSettings,
        folder: SourceFolder,
        present: Names,
        max_megabytes: int | None,
        listing: Listing,
        before: Before,
        brought: Brought | None,
        readers: Mapping[str, str],
    ) -> None:
        self._source, self._folder, self._present, self._brought = source, folder, present, brought
        self._max_megabytes, self._listing, self._readers = max_megabytes, listing, readers
        self._groups: tuple[str, ...] | None = None
        self._target: str | None = None
        self.orphans = orphan_side_cars(present, lambda uri: taken(uri, source), before)

    def fail(self, uri: str, code: str, message: str) -> None:
        name = self._source.name
        self._listing.failures.append(Failure(document_id(name, uri), name, uri, "raw_documents", code, message))

    def memberships(self) -> Told:
        if self._brought and FILE not in self._present:
            return GONE  # what was brought of it may lie there still
        try:
            if self._brought:
                self._brought.content(FILE)
            return in_folder(self._folder)
        except DocumentError as error:
            return unread(error)

    def pass_over(self, uri: str) -> None:
        """A file of memberships, which is named where nobody looks for it."""
        if uri != FILE or not self._source.memberships:
            told = f"it may say who is behind principals: set `memberships: true` for a {FILE} at the source's root"
            self._listing.skipped.append(Skipped(self._source.name, uri, "memberships", told))

    def find_orphans(self, contents: Contents | Mapping[str, str]) -> None:
        """Names the side-cars that have no file, and those with a name that is not quite one."""
        for side_car, name in list(self.orphans.side_cars.items()):
            if not MEANT.search(side_car) and not self._may_restrict(side_car):
                del self.orphans.side_cars[side_car]
                continue
            content = contents.get(name)
            try:
                restricts = self._read_side_car(side_car).get("groups") is not None
            except ValueError:
                restricts = True
            if restricts:
                self.orphans.restricts(side_car)
                self._listing.lost.update({name: content} if content else {})
            self.fail(side_car, "orphan", self._lost_file(side_car, name))

    def _may_restrict(self, side_car: str) -> bool:
        try:
            return may_restrict(self._side_car_content(side_car) or b"")
        except ValueError:
            return True

    def _lost_file(self, side_car: str, name: str) -> str:
        if name in self._present:
            return f"{side_car}: not the name of a side-car, which may have restricted {name}: name it {name}{SIDE_CAR}"
        return f"{side_car}: {name}, which it describes, is not there: rename it with its file, or remove it"

    def add(self, uri: str, mapped: bool) -> None:
        media_type = ELEMENTS if mapped else media_type_of(Path(uri), self._readers)
        if media_type is None:
            told = "no parser for this kind of file"
            self._listing.skipped.append(Skipped(self._source.name, uri, "unsupported", told))
            return
        doc_id, self._groups = document_id(self._source.name, uri), None
        try:
            side_car = self._side_car(uri)
            self._require_known(uri, side_car)
            self._groups = side_car.get("groups")
            with read_as(uri):
                size, content = self._content(uri, media_type)
            self._require_known(uri, side_car, content)
        except (DocumentError, ValueError) as error:
            self._listing.documents.restrict(doc_id, self._groups)
            if isinstance(error, ValueError):
                self.fail(uri, "side_car", str(error))
            else:
                self.fail(uri, code_of_map(error.code) if media_type == ELEMENTS else error.code, str(error))
            return
        self._listing.documents.add(
            RawDocument(
                doc_id=doc_id,
                source=self._source.name,
                uri=uri,
                content_hash=content,
                size=size,
                media_type=media_type,
                title=side_car.get("title"),
                effective_date=side_car.get("effective_date"),
                version=side_car.get("version"),
                groups=self._groups,
                source_groups=self._source.groups,
                metadata=side_car.get("metadata", {}),
            )
        )

    def _require_known(self, uri: str, side_car: Mapping[str, Any], content: str = "") -> None:
        doubt = None if side_car else self.orphans.doubt(uri, content)
        if doubt:
            raise DocumentError(doubt, "orphan")

    def _side_car(self, uri: str) -> dict[str, Any]:
        """What a file's side-car says, and where it is a link, that of the file it leads to. Raises ValueError."""
        own, self._target = self._read_side_car(uri + SIDE_CAR), None
        try:
            target = self._target = self._folder.resolved(uri)
        except OSError:
            return own
        linked = self._read_side_car(target + SIDE_CAR) if target != uri else {}
        return {**linked, **own, "groups": own.get("groups") or linked.get("groups")} if linked else own

    def _read_side_car(self, name: str) -> dict[str, Any]:
        """Empty where there is none. Raises ValueError."""
        content = self._side_car_content(name)
        return {} if content is None else read_side_car(name, content, self._source.name)

    def _side_car_content(self, name: str) -> bytes | None:
        """None where there is none, and was none when names were read; of a large one the beginning. Raises
        ValueError."""
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
            with self._folder.opened(self._folder.resolved(name)) as stream:
                return stream.read(LARGEST_SIDE_CAR + 1)
        except PermissionError:
            raise ValueError(f"{name}: no permission to read it; grant it and index again") from None
        except (OSError, DocumentError):
            raise ValueError(f"{name} is no plain file within the source") from None

    def _content(self, uri: str, media_type: str) -> tuple[int, str]:
        """Size and hash of a document's files; the groups at its head are kept, be it too large to be read or not."""
        hashes, total = [], 0
        for file in files_of(Path(uri), media_type):
            size, content = self._one_file(uri, file, total)
            total += size
            hashes.append(content)
        return total, combined_hash(hashes)

    def _one_file(self, uri: str, file: Path, before: int) -> tuple[int, str]:
        """Size and hash of one, of whose document `before` bytes are known; read where nobody knows its hash."""
        with_head = media_type_of(file) == MARKDOWN
        known = self._known(file, with_head)
        if known:
            require_size(uri, before + known[0], self._max_megabytes)
            if not with_head:
                return known
        target = self._target if str(file) == uri else None
        with self._folder.opened(target or self._folder.resolved(str(file))) as stream:
            if with_head:
                self._groups = self._groups or groups_at_head(stream.read(HEAD_BYTES), uri)
                stream.seek(0)
            if known:
                return known
            whole, size = piecewise(), 0
            for piece in pieces(stream, uri, before, self._max_megabytes):
                size += len(piece)
                whole.update(piece)
        return size, whole.hexdigest()

    def _known(self, file: Path, with_head: bool) -> tuple[int, str] | None:
        """Of a file that was brought. Raises DocumentError; where what it says at its head might restrict it and it is
        too large to be brought, with a code that withholds it."""
        try:
            return self._brought.content(str(file)) if self._brought else None
        except DocumentError as error:
            if with_head and error.code == "limit_exceeded":
                raise DocumentError(f"{error}; and whom its head names is not known", "front_matter") from None
            raise
