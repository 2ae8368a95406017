-- Row-level security of a generation: whether it is what sql/migrations/0006_row_security.sql makes, and that again.

-- name: unsecured
-- Code and message of everything that is not so. Expressions are compared as Postgres writes them, without the names
-- of the schema and of `pincite`, which it leaves out where they are on the search path, and of a constant's column,
-- which older servers write.
WITH space AS (SELECT oid, nspowner FROM pg_namespace WHERE nspname = %(schema_name)s),
asker AS (SELECT * FROM pg_roles WHERE rolname = 'pincite_query'),
wanted (kept, seen) AS (
    VALUES
        ('documents', '((groups = ''{}''::text[]) OR (groups && ( SELECT asker_groups() AS asker_groups)))'),
        ('postings', '((groups = ''{}''::text[]) OR (groups && ( SELECT asker_groups() AS asker_groups)))'),
        ('terms', '(((groups = ''{}''::text[]) OR (groups && ( SELECT asker_groups() AS asker_groups))) AND '
            '( SELECT true FROM postings p WHERE (p.term = terms.term) LIMIT 1))'),
        ('chunks', '( SELECT true FROM documents d WHERE (d.doc_id = chunks.doc_id))'),
        ('sentences', '( SELECT true FROM documents d WHERE (d.doc_id = sentences.doc_id))'),
        ('sentence_links', '(( SELECT true FROM sentences s WHERE (s.sentence_id = sentence_links.source_id)) '
            'AND ( SELECT true FROM sentences s WHERE (s.sentence_id = sentence_links.target_id)))')
), tables AS (
    SELECT c.oid, c.relname, c.relowner, c.relrowsecurity, c.relforcerowsecurity
    FROM pg_class AS c JOIN space ON c.relnamespace = space.oid WHERE c.relkind IN ('r', 'p')
), policies AS (
    SELECT t.relname::text AS kept, p.polname::text AS policy, p.polcmd::text AS command, p.polpermissive AS permissive,
        CASE WHEN p.polroles = ARRAY[t.relowner] THEN 'owner'
            WHEN p.polroles = ARRAY[(SELECT oid FROM asker)] THEN 'asker' ELSE 'others' END AS who,
        replace(replace(replace(regexp_replace(pg_get_expr(p.polqual, p.polrelid), '\s+', ' ', 'g'),
            quote_ident(%(schema_name)s) || '.', ''), 'pincite.', ''), ' AS bool', '') AS seen,
        coalesce(pg_get_expr(p.polwithcheck, p.polrelid), '') AS written
    FROM pg_policy AS p JOIN tables AS t ON t.oid = p.polrelid
), wanted_policies AS (
    SELECT kept, 'asker' AS policy, 'r' AS command, true AS permissive, 'asker' AS who, seen, '' AS written FROM wanted
    UNION ALL
    SELECT kept, 'upkeep', '*', true, 'owner', 'true', 'true' FROM wanted
), readable AS (
    SELECT c.oid, c.relname, n.nspname, c.relkind, c.reloptions, c.relowner
    FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace, asker
    WHERE (n.nspname IN ('pincite', %(schema_name)s)
            OR c.relkind IN ('v', 'm') AND c.relowner = (SELECT nspowner FROM space) AND n.nspname !~ '^(g[0-9]+$|pg_)')
        AND c.relkind IN ('r', 'p', 'v', 'm', 'f') AND NOT EXISTS (SELECT FROM pg_depend AS d
            WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'e')
        AND has_any_column_privilege(asker.oid, c.oid, 'SELECT')
)
SELECT 'row_security', %(schema_name)s || '.' || t.relname || CASE WHEN t.relrowsecurity THEN ' does not hold its owner'
    ELSE ' shows every row to everybody' END
FROM tables AS t JOIN wanted ON wanted.kept = t.relname WHERE NOT (t.relrowsecurity AND t.relforcerowsecurity)
UNION ALL
SELECT 'policy', %(schema_name)s || '.' || coalesce(p.kept, w.kept) || ': ' || CASE WHEN p.policy IS NULL THEN
    'there is no ' || w.policy ELSE p.policy || ' is another one' END
