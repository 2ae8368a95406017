"""Runs that leave Dagster out make what runs of the job make, so that tests may use them in its place."""

from __future__ import annotations

from pathlib import Path

from tests.support.direct_runs import direct_runs
from tests.support.projects import Project, content, make_project, new_database

EDITED = "# Staff handbook\n\nThe handbook is kept at the front desk.\n"


def test_a_run_without_dagster_makes_what_the_job_makes(project: Project, server_url: str, tmp_path: Path) -> None:
    with new_database(server_url) as url:
        other = make_project(tmp_path / "other", database=url, buckets=4, embedder=project.settings["embedder"])
        for edit in (None, EDITED):
            if edit:
                project.write("handbook.md", edit)
                other.write("handbook.md", edit)
            by_the_job = project.index()
            with direct_runs():
                assert other.index()["documents"] == by_the_job["documents"]
            rows = content(project)
            assert content(other) == rows and rows["chunks"] and rows["sentences"]
    assert (project.state / "dagster").is_dir() and not (other.state / "dagster").exists()
