"""Formulas as plain text: `10^{6}` is 10⁶, `22\\,\\%` is 22 %, `<mfrac>` is a/b.

LaTeX comes from Markdown and from the annotations of MathML. In a sentence, a formula that plain text cannot express
stays LaTeX. In a table cell, an unknown command is removed but its argument is kept.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from typing import Any

from pipelines.parsing.raised import lower_text, raise_text

# ---------------------------------------------------------------- LaTeX


DEEPEST = 40
"""Most levels of nested groups; deeper groups are unchanged."""
_SYMBOL_NAMES = """
α alpha β beta γ gamma δ delta ε varepsilon ϵ epsilon ζ zeta η eta θ theta ι iota κ kappa λ lambda μ mu ν nu ξ xi
π pi ρ rho σ sigma τ tau υ upsilon φ varphi ϕ phi χ chi ψ psi ω omega Γ Gamma Δ Delta Θ Theta Λ Lambda Ξ Xi Π Pi
Σ Sigma Φ Phi Ψ Psi Ω Omega ∞ infty ∂ partial ∇ nabla ± pm ∓ mp × times ÷ div ⋅ cdot · cdot ∗ ast ≤ leq ≥ geq
≠ neq ≈ approx ≡ equiv ∼ sim ∝ propto ∈ in ∉ notin ⊂ subset ⊃ supset ⊆ subseteq ⊇ supseteq ∪ cup ∩ cap ∧ wedge
∨ vee ¬ neg ∀ forall ∃ exists ∅ emptyset → to ← leftarrow ↔ leftrightarrow ⇒ Rightarrow ⇔ Leftrightarrow ∑ sum
∏ prod ∐ coprod ∫ int ∬ iint ∭ iiint ∮ oint ∯ oiint ∰ oiiint ⋃ bigcup ⋂ bigcap ⋀ bigwedge ⋁ bigvee √ surd
… ldots ⋯ cdots ∘ circ
"""
SYMBOLS = dict(zip(_SYMBOL_NAMES.split()[::2], _SYMBOL_NAMES.split()[1::2], strict=True))
"""LaTeX's names of characters, without the backslash."""
_SIGNS = """
le ≤ ge ≥ ne ≠ leqslant ≤ geqslant ≥ lt < gt > dots … cdots … ldots … prime ′ degree ° textdegree ° circ ∘ star ⋆
bullet • textbullet • dagger † ddagger ‡ dag † ddag ‡ S § P ¶ euro € texteuro € EUR € pounds £ textsterling £ yen ¥
textyen ¥ copyright © textregistered ® texttrademark ™ checkmark ✓ cmark ✓ xmark ✗ square □ Box □ blacksquare ■
rightarrow → longrightarrow → Longrightarrow ⇒ uparrow ↑ downarrow ↓ updownarrow ↕ mapsto ↦ ell ℓ hbar ℏ angle ∠
langle ⟨ rangle ⟩ lfloor ⌊ rfloor ⌋ lceil ⌈ rceil ⌉ mid | vert | Vert ‖ colon : triangle △ bigcirc ○ perp ⊥ parallel ∥
varnothing ∅ cong ≅ simeq ≃ ll ≪ gg ≫ otimes ⊗ oplus ⊕ setminus \\ backslash \\ textbackslash \\ lbrace { rbrace }
textasciitilde ~ textasciicircum ^ textunderscore _ textbar | textless < textgreater > textendash – textemdash —
textquoteright ’ textquoteleft ‘ textquotedblleft “ textquotedblright ” aa å AA Å ae æ AE Æ o ø O Ø oe œ OE Œ ss ß l ł
L Ł i ı varkappa ϰ vartheta ϑ varrho ϱ varpi ϖ varsigma ς therefore ∴ because ∵ colonequals ≔
sin sin cos cos tan tan cot cot sec sec csc csc arcsin arcsin arccos arccos arctan arctan sinh sinh cosh cosh tanh tanh
log log ln ln lg lg exp exp lim lim max max min min sup sup inf inf det det gcd gcd dim dim ker ker arg arg Pr Pr
mod mod bmod mod LaTeX LaTeX TeX TeX
"""
_CHARACTERS = {name: sign for sign, name in SYMBOLS.items()}
_CHARACTERS |= dict(zip(_SIGNS.split()[::2], _SIGNS.split()[1::2], strict=True))
_SPACE_NAMES = ", ; : > quad qquad enspace thinspace medspace thickspace space newline linebreak"
_SPACES = dict.fromkeys(_SPACE_NAMES.split(), " ")
_SPACES |= {" ": " ", "\n": " ", "\t": " ", "!": "", "-": "", "/": "", "\\": " ", "tabularnewline": " "}
_ESCAPED = frozenset("%$&#_{}|")
_KEEP_NAMES = """
mathbf mathrm mathit mathsf mathtt mathcal mathbb mathfrak mathscr mathnormal boldsymbol bm pmb operatorname text textbf
textit textrm textsf texttt textsc textsl textup textmd textnormal emph underline uline mbox hbox fbox makecell thead
shortstack mathop mathord mathrel mathbin ensuremath url caption title section si SI num
"""
_KEPT = frozenset(_KEEP_NAMES.split())
"""Commands that only format their argument."""
_DROP_NAMES = """
bf rm it sf tt sc sl em bfseries itshape rmfamily sffamily ttfamily scshape mdseries upshape normalfont displaystyle
textstyle scriptstyle scriptscriptstyle limits nolimits left right middle big Big bigg Bigg bigl bigr Bigl Bigr biggl
biggr Biggl Biggr tiny scriptsize footnotesize small normalsize large Large LARGE huge Huge centering raggedright
raggedleft noindent indent par arraybackslash hfill vfill hline toprule midrule bottomrule strut null protect relax
nonumber notag item bigstrut allowbreak nobreak unboldmath boldmath
"""
_DROPPED = frozenset(_DROP_NAMES.split())
_LAST_KEPT = {
    "textcolor": 2, "href": 2, "colorbox": 2, "rotatebox": 2, "scalebox": 2, "raisebox": 2, "parbox": 2, "resizebox": 3,
    "multicolumn": 3, "multirow": 3, "fcolorbox": 3, "stackrel": 2, "overset": 2, "underset": 2, "hyperref": 1,
}  # fmt: skip
"""Commands by their number of arguments; the last argument is text."""
_NONE_KEPT = {
    "color": 1, "cellcolor": 1, "rowcolor": 1, "columncolor": 1, "hspace": 1, "vspace": 1, "label": 1, "cline": 1,
    "phantom": 1, "hphantom": 1, "vphantom": 1, "rule": 2, "includegraphics": 1, "fontsize": 2, "setlength": 2,
    "renewcommand": 2, "captionsetup": 1, "arrayrulecolor": 1, "addlinespace": 0, "cmidrule": 1, "end": 1,
}  # fmt: skip
_ACCENTS = {
    "'": "\u0301", "`": "\u0300", "^": "\u0302", '"': "\u0308", "~": "\u0303", "=": "\u0304", ".": "\u0307",
    "u": "\u0306", "v": "\u030c", "H": "\u030b", "c": "\u0327", "r": "\u030a", "k": "\u0328",
    "hat": "\u0302", "bar": "\u0304", "vec": "\u20d7", "tilde": "\u0303", "dot": "\u0307", "ddot": "\u0308",
    "overline": "\u0304", "widehat": "\u0302", "widetilde": "\u0303",
}  # fmt: skip
_COMMAND = re.compile(r"\\([A-Za-z]++\*?|.)?", re.DOTALL)
_PLAIN = re.compile(r"[^\\{}^_$~&]++")
_SPACE = re.compile(r"\s*+")
_OPTION = re.compile(r"\[([^\[\]]{0,200}+)\]")
_AMOUNT = re.compile(r"[\w.,%]+")
_APART = re.compile(r"(?<=\d) +(?=\d)")
_SPACED_SEPARATOR = re.compile(r"(?<=\d) +([.,]) *+(?=\d)")


