from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from pincite.commands.asking import ask, query
from pincite.serve.api import Search
from pincite.serve.mcp import AskFor, SearchFor
from pipelines.errors import UsageError
from pipelines.ports import Comparison, Filters
from pipelines.settings.query import FILTERS, LABEL
from resources.search.search_options import filters_from
from tests.support.places import ROOT


@pytest.mark.parametrize(
    ("arguments", "first", "last"),
    [
        (["from=2024-05-06"], "2024-05-06", None),
        (["to=2024-05-06"], None, "2024-05-06"),
        (["from=2024", "to=2024"], "2024-01-01", "2024-12-31"),
        (["from=2024-02", "to=2024-02"], "2024-02-01", "2024-02-29"),
        (["from=20240506"], "2024-05-06", None),
        (["date>=2024-05"], "2024-05-01", None),
        (["date>2024-05"], "2024-06-01", None),
        (["date<2024"], None, "2023-12-31"),
        (["date<=2024"], None, "2024-12-31"),
        ([" date >= 2024 "], "2024-01-01", None),
        (["date=2024-05"], "2024-05-01", "2024-05-31"),
        (["date=2024-05", "date=2024-05"], "2024-05-01", "2024-05-31"),
        (["date>=2023", "from=2024", "to=2026", "date<2025"], "2024-01-01", "2024-12-31"),
        (["from=0001-01-01", "to=9999-12-31"], "0001-01-01", "9999-12-31"),
    ],
)
def test_dates_are_bounds_that_all_hold(arguments: list[str], first: str | None, last: str | None) -> None:
    assert filters_from(arguments, ()) == Filters(dated_from=first, dated_to=last)


@pytest.mark.parametrize(
    ("argument", "numbers", "days"),
    [
        ("price>=10", "[10,)", None),
        ("price>9999", "(9999,)", None),
        ("price<0001", "(,0001)", None),
        ("price < -0.5", "(,-0.5)", None),
        ("year>=2024", "[2024,)", ("2024-01-01", "9999-12-31")),
        ("year>2024", "(2024,)", ("2025-01-01", "9999-12-31")),
        ("due<=2024-02", None, ("0001-01-01", "2024-02-29")),
        ("due<2024-02-03", None, ("0001-01-01", "2024-02-02")),
    ],
)
def test_a_bound_is_a_number_or_a_date_or_may_be_both(
    argument: str, numbers: str | None, days: tuple[str, str] | None
) -> None:
    assert filters_from([argument], ()).compared == (
        Comparison(argument.split()[0].strip("<>=0123456789-."), numbers, days),
    )


def test_values_and_labels_may_hold_signs() -> None:
    found = filters_from(["title=A >= B", "team=x", "team=<y>", "kv.Age > 18=yes", "kv.a=b=c"], ())
    assert found == Filters({"title": ("A >= B",), "team": ("x", "<y>"), "kv.Age > 18": ("yes",), "kv.a": ("b=c",)})
    assert filters_from(["pages>1", "pages<=3"], ()).compared == (
        Comparison("pages", "(1,)", None),
        Comparison("pages", "(,3]", None),
    )


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["team"], "write KEY=VALUE"),
        (["=x"], "write KEY=VALUE"),
        ([">5"], "write KEY=VALUE"),
        ([""], "write KEY=VALUE"),
        (["price>=cheap"], "'cheap' is neither a number nor a date"),
        (["price>="], "neither a number nor a date"),
        (["price>=1,5"], "neither a number nor a date"),
        (["price>=NaN"], "neither a number nor a date"),
        (["price>=1e9"], "neither a number nor a date"),
        (["price>=٣"], "neither a number nor a date"),
        (["price>=" + "9" * 31], "neither a number nor a date"),
        (["due>=2024-13"], "neither a number nor a date"),
        (["due>=2024-02-30"], "neither a number nor a date"),
        (["source>=a"], "source=VALUE"),
        (["uri<a"], "uri=VALUE"),
        (["kv.Age>=18"], "labels are not compared"),
        (["kv.Age>18"], "write KEY=VALUE"),
        (["from>=2024"], "from=DATE, or date>=DATE"),
        (["to<2024"], "to=DATE, or date<DATE"),
        (["from=yesterday"], "a date such as"),
        (["to="], "a date such as"),
        (["date=2024-00"], "a date such as"),
        (["date>9999"], "the range has no dates"),
        (["date<0001"], "the range has no dates"),
        (["due>9999-12-31"], "the range has no dates"),
        (["date=2024", "date=2025"], "given twice"),
    ],
)
def test_an_invalid_filter_is_refused(arguments: list[str], told: str) -> None:
    with pytest.raises(UsageError) as caught:
        filters_from(arguments, ())
    assert told in str(caught.value) and repr(arguments[-1]) in str(caught.value)


@pytest.mark.parametrize("door", ["query --help", "ask --help", "HTTP", "search", "ask", "the guide"])
def test_every_filter_is_described_at_every_door(door: str) -> None:
    told = {
        "query --help": lambda: CliRunner().invoke(query, ["--help"]).output,
        "ask --help": lambda: CliRunner().invoke(ask, ["--help"]).output,
        "HTTP": lambda: json.dumps(Search.model_json_schema()["properties"]["filter"]),
        "search": lambda: json.dumps(SearchFor.model_json_schema()["properties"]["filter"]),
        "ask": lambda: json.dumps(AskFor.model_json_schema()["properties"]["filter"]),
        "the guide": lambda: Path(ROOT / "docs/guide/asking.md").read_text(encoding="utf-8").partition("## Filters")[2],
    }[door]()
    words = " ".join(told.split())
    for name in [*FILTERS, f"{LABEL}LABEL", "query.metadata_keys", "date>=2024-05", "from=DATE", "to=DATE"]:
        assert name in words, name
