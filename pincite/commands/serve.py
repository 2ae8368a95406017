"""`pincite serve`: the page, HTTP and MCP."""

from __future__ import annotations

from typing import Any

import click

from pincite.commands.options import Place, placed


@click.command()
@click.option("--port", type=int, help="Port to listen on; 0 is any free one (setting serve.port).")
@click.option("--host", help="Address to listen on (setting serve.host).")
@click.option("--processes", type=int, help="Processes that answer (setting serve.processes).")
@placed
def serve(place: Place, **given: Any) -> int:
    """Serve a page to ask on, with every passage marked on its page; HTTP with JSON; and MCP for agents.

    Who may ask, and for which groups, is set by serve.auth: see docs/guide/asking.md."""
    from dataclasses import replace

    from pincite.serve.run import run_serve
    from pipelines.settings.base import settings_from

    project = place.project()
    values = project.settings.serve.model_dump() | {name: value for name, value in given.items() if value is not None}
    serving = settings_from({"serve": values}, "pincite serve").serve
    return run_serve(replace(project, settings=project.settings.model_copy(update={"serve": serving})))