class _Latex:
    """A reader of one piece of LaTeX, from its first character to its last."""

    def __init__(self, source: str) -> None:
        self.source, self.at, self.depth = source, 0, 0
        self.known = True
        """True if plain text can express all of it."""

    def read(self, math: bool, closed: bool = False) -> str:
        """Return the text up to the end, or up to the brace that closes this group."""
        parts: list[str] = []
        while self.at < len(self.source):
            char = self.source[self.at]
            if char == "}":
                self.at += 1
                if closed:
                    break
            elif char == "$":
                self.at += 1
                math = not math
            elif char in "^_" and math:
                self.at += 1
                while parts and not parts[-1].strip():
                    parts.pop()
                parts[-1:] = [part.rstrip() for part in parts[-1:]]
                parts.append(self._script(char))
            elif plain := _PLAIN.match(self.source, self.at):
                self.at = plain.end()
                parts.append(_without_spaces(plain[0]) if math else _typeset(plain[0]))
            elif char == "\\":
                parts.append(self._command(math, parts))
            else:
                self.at += char != "{"
                parts.append(self.argument(math) if char == "{" else " " if char in "~&" else char)
        return "".join(parts)

    def argument(self, math: bool) -> str:
        self.at = _SPACE.match(self.source, self.at).end()  # type: ignore[union-attr]
        char = self.source[self.at : self.at + 1]
        if char not in ("\\", "{"):
            self.at += char != "}"
            return "" if char == "}" else char
        if self.depth >= DEEPEST:
            self.known = False
            rest, self.at = self.source[self.at + 1 :], len(self.source)
            return rest
        self.depth += 1
        self.at += char == "{"
        text = self.read(math, closed=True) if char == "{" else self._command(math, [])
        self.depth -= 1
        return text

    def _script(self, sign: str) -> str:
        text = self.argument(math=True).strip()
        if not any(len(part) > 1 and part.isalpha() for part in text.split()):
            text = "".join(text.split())
        if sign == "^" and text in ("∘", "°"):
            return "°"
        if text and not text.strip("′'"):
            return text
        return raise_text(text) if sign == "^" else lower_text(text)

    def _command(self, math: bool, before: list[str]) -> str:
        found = _COMMAND.match(self.source, self.at)
        assert found is not None
        self.at = found.end()
        name = found[1] or ""
        bare = name.rstrip("*")
        if name in _ESCAPED:
            return name
        if name in _SPACES:
            return _SPACES[name]
        if name in "()[]" or bare in _DROPPED:
            if bare in ("left", "right") and self.source[self.at : self.at + 1] == ".":
                self.at += 1
            return ""
        if bare in _CHARACTERS:
            if not math and self.source[self.at : self.at + 1] == " " and len(_CHARACTERS[bare]) == 1:
                self.at += 1
            return _CHARACTERS[bare]
        written = self._with_arguments(bare, math, before)
        if written is not None:
            return written
        self.known = False
        return ""

    def _with_arguments(self, name: str, math: bool, before: list[str]) -> str | None:
        if name in _KEPT:
            inner_math = math and not name.startswith(("text", "mbox", "hbox"))
            text = self.argument(inner_math)
            return _unspaced_letters(text) if inner_math else text
        if name in ("frac", "dfrac", "tfrac", "cfrac", "nicefrac", "sfrac"):
            whole = "".join(before[-2:]).rstrip()[-1:].isdigit()
            return (" " if whole else "") + fraction(self.argument(True), self.argument(True))
        if name == "sqrt":
            degree = self._option()
            return root(self.argument(True), degree)
        if name in _ACCENTS:
            text = self.argument(math)
            return unicodedata.normalize("NFC", text[:1] + _ACCENTS[name] + text[1:]) if len(text) < 2 else text
        if name in _NONE_KEPT or name in _LAST_KEPT:
            self._option()
            count = _NONE_KEPT[name] if name in _NONE_KEPT else _LAST_KEPT[name] - 1
            for _ in range(count):
                self.argument(math)
                self._option()
            return "" if name in _NONE_KEPT else self.argument(math)
        if name == "footnote":
            return f" ({self.argument(math).strip()})"
        if name == "tag":
            return f" ({self.argument(math).strip()})"
        if name == "begin":
            inner = self.argument(math)
            self._option()
            self.known = False
            if inner in ("tabular", "array"):
                self.argument(math)
            return " "
        return None

    def _option(self) -> str:
        space = _SPACE.match(self.source, self.at)
        found = _OPTION.match(self.source, space.end() if space else self.at)
        if found is None:
            return ""
        self.at = found.end()
        return found[1]


