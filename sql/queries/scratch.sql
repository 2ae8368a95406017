-- Statements to SQLite, in which a run notes what there is of each document; the database is gone with its process.

-- name: without_a_journal
PRAGMA journal_mode = OFF;

-- name: on_disk
PRAGMA temp_store = FILE;

-- name: begin
BEGIN;

-- name: texts
CREATE TABLE texts (text PRIMARY KEY) WITHOUT ROWID;

-- name: add_text
INSERT OR IGNORE INTO texts (text) VALUES (?);

-- name: text
SELECT 1 FROM texts WHERE text = ?;

-- name: sorted_texts
SELECT text FROM texts ORDER BY text;

-- name: count_texts
SELECT count(*) FROM texts;

-- name: listed
-- `listed` is 0 of what could not be read, or not be kept, and of which is known who may find it.
CREATE TABLE listed (
    doc_id PRIMARY KEY, source, uri, content_hash, size, media_type, title, effective_date, version, groups,
    source_groups, metadata, listed
) WITHOUT ROWID;

-- name: list
INSERT OR REPLACE INTO listed VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 1);

-- name: restrict
INSERT OR IGNORE INTO listed (doc_id, groups, listed) VALUES (?, ?, 0);

-- name: unlist
UPDATE listed SET listed = 0 WHERE doc_id = ?;

-- name: groups
SELECT groups FROM listed WHERE doc_id = ?;

-- name: count_listed
SELECT count(*) FROM listed WHERE listed;

-- name: listed_between
SELECT doc_id, source, uri, content_hash, size, media_type, title, effective_date, version, groups, source_groups,
    metadata
FROM listed WHERE listed AND doc_id >= ? AND doc_id < ? ORDER BY doc_id;

-- name: names_between
SELECT doc_id, source, content_hash, size FROM listed WHERE listed AND doc_id >= ? AND doc_id < ? ORDER BY doc_id;

-- name: listed_by_place
SELECT doc_id, source, uri, content_hash, size, media_type, title, effective_date, version, groups, source_groups,
    metadata
FROM listed WHERE listed ORDER BY source, uri;

-- name: contents
-- Of each document what it held: as it was listed last, or as it is served. `restricted` where it named groups of its own.
CREATE TABLE contents (doc_id PRIMARY KEY, content_hash, restricted) WITHOUT ROWID;

-- name: add_content
INSERT OR REPLACE INTO contents VALUES (?, ?, ?);

-- name: content
SELECT content_hash, restricted FROM contents WHERE doc_id = ?;

-- name: names
-- Names of documents at the last listing, by which those of one mail are found.
CREATE TABLE names (source, uri, PRIMARY KEY (source, uri)) WITHOUT ROWID;

-- name: add_name
INSERT OR IGNORE INTO names VALUES (?, ?);

-- name: names_from
SELECT uri FROM names WHERE source = ? AND uri >= ? AND uri < ? ORDER BY uri;

-- name: contents_between
SELECT doc_id, content_hash FROM contents WHERE doc_id >= ? AND doc_id < ?;

-- name: gone
CREATE TABLE gone (source, content_hash);

-- name: fresh
CREATE TABLE fresh (content_hash);

-- name: add_gone
INSERT INTO gone VALUES (?, ?);

-- name: add_fresh
INSERT INTO fresh VALUES (?);

-- name: gone_by_source
-- A content that is new at one place stands for one document that has it no more at another.
SELECT source, count(*)
FROM (SELECT source, content_hash, row_number() OVER (PARTITION BY content_hash) AS number FROM gone)
LEFT JOIN (SELECT content_hash, count(*) AS copies FROM fresh GROUP BY content_hash) USING (content_hash)
WHERE number > coalesce(copies, 0) GROUP BY source;
