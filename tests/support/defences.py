"""What an ordinary document, a stranger or a slip must not be able to do: what is tried, and what must hold.

A test says which of these it shows by `@pytest.mark.defends("4a")`, or more than one; `make faults` runs it, and
docs/measured/reliability.md has the outcome.
"""

from __future__ import annotations

from collections.abc import Mapping

DEFENCES: Mapping[str, tuple[str, str]] = {
    "1a": (
        "Text made to keep a pattern busy: dotted lines, underscores, 45 digits, and strings made from each pattern",
        "No pattern takes more than in proportion to the text's length",
    ),
    "1b": (
        "A document that a stage after parsing cannot end, or not within its memory",
        "It fails by name and stage; the others are served; it is not tried again until something about it changes",
    ),
    "1c": (
        "A passage that a question's rerankers or answers cannot end",
        "What one passage costs a question is in proportion to its length, whatever stands in it",
    ),
    "1d": (
        "A small file that becomes much text: sheets, aliases, entities, archives",
        "Text is bounded by document and by the size of its file: `limit_exceeded`",
    ),
    "2a": ("Documents named as modules, in the current folder", "None is run, by the command or any process of it"),
    "2b": ("What a parser process sends back", "It is read without code, and checked on arrival"),
    "2c": ("Variables with secrets, while hostile files are read", "Processes get variables of a list only"),
    "2d": (
        "A parser process that opens files or the network",
        "The kernel refuses where it can; `status` says what holds",
    ),
    "3a": ("A file that becomes a link, or another file, after it was looked at", "What was looked at is what is read"),
    "3b": ("Control and direction characters in names and texts", "Everything printed of documents is escaped"),
    "3c": ("Another user of the machine", "The state is 0700, its files 0600"),
    "4a": (
        "Groups that are blank, doubled, misspelt or not readable, in side-cars and front matter",
        "The document is withheld, at once and in every generation",
    ),
    "4b": ("A source is restricted while listing some of its documents fails", "All of its documents are restricted"),
    "4c": ("Side-cars and maps without their document", "Named by every run; a map becomes no document"),
    "4d": ("Groups of front matter, and the generations kept for a rollback", "They hold there in the same run"),
    "4e": ("Row-level security is switched off or changed", "`verify` and the audit tell"),
    "5a": ("A run launched from the UI with settings, a state or a folder of somebody's choice", "It may choose none"),
    "5b": ("Requests to the UI of another origin, host or user, and mutations by GET", "Refused"),
    "5c": ("An endpoint that the key in the environment does not belong to", "It gets no key, organisation or project"),
    "5d": ("Replies without end, and redirects", "Read up to a bound; not followed"),
    "5e": (
        "Links, active text and orders in passages",
        "Words alone are shown, bare addresses of the web among them; orders as quotations, never as the answer",
    ),
    "6a": (
        "Another user of the machine, and the embedded server",
        "Nobody else gets in; it has no more rights than he",
    ),
    "6b": ("Another process in the place of the server", "Nothing is sent to it"),
    "7a": ("A damaged Parquet file", "Never carried over; made again from what came before it"),
    "7b": ("A rollback after documents were deleted", "It goes back"),
    "7c": ("Tables of the index, or of `verify` itself, are gone", "`verify` says so, and the remedy"),
    "7d": ("The only file of a source is renamed", "The guard of deletions lets it pass"),
    "7e": ("A file that can never be read", "Later runs look at what changed only"),
    "7f": ("An index whose walk finds nothing, filtered or not", "The audit tells"),
    "7g": ("Vectors that are none, for one document or several", "Those documents fail; the others are served"),
    "7h": ("A language that is declared, and another that is guessed", "What is declared holds"),
    "7i": ("Runs that a launcher started and that died", "They are closed by the next run"),
}
"""Section and letter to what is tried and what must hold."""