def _without_spaces(text: str) -> str:
    """Return the text of a formula without spaces within numbers: spaces have no meaning there, and some recognisers
    separate all characters."""
    return _SPACED_SEPARATOR.sub(r"\1", _APART.sub("", text)) if " " in text else text


def _unspaced_letters(text: str) -> str:
    parts = text.split(" ")
    parts = [part for part in parts if part]
    return "".join(parts) if len(parts) > 1 and all(len(part) == 1 for part in parts) else text


def _typeset(text: str) -> str:
    return text.replace("---", "—").replace("--", "–").replace("``", "“").replace("''", "”")


def fraction(above: str, below: str) -> str:
    return f"{_group(above)}/{_group(below)}"


def root(text: str, degree: str = "") -> str:
    text = text.strip()
    return (raise_text(degree.strip()) if degree.strip() else "") + (f"√{text}" if text.isalnum() else f"√({text})")


def _group(text: str) -> str:
    text = " ".join(text.split())
    return text if not text or _AMOUNT.fullmatch(text) else f"({text})"


def formula_text(latex: str) -> str:
    """Return a formula within a sentence as plain text, or as LaTeX if plain text cannot express it."""
    reading = _Latex(latex)
    text = reading.read(math=True)
    return " ".join((text if reading.known else latex).split())


