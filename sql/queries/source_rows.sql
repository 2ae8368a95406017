-- What is asked of a database that is a source, around the query of its settings.

-- name: read_only
SET default_transaction_read_only = on;

-- name: statement_timeout
SELECT set_config('statement_timeout', %(milliseconds)s::text, false);

-- name: columns
SELECT * FROM ({query}) AS given LIMIT 0;

-- name: revision_of_column
given.{column}::text;

-- name: revision_of_row
md5(given::text);

-- name: listed
SELECT given.{id}::text, {revision}, octet_length(given.{content}) FROM ({query}) AS given;

-- name: members
SELECT given.principal::text, given."group"::text FROM ({query}) AS given;

-- name: rows
SELECT given.{id}::text, {revision}, given.* FROM ({query}) AS given WHERE given.{id}::text = ANY (%(ids)s);
