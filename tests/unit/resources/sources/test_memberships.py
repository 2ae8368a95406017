"""A file of memberships is read whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from resources.sources.files import SourceFolder
from resources.sources.memberships import FILE, GONE, in_folder, parse_pairs

HEAD = "principal,group\n"
BROKEN = {
    "not UTF-8": b"\xff\xfe",
    "no head": "u-17,ann\n",
    "other head": "principal,groups\nu-17,ann\n",
    "cut off": f"{HEAD}u-17,an",
    "empty": "",
    "one value": f"{HEAD}u-17\n",
    "three values": f"{HEAD}u-17,ann,ben\n",
    "blank group": f"{HEAD}u-17,\n",
    "blank principal": f'{HEAD}" ",ann\n',
    "a principal as group": f'{HEAD}u-17,"docs,u-17"\n',
    "unseen": f"{HEAD}u-17,an\u200bn\n",
    "open quote": f'{HEAD}"u-17,ann\n',
    "text after a quotation mark": f'{HEAD}"u-17"8,ann\n',
    "NUL": f"{HEAD}u-17,a\0nn\n",
    "too long": f"{HEAD}u-17,{'x' * 3000}\n",
}


@pytest.mark.parametrize("content", BROKEN.values(), ids=BROKEN)
def test_a_broken_file_gives_no_pairs(tmp_path: Path, content: str | bytes) -> None:
    (tmp_path / FILE).write_bytes(content if isinstance(content, bytes) else content.encode())
    with SourceFolder(tmp_path) as folder:
        read = in_folder(folder)
    assert read.pairs is None and read.problem.startswith(FILE)


def test_a_file_that_is_gone_gives_nobody(tmp_path: Path) -> None:
    with SourceFolder(tmp_path) as folder:
        assert in_folder(folder) == GONE
    assert GONE.pairs == frozenset() and GONE.problem


def test_pairs_are_read_by_the_names_of_their_columns() -> None:
    content = '\ufeffgroup, principal\nann,u-17\n\nboard,"CN=Board,OU=x"\n'
    assert parse_pairs(content.encode()) == {("u-17", "ann"), ("CN=Board,OU=x", "board")}
