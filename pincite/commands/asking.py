"""The commands that read passages: `pincite query`, `ask`, `show` and `explain`.

`query` and `ask` send the question to the state's server if one is running, since its models are already loaded.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from pincite.commands.options import (
    GlobalOptions,
    generation_option,
    global_options,
    group_option,
    question_argument,
    searching,
)

# ---------------------------------------------------------------- query


@click.command()
@question_argument
@searching
@click.option("--explain", is_flag=True, help="Show what every stage made of each hit.")
@global_options
def query(place: GlobalOptions, text: str, explain: bool, **options: Any) -> int:
    """Find passages, each with document, page and box.

    Several words are one question; put a question with special characters in quotes."""
    with place.progress("looking for passages"):
        from pincite.serve.client import ask_server
        from pincite.text.passages import hits_shown

        project = place.project()
        result = ask_server(project, "query", text, options)
        if result is None:
            from pincite.index import open_index

            with open_index(project) as opened:
                result = opened.query(text, **options)
    place.give(result, lambda found: hits_shown(found, explain))
    return 0


# ---------------------------------------------------------------- ask


@click.command()
@question_argument
@click.option("--option", "options", multiple=True, metavar="LETTER=TEXT", help="An answer to choose; may be repeated.")
@searching
@global_options
def ask(place: GlobalOptions, text: str, **options: Any) -> int:
    """Answer a question, each claim with document and page.

    If the settings name a language model (llm.base_url and llm.model), it writes the answer, which is checked against
    the passages that it cites. Otherwise you get the best supported sentences word for word. If the documents do not
    answer the question, the command says so."""
    with place.progress("looking for an answer"):
        from pincite.serve.client import ask_server
        from pincite.text.passages import answer_shown

        project = place.project()
        result = ask_server(project, "ask", text, options)
        if result is None:
            from pincite.index import open_index

            with open_index(project) as opened:
                result = opened.ask(text, **options)
    place.give(result, answer_shown)
    return 0


# ---------------------------------------------------------------- show


@click.command()
@click.argument("named", metavar="ID")
@click.option("--image", metavar="PAGE.png", type=click.Path(path_type=Path), help="Draw its page with it marked.")
@group_option
@generation_option("Look in")
@global_options
def show(place: GlobalOptions, named: str, **options: Any) -> int:
    """Show a passage or sentence, or draw it on its page.

    ID names a chunk or a sentence; its first characters are enough. `pincite query` prints the ids. A passage that
    continues on another page is drawn on PAGE.png, PAGE-2.png and so
    on."""
    with place.progress("looking for it"):
        from pincite.index import open_index
        from pincite.text.passages import passage_shown

        with open_index(place.project()) as opened:
            result = opened.show(named, **options)
    place.give(result, passage_shown)
    return 0


# ---------------------------------------------------------------- explain


@click.command()
@click.argument("chunk")
@group_option
@generation_option("Look in")
@global_options
def explain(place: GlobalOptions, chunk: str, **options: Any) -> int:
    """Explain how a passage was made, stage by stage.

    Every stage from its document to its vector is shown: when, why, and at what cost it was made."""
    with place.progress("looking for it"):
        from pincite.index import open_index
        from pincite.text.passages import explanation_shown

        with open_index(place.project()) as opened:
            result = opened.explain(chunk, **options)
    place.give(result, explanation_shown)
    return 0
