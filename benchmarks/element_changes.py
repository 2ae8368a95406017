"""How the elements of real documents differ between a commit and the working tree, by kind of change.

    python benchmarks/element_changes.py COMMIT [--files FOLDER] [--sample N] [--seed S] [--pictures FOLDER]

Every file below FOLDER (../shared/data by default) is read by both, in processes of their own: the commit's code lies
in a temporary worktree. Elements are compared in order within each file, by kind, level, text and cells. A change is a
pair of an old and a new element, or one of them alone. With --sample, N changes are drawn at random and shown in full;
with --pictures, the page of each is drawn with the new places marked, so that a person can say which is better.
"""

from __future__ import annotations

import argparse
import difflib
import json
import random
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SHARED = ROOT.parent / "shared" / "data"
LONGEST_SHOWN = 600
NOT_DOCUMENTS = ("README.md", "INDEX.md", "LICENSE")
Elements = list[dict[str, Any]]


# ---------------------------------------------------------------- reading, in the code of either commit


def dump(folder: Path, target: Path) -> None:
    """Write the elements of every document below a folder, one JSON object a file. Failures are elements too."""
    from pipelines.errors import DocumentError
    from resources.documents.requests import reader
    from resources.parsers.registry import media_type_of

    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name not in NOT_DOCUMENTS)
    files = [path for path in files if media_type_of(path)]
    with reader() as reading, open(target, "w", encoding="utf-8") as out:
        for done, path in enumerate(files, start=1):
            try:
                made = [_plain(element) for element in reading.read(path).elements]
            except DocumentError as error:
                made = [{"kind": "failure", "level": None, "text": error.code, "cells": [], "page": None, "boxes": []}]
            out.write(json.dumps({"file": str(path.relative_to(folder)), "elements": made}) + "\n")
            if sys.stderr.isatty() or done % 25 == 0:
                print(f"{done} of {len(files)} files", file=sys.stderr, flush=True)


def _plain(element: Any) -> dict[str, Any]:
    boxes = [[p.box.page, p.box.x0, p.box.y0, p.box.x1, p.box.y1] for p in element.places if p.box is not None]
    cells = [[cell.row, cell.column, cell.header, cell.text] for cell in element.cells]
    return {
        "kind": element.kind, "level": element.level, "text": element.text, "cells": cells,
        "page": element.page_start, "boxes": boxes[:200],
    }  # fmt: skip


def elements_by(code: Path, folder: Path, target: Path) -> dict[str, Elements]:
    """Return the elements of each file, as the code at a place reads them."""
    command = [sys.executable, str(Path(__file__).resolve()), "--dump", str(target), "--files", str(folder)]
    subprocess.run(command, cwd=code, env={**_environment(), "PYTHONPATH": str(code)}, check=True)
    with open(target, encoding="utf-8") as lines:
        return {row["file"]: row["elements"] for row in map(json.loads, lines)}


def _environment() -> dict[str, str]:
    import os

    return {**os.environ, "PYTHONSAFEPATH": "1"}


# ---------------------------------------------------------------- comparing


@dataclass(frozen=True)
class Change:
    """A change in a file: the old and the new element; one of them may be missing."""

    file: str
    old: Mapping[str, Any] | None
    new: Mapping[str, Any] | None

    @property
    def kind(self) -> str:
        if self.old is None or self.new is None:
            return f"{'new' if self.old is None else 'gone'} {(self.new or self.old or {})['kind']}"
        if self.old["kind"] != self.new["kind"]:
            return f"{self.old['kind']} became {self.new['kind']}"
        if self.old["text"] != self.new["text"]:
            return f"text of {self.new['kind']}"
        return f"{'level' if self.old['level'] != self.new['level'] else 'cells'} of {self.new['kind']}"


def _signature(element: Mapping[str, Any]) -> str:
    return json.dumps([element["kind"], element["level"], element["text"], element["cells"]])


