-- What must hold in a generation's tables. Each statement gives the number of offenders and one of them.

-- name: orphan_chunk
SELECT count(*), min(c.chunk_id)
FROM {schema}.chunks c LEFT JOIN {schema}.documents d USING (doc_id) WHERE d.doc_id IS NULL;

-- name: orphan_sentence
SELECT count(*), min(s.sentence_id)
FROM {schema}.sentences s LEFT JOIN {schema}.chunks c ON c.chunk_id = s.chunk_id AND c.doc_id = s.doc_id
WHERE c.chunk_id IS NULL;

-- name: empty_document
SELECT count(*), min(d.source || '/' || d.uri)
FROM {schema}.documents d WHERE NOT EXISTS (SELECT FROM {schema}.chunks c WHERE c.doc_id = d.doc_id);

-- name: zero_vector
SELECT count(*), min(id) FROM (
    SELECT chunk_id AS id FROM {schema}.chunks WHERE vector_norm(embedding) = 0
    UNION ALL
    SELECT sentence_id FROM {schema}.sentences WHERE vector_norm(embedding) = 0
) AS zero;

-- name: uneven_postings
SELECT count(*), min(term) FROM {schema}.postings
WHERE chunks = ''::bytea OR weights = ''::bytea OR octet_length(chunks) <> octet_length(weights)
    OR octet_length(chunks) % 4 <> 0;

-- name: posted_numbers
SELECT chunks FROM {schema}.postings WHERE bucket = %(bucket)s AND (chunks = ''::bytea, weights = ''::bytea) IS NOT NULL;

-- name: numbered_chunks
SELECT c.number, c.terms > 0 FROM {schema}.chunks AS c JOIN {schema}.documents AS d USING (doc_id)
WHERE d.bucket = %(bucket)s;

-- name: chunk_named
SELECT chunk_id FROM {schema}.chunks WHERE number = %(number)s;

-- name: chunk_next_not_mutual
SELECT count(*), min(id) FROM (
    SELECT a.chunk_id AS id FROM {schema}.chunks a LEFT JOIN {schema}.chunks b ON b.chunk_id = a.next_id
    WHERE a.next_id IS NOT NULL AND (b.previous_id IS DISTINCT FROM a.chunk_id OR b.doc_id <> a.doc_id)
    UNION ALL
    SELECT a.chunk_id FROM {schema}.chunks a LEFT JOIN {schema}.chunks b ON b.chunk_id = a.previous_id
    WHERE a.previous_id IS NOT NULL AND b.next_id IS DISTINCT FROM a.chunk_id
) AS broken;

-- name: sentence_next_not_mutual
SELECT count(*), min(id) FROM (
    SELECT a.sentence_id AS id FROM {schema}.sentences a LEFT JOIN {schema}.sentences b ON b.sentence_id = a.next_id
    WHERE a.next_id IS NOT NULL AND (b.previous_id IS DISTINCT FROM a.sentence_id OR b.doc_id <> a.doc_id)
    UNION ALL
    SELECT a.sentence_id FROM {schema}.sentences a LEFT JOIN {schema}.sentences b ON b.sentence_id = a.previous_id
    WHERE a.previous_id IS NOT NULL AND b.next_id IS DISTINCT FROM a.sentence_id
) AS broken;

-- name: link_without_sentence
SELECT count(*), min(l.source_id || ' -> ' || l.target_id)
FROM {schema}.sentence_links l
LEFT JOIN {schema}.sentences a ON a.sentence_id = l.source_id
LEFT JOIN {schema}.sentences b ON b.sentence_id = l.target_id
WHERE a.sentence_id IS NULL OR b.sentence_id IS NULL OR l.source_id = l.target_id;

-- name: edges
-- Sentences; RELATED_TO; all edges, which are those, NEXT, PREVIOUS, and PART_OF of every sentence.
SELECT n, related, related + following + preceding + n
FROM (SELECT count(*) AS n, count(next_id) AS following, count(previous_id) AS preceding FROM {schema}.sentences) AS s,
    (SELECT count(*) AS related FROM {schema}.sentence_links) AS l;

