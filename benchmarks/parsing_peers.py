"""The parsers that benchmarks/parsing.py compares, each in a process of its own on one core.

    python benchmarks/parsing_peers.py JOB.json RESULT.json

`measure` starts it; the child reads the files of a job, timed without imports and models, and says what
it found in the same form for every parser, so that all are scored alike.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from benchmarks.support.parsing_scores import Outline  # noqa: E402  (the path above finds it)

WARM_UP = ROOT / "tests" / "data" / "library" / "policies" / "travel-policy-2026.pdf"


@dataclass(frozen=True, slots=True)
class Reading:
    """What a parser found in a file: text of each page in its order; headings with page and level, both
    None where it gives none; the outline for files that are no PDF; an error's code or name, else empty."""

    file: str
    pages: int = 0
    texts: list[str] = field(default_factory=list)
    headings: list[tuple[int | None, int | None, str]] = field(default_factory=list)
    outline: Outline = field(default_factory=Outline)
    lines: list[str] = field(default_factory=list)
    tables: int = 0
    warnings: list[str] = field(default_factory=list)
    error: str = ""


@dataclass(frozen=True, slots=True)
class Measured:
    """CPU and wall seconds of the best pass, peak megabytes of the process; `missing` names what is not
    installed, or how the process ended."""

    readings: list[Reading] = field(default_factory=list)
    cpu: float = 0.0
    wall: float = 0.0
    peak_mb: float = 0.0
    missing: str = ""

    @property
    def pages(self) -> int:
        return sum(reading.pages for reading in self.readings)

    @property
    def rate(self) -> float:
        """Pages a CPU second."""
        return self.pages / self.cpu if self.cpu else 0.0


def measure(parser: str, files: Sequence[Path], passes: int = 1, cap: int = 0, timeout: float = 300) -> Measured:
    """Run a parser over files on one core. With a `cap`, only so many first pages of each PDF are read."""
    with tempfile.TemporaryDirectory(prefix="pincite-bench-") as folder:
        job, result = Path(folder) / "job.json", Path(folder) / "result.json"
        job.write_text(
            json.dumps({"parser": parser, "files": [*map(str, files)], "passes": passes, "cap": cap, "folder": folder})
        )
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "RAYON_NUM_THREADS": "1", "DO_NOT_TRACK": "1"}
        environment |= {"SCARF_NO_ANALYTICS": "true", "UNSTRUCTURED_DISABLE_NOTICE": "1"}
        command = [sys.executable, str(Path(__file__).resolve()), str(job), str(result)]
        try:
            done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=timeout)
        except subprocess.TimeoutExpired:
            return Measured(missing=f"stopped after {timeout:.0f} s")
        if not result.exists():
            last = (done.stderr.strip().splitlines() or [""])[-1]
            return Measured(missing=f"ended with {done.returncode}: {last}"[:160])
        return _restored(json.loads(result.read_text()))


def _restored(found: dict[str, Any]) -> Measured:
    readings = []
    for reading in found.pop("readings"):
        outline = reading.pop("outline")
        outline["headings"] = [(level, text) for level, text in outline["headings"]]
        outline["table_rows"] = [tuple(row) for row in outline["table_rows"]]
        headings = [(page, level, text) for page, level, text in reading.pop("headings")]
        readings.append(Reading(**reading, headings=headings, outline=Outline(**outline)))
    return Measured(readings, **found)


# ---------------------------------------------------------------- the parsers


@dataclass(frozen=True, slots=True)
class Parser:
    """`parse` is timed; `read` puts what it returns into the common form."""

    parse: Callable[[Path], Any]
    read: Callable[[Path, Any], Reading]


def _ours() -> Parser:
    from benchmarks.support.parsing_scores import found
    from pipelines.parsing.elements import build_elements
    from resources.parsers.registry import parse_file
    from tests.support.documents import raw_of

    def parse(path: Path) -> Any:
        listed = raw_of(path)
        parsed = parse_file(path, listed.media_type)
        return parsed, *build_elements(listed, parsed, lambda text: "en")

    def read(path: Path, result: Any) -> Reading:
        parsed, document, elements = result
        headings = [(e.page_start, e.level, e.text) for e in elements if e.kind == "heading"]
        texts = page_texts(document.body, elements, parsed.pages or 0)
        warnings = list(document.warnings)
        tables = sum(e.kind == "table" for e in elements)
        return Reading(path.name, parsed.pages or 0, texts, headings, found(parsed), tables=tables, warnings=warnings)

    return Parser(parse, read)


def page_texts(body: str, elements: Iterable[Any], pages: int) -> list[str]:
    """Text of the elements by page, in reading order, running headers and footers where they stand."""
    parts: list[list[str]] = [[] for _ in range(pages)]
    for element in elements:
        if element.start == element.end:
            _put(parts, element.page_start, "\n" + element.text)
            continue
        last: tuple[int | None, int] | None = None
        marker = element.marker or ""
        if any(map(str.isalnum, marker)) and not element.text.startswith(marker) and element.places:
            _put(parts, element.page_start, f"\n{marker}")
        for place in element.places:
            page = place.box.page if place.box else None
            between = body[last[1] : place.start] if last is not None and last[0] == page else "\n"
            _put(parts, page, between + body[place.start : place.end])
            last = (page, place.end)
    return ["".join(page) for page in parts]


