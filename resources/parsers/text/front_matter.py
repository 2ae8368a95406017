"""The YAML block at the head of a Markdown file, and what the heads of other texts say in its place. One that may
restrict its document and cannot be read is an error: a restricted document must not become public by a slip."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pipelines.errors import DocumentError
from pipelines.groups import GROUPS, group_names, means_groups, misnamed, remedy, require_few
from pipelines.parsing.formats import MARKDOWN
from resources import yaml_text
from resources.parsers.heads import groups_at_top
from resources.parsers.text.source_text import decode, decode_plainly

_RULE = re.compile(r" {0,3}---[ \t]*\r?\n")
_END = re.compile(r"^(?:---|\.\.\.)[ \t]*(?:\r?\n|\Z)", re.MULTILINE)
_BLANK = "\ufeff\u200b\u2060 \t\r\n\f\v"
_BEFORE_KEY = " \t-?\"'\ufeff\u200b"
_OWN = ("title", "effective_date", "version", GROUPS, "language", "metadata")
_ALIASES = {"date": "effective_date", "lang": "language", "effective": "effective_date"}
LONGEST = 65536
HEAD_BYTES = 4 * LONGEST + 4


@dataclass(frozen=True, slots=True)
class _Block:
    """What stands between the rules, and where the text after it begins; `end` is None where no rule ends it."""

    yaml: str
    end: int | None
    after_comment: bool

    @property
    def names_groups(self) -> bool:
        """Whether a key of it seems to be `groups`, or `principals`."""
        keys = list(_keys(self.yaml))
        return any(means_groups(key) for key in (keys if self.end or keys[:1] != [""] else ()))


def front_matter(source: str, restricts: bool = True) -> tuple[dict[str, str], int, tuple[str, ...]]:
    """Return properties, the offset where the text begins, and warnings. `metadata` is a mapping of its own.

    Raises DocumentError (`front_matter`) for a block that is not valid YAML, and for one whose groups cannot be
    understood, or that may name some and cannot be read: a list, one that does not end. A text that has no say in who
    finds it (`restricts` is false) is given the properties that can be read, without groups."""
    if not restricts:
        return _without_say(source)
    block = _block(source)
    require_recognised(source[block.end :] if block and block.end else source)
    if block is None:
        return {}, 0, ()
    if block.end is None:
        if block.names_groups:
            raise _refused(
                f"it names groups and does not end within {LONGEST >> 10} KB: end it by a line of three hyphens"
            )
        return {}, 0, ()
    import yaml

    try:
        values = yaml_text.load_plain(block.yaml)
    except yaml.YAMLError as error:
        if block.after_comment and not block.names_groups:
            return {}, 0, ()
        told = " ".join(str(error).split())[:200]
        raise _refused(f"it is not valid YAML ({told}): put a text with a colon or another sign in quotes") from None
    if not isinstance(values, dict):
        if block.names_groups:
            raise _refused("it names groups and is no mapping: write `groups: [NAME]` on a line of its own")
        return {}, 0, ()
    return _properties(values), block.end, ()


def _without_say(source: str) -> tuple[dict[str, str], int, tuple[str, ...]]:
    import yaml

    block = _block(source)
    if block is None or block.end is None:
        return {}, 0, ()
    try:
        values = yaml_text.load_plain(block.yaml)
    except yaml.YAMLError:
        return {}, 0, ()
    if not isinstance(values, dict):
        return {}, 0, ()
    said = {key: value for key, value in values.items() if isinstance(value, str) and not means_groups(str(key))}
    return {_ALIASES.get(str(key).lower(), str(key)): value for key, value in said.items()}, block.end, ()


def groups_at_head(content: bytes, name: str, media_type: str = MARKDOWN) -> tuple[str, ...] | None:
    """Return the groups that the first HEAD_BYTES of a text name; only front matter of Markdown can.

    Raises DocumentError (`front_matter`) where they are named in another form, or cannot be understood."""
    head = content[:HEAD_BYTES]
    if media_type != MARKDOWN:
        require_recognised(decode_plainly(head), media_type)
        return None
    if len(head) == HEAD_BYTES:
        head = head[: head.rfind(b"\n") + 1]
    try:
        text, _ = decode(head, name)
    except DocumentError:
        return None  # no text, as its parser will say
    block = _block(text)
    require_recognised(text[block.end :] if block and block.end else text)
    if block is None or not block.names_groups:
        return None
    named = front_matter(text)[0].get(GROUPS)
    return tuple(named.split(", ")) if named else None


def require_recognised(text: str, media_type: str = MARKDOWN) -> None:
    """Raises DocumentError (`front_matter`) where a text begins with what was meant as front matter and is not."""
    found = groups_at_top(text, media_type)
    if found and media_type == MARKDOWN:
        raise _refused(
            f"it is not between two lines of three hyphens, or not at the head of the file ({found}): put it there"
        )
    if found:
        told = f"the head of the file may restrict the document ({found}), and front matter is read in Markdown only"
        raise DocumentError(f"{told}: write `groups: [NAME]` in its side-car, NAME.meta.yaml", "front_matter")


def _refused(reason: str) -> DocumentError:
    """For a reason that ends by saying what to write."""
    return DocumentError(f"the front matter may restrict the document, but {reason}", "front_matter")


def _block(source: str) -> _Block | None:
    at, after_comment = 0, False
    while True:
        while source[at : at + 1] and source[at] in _BLANK and not _RULE.match(source, at):
            at += 1
        if not source.startswith("<!--", at) or at > LONGEST:
            break
        closed = source.find("-->", at)
        if closed < 0:
            return None
        at, after_comment = closed + 3, True
    rule = _RULE.match(source, at)
    if rule is None:
        return None
    end = _END.search(source, rule.end(), rule.end() + LONGEST)
    if end is None:
        return _Block(source[rule.end() : rule.end() + LONGEST], None, after_comment)
    return _Block(source[rule.end() : end.start()], end.end(), after_comment)


def _keys(block: str) -> Iterator[str]:
    """What stands before colons; first "" where the block does not begin with a key, as a text after a rule would."""
    first = True
    for line in block.splitlines():
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        parts = re.split(r"[{,\[\]}]", line)
        found = [re.split("[:：]", part)[0].strip(_BEFORE_KEY) for part in parts if re.search("[:：]", part)]
        if first and not found:
            yield ""
        first = False
        yield from found


def _properties(values: dict[Any, Any]) -> dict[str, str]:
    folded: dict[str, Any] = {}
    for key, value in values.items():
        name = str(key).strip().lower() if str(key).strip().lower() in _OWN else str(key)
        if name in folded:
            raise _refused(f"{name} is given twice: leave one of them")
        folded[name] = value
    if wrong := next(misnamed(folded), None):
        raise _refused(remedy(wrong))
    metadata, groups = folded.pop("metadata", None), folded.pop(GROUPS, None)
    properties: dict[str, str] = {}
    for key, value in [*(metadata.items() if isinstance(metadata, dict) else ()), *folded.items()]:
        name = _ALIASES.get(str(key).lower(), str(key))
        if name not in properties or name == str(key):
            properties[name] = _text(value)
    if groups is not None:
        try:
            properties[GROUPS] = ", ".join(require_few(group_names(groups)))
        except ValueError as error:
            raise _refused(str(error)) from None
    return properties


def _text(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(_text(item) for item in value)
    if isinstance(value, dict):
        return "; ".join(f"{key}: {_text(item)}" for key, item in value.items())
    return str(value)
