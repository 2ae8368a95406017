"""`pincite tokens`: who may ask the server, and for which groups."""

from __future__ import annotations

import click

from pincite.commands.options import Place, group_option, placed


@click.group()
def tokens() -> None:
    """Tokens for those who ask `pincite serve`, where serve.auth is tokens."""


@tokens.command()
@click.argument("name")
@group_option
@click.option("--operator", is_flag=True, help="Sees the names of all failed documents.")
@placed
def add(place: Place, name: str, groups: tuple[str, ...], operator: bool) -> int:
    """Make a token for NAME, which is printed once and kept nowhere."""
    from pincite.serve.tokens import TokenFile
    from resources.search.search_options import asked_groups

    token = TokenFile(place.project().state).add(name, asked_groups(groups), operator)
    place.give({"name": name, "token": token}, lambda made: made["token"])
    return 0


@tokens.command("list")
@placed
def list_(place: Place) -> int:
    """Names with their groups; no token is kept, so none is shown."""
    from pincite.console import rows
    from pincite.serve.tokens import TokenFile

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
@placed
def remove(place: Place, name: str) -> int:
    """Take the token of NAME away; it holds no more from the next request on."""
    from pincite.serve.tokens import TokenFile

    TokenFile(place.project().state).remove(name)
    place.give({"removed": name}, lambda _: f"{name} has no token any more")
    return 0
