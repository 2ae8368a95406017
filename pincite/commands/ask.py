"""`pincite ask`: an answer with its places."""

from __future__ import annotations

from typing import Any

import click

from pincite.commands.options import Place, placed, searching


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
    from pincite.serve.client import answered
    from pincite.text.answer import answer_shown

    project = place.project()
    result = answered(project, "ask", text, options)
    if result is None:
        from pincite.index import open_index

        with open_index(project) as opened:
            result = opened.ask(text, **options)
    place.give(result, answer_shown)
    return 0
