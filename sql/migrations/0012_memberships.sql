-- Who is behind the principals of a source, as the source says: members are groups of askers. What is restricted to a
-- principal is found by those groups for as long as that is known to be so, whatever is indexed meanwhile.
ALTER TABLE sources ADD COLUMN IF NOT EXISTS memberships_at timestamptz;

CREATE TABLE IF NOT EXISTS memberships (
    source text NOT NULL REFERENCES sources ON DELETE CASCADE,
    principal text NOT NULL,
    "group" text NOT NULL,
    PRIMARY KEY ("group", source, principal)
);
CREATE INDEX IF NOT EXISTS memberships_source_idx ON memberships (source);

-- The groups that who asks was said to have, and the principals that these are members of now. Those are read by the
-- database itself: a name with a comma, as a principal stands among a document's groups, is nobody's to say. The query
-- role may read no memberships but so. Without `pincite.memberships_hours` none holds.
CREATE OR REPLACE FUNCTION asker_groups() RETURNS text[] LANGUAGE sql STABLE PARALLEL SAFE
SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    WITH asker AS MATERIALIZED (
        SELECT name FROM unnest(coalesce(nullif(current_setting('pincite.groups', true), ''), '{}')::text[]) AS given (name)
        WHERE strpos(name, ',') = 0
    )
    SELECT ARRAY(
        SELECT name FROM asker
        UNION ALL
        SELECT replace(replace(m.source, '%', '%25'), ',', '%2C') || ',' || m.principal
        FROM asker JOIN pincite.memberships AS m ON m."group" = asker.name JOIN pincite.sources AS s ON s.name = m.source
        WHERE s.memberships_at >= now()
                - make_interval(secs => 3600 * nullif(current_setting('pincite.memberships_hours', true), '')::float8)
            AND s.memberships_at <= now() + interval '1 hour'
    )
$$;
REVOKE EXECUTE ON FUNCTION asker_groups() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION asker_groups() TO pincite_query;
