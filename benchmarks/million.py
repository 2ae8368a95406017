"""A million chunks with ready-made vectors: loaded, indexed and searched, beside the same by hand.

    nice python benchmarks/million.py [--chunks 1000000] [--questions 100] [--memory-mb 4096] [--folder DIR] [--no-hand]

Words by Zipf's law; vectors about a centre for every 200 chunks, all of them in LATENT dimensions, as many as those of
texts fill, and a little noise: with centres far apart in all dimensions, walks of the graph do not get from one to the
next. All is written by the pipeline's own writer, bucket by bucket; what it takes to invent it is in no figure. By
hand are number, text and vector copied (COPY) into a table without keys, and the same index is built (CREATE INDEX)
with the same memory. Terms are also asked by hand: all their postings read and summed, which the search must agree
with, chunk by chunk and score by score.
With --folder the generation is kept there and used again.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.searching import CANDIDATES, NEIGHBOURS, TERMS, line, timed, tools_for  # noqa: E402  (path above)
from benchmarks.support import searching_data as data  # noqa: E402
from benchmarks.support.machine import provenance  # noqa: E402
from benchmarks.support.memory import peaks, tree_memory  # noqa: E402
from pipelines.ports import Candidate, Filters  # noqa: E402
from pipelines.query.retrieve import FUSED_DEPTH, retrieve  # noqa: E402
from pipelines.query.wording import Question  # noqa: E402
from pipelines.settings.base import VectorIndexSettings  # noqa: E402
from pipelines.settings.query import QuerySettings  # noqa: E402
from resources.checks import hnsw_recall as walks  # noqa: E402
from resources.postgres.catalog import Catalog, GenerationRow  # noqa: E402
from resources.postgres.database import Database  # noqa: E402
from resources.postgres.generation_tables import GenerationTables  # noqa: E402
from resources.postgres.index_rows import IndexedDocument  # noqa: E402
from resources.postgres.postings import join_rows, unpack_row  # noqa: E402
from resources.postgres.search_index import PostgresSearchIndex, ef_search, search_index  # noqa: E402

CHUNKS_A_CENTRE, SPREAD, NOISE, SEED = 200, 0.5, 0.1, 11
WARM = 100
EXACT = 10
"""Questions whose nearest are also found by comparing every vector."""
HALF = f"(embedding::halfvec({data.DIMENSION})) halfvec_cosine_ops"


class Invented:
    """Documents by number, each made when it is asked for."""

    def __init__(self, chunks: int) -> None:
        chance = np.random.default_rng(SEED)
        self.chunks, self.documents = chunks, -(-chunks // data.CHUNKS_A_DOCUMENT)
        shape = (max(1, chunks // CHUNKS_A_CENTRE), data.LATENT)
        self._centres = chance.standard_normal(shape, dtype=np.float32)
        self._basis = chance.standard_normal((data.LATENT, data.DIMENSION), dtype=np.float32) / data.LATENT**0.5
        share = 1 / np.arange(3, data.VOCABULARY + 3)
        self._share = np.cumsum(share / share.sum())
        self._words = data.vocabulary()

    def part(self, number: int) -> data.Corpus:
        """The chunks of one document."""
        chance = np.random.default_rng([SEED, number])
        size = min(data.CHUNKS_A_DOCUMENT, self.chunks - number * data.CHUNKS_A_DOCUMENT)
        places = self._centres[chance.integers(0, len(self._centres), size)]
        places = places + SPREAD * chance.standard_normal((size, data.LATENT), dtype=np.float32)
        vectors = places @ self._basis
        vectors += NOISE * chance.standard_normal(vectors.shape, dtype=np.float32)
        ranks = np.searchsorted(self._share, chance.random((size, data.WORDS_A_CHUNK)))
        ranks = np.minimum(ranks, data.VOCABULARY - 1).astype(np.uint16)
        return data.Corpus(data._unit(vectors), self._basis, ranks, self._words)

    def document(self, number: int) -> IndexedDocument:
        return data.document(number, self.part(number), first=number)

    def bucket(self, bucket: int) -> range:
        """Numbers of its documents."""
        return range(bucket, self.documents, data.BUCKETS)

    def vectors(self, count: int, seed: int) -> np.ndarray:
        """Questions: each of a cosine of about 0.86 with some chunk."""
        parts = [self.part(number) for number in Random(seed).choices(range(self.documents), k=count)]
        return np.concatenate([data.vector_questions(part, 1) for part in parts])

    def words(self, count: int, seed: int, ordinary: int, stop_words: int) -> list[list[str]]:
        """Questions: words of some chunk, and words of the most common ones."""
        parts = [self.part(number) for number in Random(seed).choices(range(self.documents), k=count)]
        return [data.term_questions(part, 1, ordinary, stop_words)[0] for part in parts]


# ---------------------------------------------------------------- loading


class Spent:
    """Seconds and the most memory of what is done, by name."""

    def __init__(self, database: Database) -> None:
        assert database.server
        self._server, self.seconds = database.server, defaultdict[str, float](float)
        self.memory: dict[str, int] = {}

    @contextmanager
    def of(self, name: str) -> Iterator[None]:
        with peaks(self._look, 2.0) as most:
            started = time.perf_counter()
            yield
            self.seconds[name] += time.perf_counter() - started
        for who, peak in most.items():
            self.memory[f"{name}, {who}"] = max(self.memory.get(f"{name}, {who}", 0), peak)

    def _look(self) -> dict[str, int]:
        server = self._server.status().pid
        return {"server": tree_memory(server) if server else 0, "writer": tree_memory(os.getpid(), under=False)}


def load(database: Database, made: Invented, settings: VectorIndexSettings, spent: Spent) -> GenerationRow:
    catalog = Catalog(database)
    statistics: dict[str, Any] = {
        "chunks": made.chunks, "average_terms": float(data.WORDS_A_CHUNK), "precision": "half"
    }  # fmt: skip
    key = f"{made.chunks} chunks"
    tables = GenerationTables(
        database, catalog.create_generation(key, {}, {}, data.DIMENSION, statistics, {}), settings
    )  # fmt: skip
    frequencies: Counter[str] = Counter()
    for bucket in range(data.BUCKETS):
        documents = [made.document(number) for number in made.bucket(bucket)]
        for document in documents:
            for terms in document.terms.values():
                frequencies.update(terms.keys())
        with spent.of("load"):
            tables.replace(bucket, documents, whole=True)
        say(f"bucket {bucket + 1} of {data.BUCKETS} loaded, {spent.seconds['load']:.0f} s")
    with spent.of("load"):
        tables.freeze_terms({(): frequencies})
    with spent.of("index"):
        indexed = tables.vector_indexes.build()
    say(f"indexed, {spent.seconds['index']:.0f} s {' '.join(indexed.unfitting)}")
    number = tables.generation.generation
    with spent.of("audit"):
        catalog.add_statistics(number, walks.tuned_statistics(tables))
    catalog.mark_built(number, key)
    say(f"width of walks found, {spent.seconds['audit']:.0f} s")
    found = catalog.generation(number)
    assert found is not None
    return found


def by_hand(database: Database, made: Invented, settings: VectorIndexSettings, spent: Spent) -> None:
    """COPY and CREATE INDEX, in a table that is dropped."""
    from pgvector.psycopg import register_vector

    with database.connect(autocommit=True) as connection:
        register_vector(connection)
        connection.execute("DROP TABLE IF EXISTS by_hand")
        connection.execute(f"CREATE TABLE by_hand (number int, text text, embedding vector({data.DIMENSION}))")
        for bucket in range(data.BUCKETS):
            rows = [
                (number * data.CHUNKS_A_DOCUMENT + place, chunk.text, document.vectors[chunk.chunk_id])
                for number in made.bucket(bucket)
                for document in [made.document(number)]
                for place, chunk in enumerate(document.chunks)
            ]
            with (
                spent.of("COPY by hand"),
                connection.cursor() as cursor,
                cursor.copy("COPY by_hand FROM STDIN (FORMAT binary)") as copy,
            ):
                copy.set_types(["int4", "text", "vector"])
                for row in rows:
                    copy.write_row(row)
        connection.execute("SELECT set_config('maintenance_work_mem', %s, false)", [f"{settings.memory_mb}MB"])
        workers = str(len(os.sched_getaffinity(0)) - 1)
        connection.execute("SELECT set_config('max_parallel_maintenance_workers', %s, false)", [workers])
        with spent.of("CREATE INDEX by hand"):
            connection.execute(f"CREATE INDEX ON by_hand USING hnsw ({HALF})")
        connection.execute("DROP TABLE by_hand")


# ---------------------------------------------------------------- searching


class FullSum:
    """Terms by hand: all postings read, in the same order summed, and the best sorted out."""

    def __init__(self, connection: Any, schema: str, index: PostgresSearchIndex) -> None:
        self._connection, self._schema, self._index = connection, schema, index

    def best(self, terms: Sequence[str], k: int) -> list[Candidate]:
        known, chunks = self._index.frequencies(terms)
        posted: dict[str, list[tuple[bytes, bytes]]] = {}
        values = {"terms": list(terms)}
        for term, *row in self._connection.execute(data.POSTINGS.format(self._schema), values, binary=True).fetchall():
            posted.setdefault(term, []).append((row[0], row[1]))
        packed = {term: unpack_row(*join_rows(rows)) for term, rows in posted.items()}
        sums = np.zeros(1 + max(int(numbers.max()) for numbers, _ in packed.values()))
        for term, (numbers, weights) in sorted(packed.items(), key=lambda item: (len(item[1][0]), item[0])):
            idf = np.log1p((chunks - known[term] + 0.5) / (known[term] + 0.5))
            sums[numbers.astype(np.intp)] += max(1e-6, idf) * weights.astype(np.float64)
        scores = sums.astype(np.float32)
        least = np.partition(scores, -k)[-k]
        best = np.flatnonzero(scores >= max(least, 1e-30)).tolist()
        named = f"SELECT number, chunk_id FROM {self._schema}.chunks WHERE number = ANY (%s)"
        found = self._connection.execute(named, [best]).fetchall()
        ordered = sorted((-float(scores[number]), chunk_id) for number, chunk_id in found)
        return [Candidate(chunk_id, -score) for score, chunk_id in ordered[:k]]


def ask(database: Database, made: Invented, generation: GenerationRow, questions: int) -> None:
    wide, settings = CANDIDATES * FUSED_DEPTH, QuerySettings(candidates=CANDIDATES)
    half = f"halfvec({data.DIMENSION})"
    bare = f"SELECT chunk_id FROM {generation.schema}.chunks ORDER BY embedding::{half} <=> %s::{half} LIMIT %s"
    vectors = made.vectors(WARM + questions, 1)

    def nearest(vector: str) -> list[Any]:
        return connection.execute(bare, (vector, CANDIDATES)).fetchall()

    print(f"\nSearches after {WARM} others, hnsw.ef_search {ef_search(generation.statistics)}, {CANDIDATES} hits")
    with database.connect() as connection, search_index(connection, generation.generation) as index:
        rows = [
            timed(
                partial(nearest, str(vector.tolist())),
                partial(index.dense, vector.tolist(), CANDIDATES, Filters()),
                first=turn,
            )
            for turn, vector in enumerate(vectors)
        ]
        plain, ours = zip(*rows[WARM:], strict=True)
        line(f"bare SQL, {CANDIDATES} nearest", plain)
        line("dense", ours, "(p50 under 5 ms)")
        shares = [
            len({item.chunk_id for item in index.dense(vector, NEIGHBOURS, Filters())}
                & {item.chunk_id for item in index.compare_all(vector, NEIGHBOURS, Filters())}) / NEIGHBOURS
            for vector in vectors[:EXACT].tolist()
        ]  # fmt: skip
        print(f"  recall@{NEIGHBOURS} of {EXACT} questions {np.mean(shares):.3f}")
        hand = FullSum(connection, generation.schema, index)
        for name, (ordinary, stop_words) in TERMS.items():
            words = made.words(WARM + questions, 2, ordinary, stop_words)
            rows, same = [], 0
            for turn, (terms, vector) in enumerate(zip(words, vectors, strict=True)):
                # By hand last: what it reads would warm the others' way.
                found = index.lexical(terms, wide, Filters())
                whole = partial(retrieve, Question(" ".join(terms)), index, tools_for(vector), settings,
                                k=NEIGHBOURS, strategy="hybrid", rerank=("none",))  # fmt: skip
                index._ranked = None
                rows.append(timed(whole))
                index._ranked = None
                rows[-1] += timed(partial(index.lexical, terms, wide, Filters()))
                if turn >= WARM:
                    rows[-1] += timed(partial(hand.best, terms, wide))
                    same += found == hand.best(terms, wide)
            hybrid, lexical, summed = zip(*rows[WARM:], strict=True)
            ratio = f"{np.median(lexical) / np.median(summed):.2f} x all summed"
            line(f"{name}: lexical, first {wide}", lexical, ratio, f"{same} of {questions} the same")
            line(f"{name}: all summed by hand", summed)
            line(f"{name}: hybrid", hybrid)


# ---------------------------------------------------------------- report


def say(what: str) -> None:
    print(f"  {time.strftime('%H:%M:%S')} {what}", file=sys.stderr, flush=True)


def report(database: Database, generation: GenerationRow, spent: Spent) -> None:
    print(provenance(f"python benchmarks/million.py {' '.join(sys.argv[1:])}".strip()))
    with os.popen("uptime") as told:
        print(f"load of the machine: {told.read().strip()}")
    for name, seconds in spent.seconds.items():
        print(f"  {name:24}{seconds:9.1f} s")
    if spent.seconds["CREATE INDEX by hand"]:
        hand = [spent.seconds[name] for name in ("COPY by hand", "CREATE INDEX by hand")]
        own = [spent.seconds[name] for name in ("load", "index")]
        ratios = f"load {own[0] / hand[0]:.2f}, index {own[1] / hand[1]:.2f}, both {sum(own) / sum(hand):.2f}"
        print(f"  beside by hand: {ratios} (both at most 1.20)")
    for name, peak in spent.memory.items():
        print(f"  {name:32}{peak / 1e6:9,.0f} MB (PSS)")
    sizes = (
        "SELECT c.relname, pg_total_relation_size(c.oid) - pg_indexes_size(c.oid), pg_indexes_size(c.oid) "
        "FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = %s AND c.relkind = 'r' "
        "ORDER BY 2 DESC"
    )
    with database.connect() as connection:
        for name, table, indexes in connection.execute(sizes, [generation.schema]).fetchall():
            print(f"  disk {name:27}{table / 1e6:9,.0f} MB, its indexes {indexes / 1e6:,.0f} MB")
        graph = f"SELECT pg_relation_size('{generation.schema}.chunks_embedding')"
        ((size,),) = connection.execute(graph).fetchall()
        print(f"  disk of the vector index        {size / 1e6:9,.0f} MB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chunks", type=int, default=1_000_000)
    parser.add_argument("--questions", type=int, default=100)
    parser.add_argument("--memory-mb", type=int, default=4096, help="Of the server, to build the vector index.")
    parser.add_argument("--folder", type=Path, help="Where the generation is kept.")
    parser.add_argument("--no-hand", action="store_true", help="Neither COPY nor CREATE INDEX by hand.")
    options = parser.parse_args()
    if min(options.questions, options.chunks) < 1:
        parser.error("--chunks and --questions must be at least 1")
    settings = VectorIndexSettings(memory_mb=options.memory_mb)
    with tempfile.TemporaryDirectory(prefix="pincite-bench-") as folder:
        database = Database("embedded", (options.folder or Path(folder)).resolve())
        database.migrate()
        try:
            made, spent = Invented(options.chunks), Spent(database)
            known = Catalog(database).find_generation(f"{made.chunks} chunks")
            if known and known.built_from:
                generation = known
            else:
                generation = load(database, made, settings, spent)
                if not options.no_hand:
                    by_hand(database, made, settings, spent)
            report(database, generation, spent)
            ask(database, made, generation, options.questions)
        finally:
            database.close()


if __name__ == "__main__":
    main()
