-- Documents of one generation as who asks may read them; read as the query role.

-- name: document
SELECT doc_id, source, uri, title, language, effective_date::text, version, pages, summary, metadata, content_hash,
       stale, row_hash
FROM {schema}.documents WHERE doc_id = %(doc_id)s;

-- name: summary_of
SELECT summary, summary_method FROM {schema}.documents WHERE doc_id = %(doc_id)s;

-- name: documents_after
-- In order of their ids, so that a list goes on where it ended.
SELECT doc_id, source, uri, title, language, effective_date::text, version, pages, summary, metadata, content_hash,
       stale, row_hash
FROM {schema}.documents WHERE doc_id > %(after)s ORDER BY doc_id LIMIT %(most)s;

-- name: facet_values
-- What a document is counted by.
source, '.' || split_part(right(uri, 12), '.', -1) AS ending, language, extract(year FROM effective_date) AS year

-- name: named
-- Whether a document's title or path has all the words.
NOT EXISTS (
    SELECT FROM unnest(%(words)s::text[]) AS sought (word)
    WHERE strpos(lower(title || E'\n' || uri), lower(sought.word)) = 0
)

-- name: chosen
-- The facets of what is read of documents, as they are shown, and for each whether it is the chosen one, or none was chosen.
SELECT d.*, f.*, d.source = %(source)s OR %(source)s = '' AS of_source, f.kind = %(kind)s OR %(kind)s = '' AS of_kind,
       d.language = %(language)s OR %(language)s = '' AS of_language, f.dated = %(year)s OR %(year)s = '' AS of_year
FROM ({documents}) AS d CROSS JOIN LATERAL (
    SELECT coalesce(%(kinds)s::jsonb ->> lower(d.ending), 'other') AS kind, coalesce(d.year::integer::text, 'none') AS dated
) AS f

-- name: counted_documents
SELECT {facet_values}, count(*) AS documents FROM {schema}.documents WHERE {named} GROUP BY 1, 2, 3, 4

-- name: facets
-- How many documents there are by each value of each facet, among those of what was chosen in the other facets; and how
-- many of all that was chosen, without a facet. The documents are read once; all else is about their few values.
SELECT
    CASE GROUPING(source, kind, language, dated)
        WHEN 7 THEN 'source' WHEN 11 THEN 'kind' WHEN 13 THEN 'language' WHEN 14 THEN 'year' ELSE '' END,
    coalesce(source, kind, language, dated, ''),
    coalesce(CASE GROUPING(source, kind, language, dated)
        WHEN 7 THEN sum(documents) FILTER (WHERE of_kind AND of_language AND of_year)
        WHEN 11 THEN sum(documents) FILTER (WHERE of_source AND of_language AND of_year)
        WHEN 13 THEN sum(documents) FILTER (WHERE of_source AND of_kind AND of_year)
        WHEN 14 THEN sum(documents) FILTER (WHERE of_source AND of_kind AND of_language)
        ELSE sum(documents) FILTER (WHERE of_source AND of_kind AND of_language AND of_year) END, 0)::integer
FROM ({chosen}) AS counted
GROUP BY GROUPING SETS ((source), (kind), (language), (dated), ())
ORDER BY 1, 3 DESC, 2;

-- name: named_documents
SELECT doc_id, lower(coalesce(nullif(title, ''), uri)) AS shown, {facet_values} FROM {schema}.documents WHERE {named}

-- name: browsed_documents
-- A page of the documents of what was chosen, by name.
SELECT doc_id, source, uri, title, language, effective_date::text, version, pages, summary, metadata, content_hash,
       stale, row_hash
FROM {schema}.documents JOIN (
    SELECT doc_id, shown FROM ({chosen}) AS named WHERE of_source AND of_kind AND of_language AND of_year
    ORDER BY shown, doc_id LIMIT %(most)s OFFSET %(skipped)s
) AS page USING (doc_id)
ORDER BY shown, doc_id;

-- name: first_sentences
SELECT doc_id, section_path, text, page, confidence, source FROM {schema}.sentences
WHERE doc_id = ANY (%(doc_ids)s::text[]) AND ordinal < %(most)s ORDER BY doc_id, ordinal;

-- name: documents_by_source
SELECT source, count(*)::integer, count(*) FILTER (WHERE stale)::integer FROM {schema}.documents
GROUP BY source ORDER BY source;

-- name: seen_documents
-- Of these documents, those that who asks may read.
SELECT doc_id FROM {schema}.documents WHERE doc_id = ANY (%(doc_ids)s::text[]);

-- name: all_seen
SELECT doc_id FROM {schema}.documents;

-- name: sentences_in_place
-- The sentences of chunks with their places; each begins at that offset of its chunk's own text.
SELECT s.chunk_id, s.sentence_id, s.text, s.start, s.page, s.boxes
FROM {schema}.sentences AS s JOIN {schema}.documents AS d USING (doc_id)
WHERE s.chunk_id = ANY (%(chunk_ids)s::text[])
ORDER BY s.doc_id, s.ordinal;
