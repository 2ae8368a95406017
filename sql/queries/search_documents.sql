-- Documents of one generation as who asks may read them; read as the query role.

-- name: document
SELECT doc_id, source, uri, title, language, effective_date::text, version, pages, summary, metadata, content_hash,
       stale, row_hash
FROM {schema}.documents WHERE doc_id = %(doc_id)s;

-- name: documents_after
-- In order of their ids, so that a list goes on where it ended.
SELECT doc_id, source, uri, title, language, effective_date::text, version, pages, summary, metadata, content_hash,
       stale, row_hash
FROM {schema}.documents WHERE doc_id > %(after)s ORDER BY doc_id LIMIT %(most)s;

-- name: browsed
-- What browsing reads of a document: its values of the facets, and for each whether it is one that was chosen, or nothing
-- was chosen. `named` is whether its title or path has all the words.
SELECT d.doc_id, lower(coalesce(nullif(d.title, ''), d.uri)) AS shown, f.*,
       f.source = %(source)s OR %(source)s = '' AS of_source, f.kind = %(kind)s OR %(kind)s = '' AS of_kind,
       f.language = %(language)s OR %(language)s = '' AS of_language, f.year = %(year)s OR %(year)s = '' AS of_year
FROM {schema}.documents AS d CROSS JOIN LATERAL (SELECT
    d.source,
    coalesce(%(kinds)s::jsonb ->> lower(substring(right(d.uri, 12) FROM '[.][^.]+$')), 'other') AS kind,
    d.language,
    coalesce(extract(year FROM d.effective_date)::integer::text, 'none') AS year
) AS f
WHERE NOT EXISTS (
    SELECT FROM unnest(%(words)s::text[]) AS sought (word)
    WHERE strpos(lower(d.title || E'\n' || d.uri), lower(sought.word)) = 0
)

-- name: facets
-- How many documents there are by each value of each facet, among those of what was chosen in the other facets; and how
-- many of all that was chosen, without a facet. One reading of the documents.
SELECT
    CASE GROUPING(source, kind, language, year)
        WHEN 7 THEN 'source' WHEN 11 THEN 'kind' WHEN 13 THEN 'language' WHEN 14 THEN 'year' ELSE '' END,
    coalesce(source, kind, language, year, ''),
    (CASE GROUPING(source, kind, language, year)
        WHEN 7 THEN count(*) FILTER (WHERE of_kind AND of_language AND of_year)
        WHEN 11 THEN count(*) FILTER (WHERE of_source AND of_language AND of_year)
        WHEN 13 THEN count(*) FILTER (WHERE of_source AND of_kind AND of_year)
        WHEN 14 THEN count(*) FILTER (WHERE of_source AND of_kind AND of_language)
        ELSE count(*) FILTER (WHERE of_source AND of_kind AND of_language AND of_year) END)::integer
FROM ({browsed}) AS documents
GROUP BY GROUPING SETS ((source), (kind), (language), (year), ())
ORDER BY 1, 3 DESC, 2;

-- name: browsed_documents
-- A page of the documents of what was chosen, by name.
SELECT doc_id, source, uri, title, language, effective_date::text, version, pages, summary, metadata, content_hash,
       stale, row_hash
FROM {schema}.documents JOIN (
    SELECT doc_id, shown FROM ({browsed}) AS documents WHERE of_source AND of_kind AND of_language AND of_year
    ORDER BY shown, doc_id LIMIT %(most)s OFFSET %(skipped)s
) AS chosen USING (doc_id)
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
