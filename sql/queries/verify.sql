-- What `verify` reads, in one transaction. Columns are those of resources/postgres/index_rows.py.

-- name: schemas
-- Schemas with tables of a generation in them, whether or not the catalog knows it.
SELECT n.nspname, array_agg(c.relname::text)
FROM pg_namespace AS n JOIN pg_class AS c ON c.relnamespace = n.oid AND c.relkind = 'r'
WHERE n.nspname ~ '^g[0-9]{4,}$'
    AND c.relname = ANY (ARRAY['documents', 'document_names', 'abbreviations', 'chunks', 'sentences', 'sentence_links', 'postings', 'terms'])
GROUP BY n.nspname ORDER BY n.nspname;

-- name: dimensions
SELECT c.relname::text, a.atttypmod
FROM pg_attribute AS a JOIN pg_class AS c ON c.oid = a.attrelid JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE n.nspname = %(schema)s AND c.relname = ANY (ARRAY['chunks', 'sentences']) AND a.attname = 'embedding'
ORDER BY c.relname;

-- name: files
SELECT DISTINCT file FROM pincite.manifest WHERE file <> '';

-- name: nameless_failures
SELECT doc_id, stage, source, uri, code FROM pincite.failures
WHERE '' IN (source, uri, stage, code, message) ORDER BY doc_id, stage;

-- name: buckets
SELECT bucket FROM {schema}.documents UNION SELECT bucket FROM {schema}.postings;

-- name: documents_in
-- All of a bucket, by their places.
SELECT doc_id, source, uri FROM {schema}.documents WHERE bucket = %(bucket)s;

-- name: documents
-- Those with one of these ids, of what the column says; of chunks and sentences, those of the documents of the bucket.
SELECT {columns} FROM {schema}.documents WHERE bucket = %(bucket)s AND {column} = ANY (%(ids)s::text[]);

-- name: chunks
SELECT {columns} FROM (
    SELECT c.* FROM {schema}.chunks AS c JOIN {schema}.documents AS d USING (doc_id)
    WHERE d.bucket = %(bucket)s AND c.{column} = ANY (%(ids)s::text[])
) AS stored;

-- name: document_names
SELECT {columns} FROM (
    SELECT n.* FROM {schema}.document_names AS n JOIN {schema}.documents AS d USING (doc_id)
    WHERE d.bucket = %(bucket)s AND n.{column} = ANY (%(ids)s::text[])
) AS stored;

-- name: abbreviations
SELECT {columns} FROM (
    SELECT a.* FROM {schema}.abbreviations AS a JOIN {schema}.documents AS d USING (doc_id)
    WHERE d.bucket = %(bucket)s AND a.{column} = ANY (%(ids)s::text[])
) AS stored;

-- name: sentences
SELECT {columns} FROM (
    SELECT s.* FROM {schema}.sentences AS s JOIN {schema}.documents AS d USING (doc_id)
    WHERE d.bucket = %(bucket)s AND s.{column} = ANY (%(ids)s::text[])
) AS stored;

-- name: term_counts
SELECT count(*), coalesce(min(documents), 0), coalesce(max(documents), 0) FROM {schema}.terms;

-- name: links
SELECT source_id, target_id, similarity FROM {schema}.sentence_links
ORDER BY source_id COLLATE "C", target_id COLLATE "C";
