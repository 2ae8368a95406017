"""What a search costs and finds: vectors, terms, both, with filters, each beside bare SQL.

    python benchmarks/searching.py [--chunks 100000] [--sentences 100000] [--only chunks|clusters|sentences]
                                   [--questions 100] [--folder DIR]

Makes generations of invented chunks (`searching_data.py`): vectors in clusters and without any order, terms by
Zipf's law. Everything is timed after the question's embedding, in turn with its bare statement on the same tables:
of vectors ORDER BY distance LIMIT k at the same hnsw.ef_search, of terms the reading of their postings alone.
`a query` counts the connection and the transaction in, as `pincite query` does. With --folder the generations are kept
there and used again.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.support import searching_data as data  # noqa: E402  (path above)
from pipelines.fingerprint import document_id, fingerprint  # noqa: E402
from pipelines.ports import Filters  # noqa: E402
from pipelines.query.retrieve import FUSED_DEPTH, retrieve  # noqa: E402
from pipelines.query.sentence_route import SENTENCES  # noqa: E402
from pipelines.query.tools import ModelFunctions  # noqa: E402
from pipelines.query.wording import Question  # noqa: E402
from pipelines.settings.query import QuerySettings  # noqa: E402
from resources.postgres.catalog import GenerationRow  # noqa: E402
from resources.postgres.database import Database  # noqa: E402
from resources.postgres.search_index import PostgresSearchIndex, ef_search, search_index  # noqa: E402

KEYS = tuple(data.SHARES)
CANDIDATES, NEIGHBOURS, WARM = 20, 10, 10
TERMS = {"8 terms": (8, 0), "8 terms and 7 stop words": (8, 7), "30 terms": (30, 0)}
BARE = "SELECT chunk_id FROM {}.chunks ORDER BY embedding <=> %s::vector LIMIT %s"


def timed(*calls: Callable[[], Any], first: int = 0) -> list[float]:
    """Milliseconds of each call. Another goes first each time, as it warms the cache for the rest."""
    spent = [0.0] * len(calls)
    for place in range(len(calls)):
        at = (place + first) % len(calls)
        started = time.perf_counter()
        calls[at]()
        spent[at] = (time.perf_counter() - started) * 1000
    return spent


def line(name: str, spent: Sequence[float], *remarks: str) -> None:
    middle, high = np.percentile(spent, [50, 95])
    figures = f"least {min(spent):6.2f}  p50 {middle:7.2f}  p95 {high:7.2f} ms"
    print(f"  {name:42}{figures}   {'  '.join(remarks)}".rstrip(), flush=True)


def chunk_ids(chunks: int) -> list[str]:
    return [
        fingerprint(document_id("s", str(place // data.CHUNKS_A_DOCUMENT)), place % data.CHUNKS_A_DOCUMENT)
        for place in range(chunks)
    ]


def recalls(
    index: PostgresSearchIndex, made: data.Corpus, questions: np.ndarray, every: int = 1, key: str = ""
) -> tuple[float, list[float]]:
    """Share of the exact nearest that are found, and milliseconds; of all chunks, or of those of every so
    manieth document, which have the value 0 of a metadata key. Raises AssertionError for fewer than k."""
    ids, filters = chunk_ids(len(made)), Filters({key: ("0",)} if key else {})
    allowed = np.flatnonzero(np.arange(len(made)) // data.CHUNKS_A_DOCUMENT % every == 0)
    found_share, spent = [], []
    for question in questions:
        started = time.perf_counter()
        found = index.dense(question.tolist(), NEIGHBOURS, filters)
        spent.append((time.perf_counter() - started) * 1000)
        best = allowed[np.argsort(-(made.vectors[allowed] @ question))[:NEIGHBOURS]]
        assert len(found) == len(best), (key, len(found))
        found_share.append(len({item.chunk_id for item in found} & {ids[place] for place in best}) / len(best))
    return float(np.mean(found_share)), spent


def tools_for(vector: np.ndarray) -> ModelFunctions:
    """The question's vector at no cost, and nothing else."""

    def missing(*_: Any) -> Any:
        raise AssertionError("a plain query asked for a model")

    return ModelFunctions(lambda texts: vector[None], missing, missing, missing, missing)


