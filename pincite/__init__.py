"""pincite: documents in, cited passages out."""

from typing import Any

__version__ = "0.2.0"
__all__ = ["__version__", "open_index"]


def __getattr__(name: str) -> Any:
    if name == "open_index":
        from pincite.environment import require_own

        require_own()
        from pincite.index import open_index

        return open_index
    raise AttributeError(f"module 'pincite' has no attribute {name!r}")
