"""Where pincite is installed: its packages, and beside them the folders `sql` and `prompts`.

So it is in a checkout and in site-packages alike. Found by file, because any folder named `sql` on the import path
would otherwise answer to the name. Imports nothing but `os`, since `resources.child_process` asks before it has
taken the current folder off that path.
"""

from __future__ import annotations

import os

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
"""Where the packages of pincite are imported from."""
