"""What the UI shows of the golden questions: numbers that it plots, and what they were before."""

from __future__ import annotations

import json

import dagster as dg
import pytest

from tests.dagster.test_materialise import materialise, metadata
from tests.support.direct_runs import direct_runs
from tests.support.projects import Project

pytestmark = [pytest.mark.integration, pytest.mark.dagster]

GOLD = {"id": "1", "question": "Who holds the vault key?", "gold": [{"uri": "archive/keys.md", "quote": "vault key"}]}


@pytest.mark.faults
def test_the_scores_of_the_live_index_and_of_those_before_it(project: Project) -> None:
    (project.folder / "questions.jsonl").write_text(json.dumps(GOLD), encoding="utf-8")
    project.configure(publish={"golden": "questions.jsonl", "max_drop": 1.0})
    with direct_runs():
        project.index()
        project.configure(chunking={"strategy": "page"})
        project.index()
    result = materialise(project, ["retrieval_quality"])
    (event,) = result.asset_materializations_for_node("retrieval_quality")
    for name in ("recall@5", "mrr", "ndcg@10", "span_recall"):
        assert isinstance(event.metadata[name], dg.FloatMetadataValue), "the UI plots numbers only"
    ((_, quality),) = metadata(result, "retrieval_quality")
    assert quality["n"] == 1
    assert quality["headline"].startswith(f"recall@5 {100 * quality['recall@5']:.1f} %")
    assert quality["headline"].endswith("on 1 question")
    assert "data:image/svg+xml" in quality["over time"]
    past = [record.data["generation"] for record in quality["past scores"].records]
    assert (past[0], past[-1]) == ("g0001", "g0002")
    last = [record.data for record in quality["last runs"].records]
    assert list(last[0]) == ["generation", "at", "questions", "recall@5", "accuracy_page", "changed"]
    assert (last[0]["generation"], last[-1]["generation"]) == (2, 1)
    assert any("chunking.strategy structure → page" in row["changed"] for row in last[:-1])
