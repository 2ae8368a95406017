"""`pincite ui`: Dagster's UI on a state."""

from __future__ import annotations

import click

from pincite.commands.options import Place, placed


@click.command()
@click.option("--port", default=3000, show_default=True, type=int)
@click.option("--host", default="127.0.0.1", show_default=True, help="Plain HTTP: keep it on loopback.")
@click.option("--allowed-host", "names", multiple=True, metavar="NAME", help="A name that a proxy serves the UI under.")
@click.option("--read-only", is_flag=True, help="Show everything, launch and change nothing.")
@placed
def ui(place: Place, port: int, host: str, names: tuple[str, ...], read_only: bool) -> int:
    """Dagster's webserver and daemon on this state: lineage, runs, metadata, backfills.

    The address that it prints has a token, without which nobody is let in: a new one at every start, or the value
    of PINCITE_UI_TOKEN."""
    from pincite.ui.services import run_ui

    return run_ui(place.project(), host, port, read_only, names)
