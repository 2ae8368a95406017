"""Files of a Git repository at a branch, tag or commit, read by the program git with the credentials that git finds.

Trees are fetched without blobs if the server supports it (`--filter=blob:none`), and blobs when they are read.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import threading
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from pipelines.errors import DocumentError, SettingsError, SourceError
from resources.connectors.source import Entry, SourceAddress, options_of

_PAGE = 1000
_PIECE = 1 << 20
_SHALLOW = ("-q", "--depth=1", "--no-tags", "--filter=blob:none")
_TOGETHER = ("-q", "--no-tags", "--no-write-fetch-head", "--filter=blob:none", "--stdin")
_MOST_SECONDS = 3600
_BLOB_SECONDS = 600
"""Most seconds to wait for the next piece of a file: git fetches missing blobs when they are read."""
_MOST_MEMORY = 8 << 20
"""Most kilobytes of address space of git: it unpacks trees and deltas in memory, and a server may send huge ones."""
_MOST_FILE = 64 << 20
"""Most half kilobytes of a file that git writes (32 GB): a server may send more than requested."""
_LIMITED = f'ulimit -v {_MOST_MEMORY} 2>/dev/null; ulimit -f {_MOST_FILE} 2>/dev/null; exec git "$@"'
_LONGEST_LINE = 1 << 16
_GRACE = 5.0
"""Seconds to wait for the rest of git's error output. A process that git left behind, such as a shared ssh connection,
may keep the pipe open."""
_TAIL = 4096
"""Last bytes of git's error output that are kept, since a server may extend it without end."""
_MOST_PACKS = 50
_LISTED = "refs/pincite/listed"
_REF = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./@-]*")
_OBJECT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_LINK, _MODULE = "120000", "160000"
_POINTER = b"version https://git-lfs.github.com/spec/"
_ENVIRONMENT = {
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ALLOW_PROTOCOL": "file:https:ssh",
    "GIT_SSH_COMMAND": "ssh -o BatchMode=yes -o ConnectTimeout=10 -o ServerAliveInterval=15",
    "LC_ALL": "C",
}
_ALWAYS = (
    *("-c", "http.followRedirects=false", "-c", "http.lowSpeedLimit=1", "-c", "http.lowSpeedTime=60"),
    *("-c", "core.packedGitWindowSize=64m", "-c", "core.packedGitLimit=1g"),
    *("-c", "gc.auto=0", "-c", "core.hooksPath=/dev/null", "-c", "fetch.recurseSubmodules=no"),
)


def connect(address: SourceAddress) -> GitSource:
    """Return the source of an address.

    Options: `ref` (a branch, tag or full commit id; HEAD), `path` (a folder in it; all)."""
    options = options_of(address, ref="HEAD", path=None)
    if not _REF.fullmatch(options["ref"]) or ".." in options["ref"]:
        raise SettingsError(f"source {address.name!r}: its option ref is not a branch, tag or commit id; correct it")
    if shutil.which("git") is None:
        raise SourceError(
            f"source {address.name!r}: git is not installed; install it, for example with apt-get install git"
        )
    return GitSource(address, options["ref"], options["path"].strip("/"))


