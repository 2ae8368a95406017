"""Where things are that tests read."""

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LIBRARY = ROOT / "tests" / "data" / "library"
SHARED = ROOT.parent / "shared"
DATA = SHARED / "data"
"""Real documents and questions by others, which are no part of the project."""
WITHOUT_DATA = (
    "needs the shared evaluation data in ../shared/data; its README names where each set comes from: UNLP 2026, "
    "Chroma's chunking evaluation, TAT-QA, FinanceBench, OHR-Bench, ICDAR 2013, Universal Dependencies, docling"
)


def needs_data(*names: str) -> pytest.MarkDecorator:
    """Skip a test where a folder or file of the shared data is absent."""
    return pytest.mark.skipif(not all((DATA / name).exists() for name in names), reason=WITHOUT_DATA)


def require_data(place: Path) -> None:
    """Skip the test that runs where this place of the shared data is absent."""
    if not place.exists():
        pytest.skip(WITHOUT_DATA)
