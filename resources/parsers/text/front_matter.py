"""The reading of a text's head: the YAML front matter of Markdown, and other forms that seem to name groups.

Only front matter takes effect. A line `groups: [hr]` at the head of a file is meant to restrict it in any form: under
another rule, in a fenced block or a comment, as a field list, or as a bare first line. Such a file is withheld until
its groups are in front matter. Unreadable front matter that may restrict its document is an error, since a restricted
document must not become public by mistake. Running text about groups does not count.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pipelines.errors import DocumentError
from pipelines.groups import (
    GROUPS,
    PRINCIPALS,
    group_names,
    means_groups,
    meant_key,
    misnamed_keys,
    remedy,
    require_few,
)
from pipelines.parsing.formats import HTML, MARKDOWN, PLAIN, XML
from resources import yaml_text
from resources.parsers.source_text import BINARY_SHARE, decode, decode_plainly

# ---------------------------------------------------------------- groups in other forms than front matter


FIRST_LINES = 40
"""Lines from the top that are searched for a bare key, or for a rule that begins intended front matter."""
MOST_LINES, LONGEST_LINE = 400, 4000
_MOST_CHARACTERS = 1 << 18
_MOST_TEXTS = 20
"""Number of an HTML page's first texts that count as its head."""
_RULES, _EM = ("---", "+++", ";;;"), "—―–"
_DASHES = re.compile(r"[-‐-―−]+")
_FENCE = re.compile(r"(`{3,}|~{3,})")
_KEY = re.compile(r"[-?\s]*[\"'\[{]*(?P<key>[^\s:=\"'`|<>#*(\[{][^:=\"'`|<>()]{0,60}?)[\"']?\s*[:=](?P<value>.*)")
_IN_BYTES = re.compile(r"(?:(?<=[\0\n\r])|\A)[\"']?([A-Za-z_\-]{4,60}+)[\"']?[ \t]*+[:=]")
_CONTROLS = [chr(code) for code in range(32) if code not in (9, 10, 12, 13)]
_SETS = re.compile("[:=\\[：＝﹕︓﹦]")
_SECTION = re.compile(r"\[{1,2}\s*+[\"']?([\w.\- ]{1,60})[\"']?\s*+\]")
_BRACE = re.compile(r"\s*+[\[{]\s*+[\"'\w{]")
"""Pattern of the beginning of JSON, whose keys need not be on separate lines."""
_CONTINUED = re.compile(r"\s+\S|[-\[\]{}\"',#]|\.\.\.")
_SENTENCE = re.compile(r"\s*(?:\S+\s+){3,}\S*[.!?;:…](?:\s|$)")
_JSON_KEY = re.compile(r"[\"']([^\"']{1,60})[\"']\s*:")
_LEAD = re.compile(
    r"\s*(?:<!--|/\*+|\*/|//+|#\+|#(?!\s*[A-ZА-ЯІЇЄҐ])|;+|%+|\.\.(?=\s)|--(?=\s)|\*(?=\s)|[>:@|]|\{[{%#]<?"
    r"|\[//\]:\s*#\s*\(?)?\s*"
)
"""Pattern of signs that begin a comment or a field in some format, without Markdown headings."""
_SIGNS = " \t-=~+_^;*/>#`\"'|.:<!%{}[]()"
_LISTED = re.compile(r"\s*[-*•+]\s+\S")
_MARKUP = re.compile(
    r"<!--(?P<comment>(?:[^-]|-(?!->))*+)(?:-->|\Z)|<(?P<tag>[A-Za-z/!?][^<>]*+)>?|(?P<text>[^<]++)|<", re.DOTALL
)
_ATTRIBUTE = re.compile(r"(?<!\S)(name|property|itemprop|http-equiv)\s*+=\s*+[\"']?([^\"'<>\s]{1,60})", re.IGNORECASE)
_UNSEEN_TEXT = ("script", "style", "title", "template", "noscript")


def groups_at_top(text: str, media_type: str) -> str:
    """Return the line in the head of a text that seems to restrict it, or ""."""
    text = text[:_MOST_CHARACTERS]
    if media_type in (HTML, XML):
        return _in_markup(text)
    return _in_lines(text, media_type == MARKDOWN)


