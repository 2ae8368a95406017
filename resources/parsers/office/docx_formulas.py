"""Formulas of Office (OMML) as LaTeX. Recursion is safe, since the XML parser refuses deep nesting."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

from resources.parsers.formulas import SYMBOLS

M = "{http://schemas.openxmlformats.org/officeDocument/2006/math}"
_FUNCTION_NAMES = """
sin cos tan cot sec csc arcsin arccos arctan sinh cosh tanh log ln lg exp lim max min sup inf det gcd dim ker
"""
_FUNCTIONS = frozenset(_FUNCTION_NAMES.split())
_PLAIN = str.maketrans({"−": "-", "–": "-", "\u2061": "", "\u2062": "", "\u00a0": " "})
_ACCENTS = {
    "\u0302": "hat", "\u0303": "tilde", "\u0304": "bar", "\u0305": "overline", "\u0307": "dot", "\u0308": "ddot",
    "\u20d7": "vec", "\u030c": "check", "\u0306": "breve", "\u0301": "acute", "\u0300": "grave",
}  # fmt: skip
_GROUPS = {"⏟": "underbrace", "⏞": "overbrace", "⎵": "underbracket", "⎴": "overbracket", "→": "overrightarrow"}
_FENCES = {"{": r"\{", "}": r"\}", "〈": r"\langle", "〉": r"\rangle", "⟨": r"\langle", "⟩": r"\rangle", "": ".",
           "‖": r"\|", "⌊": r"\lfloor", "⌋": r"\rfloor", "⌈": r"\lceil", "⌉": r"\rceil"}  # fmt: skip
_NEW_ROW = r" \\ "
_ENDS_IN_COMMAND = re.compile(r"\\[A-Za-z]+\Z")
_LONGEST_COMMAND = 64
"""Characters at the end of a text that are searched for a command: searching the whole text for each part would take
quadratic time."""


def latex(formula: Any) -> str:
    """Return the LaTeX of an `m:oMath`, or of any part of it. For an unknown part, return the LaTeX of its content."""
    return _join(_part(child) for child in formula if isinstance(child.tag, str))


def _join(parts: Iterable[str]) -> str:
    text = ""
    for part in parts:
        text += " " if _ENDS_IN_COMMAND.search(text[-_LONGEST_COMMAND:]) and part[:1].isalnum() else ""
        text += part
    return text


def _part(element: Any) -> str:
    name = element.tag.removeprefix(M)
    if name.endswith("Pr"):
        return ""
    if name == "t":
        return _join(f"\\{SYMBOLS[c]}" if c in SYMBOLS else c for c in (element.text or "").translate(_PLAIN))
    written = _WRITTEN.get(name)
    return written(element) if written is not None and element.tag.startswith(M) else latex(element)


def _part_of(element: Any, name: str) -> str:
    found = element.find(f"{M}{name}")
    return "" if found is None else latex(found)


def _property(element: Any, name: str, default: str) -> str:
    """Return `m:val` of a property; an empty value counts as a value."""
    kind = element.tag.removeprefix(M)
    found = element.find(f"{M}{kind}Pr/{M}{name}")
    return default if found is None else found.get(f"{M}val", "")


def _scripts(element: Any) -> str:
    below, above = element.find(f"{M}sub"), element.find(f"{M}sup")
    return (f"_{{{latex(below)}}}" if below is not None and len(below) else "") + (
        f"^{{{latex(above)}}}" if above is not None and len(above) else ""
    )


def _run(element: Any) -> str:
    text = latex(element)
    return rf"\text{{{text}}}" if element.find(f"{M}rPr/{M}nor") is not None and text.strip() else text


def _fraction(element: Any) -> str:
    above, below = _part_of(element, "num"), _part_of(element, "den")
    if _property(element, "type", "bar") == "noBar":
        return rf"\genfrac{{}}{{}}{{0pt}}{{}}{{{above}}}{{{below}}}"
    return rf"\frac{{{above}}}{{{below}}}"


def _write_delimited(element: Any) -> str:
    fences = [_property(element, name, default) for name, default in (("begChr", "("), ("endChr", ")"))]
    left, right = (_FENCES.get(fence, fence) for fence in fences)
    inside = _property(element, "sepChr", "|").join(latex(part) for part in element.findall(f"{M}e"))
    return _join((rf"\left{left}", inside, rf"\right{right}"))


def _operator(element: Any) -> str:
    sign = _property(element, "chr", "∫")
    return _join((f"\\{SYMBOLS[sign]}" if sign in SYMBOLS else sign, _scripts(element), _part_of(element, "e")))


def _function(element: Any) -> str:
    return _join((_name_function(_part_of(element, "fName")), _part_of(element, "e")))


def _name_function(text: str) -> str:
    """Return `\lim_{...}` for `lim_{...}`: the first letters become a function name."""
    name = re.match(r"[A-Za-z]*", text.strip())
    return f"\\{text.strip()}" if name and name[0] in _FUNCTIONS else text


def _limit(mark: str) -> Callable[[Any], str]:
    return lambda element: f"{_name_function(_part_of(element, 'e'))}{mark}{{{_part_of(element, 'lim')}}}"


def _radical(element: Any) -> str:
    degree = _part_of(element, "deg")
    return rf"\sqrt[{degree}]{{{_part_of(element, 'e')}}}" if degree else rf"\sqrt{{{_part_of(element, 'e')}}}"


def _accent(element: Any) -> str:
    mark = _ACCENTS.get(_property(element, "chr", "\u0302"), "hat")
    return rf"\{mark}{{{_part_of(element, 'e')}}}"


def _bar(element: Any) -> str:
    mark = "overline" if _property(element, "pos", "bot") == "top" else "underline"
    return rf"\{mark}{{{_part_of(element, 'e')}}}"


def _group(element: Any) -> str:
    mark = _GROUPS.get(_property(element, "chr", "⏟"))
    return rf"\{mark}{{{_part_of(element, 'e')}}}" if mark else _part_of(element, "e")


def _matrix(element: Any) -> str:
    rows = [" & ".join(latex(cell) for cell in row.findall(f"{M}e")) for row in element.findall(f"{M}mr")]
    return r"\begin{matrix}" + _NEW_ROW.join(rows) + r"\end{matrix}"


def _equations(element: Any) -> str:
    return r"\begin{aligned}" + _NEW_ROW.join(map(latex, element.findall(f"{M}e"))) + r"\end{aligned}"


_WRITTEN: dict[str, Callable[[Any], str]] = {
    "r": _run,
    "f": _fraction,
    "sSup": lambda element: _part_of(element, "e") + _scripts(element),
    "sSub": lambda element: _part_of(element, "e") + _scripts(element),
    "sSubSup": lambda element: _part_of(element, "e") + _scripts(element),
    "sPre": lambda element: "{}" + _scripts(element) + _part_of(element, "e"),
    "d": _write_delimited,
    "nary": _operator,
    "func": _function,
    "limLow": _limit("_"),
    "limUpp": _limit("^"),
    "rad": _radical,
    "acc": _accent,
    "bar": _bar,
    "groupChr": _group,
    "m": _matrix,
    "eqArr": _equations,
}
