"""A process that parses one document after another for `parser_pool`.

Frames (a length and a pickle) come on standard input: first the limits, then one task each, and
go out where standard output was; what libraries print goes to standard error. End of input ends
the process at once, also in the middle of a document, so a worker never outlives its parent. It
imports only what it parses.
"""

from __future__ import annotations

import errno
import gc
import itertools
import os
import pickle
import signal
import struct
import sys
import threading
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from queue import SimpleQueue
from typing import Any, BinaryIO

from pipelines.errors import DocumentError
from pipelines.indexing.elements import build_elements
from pipelines.records import Element, ParsedDocument, RawDocument
from resources.hashes import content_hash

HEADER = struct.Struct("!Q")
MEGABYTE = 1 << 20
STACK_BYTES = 64 * MEGABYTE
DOCUMENTS_BETWEEN_COLLECTIONS = 16
_SETTINGS = {
    "DO_NOT_TRACK": "1",
    "SCARF_NO_ANALYTICS": "true",
    "OMP_NUM_THREADS": "1",
    "TOKENIZERS_PARALLELISM": "false",
}
_ONE_AT_A_TIME = threading.Lock()

Reply = tuple[str, Any]
"""`("ready", None)`, `("page", number)` before a page that may take its time,
`("done", (ParsedDocument, elements))`, `("failed", (code, message))`."""


def write_frame(stream: BinaryIO, value: Any) -> None:
    data = pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)
    stream.write(HEADER.pack(len(data)) + data)
    stream.flush()


def read_frame(stream: BinaryIO) -> Any:
    """The next frame; None at the end of input."""
    header = stream.read(HEADER.size)
    if len(header) < HEADER.size:
        return None
    (length,) = HEADER.unpack(header)
    data = stream.read(length)
    return pickle.loads(data) if len(data) == length else None


def isolated_environment() -> dict[str, str]:
    """Of a process that reads documents: it finds the modules that this one finds."""
    paths = [path or os.getcwd() for path in sys.path]
    return {**os.environ, **_SETTINGS, "PYTHONPATH": os.pathsep.join(paths)}


@cache
def _identifier() -> Any:
    """The model of py3langid, for languages that have a two-letter code."""
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    identifier = LanguageIdentifier.from_model_file(MODEL_FILE)
    identifier.set_languages([label for label in identifier.labels if len(label) == 2])
    return identifier


def detect_language(text: str) -> str:
    """ISO 639-1 code of the likeliest language."""
    with _ONE_AT_A_TIME:
        identifier = _identifier()
    code: str = identifier.classify(text)[0]
    return code


def limit_memory(megabytes: int) -> None:
    """Let the address space grow by `megabytes` from what it is now (where the system can tell)."""
    try:
        import resource

        pages = int(Path("/proc/self/statm").read_text().split()[0])
    except (ImportError, OSError):
        return
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    wanted = pages * resource.getpagesize() + megabytes * MEGABYTE
    resource.setrlimit(resource.RLIMIT_AS, (wanted if hard == resource.RLIM_INFINITY else min(wanted, hard), hard))


def _unchanged(raw: RawDocument, files: Sequence[Path]) -> None:
    if raw.content_hash and content_hash(*files) != raw.content_hash:
        raise DocumentError(f"{raw.uri}: the file changed while it was read; the next run reads it again", "changed")


def parse_document(
    raw: RawDocument, path: Path, max_megabytes: int, **options: Any
) -> tuple[ParsedDocument, list[Element]]:
    """Parse one file, or its map in its place, hashed before and after; options as of `parse_file`.

    Raises DocumentError."""
    from resources.parsers.registry import files_of, parse_file, require_size

    files = files_of(path, raw.media_type)
    try:
        require_size(raw.uri, sum(file.stat().st_size for file in files), max_megabytes)
        _unchanged(raw, files)
        parsed = parse_file(files[0], raw.media_type, **options)
        _unchanged(raw, files)
    except PermissionError:
        raise DocumentError(
            f"{raw.uri}: no permission to read the file; grant it and index again", "unreadable"
        ) from None
    except FileNotFoundError:
        raise DocumentError(f"{raw.uri}: the file went away before it was read", "unreadable") from None
    except OSError as error:
        if error.errno == errno.EINVAL:  # a package whose table of contents leads outside of it
            raise DocumentError(
                f"{raw.uri}: its parts are not where it says; open it and save it again", "corrupt"
            ) from None
        raise DocumentError(f"{raw.uri}: the file cannot be read ({error.strerror})", "unreadable") from None
    return build_elements(raw, parsed, detect_language)


def _reply(raw: RawDocument, path: Path, limits: dict[str, Any], care: Any) -> Reply:
    from resources.parsers.ocr import OcrSettings

    try:
        limit_memory(limits["memory_mb"])
        return "done", parse_document(raw, path, limits["max_megabytes"], care=care, ocr=OcrSettings(**limits["ocr"]))
    except DocumentError as error:
        return "failed", (error.code, str(error) if path.name in str(error) else f"{raw.uri}: {error}")
    except MemoryError:
        gc.collect()
        message = f"{raw.uri}: needs more memory than parsing.memory_mb ({limits['memory_mb']}) allows"
        return "failed", ("limit_exceeded", message)
    except RecursionError:
        return "failed", ("limit_exceeded", f"{raw.uri}: its structure is nested too deeply")
    except Exception as error:  # a parser met something it does not know; others go on
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        return "failed", ("corrupt", f"{raw.uri}: cannot be parsed ({reason}); open it and save it again")


def _serve(tasks: SimpleQueue[Any], out: BinaryIO) -> None:
    from resources.parsers.registry import Care

    limits: dict[str, Any] = tasks.get()
    threading.Thread(target=detect_language, args=("",), daemon=True).start()
    write_frame(out, ("ready", None))
    gc.disable()  # records of a large document are millions of objects in no cycle
    for count in itertools.count(1):
        raw, path, without = tasks.get()
        care = Care(lambda number: write_frame(out, ("page", number)), without)
        write_frame(out, _reply(raw, Path(path), limits, care))
        if raw.size > MEGABYTE or count % DOCUMENTS_BETWEEN_COLLECTIONS == 0:
            gc.collect()


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    tasks: SimpleQueue[Any] = SimpleQueue()
    threading.stack_size(STACK_BYTES)
    threading.Thread(target=_serve, args=(tasks, out), daemon=True).start()
    threading.stack_size(0)
    while (frame := read_frame(sys.stdin.buffer)) is not None:
        tasks.put(frame)
    os._exit(0)


if __name__ == "__main__":
    main()
