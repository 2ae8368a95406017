-- Opening a database: its schema, the extension, and the lock of a run.

-- name: forget_settings
RESET ALL;

-- name: take_time
-- Builds and loads take as long as they take. What a server has for those who ask, search.sql gives back to them.
SET statement_timeout = 0;

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

-- name: lock_holder
SELECT a.application_name, a.pid
FROM pg_locks l JOIN pg_stat_activity a USING (pid)
WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1
    AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND (l.classid::bigint << 32 | l.objid::bigint) = %(key)s;

-- name: sessions
SELECT application_name FROM pg_stat_activity
WHERE datname = current_database() AND application_name LIKE %(like)s;

-- name: lock_build
-- For as long as the connection lasts; an orphan's ends when its client is seen to be gone.
SELECT set_config('client_connection_check_interval', '2s', false), pg_advisory_lock(%(key)s);

-- name: begin_run
INSERT INTO pincite.runs AS run (name, token) VALUES (%(name)s, 1)
ON CONFLICT (name) DO UPDATE SET token = run.token + 1
RETURNING token;

-- name: is_newest_run
SELECT true FROM pincite.runs WHERE name = %(name)s AND token = %(token)s FOR SHARE;
