-- What an answer is made of, beside the passages: their sentences, and how common words are.

-- name: sentences_of
SELECT s.chunk_id, s.text, s.page
FROM {schema}.sentences AS s JOIN {schema}.documents AS d USING (doc_id)
WHERE s.chunk_id = ANY (%(chunk_ids)s::text[])
ORDER BY s.doc_id, s.ordinal;

-- name: documents_of
-- In how many chunks each term stood when the generation froze its statistics.
SELECT term, sum(documents)::integer FROM {schema}.terms WHERE term = ANY (%(terms)s::text[]) GROUP BY term;
