from __future__ import annotations

import pytest

from pipelines.increments import DocumentState, bucket_output, input_fingerprint, output_hash, plan
from pipelines.records import Embedding, Span


def state(output: str, fingerprint: str = "f", failed: str | None = None) -> DocumentState:
    return DocumentState(fingerprint, output, failed)


INPUT = {"a": state("1"), "b": state("2")}
ONE = {"chunks": INPUT}


def made(doc_id: str) -> DocumentState:
    return DocumentState(input_fingerprint([INPUT], doc_id), "out")


def test_new_changed_kept_and_gone() -> None:
    previous = {"a": made("a"), "b": state("out", "other"), "c": state("out")}
    found = plan(ONE, previous)
    assert set(found.compute) == {"b"} and set(found.keep) == {"a"} and found.gone == ("c",)


def test_any_input_that_changed_computes_again_and_is_named() -> None:
    second = {"a": state("x"), "b": state("y")}
    previous = {doc_id: DocumentState(input_fingerprint([INPUT, second], doc_id), "out") for doc_id in INPUT}
    assert not plan({**ONE, "sentences": second}, previous).compute
    changed = plan({**ONE, "sentences": {**second, "b": state("z")}}, previous)
    assert changed.reasons == {"b": "changed: sentences"}
    assert set(changed.compute) == {"b"}


@pytest.mark.parametrize(
    ("previous", "reason"),
    [
        (None, "first with these settings"),
        ({}, "new document"),
        ({"a": DocumentState("", "", input_fingerprint([INPUT], "a"))}, "tried again after it failed"),
        ({"a": state("out", "f")}, "changed: chunks"),
        ({"a": DocumentState("1", "out", "another input")}, "failed in between"),
    ],
)
def test_why_a_document_is_computed(previous: dict[str, DocumentState] | None, reason: str) -> None:
    assert plan(ONE, previous, retried={"a"}).reasons["a"] == reason


def test_a_failure_is_not_tried_again_until_its_input_changes_or_one_asks() -> None:
    failed = {"a": DocumentState("", "", input_fingerprint([INPUT], "a")), "b": made("b")}
    assert not plan(ONE, failed).compute
    assert set(plan(ONE, failed, retried={"a"}).compute) == {"a"}
    assert set(plan({"chunks": {**INPUT, "a": state("new")}}, failed).compute) == {"a"}


def test_a_document_back_at_its_last_good_input_is_computed_again_after_a_failure() -> None:
    last_good = DocumentState(input_fingerprint([INPUT], "a"), "out", failed="of another input")
    assert set(plan(ONE, {"a": last_good, "b": made("b")}).compute) == {"a"}


def test_outputs_tell_rows_apart_but_not_vectors() -> None:
    assert output_hash([Span(0, 1)]) != output_hash([Span(0, 2)])
    assert output_hash([]) != output_hash([Span(0, 1)])
    assert output_hash([Embedding("d", 0, "i", "h", (1.0,))]) == output_hash([Embedding("d", 0, "i", "h", (0.5,))])


def test_bucket_output_has_no_order() -> None:
    assert bucket_output(INPUT) == bucket_output(dict(reversed(INPUT.items())))
    assert bucket_output(INPUT) != bucket_output({"a": state("1")})