def _put(parts: list[list[str]], page: int | None, text: str) -> None:
    if page is not None and page <= len(parts):
        parts[page - 1].append(text)


def _liteparse() -> Parser:
    from liteparse._liteparse import LiteParse

    def parse(path: Path) -> Any:
        return LiteParse(
            ocr_enabled=False, quiet=True, continue_on_page_error=True, extract_blocks=True,
            extract_text_metadata=True, include_complexity=True, keep_headers_footers=True, max_pages=100_000,
        ).parse(str(path))  # fmt: skip

    def read(path: Path, result: Any) -> Reading:
        texts, headings, lines = [], [], []
        for page in result.pages:
            words = []
            for block in page.blocks:
                rows = [*([block.header] if block.header else []), *(block.rows or [])]
                lines += [" ".join(cell.text for cell in row) for row in rows]
                words += [*(cell.text for row in rows for cell in row), *([block.marker or ""] if not rows else [])]
                words += [] if rows else [block.text or ""]
                if not rows:
                    lines.append(block.text or "")
                if block.kind == "heading":
                    headings.append((page.page_num, block.level, block.text))
            texts.append("\n".join(words))
        return Reading(path.name, len(texts), texts, headings, lines=lines)

    return Parser(parse, read)


def _pypdfium2() -> Parser:
    import pypdfium2

    def parse(path: Path) -> list[str]:
        document = pypdfium2.PdfDocument(path)
        texts = []
        for page in document:
            textpage = page.get_textpage()
            texts.append(textpage.get_text_range())
            textpage.close()
            page.close()
        document.close()
        return texts

    return Parser(parse, lambda path, texts: Reading(path.name, len(texts), texts))


def _unstructured() -> Parser:
    from benchmarks.support.parsing_unstructured import partition, read

    return Parser(partition, lambda path, parsed: Reading(path.name, **read(parsed, _page_count(path))))


def _page_count(path: Path) -> int:
    import pypdfium2

    return len(pypdfium2.PdfDocument(path)) if _is_pdf(path) else 0


def _is_pdf(path: Path) -> bool:
    return path.suffix == ".pdf"


PARSERS = {
    "pincite": _ours,
    "liteparse blocks": _liteparse,
    "pypdfium2 text": _pypdfium2,
    "unstructured": _unstructured,
}


# ---------------------------------------------------------------- the child


def _peak_mb() -> float:
    """Of this process since it began; its `ru_maxrss` would begin at its parent's."""
    try:
        status = Path("/proc/self/status").read_text()
        return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")) / 1024
    except (OSError, StopIteration):
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _first_pages(path: Path, count: int, folder: Path) -> Path:
    """A copy of the first pages of a PDF."""
    import pypdfium2

    whole, part = pypdfium2.PdfDocument(path), pypdfium2.PdfDocument.new()
    part.import_pages(whole, list(range(min(count, len(whole)))))
    copy = folder / path.name
    part.save(copy)
    return copy


def _run(job: dict[str, Any]) -> Measured:
    parser = PARSERS[job["parser"]]()
    files = [Path(file) for file in job["files"]]
    if job["cap"]:
        files = [_first_pages(file, job["cap"], Path(job["folder"])) if _is_pdf(file) else file for file in files]
    _parsed(parser, WARM_UP if _is_pdf(files[0]) else files[0])
    best, peak = (float("inf"), 0.0), 0.0
    readings: list[Reading] = []
    for turn in range(job["passes"]):
        cpu = wall = 0.0
        for file in files:
            before = time.process_time(), time.perf_counter()
            result = _parsed(parser, file)
            cpu, wall = cpu + time.process_time() - before[0], wall + time.perf_counter() - before[1]
            if turn == job["passes"] - 1:
                peak = peak or (_peak_mb() if turn else 0.0)
                failed = isinstance(result, Exception)
                readings.append(_failed(file, result) if failed else parser.read(file, result))
        best = min(best, (cpu, wall))
    return Measured(readings, best[0], best[1], peak or _peak_mb())


def _parsed(parser: Parser, file: Path) -> Any:
    try:
        return parser.parse(file)
    except ModuleNotFoundError:
        raise
    except Exception as error:  # a peer's failure is a result, and must not end the run
        return error


def _failed(file: Path, error: Any) -> Reading:
    return Reading(file.name, error=getattr(error, "code", type(error).__name__), warnings=[str(error)])


def main() -> None:
    job, result = json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2])
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    try:
        measured = _run(job)
    except ModuleNotFoundError as error:
        measured = Measured(missing=f"not installed ({error.name})")
    result.write_text(json.dumps(asdict(measured)))


if __name__ == "__main__":
    main()
