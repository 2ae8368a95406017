"""How much of documents the parsers find, and how fast, beside other parsers in the same run.

    python benchmarks/parsing.py [--quick] [--details] [--write docs/measured/parsing.md] [--data ../shared/data]

Every parser runs in a process of its own on one core. `unstructured` needs `pip install 'pincite[compare]'`;
its column says so where it is missing. Figures are printed as tables, and with `--write` put between the
marks of a page, with the promised figures that are not reached; the exit code stays 0.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.parsing_peers import Measured, Reading, measure  # noqa: E402
from benchmarks.support import parsing_scores as scoring  # noqa: E402  (the path above finds it)
from benchmarks.support.machine import provenance  # noqa: E402
from benchmarks.support.parsing_bad_files import Bad, bad_files  # noqa: E402
from benchmarks.support.parsing_headings import STATED, hide_tags, rendering_scores, stated_scores, tagged_scores  # noqa: E402
from benchmarks.support.parsing_pages import by_page, page_details, words_kept  # noqa: E402
from benchmarks.support.parsing_report import Promise, number, promised, put_between_marks, share, table  # noqa: E402
from benchmarks.support.parsing_tables import Score, score_lines, score_statements, statements  # noqa: E402
from benchmarks.support.parsing_words import WordScore  # noqa: E402
from pipelines.parsing.formats import OF_ENDING  # noqa: E402

OURS, LITEPARSE, RAW, UNSTRUCTURED = PARSERS = ("pincite", "liteparse blocks", "pypdfium2 text", "unstructured")
MOST_SECONDS = 1800
"""Of a parser over the files of a folder, on a machine that does other things too."""
CAP = 12
"""First pages of each PDF that `unstructured` reads; it is slow."""
LEAST_RATE = {"policies": 100, "unlp-medicine": 80}
LEAST = {"headings": 0.97, "levels": 0.95, "list_items": 0.95, "table_rows": 0.95, "words": 0.97}
HEADINGS = ("headings", "headings_precision", "levels")


@dataclass
class Run:
    """The settings of a run, and what it has promised so far."""

    data: Path
    quick: bool = False
    details: bool = False
    promises: list[Promise] = field(default_factory=list)
    started: float = field(default_factory=time.perf_counter)

    def say(self, text: str) -> None:
        print(f"{time.perf_counter() - self.started:5.0f} s  {text}", file=sys.stderr, flush=True)

    def promise(self, what: str, value: float | None, least: float, unit: str = "share") -> None:
        """Where there is nothing to find, nothing is promised."""
        if value is not None:
            self.promises.append(Promise(what, value, least, unit))

    def measure(self, parser: str, files: Sequence[Path], passes: int = 1) -> Measured:
        self.say(f"{parser}: {len(files)} files, {files[0].parent.name}")
        slow = parser == UNSTRUCTURED
        return measure(parser, files, 1 if slow or self.quick else passes, CAP if slow else 0, MOST_SECONDS)

    def files(self, folder: str, pattern: str = "*.pdf") -> list[Path]:
        found = sorted(path for path in (self.data / folder).glob(pattern) if ".expected." not in path.name)
        if not found:
            raise SystemExit(f"no {pattern} in {self.data / folder}; name the folder of the shared data: --data FOLDER")
        return sorted(found, key=lambda path: path.stat().st_size)[:3] if self.quick and len(found) > 6 else found


# ---------------------------------------------------------------- speed and words


def speed_and_words(run: Run) -> Iterator[str]:
    folders = {"policies": "policies", "unlp-medicine": "unlp-medicine/pdf", "docling": "parser-fixtures/docling/pdf"}
    rows = []
    for name, folder in folders.items():
        files = run.files(folder)
        found = {parser: run.measure(parser, files, passes=3) for parser in PARSERS}
        rows += [_speed_row(name, parser, found) for parser in PARSERS]
        ours = found[OURS]
        kept = words_kept(ours, found[RAW])
        if name in LEAST_RATE:
            run.promise(f"{name}: pages a CPU second", ours.rate, LEAST_RATE[name], "number")
            run.promise(f"{name}: peak MB of the process", ours.peak_mb, -300, "number")
            run.promise(f"{name}: words in the raw text's order", kept.order if kept else None, 0.995)
            run.promise(f"{name}: letters and digits of the worst page", kept.worst if kept else None, 1.0)
        if run.details:
            yield from page_details(ours, found[RAW])
    head = ("corpus", "parser", "pages", "pages/CPU s", "of liteparse", "peak MB", "words in order", "pairs kept",
            "letters held", "worst page", "added")  # fmt: skip
    yield from table(head, rows)


def _speed_row(corpus: str, parser: str, found: dict[str, Measured]) -> list[str]:
    own = found[parser]
    if own.missing:
        return [corpus, parser, own.missing]
    words = words_kept(own, found[RAW])
    cells = [corpus, parser, str(own.pages), number(own.rate), f"{own.rate / max(found[LITEPARSE].rate, 1e-9):.2f}"]
    return [*cells, number(own.peak_mb), *(_word_cells(words) if words and parser != RAW else ())]


def _word_cells(words: WordScore) -> list[str]:
    shares = share(words.order, 4), share(words.neighbours), share(words.held, 5), share(words.worst)
    return [*shares, str(words.added)]


# ---------------------------------------------------------------- reports

REPORTS = {"sec-10-q": "reports/sec-10-q", "protocols": "reports/protocols"}
REPORTS_EACH = 20


def reports(run: Run) -> Iterator[str]:
    """Whole reports as people have them, beside the raw text of the same pages."""
    rows, told = [], Counter[str]()
    for name, folder in REPORTS.items():
        files = sorted(run.files(folder))[:REPORTS_EACH]
        ours, raw = run.measure(OURS, files), run.measure(RAW, files)
        if ours.missing or raw.missing:
            rows.append([name, ours.missing or raw.missing])
            continue
        words, pages = words_kept(ours, raw), list(by_page(ours, raw))
        written = [(text, found) for _, _, text, found in pages if text.strip()]
        read = sum(bool(reading.texts) and not reading.error for reading in ours.readings)
        rows.append([name, f"{read} of {len(files)}", str(ours.pages),
                     f"{sum(bool(found.strip()) for _, found in written)} of {len(written)}",
                     str(sum(len(reading.headings) for reading in ours.readings)),
                     str(sum(reading.tables for reading in ours.readings)),
                     share(words.order, 4) if words else "-", share(words.held, 5) if words else "-",
                     share(words.worst) if words else "-",
                     number(ours.rate), f"{ours.rate / max(raw.rate, 1e-9):.2f}", number(ours.peak_mb),
                     f"{ours.peak_mb / max(raw.peak_mb, 1e-9):.1f}"])  # fmt: skip
        told.update(_kind_of(warning) for reading in ours.readings for warning in reading.warnings)
        if run.details:
            yield from page_details(ours, raw)
            yield from (
                f"- {reading.file}: {reading.error} {reading.warnings}" for reading in ours.readings if reading.error
            )
    head = ("reports", "read", "pages", "pages with text", "headings", "tables", "words in order", "letters held",
            "worst page", "pages/CPU s", "of raw rate", "peak MB", "of raw MB")  # fmt: skip
    yield from table(head, rows)
    yield from ("", "Warnings, and how often:", "", *(f"- {kind} ({count})" for kind, count in told.most_common()))


def _kind_of(warning: str) -> str:
    """A warning without the numbers and names in it."""
    bare = re.sub(r"\d++(?:\.\d++)?", "N", re.sub(r"'[^']*+'|\([^)]*+\)|\S++\.pdf", "…", warning))
    return re.sub(r"pages? N(?:, N)*+", "page N", bare)[:100]


# ---------------------------------------------------------------- headings


def headings(run: Run) -> Iterator[str]:
    docling = [run.data / "parser-fixtures/docling/pdf" / name for name in STATED]
    policies = run.files("policies")
    rows = []
    for parser in (OURS, LITEPARSE, UNSTRUCTURED):
        with tempfile.TemporaryDirectory(prefix="pincite-bench-") as folder:
            hidden = [hide_tags(path, Path(folder)) for path in policies]
            known, tagged, bare = (run.measure(parser, files) for files in (docling, policies, hidden))
        if known.missing:
            rows.append(["all", parser, known.missing])
            continue
        for path, reading in zip(docling, known.readings, strict=True):
            stated = stated_scores(path.name, reading)
            rows.append([f"{path.name}, docling's rendering", parser, *_shares(rendering_scores(path, reading))])
            rows.append([f"{path.name}, stated by hand", parser, *_shares(stated)])
            if parser == OURS:
                for measure_, least in zip(HEADINGS, (0.90, 0.85, 0.90), strict=True):
                    run.promise(f"{path.name}: {measure_}", stated[measure_].share, least)
                if run.details:
                    yield from _heading_details(reading, run)
        of_tags = scoring.total(tagged_scores(p, r) for p, r in zip(policies, tagged.readings, strict=True))
        without = scoring.total(tagged_scores(p, r) for p, r in zip(policies, bare.readings, strict=True))
        rows += [["policies, tags", parser, *_shares(of_tags)], ["policies, tags hidden", parser, *_shares(without)]]
        if parser == OURS:
            run.promise("policies: headings", of_tags["headings"].share, 0.98)
    yield from table(
        ("against", "parser", "recall", "precision", "levels", "headings"), sorted(rows, key=lambda r: r[0])
    )


def _shares(found: scoring.Scores) -> list[str]:
    return [*(share(found[measure_].share) for measure_ in HEADINGS), str(found["headings"].total)]


def _heading_details(reading: Reading, run: Run) -> Iterator[str]:
    wanted = {(page, scoring.plain(text)) for page, _, text in STATED[reading.file]}
    for page, level, text in reading.headings:
        known = "" if (page, scoring.plain(text)) in wanted else "  (not stated)"
        yield f"- {reading.file} {page}: {level} {text}{known}"


# ---------------------------------------------------------------- other formats


def other_formats(run: Run) -> Iterator[str]:
    rows = []
    for kind in ("docx", "html", "md", "xlsx"):
        files = run.files(f"parser-fixtures/docling/{kind}", f"*.{kind}")
        both = f".{kind}" in OF_ENDING[f".{kind}"].either
        for parser in (OURS, UNSTRUCTURED) if both else (OURS,):
            found = run.measure(parser, files)
            if found.missing:
                rows.append([kind, parser, found.missing])
                continue
            by_file = {p.name: _rendering(p, r) for p, r in zip(files, found.readings, strict=True)}
            sums = scoring.total(by_file.values())
            rows.append([kind, parser, *(_of(sums[measure_]) for measure_ in scoring.MEASURES)])
            if parser == OURS:
                for measure_, least in LEAST.items():
                    run.promise(f"{kind}: {measure_}", sums[measure_].share, least)
                if run.details:
                    yield from _rendering_details(by_file)
    yield from table(("format", "parser", *(name.replace("_", " ") for name in scoring.MEASURES)), rows)


def _rendering(path: Path, reading: Reading) -> scoring.Scores:
    wanted = scoring.expected(path.with_name(f"{path.name}.expected.md").read_text())
    return scoring.scores(reading.outline, scoring.asked(wanted, reading.outline))


def _of(count: scoring.Count) -> str:
    return f"{share(count.share)} of {count.total}"


def _rendering_details(by_file: dict[str, scoring.Scores]) -> Iterator[str]:
    for name, scores in by_file.items():
        short = [f"{key} {c.hits} of {c.total}" for key, c in scores.items() if c.hits < c.total]
        if short:
            yield f"- {name}: {', '.join(short)}"


# ---------------------------------------------------------------- statements, bad files


def borderless_statements(run: Run) -> Iterator[str]:
    ours = score_statements()
    run.promise("statements: rows together", ours["rows_together"], 0.95)
    run.promise("statements: separate cells", ours["separate_cells"], 0.90)
    rows = [[OURS, str(ours["statements"]), str(ours["rows"]), share(ours["rows_together"]),
             share(ours["separate_cells"]), share(ours["worst_together"])]]  # fmt: skip
    every = statements()
    with tempfile.TemporaryDirectory(prefix="pincite-bench-") as folder:
        files = [Path(folder) / f"{at}.pdf" for at in range(len(every))]
        for file, statement in zip(files, every, strict=True):
            file.write_bytes(statement.pdf)
        for parser in (LITEPARSE, RAW, UNSTRUCTURED):
            found = run.measure(parser, files)
            if found.missing:
                rows.append([parser, found.missing])
                continue
            scores = [score_lines(s, r.lines or r.texts) for s, r in zip(every, found.readings, strict=True)]
            rows.append([parser, str(len(every)), *_statement_cells(scores)])
    yield from table(("parser", "statements", "rows", "rows together", "separate cells", "worst statement"), rows)


def _statement_cells(scores: Sequence[Score]) -> list[str]:
    rows, together = sum(score.rows for score in scores), sum(score.together for score in scores)
    return [str(rows), share(together / rows), "", share(min(score.together / score.rows for score in scores))]


def bad_input(run: Run) -> Iterator[str]:
    rows = []
    with tempfile.TemporaryDirectory(prefix="pincite-bench-") as folder:
        for at, bad in enumerate(bad_files(pages=500 if run.quick else 5_000)):
            path = Path(folder) / f"{at}.pdf"
            bad.make(path)
            run.say(bad.name)
            found = measure(OURS, [path], timeout=150)
            if run.details:
                yield from (f"- {bad.name}: {warning}" for reading in found.readings for warning in reading.warnings)
            rows.append([bad.name, _outcome(found, bad), f"{found.cpu:.2f}", number(found.peak_mb)])
    yield from table(("file", "outcome", "CPU s", "peak MB"), rows)


def _outcome(found: Measured, bad: Bad) -> str:
    """Return what became of a file, and what was expected where that is something else."""
    if found.missing:
        return f"{found.missing}, which is wrong"
    reading = found.readings[0]
    text = "".join("".join(reading.texts).split())
    outcome = reading.error or ("text" if "".join(bad.says.split()) in text else "another text")
    more = f", {len(reading.warnings)} warnings" if reading.warnings and not reading.error else ""
    return outcome + more + ("" if bad.expected in (None, outcome) else f", expected {bad.expected}")


# ---------------------------------------------------------------- the whole

SECTIONS: dict[str, Callable[[Run], Iterable[str]]] = {
    "Speed, memory and words": speed_and_words,
    "Reports": reports,
    "Headings of PDF": headings,
    "Other formats beside docling's renderings": other_formats,
    "Borderless statements": borderless_statements,
    "Bad input": bad_input,
}


def report(run: Run, only: str = "") -> list[str]:
    """Return the sections, each under the line that says where its figures are from."""
    source = provenance("python benchmarks/parsing.py", "none")
    parts: list[str] = []
    for title, section in SECTIONS.items():
        if only.casefold() in title.casefold():
            parts += [f"### {title}", "", source, "", *section(run), ""]
    return [*parts, "### Promised figures", "", source, "", *promised(run.promises)] if run.promises else parts


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer files, one pass; figures to look at only")
    parser.add_argument("--details", action="store_true", help="name the pages, headings and files that differ")
    parser.add_argument("--only", default="", metavar="WORD", help="the sections with this word in their title")
    parser.add_argument("--write", type=Path, metavar="FILE", help="put the figures between the marks of this page")
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data", metavar="FOLDER")
    options = parser.parse_args()
    if not options.data.is_dir():
        raise SystemExit(f"no folder {options.data}; name the folder of the shared data: --data FOLDER")
    run = Run(options.data, options.quick, options.details)
    lines = report(run, options.only)
    print("\n".join(lines))
    if options.write:
        put_between_marks(options.write, lines)
    run.say("done")


if __name__ == "__main__":
    main()
