"""Who reads files, by the ending of their names: of all sources, and of one."""

from __future__ import annotations

import difflib
from typing import Annotated, Literal

from pydantic import AfterValidator

from pipelines.parsing.formats import OF_ENDING, OWN, UNSTRUCTURED


def _readable(readers: dict[str, str]) -> dict[str, str]:
    for ending, reader in readers.items():
        found = OF_ENDING.get(ending)
        if found is None:
            near = difflib.get_close_matches(ending, OF_ENDING, n=1)
            hint = f"did you mean {near[0]!r}?" if near else "docs/reference/formats.md has all endings"
            raise ValueError(f"no format ends in {ending!r}; {hint}")
        if reader == OWN and not found.own:
            raise ValueError(f"{ending} has no reader of pincite's own; leave it out")
        if reader == UNSTRUCTURED and found.own and ending not in found.either:
            raise ValueError(f"{ending} is read by pincite's own reader alone; leave it out")
    return readers


Readers = Annotated[dict[str, Literal["auto", "own", "unstructured"]], AfterValidator(_readable)]