-- name: sample
-- Different vectors: where many are equal, what is asked for is seldom one of them.
SELECT embedding FROM (
    SELECT DISTINCT ON (embedding) embedding, place
    FROM (SELECT embedding, md5(ctid::text) AS place FROM {schema}.{table} ORDER BY place LIMIT 20 * %(most)s) AS drawn
    ORDER BY embedding, place
) AS different
ORDER BY place LIMIT %(most)s;

-- name: nearest
SELECT embedding <=> %(vector)s::vector AS distance FROM {schema}.{table}
ORDER BY embedding <=> %(vector)s::vector LIMIT %(most)s;

-- name: nearest_half
SELECT embedding::halfvec({dimension}) <=> %(vector)s::halfvec({dimension}) AS distance FROM {schema}.{table}
ORDER BY embedding::halfvec({dimension}) <=> %(vector)s::halfvec({dimension}) LIMIT %(most)s;

-- name: probes
-- Different vectors that stand anywhere, by which filtered searches are asked.
SELECT embedding FROM (
    SELECT DISTINCT ON (embedding) embedding, place
    FROM (
        SELECT embedding, md5(ctid::text || 'filtered') AS place FROM {schema}.{table} ORDER BY place LIMIT 20 * %(most)s
    ) AS drawn
    ORDER BY embedding, place
) AS different
ORDER BY place LIMIT %(most)s;

-- name: sources_by_size
-- The sources with the most and with the fewest documents.
SELECT array_agg(source ORDER BY count DESC, source) FROM (
    SELECT source, count(*) FROM {schema}.documents GROUP BY source
) AS counted;

-- name: middle_date
-- Half of the dated documents are of this day or later.
SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY effective_date)::text FROM {schema}.documents;

-- name: groups
-- Those that an asker may have; principals are none.
SELECT array_agg(DISTINCT name ORDER BY name) FROM {schema}.documents, unnest(groups) AS name WHERE strpos(name, ',') = 0;

-- name: some_paths
-- Paths of one document in so many, whatever they are.
SELECT array_agg(uri ORDER BY uri) FROM (
    SELECT uri, row_number() OVER (ORDER BY md5(uri)) AS place FROM (SELECT DISTINCT uri FROM {schema}.documents) AS paths
) AS placed
WHERE place %% %(share)s = 1 OR %(share)s = 1;

-- name: walks
-- How often this transaction has walked a vector index; nothing where the server does not count.
SELECT pg_stat_get_xact_numscans(c.oid)
FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE n.nspname = %(schema_name)s AND c.relname = %(index_name)s AND current_setting('track_counts')::boolean;

