"""The pictures that a model is shown are those of the document, bounded, and nothing else is opened."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from pipelines.errors import DocumentError
from pipelines.indexing.enrichment import figures_of
from pipelines.llm.prompts import PromptTemplate
from pipelines.parsing.pictures import IMAGE, IMAGE_HASH
from pipelines.ports import Prompt, Reply, ReplyCheck
from pipelines.records import Element
from pipelines.settings.base import ParsingSettings
from resources.documents.figures import LONGEST_SIDE, figure_image
from resources.documents.pool import DocumentPool
from resources.documents.protocol import Attempt
from resources.documents.requests import figure_images
from resources.hashes import bytes_hash, content_hash
from resources.parsers.registry import ELEMENTS, media_type_of
from resources.stages.enrichment import FigureTask, said_of
from resources.workers.frames import Message
from resources.workers.pool import WorkerProcess
from tests.support.documents import elements_of, raw_of
from tests.support.pictures import BLUE, GREEN, RED, Placed, colour_of, data_url, illustrated_pdf, near, picture
from tests.unit.resources.parsers.test_figures import WORDS, docx_with, pptx_with


def type_of(path: Path) -> str:
    return media_type_of(path) or ""


def figure_in(path: Path) -> Element:
    (figure,) = figures_of(elements_of(path)[1])
    return figure


def image_of(path: Path) -> bytes:
    return figure_image(path, type_of(path), figure_in(path))


def written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def html_with(path: Path, *data: bytes) -> Path:
    return written(path, f"<p>{WORDS}</p>" + "".join(f"<p><img src='{data_url(item)}'></p>" for item in data))


MAKERS: dict[str, Callable[[Path], Path]] = {
    "docx": lambda folder: docx_with(folder / "a.docx", WORDS, picture(RED)),
    "pptx": lambda folder: pptx_with(folder / "a.pptx", [picture(RED)]),
    "html": lambda folder: html_with(folder / "a.html", picture(RED)),
    "markdown": lambda folder: written(folder / "a.md", f"{WORDS} ![]({data_url(picture(RED))})"),
    "pdf": lambda folder: illustrated_pdf(
        folder / "a.pdf",
        ([(picture(BLUE), 50, 500, 200, 150)], [(100, 90, WORDS)]),
        ([(picture(RED), 100, 120, 200, 150)], [(100, 90, WORDS)]),
    ),
    "turned pdf": lambda folder: illustrated_pdf(
        folder / "a.pdf", ([(picture(RED), 100, 420, 200, 150)], [(100, 400, WORDS)]), turned=90
    ),
}


@pytest.mark.parametrize("kind", MAKERS)
def test_the_picture_of_a_figure_is_the_one_in_its_file(tmp_path: Path, kind: str) -> None:
    path = MAKERS[kind](tmp_path)
    figure = figures_of(elements_of(path)[1])[-1]
    found = figure_image(path, type_of(path), figure)
    assert near(colour_of(found), RED)
    assert found.startswith(b"\x89PNG") and found == figure_image(path, type_of(path), figure)


def test_a_region_of_a_page_is_all_of_the_picture_and_nothing_beside_it(tmp_path: Path) -> None:
    two = Image.new("RGB", (200, 100), GREEN)
    two.paste(BLUE, (100, 0, 200, 100))
    data = io.BytesIO()
    two.save(data, "PNG")
    path = illustrated_pdf(tmp_path / "a.pdf", ([(data.getvalue(), 100, 120, 200, 100)], [(100, 90, WORDS)]))
    with Image.open(io.BytesIO(image_of(path))) as image:
        assert image.size == (833, 416)
        corners = [image.getpixel((x, y)) for x in (3, image.width - 4) for y in (3, image.height - 4)]
    assert corners == [GREEN, GREEN, BLUE, BLUE]


def test_a_photograph_stays_a_jpeg_and_is_scaled_down(tmp_path: Path) -> None:
    found = image_of(docx_with(tmp_path / "a.docx", WORDS, (picture(RED, (4000, 1000), "JPEG"), 6)))
    with Image.open(io.BytesIO(found)) as image:
        assert (image.format, image.size) == ("JPEG", (LONGEST_SIDE, LONGEST_SIDE // 4))
    assert near(colour_of(found), RED)


def test_a_transparent_picture_is_shown_on_white(tmp_path: Path) -> None:
    out = io.BytesIO()
    Image.new("RGBA", (160, 120), (0, 0, 0, 0)).save(out, "PNG")
    assert colour_of(image_of(docx_with(tmp_path / "a.docx", WORDS, out.getvalue()))) == (255, 255, 255)


def test_no_words_about_the_picture_go_with_it(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x010E] = "taken at home"
    out = io.BytesIO()
    Image.new("RGB", (160, 120), RED).save(out, "JPEG", exif=exif)
    assert b"taken at home" in out.getvalue()
    assert b"taken at home" not in image_of(docx_with(tmp_path / "a.docx", WORDS, out.getvalue()))


# ---------------------------------------------------------------- what cannot be shown


def declaring(width: int, height: int) -> bytes:
    """A PNG that says how large it is and has nothing in it."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")


