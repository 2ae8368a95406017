"""A matrix file read, expanded into runs and tables, and laid over the settings."""

from __future__ import annotations

from typing import Any

import pytest

from pipelines.errors import SettingsError, UsageError
from pipelines.evaluation.matrix import BASE, SHOWN, EvalOptions, Matrix, asking_of, matrix_from, settings_of
from pipelines.settings.base import settings_from

AXES = {
    "splitter": {"structure": {}, "page": {"chunking.strategy": "page"}},
    "strategy": {"hybrid": None, "dense": {"query": {"strategy": "dense"}}, "lexical": {"query.strategy": "lexical"}},
    "rerank": {"none": {}, "weighted": {"query.rerank": ["weighted"]}},
}
BASE_SETTINGS = settings_from(
    {"chunking": {"target_tokens": 200}, "embedder": {"model": "some/model", "revision": "a"}}
)


def made(**values: Any) -> Matrix:
    return matrix_from({"axes": AXES, **values}, "m.yaml", "m")


def overridden(matrix: Matrix, run: str) -> Any:
    return settings_of(matrix.runs[run], BASE_SETTINGS, "m.yaml")


def test_a_matrix_without_tables_has_one_table_of_all_combinations() -> None:
    matrix = made()
    assert len(matrix.runs) == 2 * 3 * 2
    (table,) = matrix.tables
    assert (table.name, table.axes, table.fixed, table.metrics) == ("m", tuple(AXES), {}, SHOWN)
    assert table.runs == tuple(matrix.runs)


def test_an_axis_that_a_row_does_not_name_stands_at_its_first_value() -> None:
    (table,) = made(tables={"Splitters": {"rows": [{"splitter": "*"}]}}).tables
    assert table.runs == (BASE, "splitter=page")
    assert (table.axes, table.fixed) == (("splitter",), {"strategy": "hybrid", "rerank": "none"})


def test_the_axis_that_a_row_names_first_is_outermost() -> None:
    (table,) = made(tables={"t": {"rows": [{"strategy": ["dense", "hybrid"], "splitter": "*"}]}}).tables
    assert table.runs == ("strategy=dense", "splitter=page, strategy=dense", BASE, "splitter=page")
    assert table.axes == ("strategy", "splitter")


def test_tables_share_runs_and_rows_are_not_repeated() -> None:
    tables = {"a": {"rows": [{"strategy": "*"}, {"strategy": "dense"}]}, "b": {"rows": [{"rerank": "*"}]}}
    matrix = made(tables=tables)
    assert [table.runs for table in matrix.tables] == [
        (BASE, "strategy=dense", "strategy=lexical"),
        (BASE, "rerank=weighted"),
    ]
    assert list(matrix.runs) == [BASE, "strategy=dense", "strategy=lexical", "rerank=weighted"]


def test_excluded_combinations_are_no_rows() -> None:
    matrix = made(exclude=[{"splitter": "page", "strategy": ["dense", "lexical"]}, {"rerank": "weighted"}])
    assert list(matrix.runs) == [BASE, "strategy=dense", "strategy=lexical", "splitter=page"]


def test_dotted_and_nested_overrides_are_laid_over_the_settings() -> None:
    matrix = made(settings={"chunking": {"max_tokens": 300}, "query.candidates": 50})
    settings = overridden(matrix, "splitter=page, strategy=dense")
    assert (settings.chunking.strategy, settings.chunking.target_tokens, settings.chunking.max_tokens) == (
        "page",
        200,
        300,
    )
    assert (settings.query.strategy, settings.query.candidates) == ("dense", 50)
    assert overridden(matrix, BASE).query.strategy == "hybrid"


def test_an_axis_wins_over_what_all_runs_share() -> None:
    matrix = made(settings={"query.strategy": "lexical"})
    assert overridden(matrix, "strategy=dense").query.strategy == "dense"
    assert overridden(matrix, BASE).query.strategy == "lexical"


