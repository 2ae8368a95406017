"""Where pincite is installed, and the folders that come with it: `sql`, `prompts` and `example`.

In a checkout these are where they are edited. The wheel has them within the package `pincite`, so that it claims no
more general names of an environment than its layers have. Found by file, because any folder named `sql` on the import
path would otherwise answer to the name. Imports nothing but `os`, since `resources.child_process` asks before it has
taken the current folder off that path.
"""

from __future__ import annotations

import os

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
"""Where the packages of pincite are imported from."""
_EDITED = {"sql": "sql", "prompts": "prompts", "example": "tests/data"}
"""The folders in a checkout; pyproject.toml says the same for the wheel."""


def shipped(name: str) -> str:
    """The path of a folder that comes with pincite. Raises KeyError where none has the name."""
    edited, installed = os.path.join(ROOT, _EDITED[name]), os.path.join(ROOT, "pincite", "shipped", name)
    return installed if os.path.isdir(installed) else edited