def latex_text(latex: str, math: bool = False) -> str:
    """Return the words of LaTeX, for example of a cell or heading, whatever commands it contains."""
    return " ".join(_Latex(latex).read(math).split())


# ---------------------------------------------------------------- formulas within a text


DOLLARS = re.compile(r"(?<!\\)\$(?P<math>(?![\s$])(?:[^\\$`]|\\.)++)\$(?![$])", re.DOTALL)
"""Pattern of a formula between two dollar signs."""
_PRICE = re.compile(r"[\d.,]++\w{0,3}[\s(]++[A-Za-z]{2,}+[\s,.)]++\S")
_UNFINISHED = frozenset("/-–,;:([|&")
"""Signs with which no formula ends."""
_MATHS = re.compile(r"[\\^_={}+<>|]|\A\s*(?:\w|[\d.,]+)\s*\Z")
ROUND = re.compile(r"\\\((?P<round>(?:[^\\(]|(?<!\\)\(|\\[^()])++)\\\)")
"""Pattern of a formula between `\\(` and `\\)`."""
_INLINE = re.compile(rf"{DOLLARS.pattern}|\$\$(?P<display>(?:[^\\$]|\\.)++)\$\$|{ROUND.pattern}", re.DOTALL)


def is_formula(text: str, start: int, end: int) -> bool:
    """Say whether `text[start:end]`, which two dollar signs enclose, is a formula rather than a price.

    A formula begins and ends without a space, and no letter or digit is next to it, except in a script or command.
    """
    inner = text[start + 1 : end - 1]
    if not inner.strip() or inner[:1].isspace() or inner[-1:].isspace() or _PRICE.match(inner):
        return False
    if "\\" not in inner and (inner[-1] in _UNFINISHED or inner.count("(") != inner.count(")")):
        return False
    around = text[start - 1 : start] if start else "", text[end : end + 1]
    touched = any(char.isascii() and char.isalnum() for char in around)
    return inner[0] in "^_\\{" or not touched


