"""Object stores that tests may break: one in a folder that counts what it is asked, and S3 behind a front."""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from resources.clouds.bucket import ObjectInfo, Passing
from resources.object_store.folder import FolderObjects
from resources.object_store.objects import LocalCache, ObjectStore
from resources.postgres.catalog import Written, WrittenFiles
from tests.support.s3_server import BUCKET, ENVIRONMENT, Front, S3Server, front_of, s3_server


class CountedObjects(FolderObjects):
    """Objects in a folder. `asked` are the requests; the first of `busy` more are answered as by a busy server."""

    def __init__(self, root: Path) -> None:
        root.mkdir(exist_ok=True)
        super().__init__(f"file://{root}", root)
        self.asked: list[str] = []
        self.busy = 0

    def _note(self, request: str) -> None:
        self.asked.append(request)
        if self.busy:
            self.busy -= 1
            raise Passing("SlowDown")

    def put(self, key: str, body: bytes | Path) -> None:
        self._note(f"PUT {key}")
        super().put(key, body)

    def read(self, key: str, start: int, end: int | None) -> Generator[bytes]:
        self._note(f"GET {key}" if end is None else f"RANGE {key}")
        yield from super().read(key, start, end)

    def size(self, key: str) -> int | None:
        self._note(f"SIZE {key}")
        return super().size(key)

    def page(self, below: str, token: str) -> tuple[Sequence[ObjectInfo], str]:
        self._note(f"LIST {below}")
        return super().page(below, token)

    def delete(self, keys: Sequence[str]) -> None:
        self._note(f"DELETE {' '.join(keys)}")
        super().delete(keys)

    def taken(self) -> list[str]:
        """What was asked since the last time."""
        asked, self.asked = self.asked, []
        return asked


class MemoryBook(WrittenFiles):
    """The files that were written, in memory; tests/integration/test_tables_in_store.py has the SQL."""

    def __init__(self) -> None:
        self.files: dict[str, Written] = {}

    def any_known(self) -> bool:
        return bool(self.files)

    def note(self, files: Mapping[str, Written]) -> None:
        self.files |= {name: file for name, file in files.items() if file.blocks or name not in self.files}

    def file(self, name: str) -> Written | None:
        return self.files.get(name)

    def files_below(self, folder: str) -> dict[str, Written]:
        return {name: file for name, file in self.files.items() if name.startswith(folder)}

    def forget(self, names: Collection[str]) -> None:
        for name in names:
            self.files.pop(name, None)


@dataclass
class Machine:
    """A store in a folder as one machine has it."""

    objects: CountedObjects
    store: ObjectStore
    cache: LocalCache
    book: MemoryBook
    slept: list[float] = field(default_factory=list)

    @property
    def folder(self) -> Path:
        """The folder that is the store."""
        return Path(self.objects.address.removeprefix("file://"))


def machine(root: Path, own: Path, most: int = 1 << 30, book: MemoryBook | None = None) -> Machine:
    """`root` is the store, `own` what the machine alone has; `book` is another's of the same database."""
    objects, slept = CountedObjects(root), list[float]()
    store = ObjectStore(objects, sleep=slept.append)
    return Machine(objects, store, LocalCache(own, most), book or MemoryBook(), slept)


@dataclass(frozen=True)
class S3Store:
    """A bucket behind a front, which is what the environment names."""

    server: S3Server
    front: Front

    @property
    def address(self) -> str:
        return f"s3://{BUCKET}/team/handbook"

    def held(self) -> list[str]:
        return [key.removeprefix("team/handbook/") for key in self.server.keys()]  # noqa: SIM118

    def taken(self) -> list[str]:
        """What was asked since the last time, each as METHOD, and the path below the prefix with its query."""
        asked = list(self.front.asked)
        self.front.asked.clear()
        return asked


@contextmanager
def s3_store(patch: pytest.MonkeyPatch) -> Iterator[S3Store]:
    for name, value in ENVIRONMENT.items():
        patch.setenv(name, value)
    with s3_server() as server, front_of(server) as front:
        patch.setenv("AWS_ENDPOINT_URL", front.url)
        yield S3Store(server, front)
