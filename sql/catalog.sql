-- The catalog as it is now: what is known across generations. sql/migrations make it, step by step, in every database;
-- a test compares what they make with this.
CREATE SCHEMA pincite;

CREATE TABLE pincite.migrations (
    number integer PRIMARY KEY,
    name text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now()
);

-- ---------------------------------------------------------------- documents and stages

-- `lost` are contents of files that are gone while their side-cars are left, by uri: what comes back under another name
-- is known.
CREATE TABLE pincite.sources (
    name text PRIMARY KEY,
    root text NOT NULL,
    settings jsonb NOT NULL DEFAULT '{}',
    added_at timestamptz NOT NULL DEFAULT now(),
    indexed_at timestamptz,
    lost jsonb NOT NULL DEFAULT '{}',
    memberships_at timestamptz
);

-- Who is behind the principals of a source: groups of askers, as the source said when it was asked for them
-- (`sources.memberships_at`). They are replaced whole.
CREATE TABLE pincite.memberships (
    source text NOT NULL REFERENCES pincite.sources ON DELETE CASCADE,
    principal text NOT NULL,
    "group" text NOT NULL,
    PRIMARY KEY ("group", source, principal)
);
CREATE INDEX ON pincite.memberships (source);

-- One row is the commit of one Parquet file for the documents whose ids are from `first` to before `after`; a file without a
-- row does not count. `whole` is false if the file holds other documents too. The ranges of a table under one key are disjoint.
-- Rows under a generation's schema commit its rows in Postgres and have no file.
CREATE TABLE pincite.manifest (
    table_name text NOT NULL,
    key text NOT NULL,
    first text COLLATE "C" NOT NULL,
    after text COLLATE "C" NOT NULL,
    file text NOT NULL,
    whole boolean NOT NULL DEFAULT true,
    input text NOT NULL,
    output text NOT NULL,
    rows bigint NOT NULL,
    documents integer NOT NULL,
    run_id text,
    committed_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (table_name, key, first),
    CHECK (first < after)
);

-- Failures belong to the key of their stage, as results do: two settings may stand side by side.
CREATE TABLE pincite.failures (
    doc_id text NOT NULL,
    stage text NOT NULL,
    source text NOT NULL,
    uri text NOT NULL,
    code text NOT NULL,
    message text NOT NULL,
    failed_at timestamptz NOT NULL DEFAULT now(),
    key text NOT NULL DEFAULT '',
    PRIMARY KEY (doc_id, stage, key)
);

-- Files of tables that pincite wrote into an object store, in which others may write too: no other is looked through for
-- vectors and replies. `blocks` are the hashes of a file's pieces of 64 KiB, 16 bytes each, so that a part of it can be read
-- and checked; empty where the file was there before the database knew of any.
CREATE TABLE pincite.written_files (
    name text PRIMARY KEY,
    size bigint NOT NULL,
    blocks bytea NOT NULL
);

-- ---------------------------------------------------------------- generations

-- `keys` are the stages' keys that it was made with, as code of another version cannot compute them; `verdict` says why
-- one that is built was not published.
CREATE TABLE pincite.generations (
    generation integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    key text NOT NULL,
    settings jsonb NOT NULL,
    embedder jsonb NOT NULL,
    dimension integer NOT NULL,
    statistics jsonb NOT NULL,
    built_from text,
    created_at timestamptz NOT NULL DEFAULT now(),
    built_at timestamptz,
    published_at timestamptz,
    keys jsonb NOT NULL DEFAULT '{}',
    verdict jsonb
);

-- The one pointer to the live generation. A rollback holds: nothing is published until a person publishes.
CREATE TABLE pincite.live (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    generation integer NOT NULL REFERENCES pincite.generations,
    previous integer REFERENCES pincite.generations,
    held boolean NOT NULL DEFAULT false
);

CREATE TABLE pincite.costs (
    run_id text NOT NULL,
    generation integer,
    stage text NOT NULL,
    items bigint NOT NULL,
    tokens bigint NOT NULL,
    seconds double precision NOT NULL,
    at timestamptz NOT NULL DEFAULT now()
);

