"""Rules for markdown-it.

They read formulas, LaTeX blocks, notes, and HTML tables with blank lines, in the forms of parsers and vision models;
tables and definition lists of pandoc; links, comments, marked words and callouts of Obsidian. Each becomes a separate
token for the reader in markdown.py.
"""

from __future__ import annotations

import re
from typing import Any

from resources.parsers.formulas import DOLLARS, ROUND, is_formula, is_maths
from resources.parsers.text.latex import TABLES
from resources.parsers.text.text_tables import end_of_table

_SIGN = re.compile(r"\\(begin|end)\s?\{([A-Za-z]++\*?+)\}")
_BEGIN = re.compile(r"\\begin\s?\{([A-Za-z]++\*?+)\}")
_FORMULA_NAMES = "equation align alignat flalign gather multline eqnarray math displaymath dmath aligned gathered split"
FORMULAS = frozenset(name + star for name in _FORMULA_NAMES.split() for star in ("", "*"))
_VERBATIM = frozenset(("verbatim", "lstlisting", "minted", "Verbatim"))
LEVELS = {
    "title": 1, "part": 1, "chapter": 1, "section": 2, "subsection": 3, "subsubsection": 4, "paragraph": 5,
    "subparagraph": 6,
}  # fmt: skip
_WITH_TEXT = re.compile(
    r"\\(title|part|chapter|(?:sub){0,2}section|(?:sub)?paragraph|author|date|caption|footnotetext)\*?"
    r"(?:\[[^\[\]]{0,80}+\]){0,2}\{"
)
_WITHOUT_TEXT = re.compile(
    r"\\(?:begin|end|label|captionsetup|vspace|hspace|includegraphics|bibliographystyle|setlength|usepackage|documentclass"
    r"|pagestyle|thispagestyle|tableofcontents|maketitle|centering|small|footnotesize|scriptsize|normalsize|noindent|hfill"
    r"|raggedright|appendix|hline)\*?(?![A-Za-z])"
)
_ARGUMENT = re.compile(r"\[[^\[\]]*+\]|\{(?:[^{}]|\{[^{}]*+\})*+\}|\s")
_COMMANDS = re.compile(r"(?:\\[A-Za-z]++\*?+(?:\s*+(?:\[[^\[\]]*+\]|\{(?:[^{}]|\{[^{}]*+\})*+\}))*+|\s)*+")
"""Pattern of text that consists only of commands with their arguments."""
_ITEM = re.compile(r"\\item(?![A-Za-z])\s?(?:\[([^\[\]]{0,40}+)\])?")
_LISTS = {"itemize": "•", "enumerate": "1", "description": ""}
_NOTE = re.compile(r"\[\^([^\[\]\s]{1,60}+)\]:\s*+(?=\S)")
_NOTE_MARK = re.compile(r"\[\^([^\[\]\s]{1,60}+)\]")
_DEFINITION = re.compile(r":(?: {1,3}|\t)\s*+(?=\S)")
_TERM = re.compile(r"(?![|#>`~:<$\\+=-]|[*_]\s|\d{1,9}[.)]\s)\S.{0,200}\Z")
_WIKI_LINK = re.compile(r"!?\[\[(?![\s^])([^\[\]|\n]{1,200}+)(?:\|([^\[\]\n]{1,200}+))?\]\](?![(\[:])")
_COMMENT = re.compile(r"%%([^%\n]++)%%(?!%)")
_MARKED = re.compile(r"==(?![\s=])([^=\n]{1,400}+)(?<!\s)==(?![=\w])")
_CALLOUT = re.compile(r"\[!([A-Za-z][A-Za-z-]{1,20})\][+-]?[ \t]*+(\n|\Z)?")
_DIV = re.compile(r":{3,20}+\s?(?:\{[^{}]{0,200}+\}|[\w.-]{0,40}+)\s{0,4}:{0,20}\s{0,4}")
_OPENS_TABLE, _CLOSES_TABLE = re.compile(r"<table\b", re.IGNORECASE), re.compile(r"</table\s?>", re.IGNORECASE)
_MARKDOWN = re.compile(r"\s*(?:[|#>`~]|[-*+]\s|\d{1,9}[.)]\s)")
"""Pattern of the beginning of a Markdown block, which the cells of an HTML layout table contain."""
_VAIN = 8
"""Most lines that may be searched in vain for each line of the text, so that the work is linear."""


