"""Links between related sentences: as they stand, and what other floors would make of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pincite.console import block, rows

if TYPE_CHECKING:
    from resources.evaluation.plots import Panel

LONGEST_TEXT = 100


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
    return block(lines)


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
    return block([*lines, *(f"note: {note}" for note in result["notes"]), f"{result['seconds']:.1f} s"])


def sweep_panels(result: dict[str, Any]) -> list[Panel]:
    """Links and the share of sentences linked, and the scores where there are any, by floor."""
    from resources.evaluation.plots import Curves

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


def _heading(result: dict[str, Any]) -> str:
    live = ", live" if result["live"] else ""
    floor, wanted = result["floor"], result["floor_set"]
    over = f"no links of this version yet ({wanted:g} is set)" if floor is None else f"links over {floor:g}"
    if floor is not None and floor < wanted:
        over += f", since no pair of sentences reaches {wanted:g}"
    return f"generation {result['generation']}{live}, {result['embedder']}: {over}, at most {result['most']} a sentence"


def _end(end: dict[str, Any]) -> str:
    page = f", p. {end['page']}" if end["page"] is not None else ""
    text = " ".join(end["text"].split())
    text = text if len(text) <= LONGEST_TEXT else text[: LONGEST_TEXT - 1] + "…"
    return f"{text}  [{end['source']}/{end['uri']}{page}; chunk {end['chunk_id'][:12]}]"