def replaced(path: Path, name: str, data: bytes) -> Path:
    """A copy of a package with another part."""
    copy = path.with_name("copy" + path.suffix)
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(copy, "w") as new:
        for part in old.namelist():
            new.writestr(part, data if part == name else old.read(part))
    return copy


@pytest.mark.parametrize(
    ("data", "code", "said"),
    [
        (declaring(30_000, 30_000), "limit_exceeded", "too large"),
        (declaring(12_000, 9_000), "limit_exceeded", "108000000 pixels"),
        (b"\x01\x00\x00\x00" + bytes(36) + b" EMF" + bytes(60), "unsupported", "an EMF drawing"),
        (b"\xd7\xcd\xc6\x9a" + bytes(60), "unsupported", "a WMF drawing"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "unsupported", "an unknown format"),
        (picture()[:90], "corrupt", "cannot be read"),
        (declaring(10, 400), "no_picture", "shows nothing"),
    ],
)
def test_an_unshowable_picture_is_named(tmp_path: Path, data: bytes, code: str, said: str) -> None:
    path = replaced(docx_with(tmp_path / "a.docx", WORDS, picture()), "word/media/image1.png", data)
    with pytest.raises(DocumentError, match=said) as raised:
        image_of(path)
    assert raised.value.code == code and "copy.docx: figure 1" in str(raised.value)


def test_a_picture_that_went_away_is_named(tmp_path: Path) -> None:
    figure = figure_in(html_with(tmp_path / "a.html", picture()))
    path = html_with(tmp_path / "a.html", picture(BLUE))
    with pytest.raises(DocumentError, match="no picture in the file has its hash") as raised:
        figure_image(path, type_of(path), figure)
    assert raised.value.code == "no_picture"


@pytest.mark.case(24)
@pytest.mark.parametrize("part", ["../../etc/passwd", "word/document.xml"])
def test_a_figure_opens_no_other_file_and_no_other_part_as_a_picture(tmp_path: Path, part: str) -> None:
    path = docx_with(tmp_path / "a.docx", WORDS, picture())
    with pytest.raises(DocumentError):
        figure_image(path, type_of(path), replace(figure_in(path), metadata={IMAGE: part}))


# ---------------------------------------------------------------- in a process of its own


@pytest.fixture(scope="module")
def pool() -> Iterator[DocumentPool]:
    with DocumentPool(ParsingSettings(workers=1)) as made:
        yield made


def test_one_picture_that_cannot_be_shown_costs_no_other(tmp_path: Path, pool: DocumentPool) -> None:
    path = docx_with(tmp_path / "a.docx", WORDS, picture(RED), picture(GREEN), picture(BLUE))
    path = replaced(path, "word/media/image2.png", declaring(30_000, 30_000))
    figures = figures_of(elements_of(path)[1])
    red, bomb, blue = figure_images(pool, raw_of(path), path.parent, figures)
    assert isinstance(red, bytes) and isinstance(blue, bytes)
    assert (colour_of(red), colour_of(blue)) == (RED, BLUE)
    assert isinstance(bomb, str) and "too large" in bomb


