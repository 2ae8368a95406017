"""pincite: documents in, cited passages out."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pincite.index import open_index
    from pincite.run import update_index

__version__ = "0.2.0"
__all__ = ["__version__", "open_index", "update_index"]


def __getattr__(name: str) -> Any:
    if name in ("open_index", "update_index"):
        from pincite.environment import require_own

        require_own()
        if name == "update_index":
            from pincite.run import update_index

            return update_index
        from pincite.index import open_index

        return open_index
    raise AttributeError(f"module 'pincite' has no attribute {name!r}")
