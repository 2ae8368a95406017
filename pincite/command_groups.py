"""The layout of the command line: help in groups, options before a command's name, and usage errors on one line."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence

import click

from pincite.console import PrintableLines, tell

_ANYWHERE = {"--config": True, "--state": True, "--json": False, "-q": False, "--quiet": False, "-v": False,
             "--verbose": False}  # fmt: skip
"""Options of every command; the value is true if a value follows the option. They may also come before the command's
name."""
_OTHER_WORDS = {
    **dict.fromkeys(("search", "find", "retrieve"), "pincite query"),
    **dict.fromkeys(("add", "build", "import", "ingest", "init", "reindex", "sync", "update"), "pincite index FOLDER"),
    **dict.fromkeys(("run", "server", "start", "web"), "pincite serve"),
    **dict.fromkeys(("info", "list", "ls", "stats"), "pincite status"),
    **dict.fromkeys(("delete", "remove", "rm"), "pincite sources remove NAME"),
    **dict.fromkeys(("check", "test"), "pincite doctor"),
    "dashboard": "pincite ui",
    "help": "pincite --help",
    "rollback": "pincite generations rollback",
    "version": "pincite --version",
}
"""Words of other programs, each with the command of pincite to suggest for it."""


class Commands(click.Group):
    """A group of commands. Help shows the whole first sentence of each, under a heading if `sections` names it."""

    sections: Mapping[str, Sequence[str]] = {}
    """Names of commands by heading, in the order of the help. Others come last, under "others"."""
    welcome = ""
    """Text to print when no command is named; if empty, the help."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args and self.welcome and not ctx.resilient_parsing:
            tell(PrintableLines(self.welcome))
            ctx.exit()
        return super().parse_args(ctx, _move_options_behind(args))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if self.get_command(ctx, name) is None and not name.startswith("-") and not ctx.resilient_parsing:
            told = (
                f"; did you mean `{_OTHER_WORDS[name]}`?"
                if name in _OTHER_WORDS
                else _guess_command(name, [*self.commands])
            )
            raise click.UsageError(f"{name}: `{ctx.command_path}` has no such command{told}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        named = [name for names in self.sections.values() for name in names]
        others = [name for name in self.list_commands(ctx) if name not in named]
        width = max(map(len, self.commands), default=0)
        for heading, names in {**self.sections, "others" if named else "commands": others}.items():
            shown = [(name.ljust(width), self.commands[name].get_short_help_str(1000)) for name in names]
            if shown:
                with formatter.section(heading.capitalize()):
                    formatter.write_dl(shown)


def _move_options_behind(args: list[str]) -> list[str]:
    """Return arguments with the leading options of every command moved behind the command's name."""
    at = 0
    while at < len(args) and args[at].partition("=")[0] in _ANYWHERE:
        at += 2 if _ANYWHERE[args[at].partition("=")[0]] and "=" not in args[at] else 1
    return [*args[at : at + 1], *args[:at], *args[at + 1 :]] if 0 < at < len(args) else args


# ---------------------------------------------------------------- wrong usage


def usage_message(error: click.ClickException) -> str:
    """Return a usage error as one line, with a suggestion for the mistyped word and a pointer to the help."""
    ctx = getattr(error, "ctx", None)
    if ctx is None:
        return _plain(error.format_message())
    path = ctx.command_path
    wrong = _wrong(error, ctx, path)
    return f"{wrong} See `{path} --help`" if wrong.endswith("?") else f"{wrong}; see `{path} --help`"


def _wrong(error: click.ClickException, ctx: click.Context, path: str) -> str:
    if isinstance(error, click.NoSuchOption):
        known = [*(name for param in ctx.command.params for name in param.opts), *_ANYWHERE]
        return f"{error.option_name}: `{path}` has no such option{_guess_command(error.option_name, known)}"
    if isinstance(error, click.MissingParameter) and error.param:
        usage = " ".join([path, *ctx.command.collect_usage_pieces(ctx)])
        return f"{error.param.make_metavar(ctx)} is missing: write `{usage}`"
    if isinstance(error, click.BadParameter) and error.param:
        name = error.param.opts[0] if isinstance(error.param, click.Option) else error.param.human_readable_name
        if isinstance(error.param.type, type(click.INT)):
            return f"{name}: expected a whole number{_bounds(error.param.type)}; found {error.message.split()[0]}"
        given = error.message.split("'")[1:2] if isinstance(error.param.type, click.Choice) else []
        told = "".join(_guess_command(each, error.param.type.choices) for each in given)  # type: ignore[attr-defined]
        return f"{name}: {_plain(error.message)}{told}"
    return _plain(error.format_message())


def _bounds(kind: object) -> str:
    if not isinstance(kind, click.IntRange):
        return ""
    return f" of at least {kind.min}" if kind.max is None else f" from {kind.min} to {kind.max}"


def _guess_command(name: str, known: Sequence[str]) -> str:
    """Return a question that suggests the known name nearest to a mistyped one. Leading dashes are ignored in the
    comparison."""
    bare = {each.lstrip("-"): each for each in known}
    near = difflib.get_close_matches(name.lstrip("-"), bare, n=1)
    return f"; did you mean {bare[near[0]]}?" if near else ""


def _plain(message: str) -> str:
    text = " ".join(message.split()).rstrip(".")
    return text[:1].lower() + text[1:]
