"""Feedback on hits: kept in bounds, each once, and made golden questions of by an operator alone."""

from __future__ import annotations

import stat
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from pipelines.errors import IndexStateError, UsageError
from pipelines.settings.base import settings_from
from resources.evaluation import golden
from resources.evaluation.golden import (
    FEEDBACK,
    REJECTED,
    Feedback,
    FeedbackFile,
    accept,
    evaluate_feedback,
    golden_line,
    read_questions,
)
from resources.settings_file import Project

if TYPE_CHECKING:
    from resources.state.state import State

SAID = Feedback(
    "How long?", True, "docs", "a.pdf", 3, "Ten days.", (), "anna", "2026-11-27T10:00:00+00:00", 1
)  # fmt: skip


@pytest.fixture
def file(tmp_path: Path) -> FeedbackFile:
    return FeedbackFile(tmp_path)


def project(folder: Path, **publish: Any) -> Project:
    return Project(settings_from({"publish": publish}), None, folder, folder)


def test_a_verdict_is_kept_once_and_the_last_one_holds(file: FeedbackFile, tmp_path: Path) -> None:
    other = replace(SAID, asked_by="oleh")
    assert [file.add(SAID), file.add(SAID), file.add(other)] == [True, False, True]
    changed = replace(SAID, answers=False, at="2026-11-27T11:00:00+00:00")
    assert file.add(changed) and FeedbackFile(tmp_path).waiting() == [changed, other]
    assert stat.S_IMODE((tmp_path / FEEDBACK).stat().st_mode) == 0o600


def test_a_replay_of_what_is_rejected_is_not_listed_again(file: FeedbackFile) -> None:
    file.add(SAID)
    file.decide([SAID.id, "unknown"], REJECTED)
    assert not file.add(SAID) and file.waiting() == []


def test_no_asker_fills_the_list(file: FeedbackFile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(golden, "MOST_AN_HOUR", 2)
    monkeypatch.setattr(golden, "MOST_OF_ONE", 3)
    monkeypatch.setattr(golden, "MOST_WAITING", 4)
    file.add(replace(SAID, page=1))
    file.add(replace(SAID, page=2))
    with pytest.raises(IndexStateError, match="of 2 passages within an hour") as failed:
        file.add(replace(SAID, page=3))
    assert failed.value.code == "too_many"
    assert file.add(replace(SAID, page=2, answers=False)), "what is kept may be corrected"
    assert file.add(replace(SAID, page=3, at="2026-11-27T11:00:01+00:00"))
    with pytest.raises(IndexStateError, match="3 answers wait for review"):
        file.add(replace(SAID, page=4, at="2026-11-28T11:00:01+00:00"))
    assert file.add(replace(SAID, asked_by="oleh"))
    with pytest.raises(IndexStateError, match="4 answers wait for review"):
        file.add(replace(SAID, asked_by="ivan"))


def test_the_file_never_grows_over_its_bound(file: FeedbackFile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(golden, "MOST_BYTES", 1_000)
    file.add(SAID)
    with pytest.raises(IndexStateError, match="feedback wait"):
        file.add(replace(SAID, page=4, quote="x" * 1_000))
    assert file.waiting() == [SAID]


@pytest.mark.parametrize(
    "line", ["{", "[]", "3", '{"id": "x"}', "[" * 50_000, '{"id": "x", "question": "a"}', "x"], ids=len
)
def test_a_damaged_line_is_named_and_nothing_is_lost(file: FeedbackFile, tmp_path: Path, line: str) -> None:
    file.add(SAID)
    text = (tmp_path / FEEDBACK).read_text(encoding="utf-8") + line + "\n"
    (tmp_path / FEEDBACK).write_text(text, encoding="utf-8")
    for work in (file.waiting, lambda: file.add(replace(SAID, page=4))):
        with pytest.raises(IndexStateError, match=r"feedback\.jsonl line 2: the line is not in pincite's form"):
            work()
    assert (tmp_path / FEEDBACK).read_text(encoding="utf-8") == text


# ---------------------------------------------------------------- review


def test_accepted_feedback_is_a_golden_question_with_its_groups(file: FeedbackFile, tmp_path: Path) -> None:
    """A place that does not answer goes by its words: another passage of the page may."""
    wrong = replace(SAID, answers=False, page=4, groups=("hr",))
    again = replace(SAID, asked_by="oleh")
    for said in (SAID, wrong, again):
        file.add(said)
    (tmp_path / "golden.jsonl").write_text('{"id": "own", "question": "?", "gold": []}', encoding="utf-8")
    done = accept(project(tmp_path, golden="golden.jsonl"), file.waiting())
    assert (done["added"], done["known"], file.waiting()) == (2, 0, [])
    own, right, not_it = read_questions(tmp_path / "golden.jsonl")
    assert (own.id, right.gold[0].page, right.gold[0].quote, right.groups) == ("own", 3, "Ten days.", ())
    assert (not_it.wrong[0].page, not_it.wrong[0].quote, not_it.groups, not_it.known) == (
        None,
        "Ten days.",
        ("hr",),
        False,
    )
    file.add(replace(SAID, asked_by="ivan"))
    assert accept(project(tmp_path, golden="golden.jsonl"), file.waiting())["known"] == 1
    assert len(read_questions(tmp_path / "golden.jsonl")) == 3


def test_a_passage_without_words_goes_by_its_page() -> None:
    line = golden_line(replace(SAID, quote="", answers=False))
    assert line["wrong"] == [{"uri": "a.pdf", "source": "docs", "page": 3}]


def test_feedback_given_by_several_people_is_asked_once(
    file: FeedbackFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for said in (SAID, replace(SAID, asked_by="oleh", groups=("hr",)), replace(SAID, page=4)):
        file.add(said)
    monkeypatch.setattr(golden, "_evaluate", lambda state, questions, *given: {"asked": questions})
    asked = evaluate_feedback(cast("State", SimpleNamespace(project=project(tmp_path))))["asked"]
    assert [(each.gold[0].page, each.groups) for each in asked] == [(3, ("hr",)), (4, ())]


def test_accepting_needs_a_file_and_harms_none(file: FeedbackFile, tmp_path: Path) -> None:
    file.add(SAID)
    with pytest.raises(UsageError, match=r"publish\.golden names no file"):
        accept(project(tmp_path), file.waiting())
    for damaged, told in ((b"{", "line 1: not valid JSON"), (b"\xff", r"golden\.jsonl cannot be read")):
        (tmp_path / "golden.jsonl").write_bytes(damaged)
        with pytest.raises(UsageError, match=told):
            accept(project(tmp_path, golden="golden.jsonl"), file.waiting())
        assert (tmp_path / "golden.jsonl").read_bytes() == damaged and file.waiting() == [SAID]


def test_an_id_may_be_named_by_its_beginning(file: FeedbackFile) -> None:
    other = replace(SAID, page=4)
    file.add(SAID)
    file.add(other)
    assert file.find([SAID.id[:8], SAID.id]) == [SAID]
    for wrong in ("zzz", ""):
        with pytest.raises(UsageError, match="no feedback has it"):
            file.find([wrong])
