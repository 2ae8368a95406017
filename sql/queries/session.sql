-- Opening a database, locks, what holds within a transaction, and the roles of the embedded server.

-- name: forget_settings
RESET ALL;

-- name: take_time
-- Builds and loads take as long as they take. What a server has for those who ask, `ask_in_time` gives back. A client
-- whose machine went away is noticed within a minute, since its locks are held until then.
SELECT set_config('statement_timeout', '0', false), set_config('tcp_keepalives_idle', '30', false),
    set_config('tcp_keepalives_interval', '10', false), set_config('tcp_keepalives_count', '3', false);

-- name: lock_migrations
SELECT pg_advisory_xact_lock(%(key)s);

-- name: encoding
SELECT current_setting('server_encoding');

-- name: may_query
-- Whether this user can be the role that queries run as. Since version 16 a member may be one without that right, as
-- who has made the role is.
SELECT coalesce((
    SELECT pg_has_role(oid, CASE WHEN current_setting('server_version_num')::integer < 160000 THEN 'MEMBER' ELSE 'SET' END)
    FROM pg_roles WHERE rolname = 'pincite_query'
), false);

-- name: create_query_role
DO $$ BEGIN
    CREATE ROLE pincite_query NOLOGIN;
EXCEPTION WHEN duplicate_object OR unique_violation THEN
    NULL;  -- made for another database of this server
END $$;

-- name: join_query_role
GRANT pincite_query TO CURRENT_USER;

-- name: create_catalog_schema
CREATE SCHEMA IF NOT EXISTS pincite;

-- name: create_migrations
CREATE TABLE IF NOT EXISTS pincite.migrations (
    number integer PRIMARY KEY,
    name text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now()
);

-- name: has_migrations
SELECT to_regclass('pincite.migrations') IS NOT NULL;

-- name: applied_migrations
SELECT number, name FROM pincite.migrations ORDER BY number;

-- name: record_migration
INSERT INTO pincite.migrations (number, name) VALUES (%(number)s, %(name)s);

-- name: use_catalog_schema
SELECT set_config('search_path', concat_ws(', ', 'pincite', nullif(current_setting('search_path'), '')), true);

-- name: vector_versions
SELECT installed_version, default_version FROM pg_available_extensions WHERE name = 'vector';

-- name: create_vector
CREATE EXTENSION IF NOT EXISTS vector;

-- name: try_lock
SELECT pg_try_advisory_lock(%(key)s);

-- name: try_shared_lock
SELECT pg_try_advisory_lock_shared(%(key)s);

-- name: unlock
SELECT pg_advisory_unlock(%(key)s);

-- name: unlock_shared
SELECT pg_advisory_unlock_shared(%(key)s);

-- name: lock_holders
SELECT a.application_name, a.pid
FROM pg_locks l JOIN pg_stat_activity a USING (pid)
WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1
    AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND (l.classid::bigint << 32 | l.objid::bigint) = %(key)s AND l.pid <> pg_backend_pid()
ORDER BY a.backend_start;

-- name: sessions
SELECT application_name FROM pg_stat_activity
WHERE datname = current_database() AND application_name LIKE %(like)s;

-- name: lock_build
-- For as long as the connection lasts; an orphan's ends when its client is seen to be gone.
SELECT set_config('client_connection_check_interval', '2s', false), pg_advisory_lock(%(key)s);

-- name: next_run
SELECT nextval('pincite.run_tokens');

-- name: begin_run
-- Waits for the transactions of earlier runs that are under way on these buckets.
INSERT INTO pincite.runs AS run (name, bucket, token, run_id)
SELECT %(name)s, bucket, %(token)s, %(run_id)s FROM unnest(%(buckets)s::integer[]) AS bucket ORDER BY bucket
ON CONFLICT (name, bucket) DO UPDATE SET token = EXCLUDED.token, run_id = EXCLUDED.run_id, began = now()
WHERE run.token < EXCLUDED.token;

-- name: newest_run
-- The run that took the lock of a name last: its holder, or the newest of several.
SELECT run_id FROM pincite.runs WHERE name = %(name)s ORDER BY token DESC LIMIT 1;

