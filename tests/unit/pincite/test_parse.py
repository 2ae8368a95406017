"""`pincite parse`: what it prints, writes and refuses; and that it leaves nothing behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import Image

from pincite.parsed import pages_from
from pipelines.errors import UsageError
from pipelines.records import Element
from resources.documents.page_pictures import COLOURS
from resources.documents.pool import DocumentPool
from resources.parsers.elements_map import parse as parse_map
from resources.parsers.registry import media_type_of, parse_file
from tests.faults import work_here
from tests.support.documents import elements_of, pdf_of
from tests.support.pictures import colours
from tests.support.places import LIBRARY, ROOT
from tests.support.projects import kept_workers, run_command

POLICY = LIBRARY / "policies" / "travel-policy-2026.pdf"
PROPOSAL = LIBRARY / "proposals" / "harbour-records-proposal.docx"
DOCUMENTS = {path.suffix: path for path in sorted(LIBRARY.rglob("*.*")) if media_type_of(path)}.values()
"""One of each format."""


@pytest.fixture(scope="module", autouse=True)
def workers() -> Iterator[None]:
    with kept_workers():
        yield


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to run in, so that whatever the command makes is seen."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    for name in ("PINCITE_STATE", "PINCITE_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    return folder


def parsed(*arguments: str | Path) -> str:
    ran = run_command("parse", *arguments)
    assert ran.code == 0, ran.err
    return ran.out


# ---------------------------------------------------------------- to read


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
@pytest.mark.parametrize("how", [[], ["--markdown"]], ids=str)
def test_every_kind_of_file_can_be_shown_and_nothing_is_made(path: Path, how: list[str], elsewhere: Path) -> None:
    assert len(parsed(path, *how)) > 150
    assert list(elsewhere.iterdir()) == []


def test_the_outline_has_a_line_an_element_and_the_counts() -> None:
    _, elements, _ = elements_of(POLICY)
    lines = parsed(POLICY).splitlines()
    assert lines[0].startswith("Travel and Expenses Policy: 5 pages, ")
    shown = [line for line in lines if line[:1].isdigit()]
    assert [int(line.split()[0]) for line in shown] == [element.index for element in elements]
    assert any(line.split()[1:4] == ["1", "heading", "2"] and line.endswith("1 Purpose and scope") for line in shown)
    assert any("3–4" in line and "28 × 5, 1 header row: City | Country" in line for line in shown)
    assert any(line.startswith("heading ") and "table 2" in line for line in lines[-2:])


def test_the_outline_is_indented_under_headings_and_items(elsewhere: Path) -> None:
    (elsewhere / "a.md").write_text("# One\n\n## Two\n\ntext\n\n- item\n  - deeper\n")
    shown = [line for line in parsed("a.md").splitlines() if line[:1].isdigit()]
    column = {line.split()[-1]: line.rindex(line.split()[-1]) for line in shown}
    assert [column[word] - column["One"] for word in ("Two", "text", "item", "deeper")] == [2, 4, 4, 6]


def test_warnings_are_shown(elsewhere: Path) -> None:
    (elsewhere / "a.txt").write_bytes(("Вода кипить при температурі сто градусів. " * 9).encode("cp1251"))
    warning = elements_of(elsewhere / "a.txt")[0].warnings[0]
    assert f"warning: {warning}" in parsed("a.txt").splitlines()
    assert warning in run_command("parse", "a.txt", "--markdown").err


def structure(elements: list[Element]) -> list[tuple[str, object, object]]:
    """What Markdown can say of a document; the text of a table by its cells, spread."""
    found: list[tuple[str, object, object]] = []
    for element in elements:
        if element.kind == "table":
            found.append(("table", len({cell.row for cell in element.cells}), element.text.split()))
        elif element.kind in ("heading", "list_item", "code"):
            found.append((element.kind, element.level, element.text))
        elif element.kind not in ("page_header", "page_footer", "break"):
            found.append(("text", None, element.text))
    return found


@pytest.mark.parametrize(
    "path", [POLICY, PROPOSAL, *LIBRARY.rglob("*.md"), *LIBRARY.rglob("*.html")], ids=lambda p: p.name
)
def test_markdown_reads_back_as_the_same_structure(path: Path, elsewhere: Path) -> None:
    (elsewhere / "a.md").write_text(parsed(path, "--markdown"))
    assert structure(elements_of(elsewhere / "a.md")[1]) == structure(elements_of(path)[1])


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_json_is_a_map_that_reads_back_as_the_same_document(path: Path, elsewhere: Path) -> None:
    made = parsed(path, "--json")
    assert list(elsewhere.iterdir()) == []
    (elsewhere / "a.elements.json").write_text(made)
    original = parse_file(path, str(media_type_of(path)))
    again = parse_map(elsewhere / "a.elements.json")
    assert (again.blocks, again.properties, again.pages) == (original.blocks, original.properties, original.pages)


def test_pages_restrict_what_is_shown() -> None:
    markdown = parsed(POLICY, "--markdown", "--pages", "2,4-")
    assert "3.2 Air" in markdown and "| Aberdeen |" in markdown and "5 Claims" in markdown
    assert "1.1 Principles" not in markdown and "four rules in mind" not in markdown


@pytest.mark.parametrize(
    ("argument", "pages"), [("3", [3]), ("3-5,9", [3, 4, 5, 9]), (" 2 , 4 - 5", [2, 4, 5]), ("8-", [8, 9])]
)
def test_page_ranges(argument: str, pages: list[int]) -> None:
    assert [number for number in range(1, 10) if any(number in r for r in pages_from(argument))] == pages


@pytest.mark.parametrize("argument", ["", "0", "5-3", "a", "1,,2", "-3", "1-2-3"])
def test_page_ranges_that_mean_nothing(argument: str) -> None:
    with pytest.raises(UsageError, match="3-7,12"):
        pages_from(argument)


# ---------------------------------------------------------------- to look at


def test_a_picture_a_page_with_progress_on_standard_error(elsewhere: Path) -> None:
    ran = run_command("parse", POLICY, "--image", "made/pictures", "--pages", "1-2")
    names = [f"travel-policy-2026-p000{number}.png" for number in (1, 2)]
    assert ran.out.splitlines() == [f"made/pictures/{name}" for name in names]
    assert sorted(path.name for path in (elsewhere / "made" / "pictures").iterdir()) == names
    assert "drawing: 2 of 2" in ran.err
    with Image.open(elsewhere / "made" / "pictures" / names[0]) as image:
        drawn = colours(image)
    for kind in ("heading", "paragraph", "list_item", "table", "caption"):
        assert any(max(abs(a - b) for a, b in zip(COLOURS[kind], colour, strict=True)) < 24 for colour in drawn), kind


def test_pictures_of_chosen_pages_and_their_json() -> None:
    ran = run_command("parse", POLICY, "--image", "out", "--pages", "5-9", "--json")
    assert ran.json == {"images": ["out/travel-policy-2026-p0005.png"], "warnings": []}
    assert run_command("parse", POLICY, "--image", "out", "--pages", "6", "--json").json["error"]["code"] == "no_page"


def test_a_map_is_drawn_on_the_pdf_beside_it(elsewhere: Path) -> None:
    (elsewhere / "report.elements.json").write_text(parsed(POLICY, "--json"))
    ran = run_command("parse", "report.elements.json", "--image", "out")
    assert ran.code == 1 and "no PDF stands beside it" in ran.err
    (elsewhere / "report.pdf").write_bytes(POLICY.read_bytes())
    assert parsed("report.elements.json", "--image", "out", "--pages", "1").split() == ["out/report-p0001.png"]
    parsed(POLICY, "--image", "out", "--pages", "1")
    drawn, expected = (elsewhere / "out" / f"{name}-p0001.png" for name in ("report", "travel-policy-2026"))
    assert drawn.read_bytes() == expected.read_bytes()


def test_elements_that_have_no_place_are_counted(elsewhere: Path) -> None:
    pdf_of(elsewhere / "a.pdf", [[(72, 700, "One page.")], [(72, 700, "Another.")]])
    elements = [{"kind": "paragraph", "text": "x"}, {"kind": "break"}]
    (elsewhere / "a.elements.json").write_text(json.dumps({"version": 1, "elements": elements}))
    said = parsed("a.elements.json", "--image", "out").splitlines()
    assert said[:2] == ["out/a-p0001.png", "out/a-p0002.png"], "all pages, since none are chosen"
    assert "warning: elements without a box, which are not drawn: 1" in said


# ---------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("arguments", "exit_code", "code", "message"),
    [
        (["none.pdf"], 2, "usage", "no such file"),
        (["."], 2, "usage", "index it with `pincite index .`"),
        (["a.bin"], 1, "unsupported", ".docx, .dot, .dotm"),
        (["torn.pdf"], 1, "corrupt", "export it again"),
        (["empty.txt"], 1, "empty", "0 bytes"),
        (["scan.pdf"], 1, "no_text", "scan.pdf"),
        ([PROPOSAL, "--image", "out"], 1, "no_pages", "--markdown"),
        ([POLICY, "--image", "out", "--markdown"], 2, "usage", "cannot be combined"),
        ([POLICY, "--image", "a.bin"], 2, "usage", "cannot be written to"),
        ([POLICY, "--pages", "1"], 2, "usage", "whole document"),
    ],
)
def test_failures_have_a_code_and_a_remedy(
    arguments: list[str | Path], exit_code: int, code: str, message: str, elsewhere: Path
) -> None:
    (elsewhere / "a.bin").write_bytes(b"\0\1")
    (elsewhere / "torn.pdf").write_bytes(b"%PDF-1.7\n1 0 obj")
    (elsewhere / "empty.txt").touch()
    pdf_of(elsewhere / "scan.pdf", [[]])
    ran = run_command("parse", *arguments, "--json")
    assert (ran.code, ran.json["error"]["code"]) == (exit_code, code)
    assert message in ran.json["error"]["message"]


def test_the_code_of_a_failure_is_said_to_people_too(elsewhere: Path) -> None:
    (elsewhere / "empty.txt").touch()
    ran = run_command("parse", "empty.txt")
    assert (ran.code, ran.out) == (1, "") and ran.err.startswith("pincite: empty: empty.txt: ")


def test_pages_of_a_file_without_pages() -> None:
    ran = run_command("parse", PROPOSAL, "--pages", "1")
    assert ran.code == 1 and "no_pages: " in ran.err and "leave out --pages" in ran.err


def test_an_error_that_a_parser_did_not_foresee_is_a_corrupt_document(
    elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from resources.parsers.text import markdown as text

    def broken(path: Path) -> None:
        raise KeyError("oops")

    monkeypatch.setattr(text, "parse", broken)
    monkeypatch.setattr(DocumentPool, "run", work_here.run)
    (elsewhere / "a.md").write_text("words")
    ran = run_command("parse", "a.md", "--json")
    assert (ran.code, ran.json["error"]["code"]) == (1, "corrupt") and "KeyError" in ran.json["error"]["message"]


def test_nothing_heavy_is_imported(elsewhere: Path, tmp_path: Path) -> None:
    # For pyarrow to find, installed or not: it would end this process, or the worker.
    (tmp_path / "pandas.py").write_text("import os\nos._exit(9)\n")
    script = f"""
