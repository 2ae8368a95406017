-- Statements to SQLite, in which a source of mail keeps what it knows of mails that it listed: they never change.

-- name: folders_table
-- What UIDs are of: under another validity they name other mails.
CREATE TABLE IF NOT EXISTS folders (folder BLOB PRIMARY KEY, validity INTEGER NOT NULL) WITHOUT ROWID;

-- name: documents_table
CREATE TABLE IF NOT EXISTS documents (
    uri TEXT PRIMARY KEY, folder BLOB NOT NULL, uid INTEGER NOT NULL, revision TEXT NOT NULL, size INTEGER,
    pieces TEXT NOT NULL, encoding TEXT NOT NULL, octets INTEGER NOT NULL
) WITHOUT ROWID;

-- name: mails_index
CREATE INDEX IF NOT EXISTS mails ON documents (folder, uid);

-- name: folders
SELECT folder, validity FROM folders;

-- name: add_folder
INSERT OR REPLACE INTO folders (folder, validity) VALUES (?, ?);

-- name: forget_folder
DELETE FROM folders WHERE folder = ?;

-- name: forget_mails
DELETE FROM documents WHERE folder = ?;

-- name: forget_mail
DELETE FROM documents WHERE folder = ? AND uid = ?;

-- name: entries
SELECT uid, uri, revision, size FROM documents WHERE folder = ? AND uid > ? AND uid <= ?;

-- name: taken
-- Whether a mail, or what is attached to one, has this name.
SELECT 1 FROM documents WHERE uri = :mail OR (uri > :from AND uri < :to) LIMIT 1;

-- name: add_document
INSERT INTO documents (uri, folder, uid, revision, size, pieces, encoding, octets)
VALUES (?, ?, ?, ?, ?, ?, ?, ?);

-- name: document
SELECT folder, uid, pieces, encoding, octets FROM documents WHERE uri = ? AND revision = ?;