def add_rules(parser: Any) -> None:
    """Add the rules to a markdown-it parser."""
    interrupts = {"alt": ["paragraph", "reference", "blockquote", "list"]}
    parser.block.ruler.before("table", "text_table", _text_table)
    parser.block.ruler.before("fence", "comment_block", _comment_block, interrupts)
    parser.block.ruler.before("fence", "latex", _latex, interrupts)
    parser.block.ruler.before("reference", "definition", _definition)
    parser.block.ruler.before("reference", "note", _note, interrupts)
    parser.block.ruler.before("reference", "fenced_div", _fenced_div, interrupts)
    parser.block.ruler.before("html_block", "html_table", _html_table, interrupts)
    parser.inline.ruler.before("escape", "formula", _inline_formula)
    for rule in (_note_mark, _wiki_link, _comment, _take_mark_signs, _callout):
        parser.inline.ruler.before("escape", rule.__name__.strip("_"), rule)


# ---------------------------------------------------------------- blocks


def _line(state: Any, number: int) -> str:
    return str(state.src[state.bMarks[number] + state.tShift[number] : state.eMarks[number]])


def _push(state: Any, kind: str, start: int, end: int, content: str, **meta: Any) -> bool:
    token = state.push(kind, "", 0)
    token.map, token.content, token.meta = [start, end], content, meta
    state.line = end
    return True


def _may_search(state: Any, start: int, end: int) -> bool:
    """Say whether lines may still be searched for an end, since few were searched in vain so far."""
    return int(state.env.get("vain", 0)) <= _VAIN * (state.lineMax + 1) + 100 and start < end


def _in_vain(state: Any, lines: int) -> None:
    state.env["vain"] = state.env.get("vain", 0) + lines


def _latex(state: Any, start: int, end: int, silent: bool) -> bool:
    if state.is_code_block(start):
        return False
    line = _line(state, start)
    if line.startswith("$$"):
        return _displayed_formula(state, start, end, silent, line, "$$", "$$")
    if not line.startswith("\\"):
        return False
    if line.startswith("\\["):
        return _displayed_formula(state, start, end, silent, line, "\\[", "\\]")
    if begin := _BEGIN.match(line):
        name = _name_of_table(line) or begin[1]
        if name in TABLES or name in FORMULAS or name in _VERBATIM:
            return _environment(state, start, end, silent, name)
        if name in _LISTS and not silent:
            state.env.setdefault("lists", []).append([_LISTS[name], 0])
    elif line.startswith("\\end") and state.env.get("lists") and not silent:
        state.env["lists"].pop()
    if item := _ITEM.match(line):
        return silent or _item(state, start, end, line, item)
    if found := _WITH_TEXT.match(line):
        return _command(state, start, end, silent, found[1])
    if (bare := _WITHOUT_TEXT.match(line)) and _is_alone(line, bare.end()):
        return silent or _push(state, "latex_nothing", start, start + 1, line)
    return False


def _name_of_table(line: str) -> str | None:
    """Return the name of a table that begins on a line after commands only, such as `\begin{table}`."""
    for found in _BEGIN.finditer(line):
        if found[1] in TABLES:
            return found[1] if _COMMANDS.fullmatch(line, 0, found.start()) else None
    return None


def _is_alone(line: str, at: int) -> bool:
    while at < len(line) and (argument := _ARGUMENT.match(line, at)):
        at = argument.end()
    return at >= len(line)


def _displayed_formula(state: Any, start: int, end: int, silent: bool, line: str, opens: str, closes: str) -> bool:
    """Parse a displayed formula: it ends on the same line or a later one, and little text follows it."""
    content: list[str] = []
    rest, at = line[len(opens) :], start
    while True:
        close = rest.find(closes)
        if close >= 0:
            content.append(rest[:close])
            break
        content.append(rest)
        at += 1
        if at >= end or not _may_search(state, at, end) or state.sCount[at] < state.blkIndent:
            _in_vain(state, at - start)
            return False
        rest = _line(state, at)
    label = rest[close + len(closes) :].strip()
    inner = "\n".join(content)
    if len(label) > LONGEST_LABEL or not inner.strip() or (opens == "\\[" and not is_maths(inner)):
        return False
    return silent or _push(state, "latex_formula", start, at + 1, inner, label=label.strip(".,;"))


