"""A bucket's postings in Postgres beside those that its chunks should have, of which only sums are held.

Of each term and groups there is the sum of its postings' hashes, the same in whatever order they come, shard by shard,
and stand (Clarke and others, Incremental multiset hash functions, ASIACRYPT 2003). Two that differ add up to the same
once in 2**64 times.
"""

from __future__ import annotations

import secrets
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from resources.checks.findings import Finding
from resources.postgres.postings import Groups, Stored, bounded, by_groups, postings_of, unpacked

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from resources.postgres.index_rows import IndexedDocument
    from resources.postgres.postings import StoredNumbers as Numbers
    from resources.postgres.postings import StoredWeights as Weights

_BITS = 64


class PostingSums:
    def __init__(self) -> None:
        self._sums: defaultdict[Groups, dict[str, int]] = defaultdict(dict)
        self._salt = secrets.randbits(_BITS)

    def add(self, documents: Iterable[IndexedDocument], numbers: Mapping[str, int], average_terms: float) -> None:
        """The postings of these documents' chunks, whose numbers are by chunk id."""
        import numpy as np

        for groups, own in by_groups(documents).items():
            made, sums = postings_of(own, numbers, average_terms), self._sums[groups]
            starts = np.array(made.bounds[:-1], np.int64)
            added = np.add.reduceat(self._hashes(made.numbers, made.weights), starts).tolist() if len(starts) else []
            for term, value in zip(made.terms, added, strict=True):
                sums[term] = (sums.get(term, 0) + value) % (1 << _BITS)

    def findings(self, rows: Iterable[Stored], bucket: int, apart: Collection[int]) -> Iterator[Finding]:
        """What is wrong with the bucket's rows; `apart` are numbers of chunks that are not compared."""
        import numpy as np

        others = np.array(sorted(apart), np.int64)
        for term, groups, chunks, weights, blocks in rows:
            if self._sum_of(chunks, weights, others) != self._sums[tuple(groups)].pop(term, 0):
                yield "postings", f"term {term!r} of bucket {bucket:02d}"
            elif not bounded(chunks, weights, blocks):
                yield "postings", f"term {term!r} of bucket {bucket:02d}, whose blocks are of others"
        for left in self._sums.values():
            yield from (("postings", f"term {term!r} of bucket {bucket:02d}, which has none") for term in left)

    def _sum_of(self, chunks: bytes, weights: bytes, apart: NDArray[np.int64]) -> int | None:
        """None where they are no postings."""
        import numpy as np

        try:
            numbers, own = unpacked(chunks, weights)
        except ValueError:
            return None
        hashes = self._hashes(numbers, own)
        if len(apart):
            hashes = hashes[~np.isin(numbers, apart)]
        return int(hashes.sum(dtype=np.uint64))

    def _hashes(self, numbers: Numbers, weights: Weights) -> NDArray[np.uint64]:
        """Of each posting, by the finaliser of SplitMix64 (Steele and others, Fast splittable pseudorandom number
        generators, OOPSLA 2014)."""
        import numpy as np

        mixed = numbers.astype(np.uint64) << np.uint64(32) | weights.astype(np.float32).view(np.uint32)
        mixed ^= np.uint64(self._salt)
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1)):
            mixed ^= mixed >> np.uint64(shift)
            mixed *= np.uint64(factor)
        return mixed
