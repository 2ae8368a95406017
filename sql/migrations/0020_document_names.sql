-- What people call a document. Generations made before have none until their rows are written again.
CREATE OR REPLACE FUNCTION pincite.protect(made text) RETURNS void LANGUAGE plpgsql AS $$
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
            ('document_names', '(SELECT true FROM %1$I.documents AS d WHERE d.doc_id = document_names.doc_id)'),
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

DO $$
DECLARE
    made record;
BEGIN
    FOR made IN SELECT 'g' || lpad(generation::text, 4, '0') AS name FROM generations LOOP
        CONTINUE WHEN to_regclass(format('%I.documents', made.name)) IS NULL
            OR to_regclass(format('%I.document_names', made.name)) IS NOT NULL;
        EXECUTE format('CREATE TABLE %1$I.document_names (name_id text PRIMARY KEY, '
            'doc_id text NOT NULL REFERENCES %1$I.documents ON DELETE CASCADE, term text NOT NULL)', made.name);
        EXECUTE format('CREATE INDEX ON %I.document_names (term, doc_id)', made.name);
        EXECUTE format('CREATE INDEX ON %I.document_names (doc_id)', made.name);
        EXECUTE format('ALTER TABLE %I.document_names ENABLE ROW LEVEL SECURITY', made.name);
        EXECUTE format('ALTER TABLE %I.document_names FORCE ROW LEVEL SECURITY', made.name);
        EXECUTE format('CREATE POLICY upkeep ON %I.document_names TO CURRENT_USER USING (true) WITH CHECK (true)', made.name);
        EXECUTE format('CREATE POLICY asker ON %1$I.document_names FOR SELECT TO pincite_query USING '
            '((SELECT true FROM %1$I.documents AS d WHERE d.doc_id = document_names.doc_id))', made.name);
        EXECUTE format('GRANT SELECT ON %I.document_names TO pincite_query', made.name);
    END LOOP;
END $$;
