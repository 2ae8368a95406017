"""Superscripts and subscripts as plain text that keeps the meaning: 10⁶, m², H₂O, x_i.

Unicode has raised and lowered digits and signs; other characters are written with `^` or `_`. Raised words such as 1st,
Mme and ™ are unchanged, since they are not powers, and so are references in brackets: [1].
"""

from __future__ import annotations

_PLAIN = "0123456789+-=()"
_RAISED = str.maketrans(_PLAIN + "−ni", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁼⁽⁾⁻ⁿⁱ")
_LOWERED = str.maketrans(_PLAIN + "−", "₀₁₂₃₄₅₆₇₈₉₊₋₌₍₎₋")


def raise_text(text: str) -> str:
    """Return superscript text as plain characters, with the spaces around it."""
    return _write_shifted(text, _RAISED, "^")


def lower_text(text: str) -> str:
    """Return subscript text as plain characters, with the spaces around it."""
    return _write_shifted(text, _LOWERED, "_")


def _write_shifted(text: str, forms: dict[int, int], sign: str) -> str:
    bare = text.strip()
    if not bare:
        return text
    if all(ord(char) in forms for char in bare):
        made = bare.translate(forms)
    elif (sign == "^" and _carries_no_power(bare)) or (bare[0], bare[-1]) == ("[", "]"):
        made = bare
    elif bare.isalnum() or (bare[0], bare[-1]) == ("(", ")"):
        made = sign + bare
    else:
        made = f"{sign}({bare})"
    return text.replace(bare, made, 1)


def _carries_no_power(text: str) -> bool:
    return (len(text) > 1 and text.isalpha()) or not any(map(str.isalnum, text))
