"""What is searched for a sentence: the four forms, and what a change of form, chunk or sentence makes anew."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipelines.settings.models import EmbedderSettings
from resources.models.embedders.loaded import make_embedder
from resources.models.embedders.specs import resolve
from resources.models.embedders.transformer import TransformerEmbedder
from tests.support.embedding_server import EmbeddingServer
from tests.support.projects import Project, make_project, new_database, project_copy
from tests.support.tiny_model import make_model

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("quick_runs")]

COPIED = """\
# Notice

Visitors sign the register. They wear a yellow badge.
"""
DOCUMENTS = {
    "keys.md": """\
# Keys

## Vault

The vault key is held by the registrar. A spare key lies in the safe of the bursar.

## Lift

The lift carries eight persons. It is closed on Sundays. The porter has its key.
""",
    "notice.md": COPIED,
    "copy/notice.md": COPIED,
}
SENTENCES, CHUNKS = 9, 4
"""Of the documents; of distinct texts two and one less."""
FORMS = ("blended", "fast", "header-chain", "bare", "mixed")


@pytest.fixture(scope="module")
def embedder(tmp_path_factory: pytest.TempPathFactory) -> TransformerEmbedder:
    settings = EmbedderSettings(model=str(make_model(tmp_path_factory.mktemp("models") / "tiny")), dtype="float32")
    made = make_embedder(resolve(settings, "english-small"), settings)
    assert isinstance(made, TransformerEmbedder)
    return made


def form(name: str) -> dict[str, Any]:
    return {"embedded": name, "related_floor": 0.5}


@pytest.fixture(scope="module")
def indexed(
    server_url: str, embedder: TransformerEmbedder, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Project]:
    """Indexed with what is searched by default."""
    with new_database(server_url) as url:
        project = make_project(
            tmp_path_factory.mktemp("forms") / "project",
            DOCUMENTS,
            database=url,
            embedder={"model": embedder.spec.name, "dtype": "float32"},
            sentences={"related_floor": 0.5},
            enrichment={"summary": "off", "context": "off"},
        )
        result = project.index()
        assert result["embedded"] == {"chunks": CHUNKS - 1, "sentences": SENTENCES - 2}
        yield project


@pytest.fixture
def project(indexed: Project, server_url: str, tmp_path: Path) -> Iterator[Project]:
    with project_copy(indexed, server_url, tmp_path / "project") as copy:
        yield copy


def schema(project: Project) -> str:
    ((live,),) = project.rows("SELECT generation FROM pincite.live")
    return f"g{live:04d}"


def searched(project: Project) -> dict[str, tuple[Any, ...]]:
    """By sentence id: text, header chain and text of its chunk, place in it, vector, and the chunk's vector."""
    rows = project.rows(
        f"SELECT s.sentence_id, s.text, c.header_chain, c.text, s.start, s.length, s.embedding::text, "
        f"c.embedding::text FROM {schema(project)}.sentences s JOIN {schema(project)}.chunks c USING (chunk_id)"
    )
    return {name: (*row, np.fromstring(vector[1:-1], sep=","), np.fromstring(chunk[1:-1], sep=","))
            for name, *row, vector, chunk in rows}  # fmt: skip


def links(project: Project) -> list[tuple[Any, ...]]:
    return sorted(project.rows(f"SELECT source_id, target_id, similarity FROM {schema(project)}.sentence_links"))


def wanted(name: str, embedder: TransformerEmbedder, row: tuple[Any, ...]) -> np.ndarray:
    """The vector of a sentence in one form, by itself."""
    text, chain, chunk, start, length, _, chunk_vector = row
    heads = [" › ".join(part) + "\n" for part in (chain, chain[:-1] if chunk.startswith(f"{chain[-1]}\n") else chain)]
    bare: np.ndarray = embedder.passages([text])[0]
    if name == "bare":
        return bare
    if name == "header-chain":
        return embedder.passages([heads[0] + text])[0]
    own = bare
    if name == "fast" or (name == "mixed" and len(text.split()) >= 8):
        whole = (heads[1] + chunk).lstrip()
        at = len(whole) - len(chunk) + start
        assert whole[at : at + length] == text
        own = embedder.with_spans([whole], [[(at, at + length)]])[1][0]
    return (own + chunk_vector) / np.linalg.norm(own + chunk_vector)


def test_each_form_is_what_it_says_and_buys_no_more_than_it_must(
    project: Project, embedder: TransformerEmbedder
) -> None:
    """A change makes a new generation, with the same links where these are of bare sentences, and going back finds the
    old one."""
    bought = {"blended": 0, "fast": CHUNKS - 1, "header-chain": SENTENCES - 2, "bare": 0, "mixed": 0}
    first = links(project)
    assert first
    made = {}
    for number, name in enumerate(FORMS, start=1):
        project.configure(sentences=form(name))
        result = project.index()
        assert (result["generation"], result["published"]) == (number, True)
        assert result["embedded"] == {"chunks": 0, "sentences": bought[name]}
        made[name] = searched(project)
        assert len(made[name]) == SENTENCES
        for row in made[name].values():
            assert np.allclose(row[5], wanted(name, embedder, row), atol=1e-4), (name, row[0])
        assert (links(project) == first) == (name not in ("fast", "mixed"))
    some = next(iter(made["bare"]))
    vectors = [made[name][some][5] for name in FORMS[:4]]
    assert all(one @ other < 0.9999 for at, one in enumerate(vectors) for other in vectors[:at])
    own = {item for item, row in made["mixed"].items() if np.array_equal(row[5], made["blended"][item][5])}
    assert {made["mixed"][item][0] for item in made["mixed"] if item not in own} == {
        "The vault key is held by the registrar.", "A spare key lies in the safe of the bursar.",
    }  # fmt: skip

    project.configure(sentences=form("fast"))
    result = project.index()
    assert (result["generation"], result["embedded"]) == (2, {"chunks": 0, "sentences": 0})
    assert all(np.array_equal(row[5], made["fast"][item][5]) for item, row in searched(project).items())


