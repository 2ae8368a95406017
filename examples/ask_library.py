"""Asks the project's own library a few questions through the Python surface.

Run by `make index`; also the shortest example of `open_index`.
"""

from __future__ import annotations

import sys
import textwrap

from pincite import open_index
from pincite.text.passages import excerpt, pin

QUESTIONS = (
    "What is the recovery time objective of the records service?",
    "What is the hotel limit in London now?",
    "How long are payroll records kept?",
    "Яка температура має бути у сховищі?",
)


def main(config: str) -> None:
    with open_index(config) as index:
        for question in QUESTIONS:
            best = index.query(question, k=1)["hits"]
            print(f"\n? {question}")
            for hit in best:
                chain = " › ".join(hit["header_chain"])
                print(f"  {pin(hit)}" + (f"  ({chain})" if chain else ""))
                print(textwrap.indent(excerpt(hit["text"], question, 300), "  | "))


if __name__ == "__main__":
    main(sys.argv[1])
