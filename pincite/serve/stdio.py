"""`pincite mcp`: an agent's own server, on standard input and output."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Sequence
from contextlib import closing
from typing import NoReturn

from pincite.console import say
from pincite.serve.access import Asker
from pincite.serve.client import offered
from pincite.serve.mcp_tools import INSTALL, Tools, sdk_is_installed
from pipelines.errors import UsageError
from resources.settings_file import Project


def answer_on_stdio(project: Project, groups: Sequence[str]) -> int:
    """Answers for these groups until standard input ends, then returns 0. Raises UsageError without the SDK,
    IndexStateError where there is no index."""
    if not sdk_is_installed():
        raise UsageError(f"agents are answered with the protocol's SDK, which is not installed: {INSTALL}")
    import anyio

    from pincite.serve.mcp_server import serve_stdio, server_of
    from pincite.serve.service import Service

    logging.basicConfig(level=logging.WARNING, format="%(message)s", stream=sys.stderr)
    asker = Asker("owner", tuple(groups))
    with closing(Service(project)) as service:

        def leave() -> NoReturn:
            service.close()
            os._exit(0)

        say(f"answers an agent on standard input and output (state {project.state}); Ctrl-C stops it")
        anyio.run(serve_stdio, server_of(Tools(service, reader_address(project)), lambda context: asker), leave)
    return 0


def reader_address(project: Project) -> str:
    """Where people read what is cited: at the server that runs on the state, else where `pincite serve` would be."""
    server, settings = offered(project), project.settings.serve
    return settings.url or (server["url"] if server else f"http://127.0.0.1:{settings.port}")
