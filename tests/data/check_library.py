"""Check that every gold place of the golden questions stands in the library where it is said to.

pip install python-docx openpyxl pypdfium2 beautifulsoup4
python tests/data/check_library.py
"""

import json
import re
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
LIBRARY = HERE / "library"
# pdfium writes U+0002 for a hyphen at a line end, and runs the two lines together.
LINE_END_HYPHEN = re.compile(r"(?:\x02|-\r?\n)")
FURNITURE = re.compile(r"^(Saltmere Records Limited: .* Version \S+|Internal use Page \d+ of \d+)\s*$", re.MULTILINE)


def pdf_pages(path: Path) -> list[str]:
    import pypdfium2

    return [FURNITURE.sub("", page.get_textpage().get_text_bounded()) for page in pypdfium2.PdfDocument(path)]


def docx_text(path: Path) -> str:
    import docx

    document = docx.Document(str(path))
    cells = (cell.text for table in document.tables for row in table.rows for cell in row.cells)
    return "\n".join([*(paragraph.text for paragraph in document.paragraphs), *cells])


def xlsx_text(path: Path) -> str:
    import openpyxl

    cells = (cell for sheet in openpyxl.load_workbook(path) for row in sheet for cell in row)
    return "\n".join(part for cell in cells for part in (str(cell.value), cell.comment.text if cell.comment else ""))


def html_text(path: Path) -> str:
    import bs4

    return bs4.BeautifulSoup(path.read_text(encoding="utf-8"), "html.parser").get_text()


def text_of(path: Path, first: int | None, last: int | None) -> str:
    match path.suffix:
        case ".pdf":
            assert first, f"{path.name}: a place in a PDF names its page"
            return "\n".join(pdf_pages(path)[first - 1 : last or first])
        case ".docx":
            return docx_text(path)
        case ".xlsx":
            return xlsx_text(path)
        case ".html":
            return html_text(path)
        case _:
            return path.read_text(encoding="utf-8")


def squeeze(text: str) -> str:
    return " ".join(LINE_END_HYPHEN.sub("", text).split())


def problems(gold: dict[str, Any]) -> list[str]:
    path = LIBRARY / gold["uri"]
    if not path.is_file():
        return ["no such file"]
    found = []
    first, last, quote = gold.get("page"), gold.get("page_end"), gold.get("quote", "")
    if squeeze(quote) not in squeeze(text_of(path, first, last)):
        found.append("quote not found")
    if first and last and any(squeeze(quote) in squeeze(text_of(path, page, page)) for page in range(first, last + 1)):
        found.append("the quote lies on one page")
    if "start" in gold and path.read_text(encoding="utf-8")[gold["start"] : gold["end"]] != quote:
        found.append("start and end are not the quote's")
    return found


def main() -> int:
    failed, seen = 0, set()
    uris: set[str] = set()
    for name in ("library.questions.jsonl", "library.facts.jsonl", "unanswerable.jsonl"):
        for line in (HERE / name).read_text(encoding="utf-8").splitlines():
            question = json.loads(line)
            faults = [f"{gold['uri']}: {fault}" for gold in question["gold"] for fault in problems(gold)]
            if question["id"] in seen:
                faults.append("id used twice")
            if "answer" in question and question.get("options") and question["answer"] not in question["options"]:
                faults.append("the answer is none of the options")
            seen.add(question["id"])
            uris.update(gold["uri"] for gold in question["gold"])
            for fault in faults:
                failed += 1
                print(f"{name}: {question['id']}: {fault}")
    documents = {
        str(path.relative_to(LIBRARY)) for path in LIBRARY.rglob("*.*") if not path.name.endswith(".meta.yaml")
    }
    for uri in sorted(documents - uris):
        failed += 1
        print(f"{uri}: no question asks for it")
    print(f"{len(seen)} questions, {len(documents)} documents, {failed} problems")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