def groups_in_lines(text: str, anywhere: bool = True) -> str:
    """Return the first line that names groups in the form of a setting, in a file that was not understood; return "" if
    no line does.

    Indented lines are skipped, since they belong to another key. If `anywhere` is false, only the head is searched,
    since the file may be a document about groups.
    """
    if _looks_binary(text):
        named = (match[1] for match in _IN_BYTES.finditer(text) if _is_field(match[1]))
        return next(named, "")
    if text.lstrip().startswith("<"):
        return _in_tags(text)
    head = "" if _BRACE.match(text) else groups_at_top(text, PLAIN)
    lines = text.splitlines() if anywhere else ()
    return head or next(filter(_sets_groups, lines), "").strip()[:80]


def _looks_binary(text: str) -> bool:
    return sum(map(text.count, _CONTROLS)) > BINARY_SHARE * len(text)


def _sets_groups(line: str) -> bool:
    if line[:1].isspace() or not _SETS.search(line):
        return False
    line = _plain(line[:LONGEST_LINE])
    if (section := _SECTION.match(line)) and means_groups(section[1]):
        return True
    key = _KEY.match(line)
    return bool(key and _is_field(key["key"].strip()) and not _SENTENCE.match(key["value"]) and "(" not in key["value"])


def _is_field(key: str) -> bool:
    """Say whether a key is written like a field; a name in code such as `DEFAULT_GROUP` is not."""
    words = key.split()
    as_field = (len(words) == 1 and key[:1].islower()) or words[-1:] in ([GROUPS], [PRINCIPALS])
    return means_groups(key) and len(words) <= 3 and (as_field or _is_own_word(key))


def _in_lines(text: str, markdown: bool) -> str:
    lines = [_plain(line) for line in text.splitlines()[: FIRST_LINES + MOST_LINES]]
    found = _under_rule(lines, markdown) or _fenced_line(lines) or _bare(lines)
    return found.strip()[:80]


# ---------------------------------------------------------------- under a rule, in a fence


def _under_rule(lines: Sequence[str], anywhere: bool) -> str:
    """Return the first line that names groups after a rule and before any prose.

    A rule below the head may belong to a heading or table, so only Markdown is searched `anywhere`.
    """
    fenced, begun = "", False
    for at, line in enumerate(lines[:FIRST_LINES]):
        bare = line.strip()
        if fence := _FENCE.match(bare):
            # A block at the very head is no example of something, but the head itself.
            fenced = "" if fenced == fence[1] else fenced or (fence[1] if begun else "")
        if not fenced and _is_rule(bare, begun):
            found = next(_named_groups(lines[at + 1 : at + MOST_LINES], bare.lstrip("-+;")), "")
            if found:
                return found
        begun = begun or bool(bare)
        if begun and not anywhere and not _is_remark(bare):
            return ""
    return ""


def _is_remark(line: str) -> bool:
    return not line.strip(_SIGNS) or line.startswith(("<!--", "#", "//", "%", ";", "..", "/*", "```", "~~~"))


def _is_rule(line: str, begun: bool) -> bool:
    """Say whether a line is a rule. Text beside it, dashes of other lengths, and JSON's opening brace at the head
    count too."""
    dashes = any(char in line for char in _EM) and _DASHES.fullmatch(line)
    return "|" not in line and bool(dashes or line.startswith(_RULES) or (not begun and line.startswith("{")))


def _plain(line: str) -> str:
    """Return a line in its visible form: full-width and no-break characters as plain ones, without invisible
    characters."""
    if line.isascii():
        return line
    plain = unicodedata.normalize("NFKC", line)
    return plain if plain.isprintable() else "".join(char for char in plain if unicodedata.category(char) != "Cf")


def _named_groups(lines: Sequence[str], beside: str) -> Iterator[str]:
    for line in (beside, *lines):
        if any(means_groups(key) for key in _JSON_KEY.findall(line)):
            yield line
        key = _KEY.match(line[:LONGEST_LINE])
        if key and not _SENTENCE.match(key["value"]):
            if means_groups(key["key"]):
                yield line
        elif line is not beside and line.strip() and not _CONTINUED.match(line):
            return


def _fenced_line(lines: Sequence[str]) -> str:
    """Return the line that names groups in a fenced block at the start of a text."""
    first = next((at for at, line in enumerate(lines) if line.strip()), None)
    fence = _FENCE.match(lines[first].strip()) if first is not None else None
    if first is None or fence is None:
        return ""
    inner = list[str]()
    for line in lines[first + 1 :]:
        if line.strip().startswith(fence[1]):
            break
        inner.append(line)
    return next(_named_groups(inner, ""), "")


# ---------------------------------------------------------------- bare lines


