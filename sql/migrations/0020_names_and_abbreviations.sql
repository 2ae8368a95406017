-- What people call a document, and the abbreviations that it defines. Generations made before have none until their rows
-- are written again.
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
            ('abbreviations', '(SELECT true FROM %1$I.documents AS d WHERE d.doc_id = abbreviations.doc_id)'),
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
    added text;
BEGIN
    FOR made IN SELECT 'g' || lpad(generation::text, 4, '0') AS name FROM generations LOOP
        CONTINUE WHEN to_regclass(format('%I.documents', made.name)) IS NULL
            OR to_regclass(format('%I.document_names', made.name)) IS NOT NULL;
        EXECUTE format('CREATE TABLE %1$I.document_names (name_id text PRIMARY KEY, '
            'doc_id text NOT NULL REFERENCES %1$I.documents ON DELETE CASCADE, term text NOT NULL)', made.name);
        EXECUTE format('CREATE INDEX ON %I.document_names (term, doc_id)', made.name);
        EXECUTE format('CREATE INDEX ON %I.document_names (doc_id)', made.name);
        EXECUTE format('CREATE TABLE %1$I.abbreviations (abbreviation_id text PRIMARY KEY, '
            'doc_id text NOT NULL REFERENCES %1$I.documents ON DELETE CASCADE, short text NOT NULL, long text NOT NULL, '
            'short_key text NOT NULL, long_key text NOT NULL, count integer NOT NULL)', made.name);
        EXECUTE format('CREATE INDEX ON %I.abbreviations (short_key)', made.name);
        EXECUTE format('CREATE INDEX ON %I.abbreviations (long_key)', made.name);
        EXECUTE format('CREATE INDEX ON %I.abbreviations (doc_id)', made.name);
        FOREACH added IN ARRAY ARRAY['document_names', 'abbreviations'] LOOP
            EXECUTE format('ALTER TABLE %I.%I ENABLE ROW LEVEL SECURITY', made.name, added);
            EXECUTE format('ALTER TABLE %I.%I FORCE ROW LEVEL SECURITY', made.name, added);
            EXECUTE format('CREATE POLICY upkeep ON %I.%I TO CURRENT_USER USING (true) WITH CHECK (true)', made.name, added);
            EXECUTE format('CREATE POLICY asker ON %1$I.%2$I FOR SELECT TO pincite_query USING '
                '((SELECT true FROM %1$I.documents AS d WHERE d.doc_id = %2$I.doc_id))', made.name, added);
            EXECUTE format('GRANT SELECT ON %I.%I TO pincite_query', made.name, added);
        END LOOP;
    END LOOP;
END $$;
