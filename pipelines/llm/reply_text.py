"""The cleaning and checking of text that a language model wrote."""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Set

from pipelines.ports import Reply

# Invisible characters: controls, format characters (zero-width, bidirectional, tags), surrogates and noncharacters go
# by category. Fillers and variation selectors count as letters or marks, so they go by name.
_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Cn"})
_FILLERS = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0\ufe00-\ufe0f\U000e0100-\U000e01ef]")
_LINE_END = re.compile("\r\n|[\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")

_THOUGHT = re.compile(r"\A.*</think(?:ing)?>|<think(?:ing)?>.*\Z", re.IGNORECASE | re.DOTALL)
_MARK = r"(?:<[|｜][^<>\n]{1,60}?[|｜]>|</?(?:start|end)_of_turn>|\[/?INST\]|<</?SYS>>)"
_FIRST_MARKS = re.compile(rf"\A\s*+(?:{_MARK}\s*+(?:assistant|model)?\s*+)++", re.IGNORECASE)
_LATER_MARKS = re.compile(rf"{_MARK}.*\Z", re.IGNORECASE | re.DOTALL)

_ADDRESS = (
    r"(?:(?<![\w+.-])[\w+.-]*://|(?<!\w)www\d?\.|(?<!\w)(?:mailto|javascript|vbscript|tel|sms):"
    r"|(?<!\w)data:[\w.+-]+/|(?<![\w@.-])(?:[\w-]+\.)+[a-z]{2,24}/)(?:[^\s<>()\[\]\"«»“”]|\([^\s()]*\))*+"
)
_LINK = re.compile(r"!?\[([^\[\]]*)\]\([^()]*(?:\([^()]*\)[^()]*)*\)")
_REFERENCE = re.compile(rf"\[[^\[\]\n]+\]: ?<?(?={_ADDRESS})", re.IGNORECASE)
_BARE = re.compile(rf"(?P<open>\s?[(\[<]\s?)?(?P<space>\s?)(?P<address>{_ADDRESS})(?P<close>\s?[)\]>])?", re.IGNORECASE)

_UNSHOWN = re.compile(r"<(script|style)\b[^<>]*+>|<!--", re.IGNORECASE)
_UNSHOWN_ENDS = {
    "": re.compile("-->"),
    "script": re.compile(r"</script\s*+>", re.IGNORECASE),
    "style": re.compile(r"</style\s*+>", re.IGNORECASE),
}
_BREAK = re.compile(r"</?(?:br|p|div|li|ul|ol|tr|td|th|h[1-6])(?:\s[^<>]*)?/?>", re.IGNORECASE)
_TAG = re.compile(r"</?[a-z][\w:-]*(?:\s[^<>=]*=[^<>]*)?\s?/?>", re.IGNORECASE)

_HALF_TAG = re.compile(r"</[a-z][\w:-]*", re.IGNORECASE)
"""An unfinished tag, such as a model leaves when it repeats the marks of its prompt incompletely."""

_FENCE = re.compile(r"^[ \t]*(?:```|~~~)[\w+-]*[ \t]*$", re.MULTILINE)
_LINE_MARK = re.compile(
    r"^[ \t]*(?:#{1,6}[ \t]+|>[ \t]?|[-–—*+•▪◦‣·][ \t]+|\d{1,2}[.)][ \t]+|(?:=+|-{3,}|_{3,}|\*{3,})[ \t]*$)",
    re.MULTILINE,
)
_EMPHASIS = (
    re.compile(r"\*{2,}|~~|`"),
    re.compile(r"(?<![\w*])\*(?=\S)([^*\n]+?)(?<=\S)\*(?![\w*])"),
    re.compile(r"(?<!\w)(_{1,3})(?=[^\s_])([^\n]{1,300}?)(?<=[^\s_])\1(?!\w)"),
)