import sys
sys.argv = ["pincite", "parse", {str(POLICY)!r}, "--image", ".", "--pages", "1"]
from pincite.cli import main
try:
    main()
except SystemExit as end:
    heavy = {{"torch", "spacy", "dagster", "transformers", "psycopg", "pandas", "unstructured", "py3langid"}}
    print(end.code, sorted(heavy & set(sys.modules)))
"""
    path = os.pathsep.join([str(ROOT), str(tmp_path)])
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env={"PYTHONPATH": path})
    assert run.stdout.splitlines()[-1:] == ["0 []"], run.stderr


@pytest.mark.parametrize("how", [[], ["--markdown"], ["--image", "out"]])
def test_pages_beyond_the_last(how: list[str], elsewhere: Path) -> None:
    ran = run_command("parse", POLICY, *how, "--pages", "99")
    assert ran.code == 1 and "has 5 pages, so those of --pages do not exist" in ran.err


def test_the_settings_of_parsing_hold(elsewhere: Path) -> None:
    (elsewhere / "small.yaml").write_text("parsing: {max_megabytes: 1}")
    (elsewhere / "large.txt").write_bytes(b"text\n" * 300_000)
    ran = run_command("parse", "large.txt", "--config", "small.yaml", "--json")
    assert ran.json["error"]["code"] == "limit_exceeded"
    (elsewhere / "wrong.yaml").write_text("parsing: {bogus: 1}")
    assert run_command("parse", "large.txt", "--config", "wrong.yaml").code == 2


def test_a_map_that_is_passed_over_is_named(elsewhere: Path) -> None:
    (elsewhere / "a.txt").write_text("Words of the file itself.")
    (elsewhere / "a.txt.elements.json").write_text('{"version": 1, "elements": []}')
    assert "a.txt.elements.json" in run_command("parse", "a.txt").err
