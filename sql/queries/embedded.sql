-- Roles of the embedded server. The one that initdb makes is a superuser for good, and serves for what is here alone;
-- everyday work is done as `pincite`, which owns the index and may neither read files of the server nor run programs.

-- name: make_other_superuser
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
