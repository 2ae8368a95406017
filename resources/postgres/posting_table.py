"""Writes the postings of one generation. Each method takes part in the transaction that is open on its connection."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from resources.postgres.database import damaged_postings
from resources.postgres.generation_statements import GenerationStatements
from resources.postgres.index_rows import POSTINGS
from resources.postgres.postings import Groups, Postings, Row, StandingPostings

if TYPE_CHECKING:
    from psycopg import Connection


class PostingTable(GenerationStatements):
    def _standing(self, connection: Connection[Any], bucket: int) -> StandingPostings:
        try:
            return StandingPostings(bucket, self._run(connection, "postings_in", binary=True, bucket=bucket))
        except ValueError as error:
            raise damaged_postings(self.schema, f"{error} in bucket {bucket:02d}") from None

    def _add_postings(self, connection: Connection[Any], bucket: int, posted: Mapping[Groups, Postings]) -> None:
        """Of new documents, by their groups."""
        if not any(own.terms for own in posted.values()):
            return
        rows = (row for groups, own in posted.items() for row in own.rows(bucket, groups))
        if self._run(connection, "has_postings", bucket=bucket)[0][0]:
            self._stage(connection, rows)
            self._run(connection, "append_postings")
        else:
            self._copy(connection, "postings", POSTINGS, rows)

    def _set_postings(self, connection: Connection[Any], rows: Iterable[Row]) -> None:
        """Makes rows hold this, which stand or not; those that hold nothing go."""
        self._stage(connection, rows)
        self._run(connection, "set_postings")
        self._run(connection, "delete_empty_postings")

    def _move_postings(self, connection: Connection[Any], bucket: int, groups: Mapping[int, Groups]) -> None:
        """Gives chunks of a bucket other groups, by number."""
        standing = self._standing(connection, bucket)
        self._set_postings(connection, standing.without(list(groups)))
        self._set_postings(connection, standing.moved(groups))

    def _stage(self, connection: Connection[Any], rows: Iterable[Row]) -> None:
        self._run(connection, "drop_staged_postings")
        self._run(connection, "stage_postings")
        self._copy(connection, "staged_postings", POSTINGS, rows)
