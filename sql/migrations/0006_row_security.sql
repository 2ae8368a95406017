-- Who may read what: the query role sees public documents and those of the asker's groups, and no other table than
-- the generations'. The role is made before this (sql/queries/session.sql).

CREATE FUNCTION asker_groups() RETURNS text[] LANGUAGE sql STABLE PARALLEL SAFE AS
$$ SELECT coalesce(nullif(current_setting('pincite.groups', true), ''), '{}')::text[] $$;
GRANT USAGE ON SCHEMA pincite TO pincite_query;

-- Forced: the owner reads and writes by a policy of its own, not by being the owner. Rows are looked up one by one, for
-- which EXISTS will not do: the planner would read all documents first, for every statement.
CREATE FUNCTION protect(made text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    own constant text := '(groups = ''{}'' OR groups && (SELECT pincite.asker_groups()))';
    rule record;
BEGIN
    EXECUTE format('GRANT USAGE ON SCHEMA %I TO pincite_query', made);
    FOR rule IN
        SELECT * FROM (VALUES
            ('documents', own),
            ('postings', own),
            ('terms', own || ' AND (SELECT true FROM %1$I.postings AS p WHERE p.term = terms.term LIMIT 1)'),
            ('chunks', '(SELECT true FROM %1$I.documents AS d WHERE d.doc_id = chunks.doc_id)'),
            ('sentences', '(SELECT true FROM %1$I.documents AS d WHERE d.doc_id = sentences.doc_id)'),
            ('sentence_links', '(SELECT true FROM %1$I.sentences AS s WHERE s.sentence_id = source_id)'
                ' AND (SELECT true FROM %1$I.sentences AS s WHERE s.sentence_id = target_id)')
        ) AS rules (kept, seen)
    LOOP
        EXECUTE format('ALTER TABLE %I.%I ENABLE ROW LEVEL SECURITY', made, rule.kept);
        EXECUTE format('ALTER TABLE %I.%I FORCE ROW LEVEL SECURITY', made, rule.kept);
        EXECUTE format('CREATE POLICY upkeep ON %I.%I TO CURRENT_USER USING (true) WITH CHECK (true)', made, rule.kept);
        EXECUTE format('CREATE POLICY asker ON %I.%I FOR SELECT TO pincite_query', made, rule.kept)
            || ' USING (' || format(rule.seen, made) || ')';
        EXECUTE format('GRANT SELECT ON %I.%I TO pincite_query', made, rule.kept);
    END LOOP;
END $$;

-- The generations made before: what restricted documents say leaves the postings and frequencies of all.
DO $$
DECLARE
    made record;
BEGIN
    FOR made IN SELECT generation, 'g' || lpad(generation::text, 4, '0') AS name FROM generations LOOP
        EXECUTE format('ALTER TABLE %I.postings ADD COLUMN groups text[] NOT NULL DEFAULT ''{}'', '
            'DROP CONSTRAINT postings_pkey, ADD PRIMARY KEY (term, bucket, groups)', made.name);
        EXECUTE format('ALTER TABLE %I.terms ADD COLUMN groups text[] NOT NULL DEFAULT ''{}'', '
            'DROP CONSTRAINT terms_pkey, ADD PRIMARY KEY (term, groups)', made.name);
        EXECUTE format('INSERT INTO %1$I.postings (term, bucket, groups, chunks, weights) '
            'SELECT p.term, p.bucket, d.groups, array_agg(one.number ORDER BY one.place), '
            'array_agg(one.weight ORDER BY one.place) '
            'FROM %1$I.postings AS p, unnest(p.chunks, p.weights) WITH ORDINALITY AS one (number, weight, place) '
            'JOIN %1$I.chunks AS c USING (number) JOIN %1$I.documents AS d USING (doc_id) '
            'WHERE d.groups <> ''{}'' GROUP BY p.term, p.bucket, d.groups', made.name);
        EXECUTE format('UPDATE %1$I.postings AS stored SET (chunks, weights) = ('
            'SELECT coalesce(array_agg(one.number ORDER BY one.place), ''{}''), '
            'coalesce(array_agg(one.weight ORDER BY one.place), ''{}'') '
            'FROM unnest(stored.chunks, stored.weights) WITH ORDINALITY AS one (number, weight, place) '
            'JOIN %1$I.chunks AS c USING (number) JOIN %1$I.documents AS d USING (doc_id) WHERE d.groups = ''{}'') '
            'WHERE stored.groups = ''{}'' AND EXISTS (SELECT FROM %1$I.postings AS other '
            'WHERE other.term = stored.term AND other.bucket = stored.bucket AND other.groups <> ''{}'')', made.name);
        EXECUTE format('DELETE FROM %I.postings WHERE chunks = ''{}''', made.name);
        EXECUTE format('INSERT INTO %1$I.terms (term, groups, documents) SELECT term, groups, sum(cardinality(chunks)) '
            'FROM %1$I.postings WHERE groups <> ''{}'' GROUP BY term, groups', made.name);
        EXECUTE format('UPDATE %1$I.terms AS public SET documents = public.documents - hidden.documents '
            'FROM (SELECT term, sum(documents) AS documents FROM %1$I.terms WHERE groups <> ''{}'' GROUP BY term) AS hidden '
            'WHERE public.term = hidden.term AND public.groups = ''{}''', made.name);
        EXECUTE format('DELETE FROM %I.terms WHERE documents <= 0', made.name);
        EXECUTE format('UPDATE generations SET statistics = statistics || jsonb_build_object(''terms'', '
            '(SELECT count(*) FROM %I.terms)) WHERE generation = $1 AND statistics ? ''terms''', made.name)
            USING made.generation;
        PERFORM protect(made.name);
    END LOOP;
END $$;