-- Scores of the golden questions, one row a run of them.
CREATE TABLE pincite.scores (
    generation integer NOT NULL REFERENCES pincite.generations ON DELETE CASCADE,
    at timestamptz NOT NULL DEFAULT now(),
    name text NOT NULL,
    metrics jsonb NOT NULL,
    PRIMARY KEY (generation, at, name)
);

-- The number of the run that may write, by bucket; -1 is all that belongs to none. A run that lost its lock has an older one.
CREATE TABLE pincite.runs (
    name text NOT NULL,
    token bigint NOT NULL,
    bucket integer NOT NULL DEFAULT -1,
    run_id text NOT NULL DEFAULT '',
    began timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (name, bucket)
);
CREATE SEQUENCE pincite.run_tokens;

-- ---------------------------------------------------------------- language models

-- What language models said, by model, parameters and prompt. A row without text and without `rejected` was
-- asked and not answered usably yet. Tokens and costs are those of every attempt.
CREATE TABLE pincite.llm_replies (
    key text PRIMARY KEY,
    stage text NOT NULL,
    model text NOT NULL,
    text text,
    finish text NOT NULL DEFAULT '',
    logprobs jsonb NOT NULL DEFAULT '[]',
    rejected text,
    attempts integer NOT NULL DEFAULT 0,
    prompt_tokens bigint NOT NULL DEFAULT 0,
    completion_tokens bigint NOT NULL DEFAULT 0,
    estimated_tokens bigint NOT NULL DEFAULT 0,
    cost double precision NOT NULL DEFAULT 0,
    currency text NOT NULL DEFAULT '',
    run_id text NOT NULL DEFAULT '',
    generation integer,
    at timestamptz NOT NULL DEFAULT now(),
    CHECK (text IS NULL OR rejected IS NULL)
);
CREATE INDEX ON pincite.llm_replies (run_id);

-- Batches of prompts at an endpoint: recorded before they are submitted, without an id until they are.
CREATE TABLE pincite.llm_batches (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    fingerprint text NOT NULL,
    batch_id text,
    base_url text NOT NULL,
    model text NOT NULL,
    stage text NOT NULL,
    generation integer,
    run_id text NOT NULL,
    keys text[] NOT NULL,
    state text NOT NULL,
    submitted_at timestamptz NOT NULL DEFAULT now(),
    collected_at timestamptz
);

-- ---------------------------------------------------------------- runs on other machines

-- What runs that Dagster launched, on whatever machine, are at and what they did: `pincite index --distributed` follows
-- them by it, and `pincite status` tells it. A record is JSON, as text, since jsonb takes not all that names of files hold.
CREATE TABLE pincite.launched_runs (
    run_id text PRIMARY KEY,
    backfill text NOT NULL,
    host text NOT NULL,
    process integer NOT NULL,
    buckets integer[],
    began timestamptz NOT NULL DEFAULT now(),
    stage text NOT NULL DEFAULT '',
    done bigint NOT NULL DEFAULT 0,
    total bigint NOT NULL DEFAULT 0,
    ended_at timestamptz,
    record text NOT NULL DEFAULT '{}'
);
CREATE INDEX launched_runs_backfill_idx ON pincite.launched_runs (backfill);

-- ---------------------------------------------------------------- row-level security

-- Who may read what: the query role sees public documents and those of the asker's groups, and no other table than
-- the generations'.
-- The groups that who asks was said to have, and the principals that these are members of now. Those are read by the
-- database itself: a name with a comma, as a principal stands among a document's groups, is nobody's to say. The query
-- role may read no memberships but so. Without `pincite.memberships_hours` none holds.
CREATE FUNCTION pincite.asker_groups() RETURNS text[] LANGUAGE sql STABLE PARALLEL SAFE
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
REVOKE EXECUTE ON FUNCTION pincite.asker_groups() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION pincite.asker_groups() TO pincite_query;
GRANT USAGE ON SCHEMA pincite TO pincite_query;

-- Forced: the owner reads and writes by a policy of its own, not by being the owner. Rows are looked up one by one, for
-- which EXISTS will not do: the planner would read all documents first, for every statement.
CREATE FUNCTION pincite.protect(made text) RETURNS void LANGUAGE plpgsql AS $$
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