def is_maths(inner: str) -> bool:
    """Say whether the text within `\(` and `\)` is a formula, rather than words in escaped brackets."""
    return bool(_MATHS.search(inner))


def plain_formulas(text: str) -> str:
    """Return a text with its formulas, `$...$` or `\\(...\\)`, as plain text."""
    if "$" not in text and "\\(" not in text:
        return text

    def plain(match: re.Match[str]) -> str:
        if match["math"] is not None:
            return formula_text(match["math"]) if is_formula(text, *match.span()) else match[0]
        inner = match["display"] if match["display"] is not None else match["round"]
        return formula_text(inner) if is_maths(inner) else match[0]

    found, at = list[str](), 0
    while (match := _INLINE.search(text, at)) is not None:
        written = plain(match)
        taken = written != match[0]
        found += [text[at : match.start()], written] if taken else [text[at : match.start() + 1]]
        at = match.end() if taken else match.start() + 1
    return "".join(found) + text[at:]


# ---------------------------------------------------------------- MathML


_INVISIBLE = str.maketrans("", "", "\u2061\u2062\u2063\u2064")
_TEX = ("application/x-tex", "text/x-tex", "latex", "tex", "application/x-latex")


def tex_of(math: Any) -> str:
    """Return the LaTeX annotation of a `math` element, or ""."""
    for note in math.iter("annotation"):
        if (note.get("encoding") or "").strip().lower() in _TEX:
            return "".join(note.itertext()).strip()
    return ""


def mathml_text(math: Any) -> str:
    """Return the text of MathML without an annotation. Its elements are read in reverse order, so nesting needs no
    recursion."""
    found: dict[Any, str] = {}
    for element in reversed(list(math.iter("*"))):
        parts = [found.pop(child, "") + (child.tail or "").strip() for child in element]
        found[element] = _write(element, parts)
    return " ".join(found.get(math, "").split())


def _write(element: Any, parts: list[str]) -> str:
    name = element.tag.rpartition(":")[2] if isinstance(element.tag, str) else ""
    own = (element.text or "").strip().translate(_INVISIBLE)
    if name in ("annotation", "annotation-xml"):
        return ""
    if name == "mo" and own and own in "=<>≤≥≠≈≡→⇒±∓×÷+−-" and not _is_sign(element):
        return f" {own} "
    if name == "mspace":
        return " "
    if name == "mtext":
        return (element.text or "") + "".join(parts)
    if name in _SCRIPTS and len(parts) == 2 + name.endswith(("msubsup", "munderover")):
        return _SCRIPTS[name](parts)
    if name == "msqrt":
        return root("".join(parts))
    if name in ("mtr", "mlabeledtr"):
        return ", ".join(parts) + "; "
    if name == "mtable":
        return "".join(parts).rstrip("; ")
    if name == "mfenced":
        return (element.get("open") or "(") + ", ".join(parts) + (element.get("close") or ")")
    return own + "".join(parts)


def _is_sign(operator: Any) -> bool:
    """Say whether an operator is a sign: it comes first, or after another operator."""
    before = operator.getprevious()
    return operator.text.strip() in "+−-±∓" and (before is None or before.tag == "mo")


_SCRIPTS: dict[str, Callable[[list[str]], str]] = {
    "mfrac": lambda parts: fraction(parts[0], parts[1]),
    "msup": lambda parts: parts[0] + _power(parts[1]),
    "msub": lambda parts: parts[0] + lower_text(parts[1].strip()),
    "mroot": lambda parts: root(parts[0], parts[1]),
    "msubsup": lambda parts: parts[0] + lower_text(parts[1].strip()) + _power(parts[2]),
    "munder": lambda parts: parts[0] + lower_text(parts[1].strip()),
    "mover": lambda parts: parts[0] + _power(parts[1]),
    "munderover": lambda parts: parts[0] + lower_text(parts[1].strip()) + _power(parts[2]) + " ",
}


def _power(text: str) -> str:
    bare = text.strip()
    return "°" if bare in ("∘", "°") else bare if bare and not bare.strip("′'*") else raise_text("".join(bare.split()))