-- name: unsecured
-- Whether the row-level security of a generation is what sql/catalog.sql makes.
-- Code and message of everything that is not so, and whether a query may be shown other rows by it. Expressions are compared as Postgres writes them, without the names
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
        ('document_names', '( SELECT true FROM documents d WHERE (d.doc_id = document_names.doc_id))'),
        ('abbreviations', '( SELECT true FROM documents d WHERE (d.doc_id = abbreviations.doc_id))'),
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
), telling AS (
    SELECT p.oid FROM pg_proc AS p JOIN pg_namespace AS n ON n.oid = p.pronamespace
    WHERE n.nspname = 'pincite' AND p.proname = 'asker_groups' AND p.pronargs = 0
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
    ELSE ' shows every row to everybody' END, true
FROM tables AS t JOIN wanted ON wanted.kept = t.relname WHERE NOT (t.relrowsecurity AND t.relforcerowsecurity)
UNION ALL
SELECT 'policy', %(schema_name)s || '.' || coalesce(p.kept, w.kept) || ': ' || CASE WHEN p.policy IS NULL THEN
    'there is no ' || w.policy ELSE p.policy || ' is another one' END, true
FROM policies AS p FULL JOIN wanted_policies AS w USING (kept, policy, command, permissive, who, seen, written)
WHERE (p.policy IS NULL OR w.policy IS NULL) AND EXISTS (SELECT FROM tables AS t WHERE t.relname = coalesce(p.kept, w.kept))
UNION ALL
SELECT 'policy', 'pincite.asker_groups() is not what tells the groups of an asker', true WHERE NOT EXISTS (
    SELECT FROM pg_proc AS p JOIN pg_namespace AS n ON n.oid = p.pronamespace
    WHERE p.oid = (SELECT oid FROM telling) AND p.prosecdef AND p.proowner = n.nspowner
        AND p.proconfig = ARRAY['search_path=pg_catalog, pg_temp'] AND p.prosrc = %(asker_groups)s)
UNION ALL
SELECT 'query_role', 'there is none', true WHERE NOT EXISTS (SELECT FROM asker)
UNION ALL
SELECT 'query_role', 'it is a superuser, passes by row-level security, may log in, or may make roles or databases', true
FROM asker WHERE rolsuper OR rolbypassrls OR rolcanlogin OR rolcreaterole OR rolcreatedb
UNION ALL
SELECT 'query_role', 'it is a member of ' || r.rolname, true
FROM pg_auth_members AS m JOIN asker ON asker.oid = m.member JOIN pg_roles AS r ON r.oid = m.roleid
UNION ALL
SELECT 'query_role', 'it owns ' || t.relname, true FROM tables AS t JOIN asker ON asker.oid = t.relowner
UNION ALL
SELECT 'query_role', 'it may make things in the schema ' || n.nspname, false
FROM pg_namespace AS n, asker WHERE n.nspname IN ('pincite', %(schema_name)s) AND has_schema_privilege(asker.oid, n.oid, 'CREATE')
UNION ALL
SELECT 'query_role', 'it may read ' || r.nspname || '.' || r.relname, false FROM readable AS r
WHERE NOT (r.nspname = %(schema_name)s AND r.relname IN (SELECT kept FROM wanted))
    AND (r.relkind <> 'v' OR NOT coalesce(r.reloptions && ARRAY['security_invoker=true', 'security_invoker=on'], false)
        OR r.nspname = 'pincite')
UNION ALL
SELECT 'query_role', 'it may not read ' || %(schema_name)s || '.' || t.relname, false FROM tables AS t, asker
WHERE t.relname IN (SELECT kept FROM wanted) AND NOT has_table_privilege(asker.oid, t.oid, 'SELECT')
UNION ALL
SELECT 'query_role', 'it may write to ' || n.nspname || '.' || c.relname, false
FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace, asker
WHERE n.nspname IN ('pincite', %(schema_name)s) AND c.relkind IN ('r', 'p')
    AND (has_table_privilege(asker.oid, c.oid, 'DELETE, TRUNCATE, TRIGGER')
        OR has_any_column_privilege(asker.oid, c.oid, 'INSERT, UPDATE, REFERENCES'))
UNION ALL
SELECT 'query_role', 'it may not tell the groups of an asker', false FROM telling, asker
WHERE NOT has_function_privilege(asker.oid, telling.oid, 'execute')
UNION ALL
SELECT 'query_role', 'it is granted what is made from now on', false
FROM pg_default_acl AS d, aclexplode(d.defaclacl) AS a, asker
WHERE a.grantee IN (0, asker.oid) AND d.defaclobjtype IN ('r', 'S') AND (d.defaclnamespace = 0 OR d.defaclnamespace IN (
    SELECT oid FROM pg_namespace WHERE nspname IN ('pincite', %(schema_name)s)))
UNION ALL
SELECT 'query_role', 'it may run ' || p.proname || '() as somebody else', false
FROM pg_proc AS p JOIN pg_namespace AS n ON n.oid = p.pronamespace, asker
WHERE p.prosecdef AND p.oid NOT IN (SELECT oid FROM telling) AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
    AND has_schema_privilege(asker.oid, n.oid, 'USAGE') AND has_function_privilege(asker.oid, p.oid, 'execute')
    AND NOT EXISTS (SELECT FROM pg_depend AS d
        WHERE d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e')
ORDER BY 1, 2;