LONGEST_LABEL = 12
"""Most characters after a displayed formula that may be its number, such as `(3)`."""


def _environment(state: Any, start: int, end: int, silent: bool, name: str) -> bool:
    """Parse the lines from `\begin{name}` to its `\end{name}`. Text after the end is a paragraph."""
    depth, at = 0, start
    while at < end and (at == start or _may_search(state, at, end)):
        for found in _SIGN.finditer(state.src, state.bMarks[at], state.eMarks[at]):
            if found[2] != name:
                continue
            depth += 1 if found[1] == "begin" else -1
            if depth == 0:
                return silent or _push_environment(state, start, at + 1, name, found.end())
        at += 1
    _in_vain(state, at - start)
    return False


def _push_environment(state: Any, start: int, end: int, name: str, close: int) -> bool:
    kind = "table" if name in TABLES else "formula" if name in FORMULAS else "code"
    rest = state.src[close : state.eMarks[end - 1]].strip()
    content = state.getLines(start, end, state.blkIndent, False)
    content = content[: len(content.rstrip()) - len(rest)] if rest and kind != "table" else content
    raw = state.bMarks[start] == 0 or state.src[state.bMarks[start] - 1] == "\n"
    _push(state, f"latex_{kind}", start, end, content, name=name, raw=raw)
    commands = _COMMANDS.match(rest)
    rest = rest[commands.end() :] if commands else rest
    if rest:
        _push_paragraph(state, start, end, rest)
    return True


def _push_paragraph(state: Any, start: int, end: int, content: str, **meta: Any) -> None:
    for kind, nesting in (("paragraph_open", 1), ("inline", 0), ("paragraph_close", -1)):
        token = state.push(kind, "p" if nesting else "", nesting)
        token.map, token.content, token.meta = [start, end], content if not nesting else "", meta
        token.children = [] if not nesting else None
    state.line = end


def _item(state: Any, start: int, end: int, line: str, item: Any) -> bool:
    at = start + 1
    while at < end and not state.isEmpty(at) and not _line(state, at).startswith(("\\item", "\\begin", "\\end")):
        at += 1
    lists = state.env.get("lists") or [["•", 0]]
    lists[-1][1] += 1
    marker = item[1] or (f"{lists[-1][1]}." if lists[-1][0] == "1" else "•")
    content = "\n".join([line[item.end() :], *(_line(state, number) for number in range(start + 1, at))])
    return _push(state, "latex_item", start, at, content, marker=marker, level=len(lists), given=bool(item[1]))


def _command(state: Any, start: int, end: int, silent: bool, name: str) -> bool:
    """Parse a command with a text in braces, which may continue for some lines."""
    depth, at = 0, start
    while at < min(end, start + MOST_LINES) and not state.isEmpty(at):
        line = _line(state, at)
        depth += line.count("{") - line.count("\\{") - line.count("}") + line.count("\\}")
        at += 1
        if depth <= 0:
            content = state.getLines(start, at, state.blkIndent, False).strip()
            return silent or _push(state, "latex_text", start, at, content, name=name)
    return False


MOST_LINES = 20
"""Most lines of the text of one command, such as a caption."""


def _note(state: Any, start: int, end: int, silent: bool) -> bool:
    """Parse a note, `[^1]: text`, and its further paragraphs, which are indented."""
    if state.is_code_block(start) or not (note := _NOTE.match(_line(state, start))):
        return False
    if silent:
        return True
    at = start + 1
    while at < end and not state.isEmpty(at) and not _line(state, at).startswith("[^"):
        at += 1
    notes = state.env.setdefault("notes", {})
    label = note[1] if note[1].isdigit() else str(notes.setdefault(note[1], len(notes) + 1))
    notes[note[1]] = label
    content = state.getLines(start, at, state.blkIndent, False).strip()
    _push_paragraph(state, start, at, content[note.end() :], note=label)
    _take_indented(state, at, end, note=label)
    return True


