"""Asks the project's own library a few questions through the Python surface, as `pincite demo` does.

Run by `make index`; also the shortest example of `open_index`.
"""

from __future__ import annotations

import sys

from pincite import open_index
from pincite.commands.demo import ask_questions, asked_shown
from pincite.console import tell


def main(config: str) -> None:
    with open_index(config) as index:
        tell(asked_shown(ask_questions(index)))


if __name__ == "__main__":
    main(sys.argv[1])
