"""The options that every command takes, and what becomes of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from pincite.console import guarded

if TYPE_CHECKING:
    from resources.settings_file import Located

Command = Callable[..., Any]


class Place:
    """The options that every command takes."""

    def __init__(self, config: str | None, state: str | None, as_json: bool) -> None:
        self.config, self.state, self.as_json = config, state, as_json

    def located(self) -> Located:
        from resources.settings_file import locate

        return locate(self.config, self.state)


def placed(command: Command) -> Command:
    """Adds --config, --state and --json, and hands them over as one `place`."""

    def run(config: str | None, state: str | None, as_json: bool, **options: Any) -> None:
        place = Place(config, state, as_json)
        guarded(as_json, lambda: command(place, **options))

    run.__name__, run.__doc__ = command.__name__, command.__doc__
    run.__click_params__ = getattr(command, "__click_params__", [])  # type: ignore[attr-defined]
    for option in (
        click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output."),
        click.option("--state", metavar="DIR", help="State folder (default: .pincite, or PINCITE_STATE)."),
        click.option("--config", metavar="FILE", help="Settings file (default: pincite.yaml, or PINCITE_CONFIG)."),
    ):
        run = option(run)
    return run