def _take_indented(state: Any, at: int, end: int, **meta: Any) -> None:
    """Parse the indented paragraphs that belong to the block above them."""
    while True:
        begin = at
        while begin < end and state.isEmpty(begin):
            begin += 1
        if begin == at or begin >= end or not state.is_code_block(begin):
            return
        at = begin
        while at < end and not state.isEmpty(at):
            at += 1
        _push_paragraph(state, begin, at, state.getLines(begin, at, state.sCount[begin], False).strip(), **meta)


def _definition(state: Any, start: int, end: int, silent: bool) -> bool:
    """Parse a term and its definitions; each begins with a colon on a separate line."""
    if silent or state.is_code_block(start) or not _TERM.match(_line(state, start)):
        return False
    at = start + 1 + (start + 1 < end and state.isEmpty(start + 1))
    if not _begins_definition(state, at, end):
        return False
    _push_paragraph(state, start, start + 1, _line(state, start).strip(), definition="term")
    while _begins_definition(state, at, end):
        begin, at = at, at + 1
        while at < end and not state.isEmpty(at) and not _begins_definition(state, at, end):
            if at + 1 < end and _begins_definition(state, at + 1, end):  # the next term
                break
            at += 1
        content = state.getLines(begin, at, state.blkIndent, False).strip()
        sign = _DEFINITION.match(content)
        _push_paragraph(state, begin, at, content[sign.end() if sign else 0 :], definition="first")
        _take_indented(state, at, end, definition="more")
        at = state.line
        if at + 1 < end and state.isEmpty(at) and _begins_definition(state, at + 1, end):
            at += 1
    return True


def _begins_definition(state: Any, at: int, end: int) -> bool:
    return at < end and not state.is_code_block(at) and _DEFINITION.match(_line(state, at)) is not None


def _text_table(state: Any, start: int, end: int, silent: bool) -> bool:
    """Parse a table in pandoc's forms, outside of lists and quotes."""
    if silent or state.level:
        return False
    close = end_of_table(lambda at: str(state.src[state.bMarks[at] : state.eMarks[at]]), start, end)
    return close > start and _push(state, "text_table", start, close, "")


def _comment_block(state: Any, start: int, end: int, silent: bool) -> bool:
    """Parse an Obsidian comment over several lines, from a line that begins with `%%` to one that ends with it."""
    first = _line(state, start).rstrip()
    if state.is_code_block(start) or not first.startswith("%%") or "%" in first[2:]:
        return False
    at = start + 1
    while at < end and not _line(state, at).rstrip().endswith("%%"):
        at += 1
        if not _may_search(state, at, end):
            at = end
    if at >= end:
        _in_vain(state, at - start)
        return False
    if not silent:
        state.env["comments"] = state.env.get("comments", 0) + 1
        content = state.getLines(start, at + 1, state.blkIndent, False).strip()
        _push(state, "comment_block", start, at + 1, content[2:-2])
    return True


def _fenced_div(state: Any, start: int, end: int, silent: bool) -> bool:
    """Skip a line that only opens or closes a part, such as `::: {.note}` (pandoc, MyST, Docusaurus)."""
    if state.is_code_block(start) or not _DIV.fullmatch(_line(state, start)):
        return False
    if not silent:
        state.line = start + 1
    return True


def _html_table(state: Any, start: int, end: int, silent: bool) -> bool:
    """Parse an HTML table as a whole although it contains blank lines, unless Markdown blocks are inside."""
    if silent or state.is_code_block(start) or not _line(state, start).startswith("<"):
        return False
    open_tables, blank, across, at = 0, False, False, start
    while at < end:
        if state.isEmpty(at):
            if not open_tables:
                break
            blank = True
        else:
            if state.sCount[at] < state.blkIndent:
                break
            line = _line(state, at)
            if blank and _MARKDOWN.match(line):
                _in_vain(state, at - start)
                return False
            across, blank = across or blank, False
            open_tables += len(_OPENS_TABLE.findall(line)) - len(_CLOSES_TABLE.findall(line))
        at += 1
        if not _may_search(state, start, end):
            return False
    if open_tables > 0 or not across:
        _in_vain(state, at - start)
        return False
    return _push(state, "html_block", start, at, state.getLines(start, at, state.blkIndent, True))


