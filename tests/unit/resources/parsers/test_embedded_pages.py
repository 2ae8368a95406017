"""Words that a page holds beside its text: in drawings, frames, and what stands for something that is not there."""

from __future__ import annotations

from pathlib import Path

import pytest

from resources.parsers.registry import parse_file

LEFT_OUT = "hidden in the file, and left out: 1 element; `parsing.hidden: read` takes them"
DRAWN = "1 drawing with words in it was not read"


def read(folder: Path, body: str, ending: str = "html", hidden: bool = False) -> tuple[list[str], tuple[str, ...]]:
    path = folder / f"a.{ending}"
    path.write_text(body)
    found = parse_file(path, {"html": "text/html", "md": "text/markdown"}[ending], hidden=hidden)
    return [" ".join("".join(run.text for run in block.runs).split()) for block in found.blocks], found.warnings


@pytest.mark.parametrize("tag", ["object", "iframe", "noscript", "template", "video", "audio", "canvas"])
def test_fallback_content_is_counted(tmp_path: Path, tag: str) -> None:
    body = f"<p>Seen.</p><{tag}><b>Fallback</b></{tag}><p>Last.</p>"
    assert read(tmp_path, body) == (["Seen.", "Last."], (LEFT_OUT,))


@pytest.mark.parametrize("ending", ["html", "md"])
@pytest.mark.parametrize(
    "inner",
    [
        "<text x=1>Words</text>",
        "<g><text><tspan>Words</tspan></text></g>",
        "<foreignObject><p>Words</p></foreignObject>",
    ],
)
def test_drawings_with_words_are_counted(tmp_path: Path, ending: str, inner: str) -> None:
    body = f"<div><p>Seen.</p><svg>{inner}</svg><svg><title>An icon</title><path/></svg></div>"
    assert read(tmp_path, body, ending) == (["Seen."], (DRAWN,))


def test_the_page_of_a_frame_is_read_in_place(tmp_path: Path) -> None:
    page = "&lt;style>p{color:red}&lt;/style>&lt;p>Inner &amp;amp; more.&lt;/p>&lt;h2 hidden>Not&lt;/h2>"
    body = f'<p>Before.</p><iframe srcdoc="{page}">Old</iframe><p>After.</p>'
    assert read(tmp_path, body) == (["Before.", "Inner & more.", "After."], (LEFT_OUT,))


def test_a_hidden_frame_stays_hidden_and_a_frame_in_a_frame_is_counted(tmp_path: Path) -> None:
    hidden = '<p>Seen.</p><iframe style="display:none" srcdoc="&lt;p>Not&lt;/p>"></iframe>'
    assert read(tmp_path, hidden) == (["Seen."], (LEFT_OUT,))
    deep = '<p>Seen.</p><iframe srcdoc="&lt;iframe srcdoc=x>Deep&lt;/iframe>"></iframe>'
    assert read(tmp_path, deep) == (["Seen."], (LEFT_OUT,))
