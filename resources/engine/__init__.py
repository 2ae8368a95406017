"""The incremental build: documents, the stages that are computed for them, and the tables that hold the results.

A stage computes the documents whose inputs changed, and keeps all other rows. Results are committed part by part. The
package does not depend on formats, models or sources. Its public names are listed below; `tables`, `files` and
`vectors` define the format and the place of the files.
"""

from resources.engine.committed import Part, Table, rows_of
from resources.engine.engine import Engine, time_shown, withheld
from resources.engine.memory import MemoryManifest
from resources.engine.work import Compute, Fallback, Outcomes, StageReport, Work, Works

__all__ = [
    "Compute",
    "Engine",
    "Fallback",
    "MemoryManifest",
    "Outcomes",
    "Part",
    "StageReport",
    "Table",
    "Work",
    "Works",
    "rows_of",
    "time_shown",
    "withheld",
]
