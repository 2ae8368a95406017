"""The options that commands share, which open a command's project and print its result."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar, get_args

import click

from pincite.console import emit, run_guarded, say, tell
from pincite.progress import Progress
from pipelines.settings.query import FILTER_HELP, HITS, RerankerName, StrategyName
from resources.private_files import private_umask

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from resources.settings_file import Project

Command = Callable[..., Any]
Result = TypeVar("Result")

group_option = click.option(
    "--group", "groups", multiple=True, metavar="G", help="A group of the asker; may be repeated."
)
strategy_option = click.option(
    "--strategy", type=click.Choice(get_args(StrategyName)), help="How candidates are found."
)
rerank_option = click.option(
    "--rerank", metavar="NAMES", help=f"Of {', '.join(get_args(RerankerName))}; several by commas, in sequence."
)
question_argument = click.argument(
    "text", nargs=-1, required=True, metavar="QUESTION", callback=lambda ctx, param, words: " ".join(words)
)


def _completes(kind: str) -> Callable[[Any, Any, str], list[CompletionItem]]:
    """Return a completion of names of files (`file`) or folders (`dir`); the command itself checks the value."""

    def complete(ctx: Any, param: Any, incomplete: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        return [CompletionItem(incomplete, type=kind)]

    return complete


def generation_option(verb: str) -> Callable[[Command], Command]:
    """Return the option --generation. `verb` is the first word of its help text."""
    return click.option("--generation", type=int, metavar="G", help=f"{verb} another generation than the live one.")


def searching(command: Command) -> Command:
    """Add the search options of `SearchOptions` to a command."""
    for option in (
        generation_option("Ask"),
        group_option,
        click.option("--filter", "filters", multiple=True, metavar="KEY=VALUE", help=f"Restrict hits: {FILTER_HELP}"),
        rerank_option,
        strategy_option,
        click.option("-k", default=HITS, show_default=True, type=int, help="Hits to give."),
    ):
        command = option(command)
    return command


class GlobalOptions:
    """The options that every command takes."""

    def __init__(
        self, config: str | None, state: str | None, as_json: bool, quiet: bool = False, verbose: bool = False
    ) -> None:
        self.config, self.state, self.as_json = config, state, as_json
        self.quiet, self.verbose = quiet, verbose

    def progress(self, doing: str, steps: Iterable[str] = ()) -> Progress:
        """Return a progress report, which begins with `doing` on a terminal. `steps` are the stages counted in "stage 4
        of 12"."""
        return Progress(doing, steps, quiet=self.quiet, kept=self.verbose)

    def project(self) -> Project:
        from resources.settings_file import locate, misspelt_variables

        for note in [] if self.quiet else misspelt_variables():
            say(f"note: {note}")
        return locate(self.config, self.state)

    def give(self, result: Result, shown: Callable[[Result], str]) -> None:
        """Print a result on standard output: as JSON with --json, otherwise as the text that `shown` returns for it."""
        if self.as_json:
            emit(result)
        else:
            tell(shown(result))


def of_sources(command: Command) -> Command:
    """Add --source; the command gets the values as `sources`."""
    told = "Folder to index, or NAME=ADDRESS such as papers=s3://bucket/prefix; may be repeated."
    return click.option(
        "--source", "sources", multiple=True, metavar="[NAME=]PATH", help=told, shell_complete=_completes("dir")
    )(command)


def of_folders(command: Command) -> Command:
    """Add --source and an argument for folders; the command gets both as `sources`."""

    def run(*given: Any, sources: tuple[str, ...], folders: tuple[str, ...], **options: Any) -> Any:
        return command(*given, sources=(*folders, *sources), **options)

    run.__name__, run.__doc__ = command.__name__, command.__doc__
    run.__click_params__ = getattr(command, "__click_params__", [])  # type: ignore[attr-defined]
    return click.argument("folders", nargs=-1, metavar="[FOLDER]...", shell_complete=_completes("dir"))(of_sources(run))


def global_options(command: Command) -> Command:
    """Add --config, --state, --json, --quiet and --verbose; the command gets them as one `place`."""

    def run(config: str | None, state: str | None, as_json: bool, quiet: bool, verbose: bool, **options: Any) -> None:
        place = GlobalOptions(config, state, as_json, quiet, verbose)
        with private_umask():
            run_guarded(as_json, lambda: command(place, **options), verbose)

    run.__name__, run.__doc__ = command.__name__, command.__doc__
    run.__click_params__ = getattr(command, "__click_params__", [])  # type: ignore[attr-defined]
    for option in (
        click.option("-v", "--verbose", is_flag=True, help="Say more: every stage, and where an error was raised."),
        click.option("-q", "--quiet", is_flag=True, help="Show no progress, only the result and errors."),
        click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output."),
        click.option(
            "--state",
            metavar="DIR",
            shell_complete=_completes("dir"),
            help="State folder (default: .pincite, or PINCITE_STATE).",
        ),
        click.option(
            "--config",
            metavar="FILE",
            shell_complete=_completes("file"),
            help="Settings file (default: pincite.yaml, or PINCITE_CONFIG).",
        ),
    ):
        run = option(run)
    return run