_LABELS = (
    r"(?:sure|certainly|of course|okay|ok|звісно|звичайно|гаразд|авжеж)[,.!]+\s+(?=here\b|ось\b)",
    r"(?:here(?:['’]s| is| are)|ось|нижче наведено)\b[^:.\n]{0,100}:",
    r"(?:(?:the|a|an|brief|short|concise|document|chunk) )*(?:summary|context|description|answer|response|tl;?dr)"
    r"(?: of (?:the|this) \w+)?(?:\s*:|[ \t]*\n)",
    r"(?:(?:коротке|короткий|стисле|стислий) )*(?:резюме|зміст|підсумок|опис|контекст|відповідь|анотація|виклад)"
    r"(?: (?:цього )?(?:документа|тексту|фрагмента|уривка|розділу|зображення|рисунка))?(?:\s*:|[ \t]*\n)",
)
_LABEL = re.compile(rf"\A\s*(?:{'|'.join(_LABELS)})\s*", re.IGNORECASE)
_QUOTED = re.compile(r"\"([^\"]*)\"|“([^“”]*)”|«([^«»]*)»|„([^„“”]*)[“”]|['‘]((?:[^'‘’]|(?<=\w)['’](?=\w))*)['’]")
_SENTENCE_END = re.compile(r"(?<![.!?…])[.!?…]++[\"'”’»)\]]*+(?=\s)")

_REFUSALS = (
    r"(?:i['’]?m|i am) (?:(?:very|so|truly|really|deeply) )?(?:sorry|afraid|unable|not able)\b",
    r"sorry[,.!]? (?:but )?(?:i|we|as)\b",
    r"i (?:can ?not|can['’]?t|could not|couldn['’]t|won['’]t|will not|(?:do not|don['’]t) (?:have|see))\b",
    r"(?:my apologies|i (?:must )?apologi[sz]e)\b",
    r"as an? (?:ai|artificial intelligence|(?:large )?language model)\b",
    r"(?:please|could you(?: please)?|can you(?: please)?) (?:provide|share|paste|send|upload|give) (?:me )?(?:with )?"
    r"(?:(?:the|a|more|some|your) )*(?:document|text|content|passage|chunk|excerpt|input|image|picture)",
    r"it (?:looks|seems|appears) (?:like |that )?(?:you|there(?:['’]s| is) no|no)\b",
    r"no (?:document|text|content|passage|chunk) (?:was|is|has been) (?:provided|given|included)\b",
    r"(?:вибачте|вибач|перепрошую|пробачте|даруйте|мені (?:дуже )?(?:шкода|прикро))\b",
    r"я не (?:можу|зможу|маю|здатн\w+|вмію|в змозі|бачу)\b",
    r"не можу (?:надати|скласти|створити|виконати|допомогти|відповісти|описати|підсумувати)\b",
    r"(?:як|я) (?:ші|ai|штучний інтелект|(?:велика )?мовна модель|ші-модель)\b",
    r"(?:будь ласка,? )?(?:надайте|надішліть|вставте|додайте|поділіться)(?: мені)?(?:,? будь ласка,?)?"
    r" (?:текст|документ|уривок|фрагмент|вміст|зображення)",
    r"(?:текст|документ|уривок|фрагмент) (?:не надано|не було надано|відсутній|порожній)\b",
)
_REFUSAL = re.compile(rf"(?:(?:unfortunately|на жаль),? )?(?:{'|'.join(_REFUSALS)})", re.IGNORECASE)
_WORD = re.compile(r"\w")

LONGEST = 20_000
"""Most characters of a reply that are read."""
REPEATED_WORDS = 8
"""Number of words in a row: a reply that shares a run of this length with its prompt repeats the prompt."""


def clean(text: str, characters: int) -> str:
    """Return one line of plain words, at most `characters` long; cleaning it again changes nothing.

    Removed are thoughts (`<think>`), marks of chat templates and the text that follows them, code fences, labels such
    as "Summary:", quotation marks around the whole, Markdown and HTML, addresses of links (their words stay), and
    invisible characters. A text that is too long is cut at the end of a sentence, else at a word with `…`."""
    text = text[: max(LONGEST, characters)]
    # One removal can expose another. Every round shortens the text or leaves it, so this ends.
    while (better := cut_at_sentence(_round(text), characters)) != text:
        text = better
    return text


def runs_of(*texts: str) -> frozenset[str]:
    """Return all runs of REPEATED_WORDS words in a row, ignoring punctuation."""
    found: set[str] = set()
    for text in texts:
        words = re.findall(r"\w+", clean(text, LONGEST).casefold())
        starts = range(len(words) - REPEATED_WORDS + 1)
        found.update(" ".join(words[at : at + REPEATED_WORDS]) for at in starts)
    return frozenset(found)


