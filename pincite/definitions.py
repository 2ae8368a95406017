"""The code location, for Dagster: `dagster dev -m pincite.definitions`."""

from pincite.environment import require_own, restore_temporary_folder

require_own()
restore_temporary_folder()

from resources.memory import one_heap

one_heap()

from assets.definitions import defs

__all__ = ["defs"]
