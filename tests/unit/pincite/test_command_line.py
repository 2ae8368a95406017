"""The frame of the command line: help, options before a command, and wrong usage as a newcomer types it."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest
from click.shell_completion import ShellComplete

from pincite.cli import WELCOME, cli
from tests.support.projects import run_command


def groups() -> list[click.Group]:
    return [cli, *(each for each in cli.commands.values() if isinstance(each, click.Group))]


def test_a_newcomer_gets_a_few_lines() -> None:
    ran = run_command()
    assert (ran.code, ran.out, ran.err) == (0, WELCOME + "\n", "")
    assert len(WELCOME.splitlines()) <= 10
    assert set(re.findall(r"pincite ([a-z]+) ", WELCOME)) - {"answers"} <= cli.commands.keys()


@pytest.mark.parametrize("group", groups(), ids=lambda group: group.name)
def test_every_command_has_one_whole_line_of_help_at_80_columns(group: click.Group) -> None:
    words = [] if group is cli else [str(group.name)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", "80")
        lines = run_command(*words, "--help").out.splitlines()
    for name, command in group.commands.items():
        (line,) = [line for line in lines if re.match(rf"  {re.escape(name)}(?: |$)", line)]
        assert line.split(maxsplit=1)[1] == str(command.help).split("\n\n")[0].strip().rstrip(".") + ".", line
        assert len(line) <= 80


def test_no_command_is_outside_of_the_groups_of_the_help() -> None:
    assert "Others:" not in run_command("--help").out


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("inex docs", "inex: `pincite` has no such command; did you mean index? See `pincite --help`"),
        ("search leave", "search: `pincite` has no such command; did you mean `pincite query`? See `pincite --help`"),
        (
            "sources chek",
            "chek: `pincite sources` has no such command; did you mean check? See `pincite sources --help`",
        ),
        ("frobnicate", "frobnicate: `pincite` has no such command; see `pincite --help`"),
        (
            "index --sorce x",
            "--sorce: `pincite index` has no such option; did you mean --source? See `pincite index --help`",
        ),
        ("index --buckets", "--buckets: `pincite index` has no such option; see `pincite index --help`"),
        ("--jsn index", "--jsn: `pincite` has no such option; did you mean --json? See `pincite --help`"),
        ("ask", "QUESTION is missing: write `pincite ask [OPTIONS] QUESTION`; see `pincite ask --help`"),
        (
            "serve --port x",
            "--port: expected a whole number from 0 to 65535; found 'x'; see `pincite serve --help`",
        ),
        ("serve --port -5", "--port: expected a whole number from 0 to 65535; found -5; see `pincite serve --help`"),
        ("query leave -k x", "-k: expected a whole number; found 'x'; see `pincite query --help`"),
        ("query leave --state", "option '--state' requires an argument"),
    ],
)
def test_wrong_usage_is_one_line_that_says_what_was_meant(typed: str, said: str) -> None:
    ran = run_command(*typed.split())
    assert (ran.code, ran.out, ran.err) == (2, "", f"pincite: {said}\n")


def test_a_wrong_choice_names_the_nearest() -> None:
    ran = run_command("query", "leave", "--strategy", "lexcal")
    assert ran.err.startswith("pincite: --strategy: 'lexcal' is not one of 'dense', ")
    assert "did you mean lexical? See" in ran.err


@pytest.mark.parametrize("typed", ["--json --config FILE sources list", "sources --config=FILE --json list"])
def test_options_of_every_command_may_stand_before_its_name(typed: str, tmp_path: Path) -> None:
    file = tmp_path / "none.yaml"
    ran = run_command(*typed.replace("FILE", str(file)).split())
    assert (ran.code, ran.json["error"]["code"]) == (2, "settings")
    assert str(file) in ran.json["error"]["message"]


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("gen", ("plain", "generations")),
        ("index --so", ("plain", "--source")),
        ("index do", ("dir", "do")),
        ("index --config x", ("file", "x")),
        ("sources r", ("plain", "remove")),
    ],
)
def test_a_shell_completes_commands_options_and_folders(typed: str, offered: tuple[str, str]) -> None:
    *before, incomplete = typed.split()
    (found,) = ShellComplete(cli, {}, "pincite", "_PINCITE_COMPLETE").get_completions(before, incomplete)
    assert (found.type, found.value) == offered
