"""All that Postgres knows of a schema, so that two ways to make one can be compared."""

from __future__ import annotations

from typing import Any

from psycopg import Connection

KINDS = {
    "schema": """
        SELECT nspowner::regrole::text, array(
            SELECT one::text FROM unnest(coalesce(nspacl, acldefault('n', nspowner))) AS one ORDER BY 1)
        FROM pg_namespace WHERE oid = space.oid""",
    "relation": """
        SELECT relname, relkind, relowner::regrole::text, reloptions::text, relpersistence, relrowsecurity,
            relforcerowsecurity, array(SELECT one::text FROM unnest(
                coalesce(relacl, acldefault(CASE relkind WHEN 'S' THEN 's' ELSE 'r' END::"char", relowner))
            ) AS one ORDER BY 1)
        FROM pg_class WHERE relnamespace = space.oid""",
    "column": """
        SELECT c.relname, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull,
            pg_get_expr(d.adbin, d.adrelid), a.attidentity, a.attgenerated, a.attcollation::regcollation::text,
            a.attstorage, a.attacl::text
        FROM pg_attribute AS a JOIN pg_class AS c ON c.oid = a.attrelid
        LEFT JOIN pg_attrdef AS d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
        WHERE c.relnamespace = space.oid AND c.relkind IN ('r', 'p', 'v', 'm') AND a.attnum > 0
            AND NOT a.attisdropped""",
    "order": """
        SELECT c.relname, array_agg(a.attname ORDER BY a.attnum)::text
        FROM pg_attribute AS a JOIN pg_class AS c ON c.oid = a.attrelid
        WHERE c.relnamespace = space.oid AND c.relkind IN ('r', 'p', 'v', 'm') AND a.attnum > 0 AND NOT a.attisdropped
        GROUP BY c.relname""",
    "constraint": """
        SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid), convalidated
        FROM pg_constraint WHERE connamespace = space.oid""",
    "index": """
        SELECT pg_get_indexdef(x.indexrelid), x.indisvalid, x.indisclustered, x.indisreplident
        FROM pg_index AS x JOIN pg_class AS c ON c.oid = x.indexrelid WHERE c.relnamespace = space.oid""",
    "sequence": """
        SELECT c.relname, s.seqtypid::regtype::text, s.seqstart, s.seqincrement, s.seqmin, s.seqmax, s.seqcache,
            s.seqcycle
        FROM pg_sequence AS s JOIN pg_class AS c ON c.oid = s.seqrelid WHERE c.relnamespace = space.oid""",
    "policy": """
        SELECT polrelid::regclass::text, polname, polcmd, polpermissive, polroles::regrole[]::text,
            pg_get_expr(polqual, polrelid), pg_get_expr(polwithcheck, polrelid)
        FROM pg_policy AS p JOIN pg_class AS c ON c.oid = p.polrelid WHERE c.relnamespace = space.oid""",
    "trigger": """
        SELECT pg_get_triggerdef(t.oid) FROM pg_trigger AS t JOIN pg_class AS c ON c.oid = t.tgrelid
        WHERE c.relnamespace = space.oid AND NOT t.tgisinternal""",
    "function": """
        SELECT pg_get_functiondef(oid), proowner::regrole::text, array(
            SELECT one::text FROM unnest(coalesce(proacl, acldefault('f', proowner))) AS one ORDER BY 1)
        FROM pg_proc WHERE pronamespace = space.oid""",
    "type": """
        SELECT typname, typtype FROM pg_type
        WHERE typnamespace = space.oid AND typrelid = 0 AND typelem = 0""",
}
"""Kinds of things in the catalogue of Postgres, each by what tells one from another."""


def shape(connection: Connection[Any], schema: str, but: str = "") -> list[str]:
    """A line for each thing in a schema, without the schema's name; those of one kind may be left out."""
    found = []
    for kind, asked in KINDS.items():
        statement = f"SELECT made.* FROM pg_namespace AS space CROSS JOIN LATERAL ({asked}) AS made WHERE nspname = %s"
        rows = connection.execute(statement, [schema]).fetchall() if kind != but else []
        found += [f"{kind} {row}".replace(f"{schema}.", "") for row in rows]
    return sorted(found)


def columns(connection: Connection[Any], schema: str, table: str) -> dict[str, str]:
    """The columns of a table in their order, with the names of their types."""
    rows = connection.execute(
        "SELECT a.attname, CASE WHEN t.typelem <> 0 AND t.typcategory = 'A' THEN e.typname || '[]' ELSE t.typname END "
        "FROM pg_attribute AS a JOIN pg_type AS t ON t.oid = a.atttypid LEFT JOIN pg_type AS e ON e.oid = t.typelem "
        "WHERE a.attrelid = format('%%I.%%I', %s::text, %s::text)::regclass AND a.attnum > 0 AND NOT a.attisdropped "
        "ORDER BY a.attnum",
        [schema, table],
    ).fetchall()
    return dict(rows)