-- name: run_tokens
-- Of these buckets, of all where none are named.
SELECT bucket, token FROM pincite.runs
WHERE name = %(name)s AND (%(buckets)s::integer[] IS NULL OR bucket = ANY(%(buckets)s::integer[]))
ORDER BY bucket FOR SHARE;

-- name: begin
SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY;

-- name: ask_in_time
SET LOCAL statement_timeout TO DEFAULT;

-- name: answer_within
-- Milliseconds that each statement of the transaction may take.
SELECT set_config('statement_timeout', %(milliseconds)s::text, true);

-- name: become_asker
-- What follows in the transaction is read as the query role, which row-level security holds to the public documents
-- and those of the asker's groups.
SET LOCAL ROLE pincite_query;

-- name: ask_for
-- Who asks, and for how many hours after its reading a source's word holds of whom its principals are.
SELECT set_config('pincite.groups', %(groups)s::text[]::text, true),
    set_config('pincite.memberships_hours', %(hours)s::float8::text, true);

-- name: tune
-- Strict order drops what a filtered walk finds late (recall 0.77 where relaxed order has 1.0), so
-- the walk is relaxed, takes more than k, and the best k are sorted out of them. Plans are made for the
-- values at hand: a filter that is not given must cost nothing. One process adds in one order, so that
-- equal passages score equally. A language model may be waited for in the middle of the transaction: by a limit of
-- ours, since that of a server may be shorter, and without one a process that stands still would hold back vacuum.
-- Pages are as if in memory: else a few hundred documents are read whole to look up one, for every row that is asked.
SELECT set_config('hnsw.iterative_scan', 'relaxed_order', true),
       set_config('hnsw.ef_search', %(ef_search)s::text, true),
       set_config('plan_cache_mode', 'force_custom_plan', true),
       set_config('max_parallel_workers_per_gather', '0', true),
       set_config('random_page_cost', '1.1', true),
       set_config('idle_in_transaction_session_timeout', '1h', true),
       set_config('jit', 'off', true);

-- name: compare_exactly
SELECT set_config('enable_indexscan', 'off', true),
       set_config('enable_seqscan', 'on', true),
       set_config('enable_sort', 'on', true);

-- name: walk_index
SELECT set_config('enable_seqscan', 'off', true),
       set_config('enable_sort', 'off', true);

-- name: row_security_state
-- What decides which rows who asks is shown, as who asks: whether row-level security holds in these tables; and the rows
-- of the catalogs that say it, by the transaction that wrote each: of the tables, their policies, the function these
-- call, and the roles that the query role is a member of.
WITH kept AS MATERIALIZED (
    SELECT ARRAY(SELECT to_regclass(name)::oid FROM unnest(%(tables)s::text[]) AS name) AS tables
)
SELECT
    (SELECT coalesce(bool_and(c.relkind IN ('r', 'p') AND row_security_active(c.oid)), false)
     FROM pg_class AS c WHERE c.oid = ANY (tables)),
    concat_ws(' ',
        (SELECT string_agg(concat(c.oid, ':', c.xmin), ',' ORDER BY c.oid) FROM pg_class AS c WHERE c.oid = ANY (tables)),
        (SELECT string_agg(concat(p.oid, ':', p.xmin), ',' ORDER BY p.oid)
         FROM pg_policy AS p WHERE p.polrelid = ANY (tables)),
        (SELECT concat(p.oid, ':', p.xmin) FROM pg_proc AS p WHERE p.oid = to_regprocedure('pincite.asker_groups()')),
        (SELECT string_agg(m.roleid::text, ',' ORDER BY m.roleid)
         FROM pg_auth_members AS m WHERE m.member = to_regrole('pincite_query')))
FROM kept;

-- name: make_other_superuser
-- The role that initdb makes is a superuser for good, and serves for what is here alone; everyday work is done as
-- `pincite`, which owns the index and may neither read files of the server nor run programs.
-- In states made before: there the superuser itself is called `pincite`, and only another one may rename it.
CREATE ROLE pincite_renaming SUPERUSER;

-- name: become_other_superuser
SET LOCAL SESSION AUTHORIZATION pincite_renaming;