@pytest.mark.parametrize("name", ["blended", "fast"])
def test_a_changed_chunk_makes_its_own_sentences_anew(
    project: Project, embedder: TransformerEmbedder, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.configure(sentences=form(name))
    project.index()
    before = searched(project)
    project.write("keys.md", DOCUMENTS["keys.md"].replace("It is closed on Sundays", "It is closed on Mondays"))
    asked: list[str] = []
    passages, with_spans = TransformerEmbedder.passages, TransformerEmbedder.with_spans

    def watched(embedding: Callable[..., Any]) -> Callable[..., Any]:
        def embeds(self: TransformerEmbedder, texts: Sequence[str], *rest: Any) -> Any:
            asked.extend(texts)
            return embedding(self, texts, *rest)

        return embeds

    monkeypatch.setattr(TransformerEmbedder, "passages", watched(passages))
    monkeypatch.setattr(TransformerEmbedder, "with_spans", watched(with_spans))
    result = project.index()
    monkeypatch.undo()
    assert len(asked) == sum(result["embedded"].values()) == (1 if name == "fast" else 2)
    assert all("Mondays" in text for text in asked)
    after = searched(project)
    assert len(after) == SENTENCES
    changed = {
        row[0] for item, row in after.items() if item not in before or not np.array_equal(row[5], before[item][5])
    }
    assert changed == {"It is closed on Mondays.", "The lift carries eight persons.", "The porter has its key."}
    for row in after.values():
        assert np.allclose(row[5], wanted(name, embedder, row), atol=1e-4)


def test_an_embedder_without_vectors_of_tokens_is_told_before_anything_is_embedded(
    server_url: str, endpoint: EmbeddingServer, tmp_path: Path
) -> None:
    with new_database(server_url) as url:
        project = make_project(
            tmp_path / "project", DOCUMENTS, database=url,
            embedder={"endpoint": endpoint.url, "model": "fake"}, sentences={"embedded": "fast"},
        )  # fmt: skip
        endpoint.forget()
        ran = project.run("index")
        assert ran.code == 2
        told = ran.json["error"]
        assert told["code"] == "settings"
        assert "sentences.embedded is fast, but embedder 'fake'" in told["message"]
        assert "set sentences.embedded to one of bare, blended, header-chain" in told["message"]
        assert set(endpoint.texts) <= {"dimension"}


def test_sentences_cost_no_pass_of_their_own(server_url: str, embedder: TransformerEmbedder, tmp_path: Path) -> None:
    """Their vectors come out of their chunks' passes, also where one chunk stands in several documents, and what was
    kept of them until they were asked for is gone then."""
    with new_database(server_url) as url:
        project = make_project(
            tmp_path / "project", DOCUMENTS, database=url,
            embedder={"model": embedder.spec.name, "dtype": "float32"}, sentences=form("fast"),
        )  # fmt: skip
        result = project.index()
        assert result["embedded"] == {"chunks": CHUNKS - 1, "sentences": 0}
        kept = project.state / "parquet" / "sentence_embeddings"
        assert [each.name for each in kept.iterdir()] != [] and not (kept / "unfinished").exists()
        assert project.run("verify").code == 0
        project.write("more.md", "# More\n\nThe bursar has a deputy. He holds no key.\n")
        assert project.index()["embedded"] == {"chunks": 1, "sentences": 0}


def test_vectors_searched_that_were_spoilt_are_found(project: Project) -> None:
    """`verify` looks at their file too, however well its bytes and counts may stand."""
    import pyarrow as pa

    from pipelines.records import Embedding
    from pipelines.schemas import schema_of
    from resources.engine.tables import ParquetTables

    table = "sentence_search_embeddings"
    tables = ParquetTables(str(project.state / "parquet"))
    (file, key, *ends), *_ = project.rows(
        "SELECT file, key, first, after FROM pincite.manifest WHERE table_name = %s AND rows > 0 ORDER BY first", table
    )
    read = tables.read(file)
    spoilt = (np.stack(read["vector"].to_pylist()) * 2).astype(np.float32)
    at = read.schema.get_field_index("vector")
    rows = read.set_column(at, "vector", pa.array(list(spoilt), schema_of(Embedding).field("vector").type))
    other = tables.write(table, key, tuple(ends), rows, tables.documents(file), tables.note(file))
    project.rows("UPDATE pincite.manifest SET file = %s WHERE file = %s", other, file)
    ran = project.run("verify")
    assert ran.code != 0
    found = [problem for problem in ran.json["problems"] if problem["code"] == "vector"]
    assert found[0]["message"].count("has length 2.000") == read.num_rows