def _bare(lines: Sequence[str]) -> str:
    """Return the line that names groups among the keys at the start of a text, also in comments, or below one line that
    may be a title."""
    titled, begun, first = False, False, 0
    for at, line in enumerate(lines[:FIRST_LINES]):
        own = line.replace("*", "").replace("`", "") if line.lstrip().startswith(("**", "`")) else line
        lead = _LEAD.match(own)
        column = lead.end() if lead else 0
        own = own[column:]
        if not own.strip(_SIGNS) or (line.startswith("..") and own.rstrip().endswith("::")):
            continue
        if own.strip() in (f"[{GROUPS}]", f"[{PRINCIPALS}]"):
            return line
        key = _KEY.match(own[:LONGEST_LINE])
        if key and _is_short(key["key"]) and key["value"].strip() != ":":
            if begun and column > first + 1:
                continue  # a key within another
            first = first if begun else column
            named = key["key"].strip()
            if (not titled or named[:1].islower()) and _restricts(named, key["value"], lines[at + 1 : at + 2]):
                return line
            begun = True
        elif not (begun and _CONTINUED.match(line)):
            if begun or titled or own.rstrip()[-1] in ".!?;":
                return ""
            titled = True
    return ""


def _is_short(key: str) -> bool:
    return len(key.split()) <= 3 and not any(sign in key for sign in ".,;\t")


def _restricts(key: str, value: str, following: Sequence[str]) -> bool:
    """Say whether a bare line names groups; in running text the same words have a sentence after them.

    `groups` and `principals` count in upper or lower case. `Group: North` may be a line of a form, so other spellings
    must look like a field: they are in lower case, or followed by brackets or a lower-case name.
    """
    if not means_groups(key):
        return False
    value = value.strip().removesuffix("-->").removesuffix("*/").removesuffix("|").strip()
    if not value.strip(_SIGNS):
        listed = any(map(_LISTED.match, following))
        return listed or (key[:1].islower() and " " not in key) or bool(value)
    if not _are_names(value):
        return False
    if key.casefold() in (GROUPS, PRINCIPALS) or (" " not in key and key[:1].islower()):
        return True
    return value[0] in "[{\"'" or (_is_own_word(key) and value[0].islower())


def _are_names(value: str) -> bool:
    """Say whether a value may be a list of names, rather than a sentence or number."""
    names = [name.strip(" \t\"'[]{}()") for name in re.split("[,;]", value)]
    names = [name for name in names if name]
    short = all(len(name.split()) <= 3 and len(name) <= 60 for name in names)
    ended = value[-1] in ".!?:…" or "|" in value or "(" in value
    return bool(names) and short and not ended and any(char.isalpha() for char in value)


# ---------------------------------------------------------------- HTML and XML


def _in_markup(text: str) -> str:
    """Return the line or tag that names groups: in comments, in the first texts, or in the property names of a page."""
    texts, inside = list[str](), ""
    for match in _MARKUP.finditer(text):
        if match["comment"] is not None:
            if found := _in_lines(match["comment"], markdown=False):
                return found
        elif match["tag"] is not None:
            tag = match["tag"]
            name = re.split(r"[\s/>]", tag.lstrip("/"), maxsplit=1)[0].casefold()
            if name in _UNSEEN_TEXT:
                inside = "" if tag.startswith("/") else name
            named = name == "meta" and [found for _, found in _ATTRIBUTE.findall(tag) if _is_own_word(found)]
            if named:
                return f"<{tag}>"[:80]
        elif match["text"] and match["text"].strip() and not inside:
            texts.append(match["text"].strip())
            if len(texts) >= _MOST_TEXTS:
                break
    return _in_lines("\n".join(texts), markdown=False)


def _in_tags(text: str) -> str:
    """Return the tag that names groups: the root element of XML, its attributes, or its direct child elements."""
    depth = 0
    for match in _MARKUP.finditer(text):
        tag = match["tag"] or ""
        if match["comment"] is not None and (found := _in_lines(match["comment"], markdown=False)):
            return found
        if not tag or tag[0] in "!?":
            continue
        names = re.split(r"[\s/>]", tag.lstrip("/"), maxsplit=1)[:1]
        names += [named for _, named in _ATTRIBUTE.findall(tag)]
        names += re.findall(r"(?<=\s)[\w.:\-]++(?=\s*+=)", tag) if depth == 0 else []
        own = any(name.rpartition(":")[2].casefold() in (GROUPS, PRINCIPALS) for name in names)
        if own and (depth < 2 or names[0].casefold() == "meta"):
            return f"<{tag}>"[:80]
        depth += -1 if tag.startswith("/") else not tag.endswith("/")
    return ""