FROM policies AS p FULL JOIN wanted_policies AS w USING (kept, policy, command, permissive, who, seen, written)
WHERE (p.policy IS NULL OR w.policy IS NULL) AND EXISTS (SELECT FROM tables AS t WHERE t.relname = coalesce(p.kept, w.kept))
UNION ALL
SELECT 'policy', 'pincite.asker_groups() is not what tells the groups of an asker' WHERE NOT EXISTS (
    SELECT FROM pg_proc AS p JOIN pg_namespace AS n ON n.oid = p.pronamespace
    WHERE n.nspname = 'pincite' AND p.proname = 'asker_groups' AND p.pronargs = 0 AND NOT p.prosecdef AND p.proconfig IS NULL
        AND trim(p.prosrc) = 'SELECT coalesce(nullif(current_setting(''pincite.groups'', true), ''''), ''{}'')::text[]')
UNION ALL
SELECT 'query_role', 'there is none' WHERE NOT EXISTS (SELECT FROM asker)
UNION ALL
SELECT 'query_role', 'it is a superuser, passes by row-level security, may log in, or may make roles or databases'
FROM asker WHERE rolsuper OR rolbypassrls OR rolcanlogin OR rolcreaterole OR rolcreatedb
UNION ALL
SELECT 'query_role', 'it is a member of ' || r.rolname
FROM pg_auth_members AS m JOIN asker ON asker.oid = m.member JOIN pg_roles AS r ON r.oid = m.roleid
UNION ALL
SELECT 'query_role', 'it owns ' || t.relname FROM tables AS t JOIN asker ON asker.oid = t.relowner
UNION ALL
SELECT 'query_role', 'it may make things in the schema ' || n.nspname
FROM pg_namespace AS n, asker WHERE n.nspname IN ('pincite', %(schema_name)s) AND has_schema_privilege(asker.oid, n.oid, 'CREATE')
UNION ALL
SELECT 'query_role', 'it may read ' || r.nspname || '.' || r.relname FROM readable AS r
WHERE NOT (r.nspname = %(schema_name)s AND r.relname IN (SELECT kept FROM wanted))
    AND (r.relkind <> 'v' OR NOT coalesce(r.reloptions && ARRAY['security_invoker=true', 'security_invoker=on'], false)
        OR r.nspname = 'pincite')
UNION ALL
SELECT 'query_role', 'it may not read ' || %(schema_name)s || '.' || t.relname FROM tables AS t, asker
WHERE t.relname IN (SELECT kept FROM wanted) AND NOT has_table_privilege(asker.oid, t.oid, 'SELECT')
UNION ALL
SELECT 'query_role', 'it may write to ' || %(schema_name)s || '.' || t.relname FROM tables AS t, asker
WHERE has_table_privilege(asker.oid, t.oid, 'INSERT, UPDATE, DELETE, TRUNCATE, REFERENCES, TRIGGER')
UNION ALL
SELECT 'query_role', 'it is granted what is made from now on'
FROM pg_default_acl AS d, aclexplode(d.defaclacl) AS a, asker
WHERE a.grantee IN (0, asker.oid) AND d.defaclobjtype IN ('r', 'S') AND (d.defaclnamespace = 0 OR d.defaclnamespace IN (
    SELECT oid FROM pg_namespace WHERE nspname IN ('pincite', %(schema_name)s)))
UNION ALL
SELECT 'query_role', 'it may run ' || p.proname || '() as somebody else'
FROM pg_proc AS p JOIN pg_namespace AS n ON n.oid = p.pronamespace, asker
WHERE p.prosecdef AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
    AND has_schema_privilege(asker.oid, n.oid, 'USAGE') AND has_function_privilege(asker.oid, p.oid, 'execute')
    AND NOT EXISTS (SELECT FROM pg_depend AS d
        WHERE d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e')
ORDER BY 1, 2;

-- name: row_security_active
-- Whether the rows of every table are kept from who asks, as who asks.
SELECT coalesce(bool_and(row_security_active(c.oid)), false)
FROM pg_class AS c WHERE c.relnamespace = to_regnamespace(%(schema_name)s) AND c.relkind IN ('r', 'p');

-- name: unprotect
-- Policies, and rights that are not the owner's, of whatever kind.
DO $$
DECLARE
    kept record;
BEGIN
    FOR kept IN
        SELECT c.relname AS name, p.polname AS policy FROM pg_policy AS p JOIN pg_class AS c ON c.oid = p.polrelid
        WHERE c.relnamespace = '{schema}'::regnamespace
    LOOP
        EXECUTE format('DROP POLICY %I ON {schema}.%I', kept.policy, kept.name);
    END LOOP;
END $$;

-- name: revoke
REVOKE ALL ON SCHEMA pincite, {schema} FROM PUBLIC, pincite_query;

-- name: revoke_tables
REVOKE ALL ON ALL TABLES IN SCHEMA pincite, {schema} FROM PUBLIC, pincite_query;

-- name: define_asker_groups
CREATE OR REPLACE FUNCTION pincite.asker_groups() RETURNS text[] LANGUAGE sql STABLE PARALLEL SAFE AS
$$ SELECT coalesce(nullif(current_setting('pincite.groups', true), ''), '{}')::text[] $$;

-- name: use_catalog
GRANT USAGE ON SCHEMA pincite TO pincite_query;
