"""What a question asks for, told from its words, and which strategy finds that best.

The rules are tried in order; the first that speaks names the class, and a question that none speaks of asks
for one fact. They are of wording alone, English and Ukrainian: of no subject and of no document.
`python benchmarks/routes.py` measures what they are worth, and fails where AUTO is not what its figures give.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Literal, get_args

QuestionClass = Literal["table", "fact", "broad", "multi-hop"]
CLASSES: tuple[QuestionClass, ...] = get_args(QuestionClass)

CLASS_NAMES: Mapping[QuestionClass, str] = {
    "table": "a figure of a table",
    "fact": "a specific fact",
    "broad": "a broad question",
    "multi-hop": "a question in several parts",
}

BY_CLASS = "auto"
"""The name of the strategy that is chosen by class."""
AUTO: Mapping[QuestionClass, str] = dict.fromkeys(CLASSES, "hybrid")
"""The strategy of a class: the sentence route where it wins by docs/measured/sentences.md, else the default."""


# ---------------------------------------------------------------- words


def _any(words: str) -> str:
    """A pattern of any of these words; a word may itself be a pattern, `_` is a space in it."""
    return rf"\b(?:{'|'.join(words.split()).replace('_', ' ')})\b"


_ASKING = _any("what which who whom whose when where why how")
_ASKING_UK = _any("що чого чому чим як який яка яке які якого якої яких яким яку хто кого кому коли де скільки навіщо")
_LINKING = r"\b(?:and|or)(?: (?:at|by|for|from|in|of|on|to|under|with|within|if so))?,? "
_LINKING_UK = r"\b(?:і|й|та|а)(?: (?:в|у|до|для|за|з|із|на|від|по))? "
_PERIOD = _any(
    r"(?:19|20)\d\d fy_?(?:19|20)?\d\d q[1-4] (?:fiscal|financial|tax|each|last)_(?:year|quarter|month) "
    r"(?:first|second|third|fourth)_(?:quarter|month)"
)
_PERIOD_UK = _any(r"(?:19|20)\d\d \w+_кварталі? (?:за|у|в)_(?:рік|році|місяць) станом_на")
_FIGURE = _any(
    "how_much how_many amounts? totals? sums? numbers? balances? values? rates? ratios? percentages? percent per_cent "
    "shares? averages? costs? prices? fees? charges? revenues? incomes? sales earnings profits? loss(?:es)? margins? "
    "expenses? assets liabilit(?:y|ies) equity debts? tax(?:es)? payments? cash salar(?:y|ies) wages limits? "
    "allowances? budgets? volumes?"
)
_FIGURE_UK = _any(
    r"скільки сум[аиу] загальн\w+ кількість обсяг\w* частк\w+ відсот\w+ ставк\w+ варт[іо]ст\w+ цін\w+ дох[оі]д\w* "
    r"прибут\w+ збит\w+ витрат\w* видатк\w+ податк\w+ показник\w* середн\w+ ліміт\w*"
)
_NO_FIGURE = _any("reasons? causes? purposes? roles? names? titles? focus impacts? effects? main key primary")
_MANY = _any(
    "steps rules requirements conditions restrictions limitations exceptions responsibilities benefits services "
    "considerations points types kinds tips measures actions roles goals purposes criteria details components "
    "qualifications characteristics improvements events functions impacts effects consequences reasons factors"
)
_MANY_UK = _any(
    "вимоги правила умови етапи кроки обов'язки заходи особливості переваги способи показання властивості причини "
    "наслідки чинники"
)

# ---------------------------------------------------------------- rules

RULES: Sequence[tuple[QuestionClass, str, Sequence[str]]] = (
    (
        "multi-hop",
        "things are set against one another",
        (
            _any(
                r"differences? differ compar\w+ similarit(?:y|ies) contrast\w* versus vs in_common by_how_(?:much|many)"
            ),
            _any(r"відрізня\w+ різниц\w+ відмінн\w+ порівня\w+ спільного на_скільки_(?:більш|менш)\w*"),
        ),
    ),
    (
        "multi-hop",
        "two questions are asked in one",
        (
            r"\A[^?]*+\?\W*+\w[^?]*+\?",
            f"{_ASKING}.*{_LINKING}{_ASKING}",
            f"{_ASKING_UK}.*{_LINKING_UK}{_ASKING_UK}",
        ),
    ),
    (
        "table",
        "figures stand in rows and columns",
        (
            _any("respectively in_(?:the|this)_table (?:which|what)_(?:years?|quarters?|months?|columns?|rows?)"),
            f"{_FIGURE}.*{_PERIOD}",
            f"{_PERIOD}.*{_FIGURE}",
            rf"{_FIGURE}(?: \w+){{0,3}} per\b",
            # "What was the power, operations and maintenance in 2019?": whatever that is, it has a value a year.
            rf"^what (?:is|was|are|were) (?!.*{_NO_FIGURE}).* (?:in|for|as of|at|on)(?: \w+){{0,4}} {_PERIOD}\W*$",
            _any(r"(?:у|в|за|з)_таблиц\w+ відповідно_за_роками (?:у|в|за)_яких_роках"),
            f"{_FIGURE_UK}.*{_PERIOD_UK}",
            f"{_PERIOD_UK}.*{_FIGURE_UK}",
        ),
    ),
    (
        "broad",
        "an account or a list is asked for",
        (
            r"^(?:please )?" + _any("describe explain summari[sz]e outline discuss list tell_me_about"),
            _any("overview summary what_(?:are|were)_some what_(?:role|information|influence|happens|should)"),
            _any("how_(?:do|does|did|is|are|can|should|has|have) what_(?:is|was)_the_(?:purpose|process|role)"),
            _any("what_(?:do|does|did)") + ".*" + _any("covers? includes? offers? provides?"),
            rf"^(?:what|which)(?: (?:are|were)(?: some of)?)?(?: the)?(?: \w+){{0,3}} {_MANY}",
            r"^(?:what|which) (?:(?:are|were)(?: some of)? the |\w+ )?(?:most )?"
            + _any("main key primary major overall general important significant essential different various"),
            r"^(?:будь ласка,? )?" + _any(r"опиш\w+ поясн\w+ розкаж\w+ перелічіть підсумуйте охарактеризуйте"),
            r"^(?:як|яким чином)\b(?! (?:часто|довго|швидко|багато|називається)\b)",
            _any(r"у_чому_поляга\w+ (?:в|з)_чого_(?:полягає|складається) огляд основні головні загальні різні"),
            rf"^які(?: \w+){{0,2}} {_MANY_UK}",
        ),
    ),
)
"""(class, what its patterns tell by, patterns of the casefolded question), in the order in which they are tried."""

LONGEST = 1_000
"""Characters that are read: what a question asks for is said by then, and patterns take quadratic time."""
_COMPILED = [(name, re.compile("|".join(f"(?:{pattern})" for pattern in patterns))) for name, _, patterns in RULES]


def question_class(text: str) -> QuestionClass:
    """What a question asks for; `fact` where no rule speaks, as of an empty one."""
    plain = " ".join(text[:LONGEST].replace("’", "'").replace("ʼ", "'").casefold().split())
    return next((name for name, pattern in _COMPILED if pattern.search(plain)), "fact")


def resolved(strategy: str, text: str) -> tuple[str, QuestionClass | None]:
    """The strategy that a question is answered by, and its class where `auto` chose by that."""
    if strategy != BY_CLASS:
        return strategy, None
    kind = question_class(text)
    return AUTO[kind], kind
