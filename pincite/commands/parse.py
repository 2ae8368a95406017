"""`pincite parse`: the parser's result for one file, as an outline, Markdown, JSON or pictures."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pincite.commands.options import GlobalOptions, global_options
from pincite.console import PrintableLines, block, emit, say, tell
from pipelines.errors import DocumentError, UsageError

if TYPE_CHECKING:
    from pincite.parsed import Parsed


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--markdown", is_flag=True, help="The document as Markdown.")
@click.option(
    "--image", metavar="DIR", type=click.Path(path_type=Path), help="A picture of every page, kinds in colours."
)
@click.option("--pages", metavar="3-7,12", help="Only these pages.")
@global_options
def parse(place: GlobalOptions, file: Path, markdown: bool, image: Path | None, pages: str | None) -> int:
    """Show what the parser finds in one file.

    No index is needed or made. With --json, print the document and its elements as a structural map, which pincite
    reads as NAME.elements.json.
    """
    from pincite.index import Index
    from pincite.parsed import pages_from

    project = place.project()
    if markdown and (place.as_json or image):
        raise UsageError("--markdown cannot be combined with --json or --image; leave them out")
    if place.as_json and pages and not image:
        raise UsageError("--json always has the whole document; leave out --pages")
    ranges = pages_from(pages) if pages else []
    try:
        with (
            place.progress("reading the file") as progress,
            Index(project, progress) as index,
            index.open_parsed(file) as found,
        ):
            if found.map_beside:
                say(f"note: read without its map, {found.map_beside.name}, which `pincite index` takes in its place")
            result = _asked_for(found, place.as_json, markdown, image, ranges)
    except DocumentError as error:
        raise error if place.as_json else DocumentError(f"{error.code}: {error}", error.code) from error
    tell(result) if isinstance(result, str) else emit(result)
    return 0


def _asked_for(
    found: Parsed, as_json: bool, markdown: bool, image: Path | None, pages: list[range]
) -> dict[str, Any] | str:
    """Return a JSON value or a text to print, as the options require."""
    if image:
        drawn = found.draw(image, pages)
        return drawn if as_json else block([*drawn["images"], *(f"warning: {each}" for each in drawn["warnings"])])
    if as_json:
        return found.map()
    elements, document = found.elements(pages), found.reading.document
    if markdown:
        from pipelines.parsing.markdown_view import markdown_of

        for warning in document.warnings:
            say(f"warning: {warning}")
        return PrintableLines(markdown_of(elements).rstrip("\n"))
    from pincite.text.reports import outline_shown

    return outline_shown(document, found.reading.parsed, elements)
