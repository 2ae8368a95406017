"""The commands that answer others: `pincite serve`, `pincite mcp`, and `pincite tokens`, which says who may ask."""

from __future__ import annotations

from typing import Any

import click

from pincite.command_groups import Commands
from pincite.commands.options import GlobalOptions, global_options, group_option

# ---------------------------------------------------------------- serve
#
# `pincite serve`: the page, HTTP and MCP.


@click.command()
@click.option(
    "--port", type=click.IntRange(0, 65_535), help="Port to listen on; 0 is any free one (setting serve.port)."
)
@click.option("--host", help="Address to listen on (setting serve.host).")
@click.option("--processes", type=click.IntRange(1, 64), help="Processes that answer (setting serve.processes).")
@global_options
def serve(place: GlobalOptions, **given: Any) -> int:
    """Serve a web page for questions, an HTTP API, and MCP.

    The web page shows every passage marked on its document page. The setting serve.auth says who may ask, and for which
    groups: see docs/guide/asking.md.
    """
    from dataclasses import replace

    from pincite.serve.run import run_serve
    from pipelines.settings.base import settings_from

    project = place.project()
    values = project.settings.serve.model_dump() | {name: value for name, value in given.items() if value is not None}
    serving = settings_from({"serve": values}, "--host").serve
    return run_serve(replace(project, settings=project.settings.model_copy(update={"serve": serving})))


# ---------------------------------------------------------------- mcp
#
# `pincite mcp`: the tools for an agent that starts a server of its own.


@click.command()
@group_option
@global_options
def mcp(place: GlobalOptions, groups: tuple[str, ...]) -> int:
    """Answer an agent over MCP.

    The agent starts this command, and uses the tools search, fetch, page_image and ask over standard input and output:
    docs/guide/asking.md has the lines for its settings. It finds public documents, and documents of the groups named
    here. The command ends when its input ends.
    """
    from pincite.serve.run import answer_on_stdio

    return answer_on_stdio(place.project(), groups)


# ---------------------------------------------------------------- tokens
#
# `pincite tokens`: who may ask the server, and for which groups.


@click.group(cls=Commands)
def tokens() -> None:
    """Manage the tokens of the users of `pincite serve`.

    A token is required if serve.auth is tokens.
    """


@tokens.command()
@click.argument("name")
@group_option
@click.option("--operator", is_flag=True, help="Sees the names of all failed documents.")
@global_options
def add(place: GlobalOptions, name: str, groups: tuple[str, ...], operator: bool) -> int:
    """Make a token for NAME.

    It is printed once and not stored.
    """
    from pincite.guard import TokenFile
    from resources.search.search_options import asked_groups

    token = TokenFile(place.project().state).add(name, asked_groups(groups), operator)
    place.give({"name": name, "token": token}, lambda made: made["token"])
    return 0


@tokens.command("list")
@global_options
def list_(place: GlobalOptions) -> int:
    """List names with their groups.

    Tokens are not stored, so they cannot be shown.
    """
    from pincite.console import rows
    from pincite.guard import TokenFile

    found = TokenFile(place.project().state).all()
    told = {
        name: {"groups": list(it.groups), "operator": it.operator, "created": it.created}
        for name, it in sorted(found.items())
    }
    operates = {True: "yes", False: ""}
    table = [(name, ", ".join(it.groups), operates[it.operator], it.created) for name, it in sorted(found.items())]
    place.give(told, lambda _: rows(table, ("name", "groups", "operator", "created")))
    return 0


@tokens.command()
@click.argument("name")
@global_options
def remove(place: GlobalOptions, name: str) -> int:
    """Remove the token of NAME.

    It stops working at the next request.
    """
    from pincite.guard import TokenFile

    TokenFile(place.project().state).remove(name)
    place.give({"removed": name}, lambda _: f"{name} has no token any more")
    return 0
