"""Where things are that tests read."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LIBRARY = ROOT / "tests" / "data" / "library"
SHARED = ROOT.parent / "shared"