-- name: rename_superuser
ALTER ROLE pincite RENAME TO pincite_admin;

-- name: become_superuser_again
RESET SESSION AUTHORIZATION;

-- name: drop_other_superuser
DROP ROLE pincite_renaming;

-- name: make_owner
-- Without row-level security, which would refuse the owner COPY and pg_dump.
DO $$ BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'pincite') THEN
        CREATE ROLE pincite LOGIN NOSUPERUSER CREATEDB CREATEROLE BYPASSRLS;
    END IF;
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'pincite_query') THEN
        GRANT pincite_query TO pincite WITH ADMIN OPTION;
        ALTER ROLE pincite_query NOLOGIN NOSUPERUSER NOBYPASSRLS NOCREATEDB NOCREATEROLE;
    END IF;
END $$;

-- name: databases
SELECT datname FROM pg_database WHERE datallowconn AND NOT datistemplate ORDER BY datname;

-- name: hand_over_database
-- What the superuser owns in this database, that of extensions apart, and its policies for the one who keeps it. A
-- sequence of a column goes with its table.
DO $$
DECLARE
    own CONSTANT oid := (SELECT oid FROM pg_roles WHERE rolname = 'pincite_admin');
    kept record;
BEGIN
    IF (SELECT datdba = own FROM pg_database WHERE datname = current_database()) THEN
        EXECUTE format('ALTER DATABASE %I OWNER TO pincite', current_database());
    END IF;
    FOR kept IN
        SELECT nspname AS name FROM pg_namespace WHERE nspowner = own AND oid >= 16384 AND nspname !~ '^pg_'
    LOOP
        EXECUTE format('ALTER SCHEMA %I OWNER TO pincite', kept.name);
    END LOOP;
    FOR kept IN
        SELECT n.nspname AS space, c.relname AS name FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
        WHERE c.relowner = own AND c.oid >= 16384 AND c.relkind IN ('r', 'p', 'v', 'm', 'S', 'f')
            AND n.nspname !~ '^pg_' AND NOT EXISTS (SELECT FROM pg_depend AS d
                WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND (d.deptype = 'e'
                    OR c.relkind = 'S' AND d.refclassid = 'pg_class'::regclass AND d.deptype IN ('a', 'i')))
    LOOP
        EXECUTE format('ALTER TABLE %I.%I OWNER TO pincite', kept.space, kept.name);
    END LOOP;
    FOR kept IN
        SELECT n.nspname AS space, p.proname AS name FROM pg_proc AS p JOIN pg_namespace AS n ON n.oid = p.pronamespace
        WHERE p.proowner = own AND p.oid >= 16384 AND NOT EXISTS (SELECT FROM pg_depend AS d
            WHERE d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e')
        GROUP BY n.nspname, p.proname HAVING count(*) = 1
    LOOP
        EXECUTE format('ALTER ROUTINE %I.%I OWNER TO pincite', kept.space, kept.name);
    END LOOP;
    FOR kept IN
        SELECT n.nspname AS space, c.relname AS name, p.polname AS policy
        FROM pg_policy AS p JOIN pg_class AS c ON c.oid = p.polrelid JOIN pg_namespace AS n ON n.oid = c.relnamespace
        WHERE p.polroles = ARRAY[own]
    LOOP
        EXECUTE format('ALTER POLICY %I ON %I.%I TO pincite', kept.policy, kept.space, kept.name);
    END LOOP;
END $$;

-- name: reload
SELECT pg_reload_conf();

-- name: look_at_user
-- What who asks may do, and the server's clock, for `pincite doctor`; nothing is made.
SELECT has_database_privilege(current_database(), 'CREATE') AS may_create,
       (SELECT rolsuper OR rolcreaterole FROM pg_roles WHERE rolname = current_user) AS may_create_roles,
       (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) AS superuser,
       to_regrole('pincite_query') IS NOT NULL AS has_query_role,
       extract(epoch FROM clock_timestamp())::float8 AS clock;

-- name: vector_is_trusted
-- Whether who may create in the database may create pgvector in it.
SELECT coalesce(bool_or(trusted), false) FROM pg_available_extension_versions WHERE name = 'vector';