def changes(old: Mapping[str, Elements], new: Mapping[str, Elements]) -> Iterator[Change]:
    for file in sorted(old.keys() | new.keys()):
        before, after = old.get(file, []), new.get(file, [])
        matcher = difflib.SequenceMatcher(None, [*map(_signature, before)], [*map(_signature, after)], autojunk=False)
        for tag, a, b, c, d in matcher.get_opcodes():
            if tag != "equal":
                yield from _paired(file, before[a:b], after[c:d])


def _paired(file: str, old: Sequence[Mapping[str, Any]], new: Sequence[Mapping[str, Any]]) -> Iterator[Change]:
    """Pair elements of one changed stretch by the likeness of their texts, in order."""
    at = 0
    for element in old:
        near = range(at, min(len(new), at + 8))
        likeness = {k: difflib.SequenceMatcher(None, element["text"][:300], new[k]["text"][:300]).ratio() for k in near}
        best = max(likeness, key=lambda k: likeness[k], default=None)
        if best is None or likeness[best] < 0.5:
            yield Change(file, element, None)
            continue
        yield from (Change(file, None, new[k]) for k in range(at, best))
        yield Change(file, element, new[best])
        at = best + 1
    yield from (Change(file, None, element) for element in new[at:])


# ---------------------------------------------------------------- showing


def shown(change: Change) -> str:
    def one(element: Mapping[str, Any] | None) -> str:
        if element is None:
            return "-"
        level = f" {element['level']}" if element["level"] else ""
        rows: dict[int, list[str]] = {}
        for row, _, _, text in element["cells"]:
            rows.setdefault(row, []).append(text)
        text = "\n      ".join(" | ".join(cells) for cells in rows.values()) if rows else element["text"]
        return f"{element['kind']}{level}: {text[:LONGEST_SHOWN]}"

    page = (change.new or change.old or {}).get("page")
    place = f"{change.file}{f', page {page}' if page else ''}: {change.kind}"
    return f"{place}\n  old {one(change.old)}\n  new {one(change.new)}"


def draw(change: Change, folder: Path, target: Path) -> bool:
    """Draw the page of a change with the new places marked, or the old ones if it is gone."""
    from pipelines.records import Box
    from resources.documents.page_pictures import highlight, opened_pages, pages_beside, write

    element = change.new or change.old or {}
    boxes = [Box(*values) for values in element["boxes"]]
    pages = pages_beside(folder / change.file)
    if not boxes or pages is None:
        return False
    with opened_pages(pages) as opened:
        number = boxes[0].page
        write(highlight(opened.picture(number), [box for box in boxes if box.page == number]), target)
    return True


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commit", nargs="?", help="The commit to compare with.")
    parser.add_argument("--files", type=Path, default=SHARED, metavar="FOLDER")
    parser.add_argument("--sample", type=int, default=0, metavar="N")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--pictures", type=Path, metavar="FOLDER")
    parser.add_argument("--dump", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.dump:
        dump(options.files, options.dump)
        return
    if not options.commit:
        parser.error("name the commit to compare with")
    folder = options.files.resolve()
    with tempfile.TemporaryDirectory(prefix="element-changes-") as place:
        code = Path(place, "code")
        subprocess.run(
            ["git", "worktree", "add", "--quiet", "--detach", str(code), options.commit], cwd=ROOT, check=True
        )
        try:
            old = elements_by(code, folder, Path(place, "old.jsonl"))
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", str(code)], cwd=ROOT, check=True)
        new = elements_by(ROOT, folder, Path(place, "new.jsonl"))
    found = list(changes(old, new))
    print(f"{len(old):,} files, {sum(map(len, old.values())):,} elements before, {sum(map(len, new.values())):,} now")
    print(f"{len(found):,} changes in {len({each.file for each in found}):,} files\n")
    for kind, count in Counter(each.kind for each in found).most_common():
        print(f"{count:>6}  {kind}")
    for number, change in enumerate(random.Random(options.seed).sample(found, min(options.sample, len(found)))):
        print(f"\n{number + 1}. {shown(change)}")
        if options.pictures:
            options.pictures.mkdir(parents=True, exist_ok=True)
            draw(change, folder, options.pictures / f"{number + 1:03}.png")


if __name__ == "__main__":
    main()
