"""Feedback on a served index: from the page into the file for review, and from there into what tests a release."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from starlette.testclient import TestClient

from pincite.guard import TokenFile, access_of
from pincite.serve.application import application
from pincite.serve.service import Service
from resources.evaluation.golden import FEEDBACK
from resources.settings_file import locate
from tests.support.direct_runs import quick_runs
from tests.support.documents import pdf_of
from tests.support.embedding_server import EmbeddingServer
from tests.support.projects import Project, make_project, new_database

pytestmark = pytest.mark.integration

URL = "http://127.0.0.1:8750"
OWN = {"Origin": URL, "Accept": "application/json", "Content-Type": "application/x-www-form-urlencoded"}
SECRET = "The safe word of the treasury is heliotrope."
GOLDEN = {"id": "own", "question": "When is the boiler inspected?", "gold": [{"uri": "boilers.txt"}]}


@dataclass
class Served:
    project: Project
    client: TestClient
    tokens: dict[str, str]

    def hit(self, question: str, who: str = "guest") -> dict[str, Any]:
        reply = self.client.get("/api/search", params={"q": question}, headers=self.named(who))
        found: dict[str, Any] = reply.json()["hits"][0]
        return found

    def named(self, who: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.tokens[who]}"}

    def say(self, who: str = "guest", headers: dict[str, str] = OWN, **form: str) -> Any:
        return self.client.post("/feedback", data=form, headers={**headers, **self.named(who)})

    def waiting(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.project.run("golden list").json["waiting"]
        return found


@pytest.fixture(scope="module")
def served(server_url: str, endpoint: EmbeddingServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with quick_runs(), new_database(server_url) as url:
        project = make_project(
            tmp_path_factory.mktemp("feedback") / "project", database=url,
            embedder={"endpoint": endpoint.url, "model": "fake"}, serve={"auth": "tokens", "feedback": True},
            publish={"golden": "golden.jsonl"},
        )  # fmt: skip
        (project.folder / "golden.jsonl").write_text(json.dumps(GOLDEN), encoding="utf-8")
        project.write("secret.md", f"# Treasury\n\n{SECRET}\n")
        project.write("secret.md.meta.yaml", "groups: [treasury]\n")
        pdf_of(project.docs / "page.pdf", [[], [(72, 72, "The lighthouse lamp is trimmed at noon.")]])
        project.index()
        tokens = TokenFile(project.state)
        made = {
            name: tokens.add(name, groups, operator=False)
            for name, groups in (("guest", ()), ("treasurer", ("treasury",)))
        }
        found = locate(str(project.config))
        service = Service(found)
        app = application(service, access_of(found), URL)
        with TestClient(app, base_url=URL, follow_redirects=False) as client:
            yield Served(project, client, made)
        service.close()


@pytest.fixture(autouse=True)
def nothing_waits(served: Served) -> Iterator[None]:
    yield
    (served.project.state / FEEDBACK).unlink(missing_ok=True)


def test_a_verdict_waits_with_the_page_and_the_words_of_the_index(served: Served) -> None:
    question, hit = "When is the lighthouse lamp trimmed?", served.hit("lighthouse lamp trimmed")
    reply = served.say(q=question, passage=hit["chunk_id"], answers="yes")
    assert (reply.status_code, reply.json()) == (200, {"ok": True, "new": True})
    assert served.say(q=question, passage=hit["chunk_id"], answers="yes").json()["new"] is False
    (said,) = served.waiting()
    assert (said["uri"], said["page"], said["quote"]) == ("page.pdf", 2, "The lighthouse lamp is trimmed at noon.")
    assert (said["question"], said["answers"], said["asked_by"], said["groups"]) == (question, True, "guest", [])
    page = served.say(q=question, passage=hit["chunk_id"], answers="no", headers={**OWN, "Accept": "text/html"})
    assert "What you said is noted" in page.text
    assert [each["answers"] for each in served.waiting()] == [False]


def test_a_row_of_a_table_is_quoted_as_the_document_has_it(served: Served) -> None:
    """Its sentence says the names of the columns, which stand elsewhere."""
    question = "When does the contract of Harbour Catering in Hull end?"
    served.say(q=question, passage=served.hit(question)["chunk_id"], answers="yes")
    (said,) = served.waiting()
    assert (said["uri"], said["quote"]) == ("suppliers.csv", "Harbour Catering Hull 2027")
    assert served.project.run("eval", "--feedback").json["runs"][0]["unmapped"] == 0


def test_a_question_on_a_restricted_document_carries_its_groups_and_is_shown_to_nobody(served: Served) -> None:
    hit = served.hit("safe word of the treasury", "treasurer")
    assert served.say("guest", q="safe word?", passage=hit["chunk_id"], answers="yes").status_code == 404
    assert served.waiting() == []
    served.say("treasurer", q="What is the safe word?", passage=hit["chunk_id"], answers="yes")
    (said,) = served.waiting()
    assert (said["groups"], said["quote"]) == (["treasury"], SECRET)
    for path in ("/", "/feedback", "/api/feedback", "/status", "/api/status"):
        for who in served.tokens:
            shown = served.client.get(path, headers=served.named(who))
            assert "heliotrope" not in shown.text and "What is the safe word" not in shown.text


def test_forms_that_no_page_of_ours_sends_are_refused_and_leave_nothing(served: Served) -> None:
    hit = served.hit("boiler inspected")["chunk_id"]
    good = {"q": "When?", "passage": hit, "answers": "yes"}
    for form in (
        {}, {**good, "q": ""}, {**good, "q": " \t"}, {**good, "q": "x" * 1_001}, {**good, "q": "a\0b"},
        {**good, "answers": "maybe"}, {**good, "quote": "forged"}, {**good, "sentence": "x" * 201},
        {**good, "passage": "x" * 201}, {**good, **{str(number): "x" for number in range(50)}},
    ):  # fmt: skip
        reply = served.say(**form)
        assert reply.status_code == 400 and len(reply.json()["error"]["message"].split()) > 4, form
    for passage, status in (("0" * 32, 404), ("\u202e", 400), ("' OR 1=1", 400)):
        assert served.say(**{**good, "passage": passage}).status_code == status
    token = served.named("guest")
    assert served.client.post("/feedback", content=b"\xff=%ff", headers={**OWN, **token}).status_code == 400
    assert (
        served.client.post("/feedback", content=b"q=" + b"x" * (2 << 20), headers={**OWN, **token}).status_code == 413
    )
    for headers in ({}, {"Origin": "https://evil.example"}, {**OWN, "Sec-Fetch-Site": "cross-site"}):
        given = {"Content-Type": OWN["Content-Type"], **headers, **token}
        assert served.client.post("/feedback", data=good, headers=given).status_code == 403
    assert served.client.post("/feedback", data=good, headers=OWN).status_code == 401
    assert served.waiting() == []
    assert served.say(**{**good, "sentence": "unknown"}).status_code == 200


def test_it_is_off_unless_it_is_allowed(served: Served) -> None:
    found = locate(str(served.project.config))
    serve = found.settings.serve
    hit = served.hit("boiler inspected")["chunk_id"]
    object.__setattr__(serve, "feedback", False)
    service = Service(found)
    try:
        client = TestClient(application(service, access_of(found), URL), base_url=URL)
        reply = client.post("/feedback", data={"q": "When?", "passage": hit, "answers": "yes"},
                            headers={**OWN, **served.named("guest")})  # fmt: skip
        assert reply.status_code == 404
        assert "/feedback" not in client.get("/?q=boiler", headers=served.named("guest")).text
    finally:
        service.close()
    assert "/feedback" in served.client.get("/?q=boiler", headers=served.named("guest")).text


def test_publishing_is_tested_by_what_is_accepted_and_by_nothing_else(served: Served) -> None:
    """Wrong verdicts, on many passages, hold up no release."""
    project = served.project
    wrong = served.hit("vault key registrar")["chunk_id"]
    for number in range(9):
        served.say(q=f"When is boiler {number} inspected?", passage=wrong, answers="yes")
    served.say("treasurer", q="the safe word", passage=served.hit("safe word", "treasurer")["chunk_id"], answers="yes")
    served.say(q="boiler", passage=served.hit("boiler inspected")["chunk_id"], answers="no")
    alone = project.run("eval", "--feedback").json["runs"][0]
    assert (alone["n"], alone["metrics"]["wrong@1"], alone["unmapped"]) == (10, 1.0, 0)
    assert alone["metrics"]["recall@1"] < 1

    def scored() -> int:
        project.write("more.txt", f"More of the same, {len(served.waiting())} wait.\n")
        made = project.index()
        assert made["published"], made
        return int(project.run("eval", project.folder / "golden.jsonl").json["runs"][0]["n"])

    assert scored() == 1
    restricted = next(each for each in served.waiting() if each["groups"])
    negative = next(each for each in served.waiting() if not each["answers"])
    assert project.run("golden accept", restricted["id"], negative["id"]).json["added"] == 2
    run = project.run("eval", project.folder / "golden.jsonl").json["runs"][0]
    assert (run["n"], run["metrics"]["recall@1"], run["metrics"]["wrong@1"]) == (2, 1.0, 1.0)
    assert len(project.run("golden reject", "--all").json["rejected"]) == 9
    assert scored() == 2
    assert project.run("golden accept").code == 2 and project.run("eval", "--feedback").code == 2
