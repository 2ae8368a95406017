"""Commands of those who ask: passages for a question, and answers with their places."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args

import click

from pincite.console import emit, tell
from pincite.placed import Place, placed
from pipelines.query_settings import RerankerName, StrategyName

STRATEGIES: tuple[str, ...] = get_args(StrategyName)
RERANK_HELP = f"Of {', '.join(get_args(RerankerName))}; several by commas, in sequence."


def searching(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the options of everything that finds passages."""
    for option in (
        click.option("--generation", type=int, metavar="G", help="Ask another generation than the live one."),
        click.option("--group", "groups", multiple=True, metavar="G", help="A group of the asker; may be repeated."),
        click.option("--filter", "filters", multiple=True, metavar="KEY=VALUE", help="Restrict hits; may be repeated."),
        click.option("--rerank", metavar="NAMES", help=RERANK_HELP),
        click.option("--strategy", type=click.Choice(STRATEGIES), help="How candidates are found."),
        click.option("-k", default=10, show_default=True, type=int, help="Hits to give."),
    ):
        command = option(command)
    return command


@click.command()
@click.argument("text")
@searching
@click.option("--explain", is_flag=True, help="Show what every stage made of each hit.")
@placed
def query(place: Place, text: str, explain: bool, **options: Any) -> int:
    """Find passages; each with document, page, box and the headings above it."""
    from pincite.index import open_index
    from pincite.report import hits_shown

    with open_index(place.located()) as opened:
        result = opened.query(text, **options)
    emit(result) if place.as_json else tell(hits_shown(result, explain))
    return 0


@click.command()
@click.argument("text")
@click.option("--option", "options", multiple=True, metavar="LETTER=TEXT", help="An answer to choose; may be repeated.")
@searching
@placed
def ask(place: Place, text: str, **options: Any) -> int:
    """Answer a question from the documents, each claim with its document and page.

    A language model writes the answer where the settings name one (llm.base_url and llm.model); what it says is
    checked against the places it cites. Else the best supported sentences are given word for word. Says so when
    the documents do not answer the question."""
    from pincite.index import open_index
    from pincite.report import answer_shown

    with open_index(place.located()) as opened:
        result = opened.ask(text, **options)
    emit(result) if place.as_json else tell(answer_shown(result))
    return 0