def test_a_process_that_dies_at_a_picture_costs_that_picture(
    tmp_path: Path, pool: DocumentPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is killed, as by the system for want of memory, when it has said that it begins the second."""
    messages = WorkerProcess.messages

    def heard(process: WorkerProcess[Attempt]) -> Iterator[Message]:
        for message in messages(process):
            yield message
            if process.work and process.work.page == 2:
                process.process.kill()
                process.process.wait()
                raise EOFError  # whatever it has sent since: it is so quick that all may be here already

    html = html_with(tmp_path / "a.html", picture(RED), picture(GREEN), picture(BLUE))
    figures = figures_of(elements_of(html)[1])
    assert [figure.index for figure in figures] == [1, 2, 3]
    monkeypatch.setattr(WorkerProcess, "messages", heard)
    found = list(figure_images(pool, raw_of(html), tmp_path, figures))
    assert isinstance(found[0], bytes) and isinstance(found[2], bytes)
    assert (colour_of(found[0]), colour_of(found[2])) == (RED, BLUE)
    assert "crashed" in str(found[1]) and "figure 2" in str(found[1])


# ---------------------------------------------------------------- shown to a model


class Seeing:
    """A model that says which colour it sees."""

    name = "seeing"

    def __init__(self) -> None:
        self.asked: list[Prompt] = []
        self.said: list[Reply] = []

    def replies(self, prompts: Iterable[Prompt], unusable: ReplyCheck) -> Generator[Reply, None, None]:
        for prompt in prompts:
            self.asked.append(prompt)
            (image,) = prompt.images
            self.said.append(Reply(f"{prompt.system} {colour_of(image)}", key=str(len(self.asked))))
            yield self.said[-1]


def text_of(said: Any) -> str:
    """What was said, or why nothing was."""
    return said.text if isinstance(said, Reply) else str(said)


def test_a_picture_is_shown_once_however_many_documents_have_it(tmp_path: Path, pool: DocumentPool) -> None:
    first = docx_with(tmp_path / "a.docx", WORDS, picture(RED), picture(BLUE), picture(RED))
    second = html_with(tmp_path / "b.html", picture(BLUE), picture(GREEN))
    third = html_with(tmp_path / "c.html", picture(BLUE), picture(GREEN))
    broken = replaced(first, "word/media/image1.png", b"nothing")
    english, ukrainian = (PromptTemplate(language, "?", language) for language in ("en", "uk"))
    tasks = [
        FigureTask(raw_of(path), path.parent, figures_of(elements_of(path)[1]), template)
        for path, template in ((broken, english), (first, english), (second, english), (third, ukrainian))
    ]
    model = Seeing()
    texts = {
        (task.raw.doc_id, name): text_of(value)
        for task, said in said_of(tasks, model, pool, 300, lambda reply: None)
        for name, value in said.items()
    }
    red, green, blue = (bytes_hash(picture(colour)) for colour in (RED, GREEN, BLUE))
    docs = {Path(task.raw.uri).name: task.raw.doc_id for task in tasks}
    own, other, more, copy = (docs[name] for name in ("a.docx", "b.html", "c.html", "copy.docx"))
    unseen = texts.pop((copy, bytes_hash(b"nothing")))
    assert unseen.startswith("copy.docx: figure 1")
    assert texts == {
        (copy, blue): f"en {BLUE}", (own, red): f"en {RED}", (own, blue): f"en {BLUE}",
        (other, blue): f"en {BLUE}", (other, green): f"en {GREEN}",
        (more, blue): f"uk {BLUE}", (more, green): f"uk {GREEN}",
    }  # fmt: skip
    assert len(model.asked) == 5


def test_replies_to_few_pictures_are_remembered(tmp_path: Path, pool: DocumentPool) -> None:
    """One that is shown again after others is asked about again, and its reply is the one that is kept."""
    colours = {"a": (RED, BLUE), "b": (BLUE, RED), "c": (RED, GREEN)}
    paths = [html_with(tmp_path / f"{name}.html", *map(picture, own)) for name, own in colours.items()]
    template = PromptTemplate("en", "?", "en")
    tasks = [FigureTask(raw_of(path), tmp_path, figures_of(elements_of(path)[1]), template) for path in paths]
    model = Seeing()
    found = list(said_of(tasks, model, pool, 300, lambda reply: None, most_shown=2))
    for (task, said), own in zip(found, colours.values(), strict=True):
        assert task.raw.uri and sorted(map(text_of, said.values())) == sorted(f"en {colour}" for colour in own)
    assert len(model.asked) == 3
    model = Seeing()
    assert len(list(said_of(tasks, model, pool, 300, lambda reply: None, most_shown=1))) == 3
    assert [text_of(reply)[3:] for reply in model.said] == [str(colour) for colour in (RED, BLUE, RED, GREEN)]


@pytest.mark.parametrize("first", [True, False])
def test_no_document_is_told_of_another_s_picture_by_its_hash(tmp_path: Path, pool: DocumentPool, first: bool) -> None:
    """A structural map states any hash: that of a picture which it does not have, or for another picture."""
    hidden = docx_with(tmp_path / "hidden.docx", WORDS, picture(RED))
    open_one = docx_with(tmp_path / "open.docx", WORDS, picture(BLUE))
    (figure,) = figures_of(elements_of(hidden)[1])
    stolen = replace(figure, doc_id=raw_of(open_one).doc_id)
    template = PromptTemplate("en", "?", "en")
    stated = written(tmp_path / "open.docx.elements.json", "{}")
    forged = replace(raw_of(open_one), media_type=ELEMENTS, content_hash=content_hash(stated, open_one))
    tasks = [FigureTask(raw_of(hidden), tmp_path, [figure], template), FigureTask(forged, tmp_path, [stolen], template)]
    model = Seeing()
    told = {
        task.raw.doc_id: text_of(value)
        for task, said in said_of(tasks if first else tasks[::-1], model, pool, 300, lambda reply: None)
        for value in said.values()
    }
    assert told[tasks[0].raw.doc_id] == f"en {RED}" and len(model.asked) == 1
    assert "no picture in the file has its hash" in str(told[forged.doc_id])


def test_words_drawn_over_a_shared_picture_belong_to_their_own_document(tmp_path: Path, pool: DocumentPool) -> None:
    """Two pages that stretch one picture, and write other words over it, have one hash and two descriptions."""
    page: list[Placed] = [(picture(RED), 100, 120, 200, 150)]
    paths = [
        illustrated_pdf(tmp_path / f"{words}.pdf", (page, [(100, 90, WORDS), (120, 150, words)]))
        for words in ("ours", "theirs")
    ]
    tasks = [
        FigureTask(raw_of(path), tmp_path, figures_of(elements_of(path)[1]), PromptTemplate("en", "?", "en"))
        for path in paths
    ]
    assert len({figure.metadata[IMAGE_HASH] for task in tasks for figure in task.figures}) == 1
    model = Seeing()
    assert len(list(said_of(tasks, model, pool, 300, lambda reply: None))) == len(model.asked) == 2