def unusable(reply: Reply, characters: int, told: Set[str] = frozenset()) -> str | None:
    """Return why a reply is unusable as a text of about `characters`, or None if it is usable after cleaning. `told`
    holds the runs (`runs_of`) of the model's instructions, which a reply must not repeat."""
    if reply.finish == "length":
        return "the reply was cut short"
    if reply.finish == "content_filter":
        return "the endpoint's content filter withheld the reply"
    text = clean(reply.text, 5 * characters)
    if not _WORD.search(text):
        return "the reply was empty"
    if _REFUSAL.match(text):
        return "the model refused"
    if not told.isdisjoint(runs_of(text)):
        return "the reply repeats its prompt"
    if len(text) > 2 * characters:
        return f"the reply is more than twice as long as the {characters} characters allowed"
    return None


def cut_at_sentence(text: str, characters: int) -> str:
    """Return the text, cut if it is longer than `characters`: at the last sentence end in the second half, else at a
    word."""
    if len(text) <= characters:
        return text
    ends = [match.end() for match in _SENTENCE_END.finditer(text, 0, characters + 1)]
    if ends and ends[-1] * 2 >= characters:
        return text[: ends[-1]]
    return clip(text, characters)


def clip(text: str, characters: int) -> str:
    """Return the text, cut at the end of a word and with an ellipsis if it is too long."""
    if len(text) <= characters:
        return text
    cut = text[: max(0, characters - 1)]
    if " " in cut and not text[len(cut)].isspace():
        cut = cut.rsplit(None, 1)[0]
    return (cut.rstrip(" ,;:.") + "…")[:characters]


def _round(text: str) -> str:
    text = html.unescape(_visible(text))
    for marks in (_THOUGHT, _FIRST_MARKS, _LATER_MARKS):
        text = marks.sub("", text)
    text = _without_links(_without_unshown(text))
    text = _HALF_TAG.sub("", _TAG.sub("", _BREAK.sub("\n", text)))
    text = _LINE_MARK.sub("", _FENCE.sub("", text))
    for marks in _EMPHASIS:
        text = marks.sub(lambda match: match.group(match.lastindex) if match.lastindex else "", text)
    text = " ".join(_LABEL.sub("", text).split())
    if quoted := _QUOTED.fullmatch(text):
        text = next(part for part in quoted.groups() if part is not None).strip()
    return text


def _visible(text: str) -> str:
    """Return the text without invisible characters; every line is trimmed, with single spaces."""
    lines = _FILLERS.sub("", _LINE_END.sub("\n", text)).replace("\t", " ").split("\n")
    seen = ("".join(sign for sign in line if unicodedata.category(sign) not in _UNSEEN) for line in lines)
    return "\n".join(line for line in (" ".join(each.split()) for each in seen) if line)


def _without_unshown(text: str) -> str:
    """Return the text without scripts, styles and comments that are closed. If one opening tag is never closed, later
    ones of its kind are not searched, so the work stays linear."""
    kept, at, endless = [], 0, set[str]()
    for opened in _UNSHOWN.finditer(text):
        kind = (opened[1] or "").lower()
        if opened.start() < at or kind in endless:
            continue
        if ended := _UNSHOWN_ENDS[kind].search(text, opened.end()):
            kept.append(text[at : opened.start()])
            at = ended.end()
        else:
            endless.add(kind)
    return "".join([*kept, text[at:]])


def _without_links(text: str) -> str:
    """Return the text without links. A `](` that remains after complete links are removed is broken up, so that it
    cannot begin a link."""
    return _BARE.sub(_unlink, _REFERENCE.sub("", _LINK.sub(r"\1", text))).replace("](", " (")


def _unlink(match: re.Match[str]) -> str:
    """Remove an address with the brackets around it, but keep punctuation after it."""
    opened, address, closed = match["open"] or "", match["address"], match["close"] or ""
    if opened and closed:
        return ""
    return opened + address[len(address.rstrip(".,;:!?'’*_")) :] + closed
