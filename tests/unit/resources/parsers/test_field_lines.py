"""Lines joined by script, in every format whose lines wrap: class 10 of the field cases and files of its kind."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.documents import elements_of
from tests.support.places import DATA, require_data

FIELD = DATA / "field-cases"


def body_of(path: Path) -> str:
    return elements_of(path)[0].body


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_words_divided_in_a_text_file() -> None:
    require_data(FIELD / "t06-wrapped.txt")
    assert "The pool opens at six in the morning on weekdays and at eight on Saturdays." in body_of(
        FIELD / "t06-wrapped.txt"
    )


def test_chinese_lines_of_a_pdf() -> None:
    require_data(FIELD / "p16-cjk.pdf")
    body = body_of(FIELD / "p16-cjk.pdf")
    assert "根据国家有关规定，制定本办法。员工每年享有十四天带薪年假，由部门负责人批准后方可休假。" in body
    assert "휴가는 부서장의 승인 을 받아야 한다." in body


WRAPPED = {
    "zh": ("第一条为了规范员工年假管理，制定本办\n法。方可休\n假。", "制定本办法。", "方可休假。"),
    "ja": ("給食では、原因となる食\nべ物を取り除きます。ご不明な点は、\n係まで。", "食べ物を", "点は、係まで。"),
    "th": ("พนักงานทุกคนมีสิทธิลาพักร้อนได้ปี\nละสิบสองวันและ\nกฎหมาย", "ปีละสิบ", "และกฎหมาย"),
    "de": ("Antrag beim Perso-\nnalbüro, das die Vor-\nund Nachteile nennt.", "Personalbüro", "Vor- und"),
    "uk": ("щорічну від-\nпустку погоджує їхній без-\nпосередній керівник.", "відпустку", "безпосередній"),
    "ko": (
        "휴가를 받는다. 휴가는\n부서장의 승인을 받아야 하며 매년\n갱신된다.",
        "휴가는 부서장의",
        "매년 갱신된다",
    ),
}


@pytest.mark.parametrize("language", WRAPPED)
@pytest.mark.parametrize("ending", ["txt", "md", "html", "htm", "eml"])
def test_wrapped_lines(tmp_path: Path, language: str, ending: str) -> None:
    text, *parts = WRAPPED[language]
    content = {
        "txt": text,
        "md": text,
        "html": f"<html><body><p>{text}</p></body></html>",
        "htm": f"<table><tr><th>A</th><th>B</th></tr><tr><td>1</td><td>{text}</td></tr></table>",
        "eml": f"From: a@example.org\nSubject: S\nContent-Type: text/plain; charset=utf-8\n\n{text}\n",
    }[ending]
    body = body_of(written(tmp_path, f"file.{ending}", content))
    assert [part for part in parts if part not in body] == []


def test_breaks_of_an_author_are_spaces(tmp_path: Path) -> None:
    assert body_of(written(tmp_path, "a.md", "北京市  \n海淀区\n\n本办\n法")) == "北京市 海淀区\n\n本办法"
    assert body_of(written(tmp_path, "a.html", "<p>北京市<br>海淀区</p><p>本办\n法</p>")) == "北京市 海淀区\n\n本办法"


def test_lines_keep_their_offsets(tmp_path: Path) -> None:
    text = "The pool opens at six in the morn-\ning on weekdays, also for 本办\n法 readers."
    for name in ("a.txt", "a.md"):
        document, (element,), _ = elements_of(written(tmp_path, name, text))
        assert document.body == "The pool opens at six in the morning on weekdays, also for 本办法 readers."
        places = [
            (element.text[place.start : place.end], place.source_start, place.source_end) for place in element.places
        ]
        assert [text[start:end] for _, start, end in places] == [part for part, _, _ in places]
        assert [part for part, _, _ in places] == [
            "The pool opens at six in the morn", "ing on weekdays, also for 本办", "法 readers.",
        ]  # fmt: skip


def test_inline_marks_at_a_line_end(tmp_path: Path) -> None:
    marked = written(tmp_path, "a.md", "in the **morn-**\n*ing* of 本\n**办**\n`法`")
    assert body_of(marked) == "in the morning of 本办法"
    marked = written(tmp_path, "a.html", "<p>in the morn-\n<i>ing</i></p><p>本办<b>\n法</b></p>")
    assert body_of(marked) == "in the morning\n\n本办法"
