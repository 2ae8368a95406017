"""The commands for the services of a state: `pincite ui` (Dagster) and `pincite db` (Postgres).

`pincite db stop` refuses to stop the database while the UI runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from pincite.commands.options import GlobalOptions, global_options
from pincite.console import block
from pipelines.errors import IndexStateError, UsageError

if TYPE_CHECKING:
    from resources.settings_file import Project


# ---------------------------------------------------------------- ui


@click.command()
@click.option("--port", default=3000, show_default=True, type=int)
@click.option("--host", default="127.0.0.1", show_default=True, help="Plain HTTP: keep it on loopback.")
@click.option("--allowed-host", "names", multiple=True, metavar="NAME", help="A name that a proxy serves the UI under.")
@click.option("--read-only", is_flag=True, help="Show everything, launch and change nothing.")
@global_options
def ui(place: GlobalOptions, port: int, host: str, names: tuple[str, ...], read_only: bool) -> int:
    """Show lineage, runs and backfills in the browser.

    Runs Dagster's webserver and daemon on this state.

    The printed address has a token, which is required: a new one at every start, or the value of PINCITE_UI_TOKEN.
    """
    from pincite.ui.services import run_ui

    return run_ui(place.project(), host, port, read_only, names)


# ---------------------------------------------------------------- db


@click.command()
@click.argument("action", type=click.Choice(["start", "stop", "status", "url", "programs"]))
@click.option("--force", is_flag=True, help="Stop the server even while others use it.")
@global_options
def db(place: GlobalOptions, action: str, force: bool) -> int:
    """Start, stop or look at the embedded Postgres server.

    `url` prints its address, `programs` the folder with psql, pg_dump and pg_restore of its version."""
    place.give(_act(place.project(), action, force), _status_text)
    return 0


def _status_text(result: dict[str, Any]) -> str:
    shown: str = result["shown"]
    return shown


def _act(project: Project, action: str, force: bool) -> dict[str, Any]:
    """Run the action and return its JSON, in which `shown` is the text for people.

    Raise IndexStateError `in_use` if the server should stop while the state's UI runs, unless `force` is set.
    """
    from pincite.ui.services import running_ui
    from resources.postgres.server import PostgresServer
    from resources.postgres.server_process import binaries

    if action == "programs":
        folder = str(binaries())
        return {"programs": folder, "shown": folder}
    if project.settings.database != "embedded":
        if action == "url":
            return {"url": project.settings.database, "shown": project.settings.database}
        raise UsageError(f"the settings name another database; `pincite db {action}` manages only the embedded one")
    server = PostgresServer(project.state)
    if action == "start":
        url = server.keep_running()
        return {"running": True, "url": url, "shown": f"running until `pincite db stop`: {url}"}
    if action == "stop":
        if not force and (ui := running_ui(project.state)):
            told = f"the state {project.state} has a UI, which may start a run at any time: {ui}"
            raise IndexStateError(f"{told}; stop it first, or stop the server with --force", "in_use")
        return {"running": False, "shown": "stopped" if server.stop(force=force) else "was not running"}
    running = server.is_running()
    if action == "url":
        shown = server.url if running else block([server.url, "(not running; `pincite db start` keeps it up)"])
        return {"running": running, "url": server.url, "shown": shown}
    shown = f"running: {server.url}" if running else "not running (it starts when needed)"
    return {"running": running, "url": server.url, "shown": shown}