def test_another_embedder_takes_nothing_of_the_one_before() -> None:
    matrix = made(axes={"embedder": {"as set": {}, "small": {"embedder.preset": "english-small"}}})
    assert overridden(matrix, BASE).embedder.model == "some/model"
    embedder = overridden(matrix, "embedder=small").embedder
    assert (embedder.preset, embedder.model, embedder.revision) == ("english-small", None, None)


def test_how_questions_are_asked_can_vary() -> None:
    matrix = made(settings={"eval.groups": ["hr"]}, axes={"k": {"5": {}, "10": {"eval.k": 10}}})
    base = EvalOptions(k=5, with_options="lexical", groups=("it",))
    assert asking_of(matrix.runs[BASE], base, "m.yaml") == EvalOptions(5, "lexical", ("hr",))
    assert asking_of(matrix.runs["k=10"], base, "m.yaml") == EvalOptions(10, "lexical", ("hr",))


def test_numbers_and_truths_are_names_too() -> None:
    matrix = made(axes={"target": {100: {"chunking.target_tokens": 100}, True: {}}})
    assert list(matrix.runs) == [BASE, "target=true"]


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ([], "the matrix must be a mapping, not list"),
        ({"axis": {}}, "'axis' is not known; did you mean 'axes'?"),
        ({"axes": {"splitter": {}}}, "axes.splitter has no value"),
        ({"axes": {"splitter": ["page"]}}, "axes.splitter must be a mapping, not list"),
        ({"axes": {"a": {"b": {"chunkin.strategy": "page"}}}}, "axes.a.b: 'chunkin' is not known; did you mean"),
        ({"settings": {"sources": []}}, "settings: 'sources' is not known"),
        ({"settings": {"query.strategy": "dense", "query": {"strategy": "dense"}}}, "sets query.strategy twice"),
        ({"axes": {"a": {"x": {"query.candidates": 9}}, "b": {"y": {"query": {"candidates": 8}}}}},
         "the axes 'a' and 'b' both set query.candidates"),
        ({"tables": {"t": {"rows": [{"spliter": "*"}]}}}, "tables.t.rows[0]: 'spliter' is not known; did you"),
        ({"tables": {"t": {"rows": [{"splitter": "pages"}]}}}, "'pages' is not known; did you mean 'page'?"),
        ({"tables": {"t": {"rows": []}}}, "tables.t has no row"),
        ({"tables": {"t": {"row": []}}}, "did you mean 'rows'?"),
        ({"exclude": [{"splitter": "*"}]}, "no row that is not excluded"),
        ({"metrics": ["recall@4"]}, "metrics: 'recall@4' is not known; did you mean 'recall@"),
    ],
)  # fmt: skip
def test_matrix_mistakes_are_named_with_their_place(values: Any, told: str) -> None:
    with pytest.raises(UsageError) as caught:
        matrix_from(values if isinstance(values, list) else {"axes": AXES, **values}, "m.yaml", "m")
    assert str(caught.value).startswith("m.yaml: ")
    assert caught.value.code == "matrix"
    assert told in str(caught.value)


def test_a_wrong_setting_names_the_run() -> None:
    matrix = made(axes={"splitter": {"structure": {}, "pages": {"chunking.strategy": "pages"}}})
    with pytest.raises(SettingsError, match=r"m\.yaml, run 'splitter=pages': setting 'chunking\.strategy'"):
        overridden(matrix, "splitter=pages")


@pytest.mark.parametrize(
    ("values", "told"),
    [({"k": 0}, "eval.k must be"), ({"with_options": "some"}, "eval.with_options must be"),
     ({"kk": 1}, "eval.kk is not"), ({"groups": "hr"}, "eval.groups must be"),
     ({"answers": 1}, "eval.answers must be")],
)  # fmt: skip
def test_a_wrong_way_of_asking_names_the_run(values: Any, told: str) -> None:
    matrix = made(settings={"eval": values})
    with pytest.raises(UsageError, match=f"m.yaml, run 'base': {told}"):
        asking_of(matrix.runs[BASE], EvalOptions(), "m.yaml")