class GitSource:
    """A folder of a repository. The revision is the blob's hash."""

    at_once = 1

    def __init__(self, address: SourceAddress, ref: str, path: str) -> None:
        self._address, self._ref, self._path = address, ref, path
        self._place = address.folder / "repository.git"
        self._url = address.url.removeprefix("git+")
        self._blobs: _GitProcess | None = None
        self._links: set[str] = set()

    # ------------------------------------------------------------ listing

    def entries(self) -> Iterator[Sequence[Entry]]:
        self._fetch()
        tree = f"{_LISTED}:{self._path}"
        with self._start("ls-tree", "-r", "-z", tree) as listing, listing.time_limit(_MOST_SECONDS):
            page: list[Entry] = []
            for mode, name, found in _lines(listing.stdout):
                if mode == _LINK:
                    self._links.add(found)
                page.append(Entry(found, name))
                if len(page) == _PAGE:
                    yield page
                    page = []
            yield page
            failed, told = listing.wait()
        if failed:
            raise self._fault(told, f"see that the folder {self._path!r} is in {self._ref}")

    def _fetch(self) -> None:
        self._make()
        told = self._run("fetch", *_SHALLOW, "origin", f"+{self._ref}:{_LISTED}")
        if told is not None:
            raise self._fault(told, f"see that it is reachable, has {self._ref}, and that git may read it")

    def _make(self) -> None:
        """Create the repository for fetched objects. Create a new one if many fetches have left unused objects."""
        packs = self._place / "objects" / "pack"
        if packs.is_dir() and sum(file.suffix == ".pack" for file in packs.iterdir()) > _MOST_PACKS:
            shutil.rmtree(self._place)
        self._place.mkdir(mode=0o700, parents=True, exist_ok=True)
        settings = {
            "core.repositoryformatversion": "1",
            "extensions.partialClone": "origin",
            "remote.origin.promisor": "true",
            "remote.origin.partialclonefilter": "blob:none",
            "remote.origin.url": self._url,
        }
        for arguments in (("init", "-q", "--bare", "."), *(("config", *pair) for pair in settings.items())):
            if (told := self._run(*arguments)) is not None:
                raise self._fault(told, "see that the state folder can be written")

    # ------------------------------------------------------------ reading

    def prepare(self, entries: Sequence[Entry]) -> None:
        """Fetch the blobs together. A missing blob is reported when it is read."""
        names = "".join(f"{entry.revision}\n" for entry in entries if _OBJECT.fullmatch(entry.revision))
        if names:
            self._run("fetch", *_TOGETHER, "origin", given=names)

    def read(self, entry: Entry) -> Generator[bytes]:
        if entry.uri in self._links:
            raise DocumentError(
                f"{entry.uri}: the entry is a symbolic link, which is not followed; add its target to the source",
                "unsupported",
            )
        run = self._blob(entry)
        left = self._size(run, entry)
        first, whole = True, False
        try:
            while left:
                with run.time_limit(_BLOB_SECONDS):
                    piece = run.stdout.read(min(left, _PIECE))
                if not piece:
                    raise DocumentError(
                        f"{entry.uri}: git ended before the end of the file; the next run tries again", "unreadable"
                    )
                if first and piece.startswith(_POINTER):
                    raise DocumentError(
                        f"{entry.uri}: the file is a pointer of Git LFS; index a checkout after `git lfs pull`",
                        "unsupported",
                    )
                first, left = False, left - len(piece)
                yield piece
            whole = run.stdout.read(1) == b"\n"
        finally:
            if not whole:  # the rest of this blob would be taken for the next
                self.close()

    def _blob(self, entry: Entry) -> _GitProcess:
        if self._blobs is None or self._blobs.is_over():
            self.close()
            self._blobs = self._start("cat-file", "--batch")
        try:
            self._blobs.say(entry.revision.encode() + b"\n")
        except OSError:
            self.close()
            raise DocumentError(
                f"{entry.uri}: git ended without sending the file; the next run tries again", "unreadable"
            ) from None
        return self._blobs

    def _size(self, run: _GitProcess, entry: Entry) -> int:
        with run.time_limit(_BLOB_SECONDS):
            said = run.stdout.readline(200).split()
        if len(said) != 3 or said[1] != b"blob":
            self.close()
            raise DocumentError(
                f"{entry.uri}: the repository does not have the file; the next run tries again", "unreadable"
            )
        return int(said[2])

    def close(self) -> None:
        if self._blobs is not None:
            self._blobs.close()
            self._blobs = None

    # ------------------------------------------------------------ running git

    def _run(self, *arguments: str, given: str = "") -> str | None:
        """Run git and return its error output, or None if it succeeds."""
        try:
            with self._start(*arguments) as run, run.time_limit(_MOST_SECONDS):
                with suppress(OSError):
                    run.say(given.encode())
                failed, told = run.wait()
        except OSError as error:
            return str(error.strerror)
        return told if failed else None

    def _start(self, *arguments: str) -> _GitProcess:
        return _GitProcess(["sh", "-c", _LIMITED, "git", *_ALWAYS, *arguments], self._place, self._environment())

    def _environment(self) -> dict[str, str]:
        """Return the environment for git, without variables that would lead it to another repository."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        return {**kept, **_ENVIRONMENT, "GIT_DIR": str(Path(self._place))}

    def _fault(self, told: str, remedy: str) -> SourceError:
        said = " ".join(told.split())[-300:]
        return SourceError(
            f"source {self._address.name!r}: cannot list {self._address.url}: {said}; {remedy}. Nothing was changed"
        )


class _GitProcess:
    """A git process. It is ended together with all its child processes. Only the end of its error output is kept."""

    def __init__(self, command: Sequence[str], place: Path, environment: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(
            command,
            cwd=place,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        assert self._process.stdin and self._process.stdout and self._process.stderr
        self._stdin, self.stdout, self._errors = self._process.stdin, self._process.stdout, self._process.stderr
        self._told, self._late = b"", False
        self._reader = threading.Thread(target=self._listen, daemon=True)
        self._reader.start()

    def _listen(self) -> None:
        with suppress(OSError, ValueError):
            while piece := os.read(self._errors.fileno(), _PIECE):
                self._told = (self._told + piece)[-_TAIL:]

    def __enter__(self) -> _GitProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def say(self, given: bytes) -> None:
        self._stdin.write(given)
        self._stdin.flush()

    def is_over(self) -> bool:
        return self._process.poll() is not None

    @contextmanager
    def time_limit(self, seconds: float) -> Iterator[None]:
        """End the process if the code in this context takes longer."""
        timer = threading.Timer(seconds, self._overdue)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def _overdue(self) -> None:
        self._late = True
        self._kill()

    def wait(self) -> tuple[bool, str]:
        """Wait for the end of the process. Return whether it failed, and its error output."""
        with suppress(OSError):
            self._stdin.close()
        while self.stdout.read(_PIECE):
            pass
        failed = self._process.wait() != 0
        self._reader.join(_GRACE)
        told = self._told.decode(errors="replace")
        return failed, "it took over an hour" if self._late else told

    def _kill(self) -> None:
        if self._process.returncode is None:  # else its group's number may already belong to another process
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def close(self) -> None:
        self._kill()
        self._process.wait()
        self._reader.join(_GRACE)
        for stream in (self._stdin, self.stdout, self._errors):
            with suppress(OSError):
                stream.close()


def _lines(stream: IO[bytes]) -> Iterator[tuple[str, str, str]]:
    """Yield mode, object and name of each entry of `ls-tree -z`."""
    rest = b""
    while piece := stream.read(_PIECE):
        *whole, rest = (rest + piece).split(b"\0")
        if len(rest) > _LONGEST_LINE:
            raise ValueError(f"a name of over {_LONGEST_LINE >> 10} KB")
        for line in whole:
            about, _, name = line.partition(b"\t")
            mode, _, of = about.decode("ascii").split(" ")
            yield mode, of, name.decode("utf-8", "backslashreplace")
