"""`pincite mcp`: the tools for an agent that starts a server of its own."""

from __future__ import annotations

import click

from pincite.commands.options import Place, group_option, placed


@click.command()
@group_option
@placed
def mcp(place: Place, groups: tuple[str, ...]) -> int:
    """Answer an agent by MCP on standard input and output: search, fetch, page_image and ask.

    The agent starts this itself: docs/guide/asking.md has the lines for its settings. It reads what everybody may
    find, and what the groups may that are named here. Ends when its input does."""
    from pincite.serve.stdio import answer_on_stdio

    return answer_on_stdio(place.project(), groups)