# ---------------------------------------------------------------- formulas within a line


def _inline_formula(state: Any, silent: bool) -> bool:
    source, at = state.src, state.pos
    if source[at] == "$":
        if source.startswith("$$", at):
            return _double_dollars(state, silent, source, at)
        found = DOLLARS.match(source, at)
        if found is None or not is_formula(source, at, found.end()):
            return False
        return _push_inline(state, silent, found["math"], found.end(), False)
    if dressed := _DRESSED.match(source, at):
        return _push_inline(state, silent, dressed[0], dressed.end(), False)
    round = ROUND.match(source, at) if source.startswith("\\(", at) else None
    return round is not None and is_maths(round[1]) and _push_inline(state, silent, round[1], round.end(), False)


def _double_dollars(state: Any, silent: bool, source: str, at: int) -> bool:
    close = source.find("$$", at + 2) if not state.cache.get(_NO_CLOSE) else -1
    if close < 0:
        state.cache[_NO_CLOSE] = 1
        return False
    inner = source[at + 2 : close]
    return is_maths(inner) and _push_inline(state, silent, inner, close + 2, True)


_DRESSED = re.compile(r"\\(?:text(?:bf|it|rm|sf|tt|sc|normal)?|emph|underline|math(?:bf|rm|it))\{[^{}\n]{1,200}+\}")
"""Pattern of a command outside of formulas that only formats its words."""
_NO_CLOSE = -1
"""Key in a paragraph's cache, besides positions, for the fact that no `$$` follows."""


def _push_inline(state: Any, silent: bool, content: str, end: int, display: bool) -> bool:
    if not silent:
        token = state.push("formula", "", 0)
        token.content, token.meta = content, {"display": display}
    state.pos = end
    return True


# ---------------------------------------------------------------- signs of pandoc and Obsidian within a line


def _note_mark(state: Any, silent: bool) -> bool:
    """Parse the reference of a note that the text contains."""
    found = _NOTE_MARK.match(state.src, state.pos) if state.src.startswith("[^", state.pos) else None
    number = state.env.get("notes", {}).get(found[1]) if found else None
    if found is None or number is None:
        return False
    if not silent:
        token = state.push("note_mark", "", 0)
        token.content, token.meta = found[0], {"number": number}
    state.pos = found.end()
    return True


def _wiki_link(state: Any, silent: bool) -> bool:
    """Parse `[[page]]` and `[[page|words]]`, which show the page's name or the words."""
    found = _WIKI_LINK.match(state.src, state.pos) if state.src[state.pos] in "[!" else None
    if found is None or found[1].endswith(" "):
        return False
    if not silent:
        state.push("text", "", 0).content = (found[2] or found[1]).strip()
    state.pos = found.end()
    return True


def _comment(state: Any, silent: bool) -> bool:
    found = _COMMENT.match(state.src, state.pos) if state.src.startswith("%%", state.pos) else None
    before = state.src[state.pos - 1 : state.pos]
    if found is None or before == "%" or before.isalnum():
        return False
    if not silent:
        state.env["comments"] = state.env.get("comments", 0) + 1
        state.push("comment", "", 0).content = found[1].strip()
    state.pos = found.end()
    return True


def _take_mark_signs(state: Any, silent: bool) -> bool:
    """Remove the signs around `==marked words==`."""
    found = _MARKED.match(state.src, state.pos) if state.src.startswith("==", state.pos) else None
    before = state.src[state.pos - 1 : state.pos]
    if found is None or before == "=" or before.isalnum():
        return False
    if not silent:
        last = state.posMax
        state.pos, state.posMax = found.start(1), found.end(1)
        state.md.inline.tokenize(state)
        state.posMax = last
    state.pos = found.end()
    return True


def _callout(state: Any, silent: bool) -> bool:
    """Parse the mark of a callout, `[!note]`; the kind becomes the title if it has none."""
    found = _CALLOUT.match(state.src) if not state.pos else None
    if found is None or found.end() > state.posMax:
        return False
    if not silent and found[2] is not None:
        state.push("text", "", 0).content = found[1]
        state.push("callout_end", "", 0)
    state.pos = found.end()
    return True
