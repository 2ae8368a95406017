"""Text set from top to bottom in columns from right to left: class 10 of the field cases."""

from __future__ import annotations

from pathlib import Path

from tests.support.documents import elements_of
from tests.support.places import DATA, require_data

FIELD = DATA / "field-cases"
SIZE = 12.0


def made(
    folder: Path, tiers: list[list[str]], font: str = "HeiseiMin-W3", page: str = "", step: float = 20, level: str = ""
) -> Path:
    """Write a page of columns, in the order of reading or from the left; a leading space is an indent."""
    from reportlab.pdfbase.cidfonts import CIDFont
    from reportlab.pdfbase.pdfmetrics import registerFont
    from reportlab.pdfgen.canvas import Canvas

    encoding = {"HeiseiMin-W3": "UniJIS-UCS2-V", "STSong-Light": "UniGB-UCS2-V", "MSung-Light": "UniCNS-UCS2-V"}[font]
    registerFont(CIDFont(font, encoding))
    canvas = Canvas(str(folder / "a.pdf"), pagesize=(600, 800))
    for tier, columns in enumerate(tiers):
        for at, column in enumerate(columns):
            text = canvas.beginText(540 - step * at, 740 - 340 * tier - SIZE * (len(column) - len(column.lstrip())))
            text.setFont(f"{font}-{encoding}", SIZE)
            text.textOut(column.strip().encode("utf-16-be").decode("latin-1"))
            canvas.drawText(text)
    if page:
        canvas.setFont("Helvetica", 9)
        canvas.drawString(290, 30, page)
    if level:
        registerFont(CIDFont(font, encoding.removesuffix("-V") + "-H"))
        text = canvas.beginText(60, 780)
        text.setFont(f"{font}-{encoding.removesuffix('-V')}-H", SIZE)
        text.textOut(level.encode("utf-16-be").decode("latin-1"))
        canvas.drawText(text)
    canvas.showPage()
    canvas.save()
    return folder / "a.pdf"


def found(path: Path) -> list[tuple[str, str]]:
    return [(element.kind, element.text) for element in elements_of(path)[1]]


TENANCY = [
    "賃借人は毎月一日に家賃を支払い、領収書を三年",
    "間保管するものとする。ただし、初日が休日のとき",
    "は翌日とする。",
]
RULES = ["員工應於每月第一日繳交租金並保存收據三年其", "期間自簽約日起算。"]


def test_columns_are_read_from_the_right(tmp_path: Path) -> None:
    assert found(made(tmp_path, [TENANCY])) == [("paragraph", "".join(TENANCY))]


def test_chinese_columns(tmp_path: Path) -> None:
    assert found(made(tmp_path, [RULES], "MSung-Light")) == [("paragraph", "".join(RULES))]


def test_tiers_are_read_one_after_the_other(tmp_path: Path) -> None:
    upper = ["第一条本規程は従業員の休暇について定める。この", "規程は全従業員に適用する。"]
    kinds = found(made(tmp_path, [upper, TENANCY]))
    assert "".join(text for _, text in kinds) == "".join((*upper, *TENANCY))
    assert kinds[0][1] == "".join(upper)


def test_an_indented_column_begins_a_paragraph(tmp_path: Path) -> None:
    second = [" 次に賃貸人は建物を修繕する義務を負い、その費用", "を負担する。"]
    texts = [text for _, text in found(made(tmp_path, [[*TENANCY, *second]]))]
    assert texts == ["".join(TENANCY), "".join(second).strip()]


def test_a_level_page_number_below_the_columns(tmp_path: Path) -> None:
    kinds = found(made(tmp_path, [TENANCY], page="12"))
    assert ("paragraph", "".join(TENANCY)) in kinds
    assert [text for _, text in kinds if text != "".join(TENANCY)] == ["12"]


def test_level_text_of_a_vertical_page_keeps_its_spaces_and_its_order(tmp_path: Path) -> None:
    kinds = found(made(tmp_path, [TENANCY], page="Annual Report 2020"))
    assert [text for _, text in kinds if text != "".join(TENANCY)] == ["Annual Report 2020"]
    file = made(tmp_path, [TENANCY], level="第三章")
    assert sorted(text for _, text in found(file)) == sorted(["".join(TENANCY), "第三章"])


def test_columns_set_close(tmp_path: Path) -> None:
    assert found(made(tmp_path, [TENANCY], step=13)) == [("paragraph", "".join(TENANCY))]


def test_places_of_columns_are_on_the_page(tmp_path: Path) -> None:
    (element,) = elements_of(made(tmp_path, [TENANCY]))[1]
    boxes = [place.box for place in element.places]
    assert all(box is not None and box.y1 - box.y0 > 5 * (box.x1 - box.x0) for box in boxes)
    assert [round(box.x0 / 20) for box in boxes if box] == sorted(
        (round(box.x0 / 20) for box in boxes if box), reverse=True
    )


def test_a_poem() -> None:
    require_data(FIELD / "jo.pdf")
    kinds = found(FIELD / "jo.pdf")
    text = "".join(text for _, text in kinds)
    assert text.startswith(
        "序わたくしといふ現象は假定された有機交流電燈のひとつの青い照明です（あらゆる透明な幽霊の複合体）"
    )
    assert text.endswith("大正十三年一月廿日 宮澤賢治")
    assert {kind for kind, _ in kinds} == {"paragraph"}
