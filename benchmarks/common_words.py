"""What lexical search costs where blocks of common words are left out, beside the sum of every posting.

    python benchmarks/common_words.py [--chunks 1000000] [--questions 20] [--folder DIR]

A generation of postings alone, of words by Zipf's law, without texts and with vectors of one dimension. Processor time
of the client and of the server is printed beside milliseconds, since it says something on a machine that is shared too;
and how many questions have the same first chunks with the same scores. With --folder the generation is kept.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.million import FullSum  # noqa: E402  (path above)
from benchmarks.searching import CANDIDATES, TERMS  # noqa: E402
from benchmarks.support import searching_data as data  # noqa: E402
from benchmarks.support.machine import provenance  # noqa: E402
from pipelines.ports import Filters  # noqa: E402
from pipelines.query.retrieve import FUSED_DEPTH  # noqa: E402
from resources.postgres.catalog import Catalog, GenerationRow  # noqa: E402
from resources.postgres.database import Database  # noqa: E402
from resources.postgres.generation_tables import GenerationTables  # noqa: E402
from resources.postgres.index_rows import POSTINGS  # noqa: E402
from resources.postgres.postings import K1, packed_rows  # noqa: E402
from resources.postgres.search_index import search_index  # noqa: E402

DOCUMENTS = """INSERT INTO {schema}.documents
    SELECT 'd' || n, %(bucket)s, 's', n || '.md', 't', 'f', 'en', NULL, NULL, '{{}}', '{{}}', NULL, '', '', false, ''
    FROM generate_series(%(first)s::int, %(last)s::int) AS n"""
CHUNKS = """INSERT INTO {schema}.chunks
    SELECT n, lpad(n::text, 8, '0'), 'd' || n / %(size)s::int, n, 's',
        '{{}}', '{{}}', '', '', '', 1, 1, '[]', '{{}}', 1, 250, '{{}}', NULL, NULL, '[1]'
    FROM generate_series(%(first)s::int, %(last)s::int) AS n"""


def drawn(chance: np.random.Generator, chunks: int) -> np.ndarray:
    """Ranks of the words of so many chunks."""
    share = 1 / np.arange(3, data.VOCABULARY + 3)
    ranks = np.searchsorted(np.cumsum(share / share.sum()), chance.random((chunks, data.WORDS_A_CHUNK)))
    return np.minimum(ranks, data.VOCABULARY - 1)


def load(database: Database, chunks: int, words: Sequence[str]) -> GenerationRow:
    """Whole documents in every bucket; the rows of postings are packed and copied as the pipeline's writer does."""
    catalog, key = Catalog(database), f"postings of {chunks}"
    if (known := catalog.find_generation(key)) and known.built_from:
        return known
    statistics = {"chunks": chunks, "average_terms": float(data.WORDS_A_CHUNK)}
    tables = GenerationTables(database, catalog.create_generation(key, {}, {}, 1, statistics, {}))
    frequencies, size = np.zeros(data.VOCABULARY, np.int64), data.CHUNKS_A_DOCUMENT
    own = chunks // data.BUCKETS // size * size
    for bucket in range(data.BUCKETS):
        first = bucket * own
        last = chunks - 1 if bucket == data.BUCKETS - 1 else first + own - 1
        ranks = drawn(np.random.default_rng([3, bucket]), last - first + 1)
        ranks = ranks * (last - first + 1) + np.arange(last - first + 1)[:, None]
        posted, counts = np.unique(ranks.ravel(), return_counts=True)
        word, number = np.divmod(posted, last - first + 1)
        weights = (counts * (K1 + 1) / (counts + K1)).astype(np.float32)
        found = np.bincount(word, minlength=data.VOCABULARY)
        frequencies += found
        labels = [(words[rank], ()) for rank in np.flatnonzero(found).tolist()]
        bounds = [0, *np.cumsum(found[found > 0]).tolist()]
        rows = packed_rows(bucket, labels, bounds, (number + first).astype(np.int32), weights)
        values = {"bucket": bucket, "first": first, "last": last, "size": size}
        with database.connect() as connection:
            of = {"first": first // size, "last": last // size, "bucket": bucket}
            connection.execute(DOCUMENTS.format(schema=tables.schema), of)
            connection.execute(CHUNKS.format(schema=tables.schema), values)
            tables._copy(connection, "postings", POSTINGS, rows)
        print(f"  bucket {bucket + 1} of {data.BUCKETS}", file=sys.stderr, flush=True)
    tables.freeze_terms({(): {words[rank]: int(frequencies[rank]) for rank in np.flatnonzero(frequencies).tolist()}})
    with database.connect() as connection:
        connection.execute(f"ANALYZE {tables.schema}.chunks, {tables.schema}.postings, {tables.schema}.terms")
    catalog.mark_built(tables.generation.generation, key)
    return tables.generation


def questions(count: int, ordinary: int, stop_words: int, words: Sequence[str]) -> list[list[str]]:
    """Words of a chunk each, and of the most common ones."""
    chance, asked = Random(7), []
    for ranks in drawn(np.random.default_rng(7), count):
        own = chance.sample(sorted({rank for rank in ranks.tolist() if rank >= data.STOP_WORDS}), ordinary)
        asked.append([words[rank] for rank in [*own, *chance.sample(range(data.STOP_WORDS), stop_words)]])
    return asked


def spent(calls: Sequence[Callable[[], Any]], server: int) -> tuple[list[Any], str]:
    """What they give, and milliseconds of each: of the processor, and of the clock."""

    def taken() -> float:
        own = Path(f"/proc/{server}/stat").read_text().rpartition(")")[2].split()
        return (int(own[11]) + int(own[12])) / os.sysconf("SC_CLK_TCK")

    before, clock, own, found = taken(), [], time.process_time(), []
    for call in calls:
        started = time.perf_counter()
        found.append(call())
        clock.append(1000 * (time.perf_counter() - started))
    client, of_server = ((last - first) * 1000 / len(calls) for first, last in
                         ((own, time.process_time()), (before, taken())))  # fmt: skip
    return found, (
        f"processor {client:6.1f} ms here and {of_server:6.1f} ms in the server; "
        f"least {min(clock):6.1f}  p50 {np.median(clock):6.1f} ms"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chunks", type=int, default=1_000_000)
    parser.add_argument("--questions", type=int, default=20)
    parser.add_argument("--folder", type=Path, help="Where the generation is kept.")
    options = parser.parse_args()
    if options.questions < 1 or options.chunks < data.BUCKETS * data.CHUNKS_A_DOCUMENT:
        parser.error(f"--questions must be at least 1, --chunks {data.BUCKETS * data.CHUNKS_A_DOCUMENT}")
    wide, words = CANDIDATES * FUSED_DEPTH, data.vocabulary()
    with tempfile.TemporaryDirectory(prefix="pincite-bench-") as folder:
        database = Database("embedded", (options.folder or Path(folder)).resolve())
        database.migrate()
        try:
            generation = load(database, options.chunks, words)
            print(provenance(f"python benchmarks/common_words.py {' '.join(sys.argv[1:])}".strip()))
            with database.connect() as connection, search_index(connection, generation.generation) as index:
                hand, server = FullSum(connection, generation.schema, index), connection.info.backend_pid
                for name, (ordinary, stop_words) in TERMS.items():
                    asked = questions(options.questions, ordinary, stop_words, words)

                    def ours(terms: Sequence[str]) -> Any:
                        index._ranked = None
                        return index.lexical(terms, wide, Filters())

                    for terms in asked:
                        ours(terms)  # warms
                    (found, cost), (summed, of_sum) = (
                        spent([lambda terms=terms, call=call: call(terms) for terms in asked], server)  # type: ignore[misc]
                        for call in (ours, lambda terms: hand.best(terms, wide))
                    )
                    same = sum(a == b for a, b in zip(found, summed, strict=True))
                    print(f"{name}, the first {wide} of {options.chunks:,} chunks; {same} of {len(asked)} the same")
                    print(f"  search    {cost}\n  all sums  {of_sum}", flush=True)
        finally:
            database.close()


if __name__ == "__main__":
    main()
