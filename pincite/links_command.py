"""`pincite links`: RELATED_TO as it stands, and what other floors would make of it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pincite.console import Progress, emit, rows, say, tell
from pincite.placed import Place, placed
from pipelines.errors import UsageError

if TYPE_CHECKING:
    from pipelines.query.evaluate import OptionsUse
    from resources.plots import Panel

LONGEST_TEXT = 100


@click.command()
@click.option("--sweep", "sweeping", is_flag=True, help="Say for several floors what links there would be.")
@click.option("--thresholds", metavar="COSINES", help="With --sweep: the floors, such as 0.85,0.9,0.95.")
@click.option(
    "--golden", metavar="QUESTIONS.jsonl", type=click.Path(path_type=Path),
    help="With --sweep: score the sentence route at each floor (default: publish.golden).",
)  # fmt: skip
@click.option(
    "--with-options", is_flag=False, flag_value="lexical", default=None, type=click.Choice(["lexical", "all"]),
    help="With --sweep: join a question's options to the lexical query, or with =all everywhere.",
)  # fmt: skip
@click.option("--plot", metavar="FILE.svg", type=click.Path(path_type=Path), help="With --sweep: draw it.")
@click.option("--strongest", default=5, show_default=True, type=click.IntRange(0), help="Links to show.")
@click.option("--group", "groups", multiple=True, metavar="G", help="A group of the asker; may be repeated.")
@click.option("--generation", type=int, metavar="G", help="Look at another generation than the live one.")
@placed
def links(place: Place, sweeping: bool, strongest: int, **options: Any) -> int:
    """Show the links between related sentences: how many, over which cosine, and the strongest.

    With --sweep, what there would be over other floors, and how well golden questions are answered by the
    sentence route with those links. Writes nothing."""
    if sweeping:
        return _sweep(place, **options)
    for name in ("thresholds", "golden", "with_options", "plot"):
        if options[name] is not None:
            raise UsageError(f"--{name.replace('_', '-')} goes with --sweep")
    from resources.link_state import links as present

    result = present(place.located(), options["generation"], options["groups"], strongest)
    emit(result) if place.as_json else tell(links_shown(result))
    return 0


def _sweep(
    place: Place, thresholds: str | None, plot: Path | None, with_options: OptionsUse | None, **options: Any
) -> int:
    from resources.link_sweep import sweep

    progress = Progress()
    try:
        result = sweep(
            place.located(), _cosines(thresholds), with_options=with_options or "none", progress=progress, **options
        )
    finally:
        progress.close()
    if plot:
        _draw(result, plot)
    emit(result) if place.as_json else tell(sweep_shown(result))
    return 0


def _cosines(written: str | None) -> list[float]:
    try:
        return [float(part) for part in written.split(",")] if written is not None else []
    except ValueError:
        raise UsageError(f"--thresholds {written!r}: write cosines by commas, such as 0.85,0.9,0.95") from None


def _draw(result: dict[str, Any], file: Path) -> None:
    from resources.plots import figure

    title = f"RELATED_TO by floor: generation {result['generation']}, {result['embedder']}"
    try:
        file.write_text(figure(sweep_panels(result), title), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"--plot {file} cannot be written: {error.strerror or error}") from None
    say(f"drawn: {file}")


def sweep_panels(result: dict[str, Any]) -> list[Panel]:
    """Links and the share of sentences linked, and the scores where there are any, by floor."""
    from resources.plots import Curves

    swept = [row for row in result["rows"] if row["threshold"] is not None]
    marks = {"in use": result["floor"]} if result["floor"] else {}

    def line(values: Sequence[Any]) -> list[tuple[float, float]]:
        return [(row["threshold"], value) for row, value in zip(swept, values, strict=True) if value is not None]

    lines = {"all": line([row["links"] for row in swept]),
             "across documents": line([row["across_documents"] for row in swept])}  # fmt: skip
    panels: list[Panel] = [
        Curves("links", lines, "floor", marks=marks),
        Curves("share of sentences linked", {"linked": line([row["share"] for row in swept])}, "floor", marks=marks),
    ]
    if result["golden"]:
        names = result["rows"][0]["scores"]
        scores = {name: line([row["scores"][name] for row in swept]) for name in names}
        scores = {name: points for name, points in scores.items() if points}
        panels.append(Curves("scores of the sentence route", scores, "floor", marks=marks, y_from=None))
    return panels


# ---------------------------------------------------------------- for people


def _heading(result: dict[str, Any]) -> str:
    live = ", live" if result["live"] else ""
    floor, wanted = result["floor"], result["floor_set"]
    over = f"no links of this version yet ({wanted:g} is set)" if floor is None else f"links over {floor:g}"
    if floor is not None and floor < wanted:
        over += f", since no pair of sentences reaches {wanted:g}"
    return f"generation {result['generation']}{live}, {result['embedder']}: {over}, at most {result['most']} a sentence"


def links_shown(result: dict[str, Any]) -> str:
    lines = [
        _heading(result),
        f"{result['links']} links from {result['sentences_linked']} of {result['sentences']} sentences "
        f"({100 * result['share']:.1f} %); {result['across_documents']} across documents, "
        f"{result['equal_texts']} between equal texts",
    ]
    if result["strongest"]:
        lines.append("the strongest across documents, of texts that differ:")
    for link in result["strongest"]:
        lines += [f"{link['similarity']:.4f}  {_end(link['from'])}", f"        {_end(link['to'])}"]
    return "\n".join(lines)


def _end(end: dict[str, Any]) -> str:
    page = f", p. {end['page']}" if end["page"] is not None else ""
    text = " ".join(end["text"].split())
    text = text if len(text) <= LONGEST_TEXT else text[: LONGEST_TEXT - 1] + "…"
    return f"{text}  [{end['source']}/{end['uri']}{page}; chunk {end['chunk_id'][:12]}]"


def sweep_shown(result: dict[str, Any]) -> str:
    names = list(result["rows"][0]["scores"] or ())
    table = [
        (
            "none" if row["threshold"] is None else f"{row['threshold']:g}",
            row["links"],
            row["sentences_linked"],
            f"{100 * row['share']:.1f} %",
            row["across_documents"],
            *("–" if (value := row["scores"][name]) is None else f"{100 * value:.1f}" for name in names),
            "in use" if row["threshold"] is not None and row["threshold"] == result["floor"] else "",
        )
        for row in result["rows"]
    ]
    head = ("floor", "links", "sentences linked", "share", "across documents", *names, "")
    lines = [f"{_heading(result)}; {result['sentences']} sentences", rows(table, head)]
    if golden := result["golden"]:
        lines.append(f"scores of the sentence route: {golden['questions']} questions of {golden['file']}, "
                     f"{golden['unmapped']} gold places not mapped")  # fmt: skip
    return "\n".join([*lines, *(f"note: {note}" for note in result["notes"]), f"{result['seconds']:.1f} s"])