class Bench:
    def __init__(self, database: Database, questions: int) -> None:
        self.database, self.questions = database, questions

    def dense(self, name: str, generation: GenerationRow, made: data.Corpus) -> None:
        asked, number = data.vector_questions(made, self.questions + WARM), generation.generation
        width = ef_search(generation.statistics)
        print(f"\nVectors {name}: {len(made):,} chunks of {data.DIMENSION} dimensions, hnsw.ef_search {width}")

        def whole(vector: list[float]) -> None:
            with self.database.connect() as other, search_index(other, number) as own:
                own.dense(vector, CANDIDATES, Filters())

        rows: list[list[float]] = []
        with self.database.connect() as connection, search_index(connection, number, KEYS) as index:
            bare = BARE.format(generation.schema)
            for vector in [*asked[:WARM].tolist(), *asked.tolist()]:
                rows.append(
                    timed(
                        partial(self.rows, connection, bare, str(vector), CANDIDATES),
                        partial(index.dense, vector, CANDIDATES, Filters()),
                        partial(whole, vector),
                        first=len(rows),
                    )
                )
            plain, ours, queries = zip(*rows[WARM:], strict=True)
            line(f"bare SQL, {CANDIDATES} nearest", plain)
            line("dense", ours, self.ratio(ours, plain))
            line("dense, a query", queries, self.ratio(queries, plain), "(p50 under 5 ms, p95 under 15 ms)")
            share, _ = recalls(index, made, asked)
            print(f"  recall@{NEIGHBOURS} {share:.4f}   (at least 0.98)")
            for key, every in data.SHARES.items():
                share, spent = recalls(index, made, asked[:20], every, key)
                line(f"filtered to 1 in {every}", spent, f"recall@{NEIGHBOURS} {share:.4f}")

    @staticmethod
    def rows(connection: Any, statement: str, *values: Any) -> list[Any]:
        return connection.execute(statement, values).fetchall()

    @staticmethod
    def binary(connection: Any, statement: Any, terms: Sequence[str]) -> list[Any]:
        return connection.execute(statement, {"terms": terms}, binary=True).fetchall()

    @staticmethod
    def ratio(spent: Sequence[float], bare: Sequence[float]) -> str:
        return f"{np.median(spent) / np.median(bare):.2f} x bare"

    def lexical(self, generation: GenerationRow, made: data.Corpus) -> None:
        print(f"\nTerms: {len(made):,} chunks of {made.ranks.shape[1]} words")
        counts = data.frequencies(made)
        with (
            self.database.connect() as connection,
            search_index(connection, generation.generation, KEYS) as index,
        ):
            for name, (ordinary, stop_words) in TERMS.items():
                asked = data.term_questions(made, self.questions + WARM, ordinary, stop_words)
                read = data.POSTINGS.format(generation.schema)
                rows = [
                    timed(
                        partial(self.binary, connection, read, terms),
                        partial(index.lexical, terms, CANDIDATES, Filters()),
                        first=place,
                    )
                    for place, terms in enumerate(asked)
                ]
                bare, spent = zip(*rows[WARM:], strict=True)
                postings = np.mean([sum(counts[term] for term in terms) for terms in asked])
                line(f"{name}: read", bare)
                line(name, spent, self.ratio(spent, bare), f"{postings:,.0f} postings")
            asked = data.term_questions(made, 20, 8)
            for key, every in data.SHARES.items():
                filters = Filters({key: ("0",)})
                narrowed = [timed(partial(index.lexical, terms, CANDIDATES, filters))[0] for terms in asked]
                line(f"8 terms, filtered to 1 in {every}", narrowed)

    def sentences(self, generation: GenerationRow, made: data.Corpus) -> None:
        """The whole route, what its edges lead to included, beside the walk that it begins with."""
        vectors = data.vector_questions(made, self.questions + WARM)
        words = data.term_questions(made, len(vectors), 8, 7)
        settings = QuerySettings(candidates=CANDIDATES)
        print(f"\nSentences: {len(made) * data.SENTENCES_A_CHUNK:,} in {len(made):,} chunks, 8 terms and 7 stop words")
        asked = {"all": Filters(), **{key: Filters({key: ("0",)}) for key in data.SHARES}}
        for name, filters in asked.items():
            rows: list[list[float]] = []
            with self.database.connect() as connection, search_index(connection, generation.generation, KEYS) as index:
                for vector, terms in zip(vectors, words, strict=True):
                    walk = partial(index.sentences, vector.tolist(), CANDIDATES * SENTENCES, filters, 0.5)
                    route = partial(
                        retrieve, Question(" ".join(terms)), index, tools_for(vector), settings,
                        k=NEIGHBOURS, strategy="sentence", rerank=("none",), filters=filters,
                    )  # fmt: skip
                    rows.append(timed(walk, route, first=len(rows)))
            nearest, ours = zip(*rows[WARM:], strict=True)
            line(f"{name}: nearest sentences", nearest)
            line(f"{name}: sentence", ours, "(under 15 ms)" if name == "all" else "")

    def hybrid(self, generation: GenerationRow, made: data.Corpus) -> None:
        """The bare statements give as many as the routes are asked for. `by rank` measures none of what is found."""
        wide, settings = CANDIDATES * FUSED_DEPTH, QuerySettings(candidates=CANDIDATES)
        by_rank = QuerySettings(candidates=CANDIDATES, fusion="reciprocal-rank")
        vectors = data.vector_questions(made, self.questions + WARM)
        print(f"\nHybrid: {CANDIDATES} passages of {wide} candidates of each route, {len(made):,} chunks")
        for name, (ordinary, stop_words) in TERMS.items():
            rows: list[list[float]] = []
            words = data.term_questions(made, len(vectors), ordinary, stop_words)
            with self.database.connect() as connection, search_index(connection, generation.generation) as index:
                bare = BARE.format(generation.schema)
                for vector, terms in zip(vectors, words, strict=True):
                    asked = Question(" ".join(terms))
                    ask = partial(retrieve, asked, index, tools_for(vector), k=NEIGHBOURS, strategy="hybrid")
                    rows.append(
                        timed(
                            partial(self.rows, connection, bare, str(vector.tolist()), wide),
                            partial(index.lexical, terms, wide, Filters()),
                            partial(ask, settings=settings, rerank=("none",)),
                            partial(ask, settings=by_rank, rerank=("none",)),
                            first=len(rows),
                        )
                    )
            nearest, best, ours, plain = zip(*rows[WARM:], strict=True)
            line(f"{name}: bare dense", nearest)
            line(f"{name}: lexical", best)
            both = [a + b for a, b in zip(nearest, best, strict=True)]
            line(
                f"{name}: hybrid by rank", plain, f"{np.median(plain) / np.median(both):.2f} x their sum (at most 1.5)"
            )
            line(f"{name}: hybrid", ours, f"{np.median(ours) / np.median(plain):.2f} x by rank")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chunks", type=int, default=100_000)
    parser.add_argument("--questions", type=int, default=100)
    parser.add_argument("--sentences", type=int, default=100_000)
    parser.add_argument("--only", choices=("chunks", "clusters", "sentences"), help="Measure no more than these.")
    parser.add_argument("--folder", type=Path, help="Where the generations are kept.")
    options = parser.parse_args()
    if options.questions < 1:
        parser.error(f"--questions must be at least 1, not {options.questions}")
    with tempfile.TemporaryDirectory(prefix="pincite-bench-") as folder:
        database = Database("embedded", (options.folder or Path(folder)).resolve())
        database.migrate()
        try:
            bench = Bench(database, options.questions)
            if options.only in (None, "sentences"):
                made = data.corpus(max(1, options.sentences // data.SENTENCES_A_CHUNK))
                whole = data.load(database, f"sentences {len(made)}", made, sentences=True)
                bench.sentences(whole, made)
                bench.hybrid(whole, made)
            if options.only == "sentences":
                return
            small, large = data.corpus(max(1, options.chunks // 10)), data.corpus(options.chunks)
            few = data.load(database, f"clustered {len(small)}", small)
            many = data.load(database, f"clustered {len(large)}", large)
            bench.dense("in clusters", many, large)
            bench.lexical(few, small)
            bench.lexical(many, large)
            bench.hybrid(many, large)
            if options.only == "clusters":
                return
            scattered = data.corpus(options.chunks, clustered=False, words=5)
            bench.dense(
                "at random in 32 of the dimensions",
                data.load(database, f"scattered {options.chunks}", scattered),
                scattered,
            )
        finally:
            database.close()


if __name__ == "__main__":
    main()
