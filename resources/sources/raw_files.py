"""Files of sources that are no folders, as they were fetched: each content once, under its hash, and linked from the
name that it has in its source. All of it is within the state, which is its owner's alone."""

from __future__ import annotations

import errno
import filecmp
import os
import shutil
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path, PurePosixPath

from resources.hashes import piecewise


class RawFiles:
    """`raw` is shared by all sources of a state; `own` is one source's folder, with its `files` in it."""

    def __init__(self, raw: Path, own: Path) -> None:
        self.raw, self.files, self._fetching = raw, own / "files", own / "fetching"

    def make(self) -> None:
        """The folders, without what a fetch left that was killed; one process fetches a source at a time."""
        shutil.rmtree(self._fetching, ignore_errors=True)
        for folder in (self.raw, self.files, self._fetching):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def put(self, uri: str, pieces: Iterable[bytes]) -> tuple[int, str]:
        """Keeps the bytes under their hash and links the name to them. Returns size and hash.

        Raises OSError: NotADirectoryError, IsADirectoryError or FileExistsError where the name of another file is a
        folder of this one's, or the other way round."""
        whole, size = piecewise(), 0
        descriptor, written = tempfile.mkstemp(dir=self._fetching)
        try:
            with os.fdopen(descriptor, "wb") as stream:
                for piece in pieces:
                    whole.update(piece)
                    size += len(piece)
                    stream.write(piece)
            self._link(written, uri, content := whole.hexdigest())
        finally:
            os.unlink(written)  # until here its bytes have a second name, so that no sweep takes them
        return size, content

    def _link(self, written: str, uri: str, content: str) -> None:
        kept, name = self.raw / content[:2] / content, self.files / uri
        for folder in (kept.parent, name.parent):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if kept.exists() and not filecmp.cmp(written, kept, shallow=False):
            kept.unlink()  # damaged: names that have it keep it until they are fetched again
        with suppress(FileExistsError):
            os.link(written, kept)
        fresh = Path(f"{written}.link")
        try:
            os.link(kept, fresh)
        except OSError as error:
            if error.errno != errno.EMLINK:
                raise
            shutil.copyfile(kept, fresh)
        try:
            os.replace(fresh, name)
        except OSError:
            fresh.unlink()
            raise

    def holds(self, uri: str, size: int) -> bool:
        try:
            return (self.files / uri).stat().st_size == size
        except OSError:
            return False

    def remove(self, uri: str) -> None:
        """The name, and its folders that are empty then."""
        with suppress(NotADirectoryError):
            (self.files / uri).unlink(missing_ok=True)
        with suppress(OSError):
            for folder in list(PurePosixPath(uri).parents)[:-1]:
                (self.files / folder).rmdir()

    def sweep(self) -> None:
        """Removes bytes that no name is linked to."""
        for folder, _, files in os.walk(self.raw):
            for name in files:
                file = Path(folder, name)
                with suppress(FileNotFoundError):
                    if file.stat().st_nlink == 1:
                        file.unlink()