def _is_own_word(name: str) -> bool:
    """Say whether a property is `groups` or `principals`, perhaps misspelt, rather than another program's, such as
    `content_group`."""
    return name.isalpha() and means_groups(name) and abs(len(name) - len(meant_key(name))) <= 1


# ---------------------------------------------------------------- front matter


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
    """The text between the rules, and the offset of the text after it; `end` is `None` if no rule ends the block."""

    yaml: str
    end: int | None
    after_comment: bool

    @property
    def names_groups(self) -> bool:
        """Say whether a key of the block seems to be `groups` or `principals`."""
        keys = list(_keys(self.yaml))
        return any(means_groups(key) for key in (keys if self.end or keys[:1] != [""] else ()))


def front_matter(source: str, restricts: bool = True) -> tuple[dict[str, str], int, tuple[str, ...]]:
    """Return properties, the offset where the text begins, and warnings. `metadata` is a nested mapping.

    Raises DocumentError (`front_matter`) if the block is not valid YAML, if its groups cannot be understood, or if it
    may name groups and cannot be read: a list, a block that does not end. A text that may not set its own groups
    (`restricts` is false) keeps its readable properties, without groups.
    """
    if not restricts:
        return _without_say(source)
    block = _block(source)
    require_recognised(source[block.end :] if block and block.end else source)
    if block is None:
        return {}, 0, ()
    if block.end is None:
        if block.names_groups:
            raise _refusal(
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
        raise _refusal(f"it is not valid YAML ({told}): put a text with a colon or another sign in quotes") from None
    if not isinstance(values, dict):
        if block.names_groups:
            raise _refusal("it names groups and is no mapping: write `groups: [NAME]` on a line of its own")
        return {}, 0, ()
    return _properties(values), block.end, ()


_TITLE_BLOCK = re.compile(r"\ufeff?(?:%[ \t]++[^\r\n]++|%)(?:\r?\n(?:%|[ \t]++(?=\S))[^\r\n]*+){0,9}+")
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")


def title_block(source: str) -> tuple[dict[str, str], int]:
    """Return the title, authors and date of a text that begins with pandoc's title block, `% Title`, and its end."""
    found = _TITLE_BLOCK.match(source)
    fields = [" ".join(field.split()) for field in found[0].split("%")] if found else []
    if found is None or len(fields) > 4 or not any(fields):
        return {}, 0
    _, title, authors, day, *_ = (*fields, "", "")
    known = {"title": title, "author": authors.replace(";", ","), "effective_date": day if _DAY.fullmatch(day) else ""}
    return {key: value for key, value in known.items() if value}, found.end()


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
    """Return the groups in the first HEAD_BYTES of a text; only front matter of Markdown can set groups.

    Raises DocumentError (`front_matter`) if they are in another form, or invalid.
    """
    head = content[:HEAD_BYTES]
    if media_type != MARKDOWN:
        require_recognised(decode_plainly(head), media_type)
        return None
    if len(head) == HEAD_BYTES:
        head = head[: head.rfind(b"\n") + 1]
    try:
        text, _ = decode(head, name)
    except DocumentError:
        # Its parser judges more of the file, and may read it; keys are the same in every encoding.
        text = decode_plainly(head)
    block = _block(text)
    require_recognised(text[block.end :] if block and block.end else text)
    if block is None or not block.names_groups:
        return None
    named = front_matter(text)[0].get(GROUPS)
    return tuple(named.split(", ")) if named else None


def require_recognised(text: str, media_type: str = MARKDOWN) -> None:
    """Raise DocumentError (`front_matter`) if a text begins with intended but invalid front matter."""
    found = groups_at_top(text, media_type)
    if found and media_type == MARKDOWN:
        raise _refusal(
            f"it is not between two lines of three hyphens, or not at the head of the file ({found}): put it there"
        )
    if found:
        told = f"the head of the file may restrict the document ({found}), and front matter is read in Markdown only"
        raise DocumentError(f"{told}: write `groups: [NAME]` in its side-car, NAME.meta.yaml", "front_matter")


def _refusal(reason: str) -> DocumentError:
    """Return the error for a reason; the reason must end with a remedy."""
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
    """Yield the keys before colons; the first is "" if the block does not begin with a key, as in prose after a
    rule."""
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
            raise _refusal(f"{name} is given twice: leave one of them")
        folded[name] = value
    if wrong := next(misnamed_keys(folded), None):
        raise _refusal(remedy(wrong))
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
            raise _refusal(str(error)) from None
    return properties


def _text(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(_text(item) for item in value)
    if isinstance(value, dict):
        return "; ".join(f"{key}: {_text(item)}" for key, item in value.items())
    return str(value)
