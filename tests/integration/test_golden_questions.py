"""`pincite eval` on a real index: questions suggested out of it, and answers scored."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.direct_runs import quick_runs
from tests.support.embedding_server import EmbeddingServer
from tests.support.llm_server import llm_server
from tests.support.projects import Project, Ran, make_project, new_database, run_command

pytestmark = pytest.mark.integration

RULES = """\
# Rules of the harbour

Berths are allotted for at most 14 days at one time. A pilot boards each ship within 3 hours of its call.

| Berth | Depth (m) | Owner |
|---|---|---|
| North quay | 7.5 | Harbour board |
| South quay | 9.0 | Pilot office |

## Порядок

Строк зберігання документів становить 5 років від дня підписання договору.
"""
MINUTES = "The council repaired the telescope of the observatory within 30 days of the storm.\n"
REPEATED = "Complaints about the office are answered by the clerk within 21 days of their arrival.\n"


@pytest.fixture(scope="module")
def project(
    server_url: str, migrated: str, endpoint: EmbeddingServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Project]:
    with quick_runs(), new_database(server_url, migrated) as url:
        project = make_project(
            tmp_path_factory.mktemp("golden") / "project",
            database=url,
            embedder={"endpoint": endpoint.url, "model": "fake"},
        )
        project.write("harbour.md", RULES)
        project.write("board/minutes.txt", MINUTES)
        project.write("board/minutes.txt.meta.yaml", "groups: [board]\n")
        project.write("one.txt", REPEATED)
        project.write("two.txt", REPEATED)
        project.index()
        yield project


@pytest.fixture
def plain(project: Project) -> Project:
    """The project without a language model."""
    project.settings.pop("llm", None)
    project.configure()
    return project


def ran(project: Project, *arguments: str | Path) -> dict[str, Any]:
    done: Ran = project.run("eval", *arguments)
    assert done.code == 0, done.out + done.err
    return done.json


def asked(result: dict[str, Any]) -> dict[str, str]:
    return {question["question"]: question["answer"] for question in result["questions"]}


# ---------------------------------------------------------------- suggestions


def test_amounts_and_cells_are_asked_for_and_what_is_repeated_or_restricted_is_not(plain: Project) -> None:
    result = ran(plain, "--suggest", "50")
    questions = asked(result)
    assert questions["What is “Depth (m)” for South quay?"] == "9.0"
    assert questions["Berths are allotted for at most how many days at one time?"] == "14"
    assert not any("telescope" in question or "omplaints" in question for question in questions)
    assert len(questions) == len(result["questions"])
    assert any(note.startswith(f"only {len(questions)} of 50") for note in result["notes"])
    assert "1 restricted document was left out; name your groups with --group" in result["notes"]
    assert any("telescope" in question for question in asked(ran(plain, "--suggest", "50", "--group", "board")))


def test_suggestions_are_golden_questions_whose_gold_is_found(plain: Project, tmp_path: Path) -> None:
    file = tmp_path / "golden.jsonl"
    result = ran(plain, "--suggest", "4", "--output", file)
    lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    assert lines == result["questions"] and len(lines) == 4
    assert all(line["note"] == "suggested by cloze: correct it or delete it" for line in lines)
    assert ran(plain, "--suggest", "4")["questions"] == lines, "the same seed"
    (run,) = ran(plain, file)["runs"]
    assert (run["n"], run["unmapped"], run["metrics"]["recall@20"]) == (4, 0, 1.0)
    assert run["metrics"]["table_precision@3"] is not None


def test_a_file_that_may_have_been_corrected_is_left_alone(plain: Project, tmp_path: Path) -> None:
    file = tmp_path / "golden.jsonl"
    file.write_text("corrected")
    done = plain.run("eval", "--suggest", "2", "--output", file)
    assert (done.code, file.read_text()) == (2, "corrected")
    assert "already" in done.json["error"]["message"]


def test_people_get_lines_that_can_be_kept(plain: Project) -> None:
    done = run_command("eval", "--suggest", "2", "--config", plain.config)
    assert done.code == 0 and [json.loads(line)["id"][:9] for line in done.out.splitlines()] == ["suggested"] * 2
    assert "2 by cloze" in done.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "--suggest N"),
        (("--suggest", "0"), "at least 1"),
        (("--output", "x.jsonl"), "--suggest N"),
        (("x.jsonl", "--suggest", "3"), "--output x.jsonl"),
    ],
)
def test_wrong_use_names_the_remedy(plain: Project, arguments: tuple[str, ...], said: str) -> None:
    done = plain.run("eval", *arguments)
    assert done.code == 2 and said in done.json["error"]["message"]


def test_a_language_model_writes_them_where_one_is_set(project: Project) -> None:
    with llm_server() as server:
        project.configure(llm={"base_url": server.url, "model": "fake-model", "retries": 0, "attempts": 1})
        replies = {"Berths": "QUESTION: How soon does a pilot board a ship?\nANSWER: within 3 hours"}
        server.reply = lambda prompt: next((said for word, said in replies.items() if word in prompt), "NOTHING")
        result = ran(project, "--suggest", "3")
        first = result["questions"][0]
        assert (first["question"], first["answer"]) == ("How soon does a pilot board a ship?", "within 3 hours")
        assert first["gold"][0]["quote"] == "A pilot boards each ship within 3 hours of its call."
        assert first["note"] == "suggested by fake-model: correct it or delete it"
        assert result["model"] == "fake-model" and len(result["questions"]) == 3
        assert {"1 by fake-model", "2 by cloze"} <= set(result["notes"])
        assert not any("telescope" in prompt for prompt in server.prompts)
        asked_before = len(server.calls)
        assert ran(project, "--suggest", "3")["questions"] == result["questions"]
        assert len(server.calls) == asked_before, "a reply is bought once"


# ---------------------------------------------------------------- answers

QUESTIONS = [
    {"id": "1", "question": "Who owns the South quay?", "options": {"A": "Harbour board", "B": "Pilot office"},
     "answer": "B", "gold": [{"uri": "harbour.md", "quote": "South quay 9.0 Pilot office"}]},
    {"id": "2", "question": "Within how many hours does a pilot board each ship?", "answer": "3",
     "gold": [{"uri": "harbour.md", "quote": "A pilot boards each ship within 3 hours"}]},
    {"id": "3", "question": "Which painter decorated the cathedral of Florence?", "gold": []},
]  # fmt: skip


def test_answers_are_scored_beside_the_hits(plain: Project, tmp_path: Path) -> None:
    file = tmp_path / "golden.jsonl"
    file.write_text("".join(json.dumps(each) + "\n" for each in QUESTIONS), encoding="utf-8")
    (run,) = ran(plain, file, "--answers")["runs"]
    names = ("answer_accuracy", "kept_answerable", "answer_pinned", "first_quotation", "declined_unanswerable")
    assert [run["metrics"][name] for name in names] == [1.0] * 5
    assert run["metrics"]["task_score"] is None and run["n"] == 2
    (without,) = ran(plain, file)["runs"]
    assert "answer_accuracy" not in without["metrics"]


# ---------------------------------------------------------------- questions within documents, and of other people


def test_a_question_is_asked_and_answered_within_its_filter(plain: Project, tmp_path: Path) -> None:
    """The same sentence stands in two documents, and is looked for in each by itself, and in one that lacks it."""
    file = tmp_path / "golden.jsonl"
    text = "Within how many days are complaints about the office answered?"
    places = {"one.txt": "one.txt", "two.txt": "two.txt", "harbour.md": "one.txt"}
    file.write_text(
        "\n".join(
            json.dumps({"id": uri, "question": text, "filter": {"uri": uri}, "gold": [{"uri": gold}]})
            for uri, gold in places.items()
        )
    )
    (scored,) = ran(plain, file, "--answers")["runs"]
    assert scored["metrics"]["recall@1"] == pytest.approx(2 / 3)
    assert scored["metrics"]["recall@20"] == pytest.approx(2 / 3)


def test_imported_questions_are_written_once_and_asked(plain: Project, tmp_path: Path) -> None:
    table, file = tmp_path / "q.csv", tmp_path / "golden.jsonl"
    table.write_text("question;uri;quote;A;B;answer\nHow deep is the South quay?;harbour.md;South quay;7.5;9.0;B\n")
    done = plain.run("eval", "--import", "csv", table, "--output", file)
    assert (done.code, len(done.json["questions"])) == (0, 1), done.err
    assert ran(plain, file)["runs"][0]["metrics"]["recall@5"] == 1.0
    again = plain.run("eval", "--import", "csv", table, "--output", file)
    assert again.code == 2 and "the file already exists" in again.err
    for wrong, told in ((("--import", "csv"), "--import csv reads a file; name it"),
                        ((table, "--import", "csv", "--suggest", "3"), "give one of them")):  # fmt: skip
        refused = plain.run("eval", *wrong)
        assert refused.code == 2 and told in refused.err
