"""The characters of symbol fonts in Unicode: Symbol, Zapf Dingbats, Wingdings, Wingdings 2 and 3, Webdings.

Text in such a font has a byte for each sign, either as the character of that number or in the private use area at
U+F000. The Unicode signs come from Adobe's tables and from Unicode's proposals for the Wingdings fonts. If an older
sign looks the same (☑, ☒, ☐, ✓, ✗, ●, →), it is used, since people search for it and models know it.
"""

from __future__ import annotations

import re
from functools import lru_cache

_FIRST, _LAST = 0x20, 0xFF
_PRIVATE = 0xF000
"""Offset of the private use characters that encode bytes of a symbol font."""
_UNUSED = "¿"
"""Replacement for a byte that has no sign in the font or no equivalent in Unicode."""
_SYMBOL = (
    " !∀#∃%&∋()∗+,−./0123456789:;<=>?"
    "≅ΑΒΧΔΕΦΓΗΙϑΚΛΜΝΟΠΘΡΣΤΥςΩΞΨΖ[∴]⊥_"
    "‾αβχδεφγηιϕκλμνοπθρστυϖωξψζ{|}∼¿"
    "¿¿¿¿¿¿¿¿¿¿¿¿¿¿¿¿¿¿¿¿¿¿¿¿¿¿¿¿¿¿¿¿"
    "€ϒ′≤⁄∞ƒ♣♦♥♠↔←↑→↓°±″≥×∝∂•÷≠≡≈…⏐⎯↵"
    "ℵℑℜ℘⊗⊕∅∩∪⊃⊇⊄⊂⊆∈∉∠∇®©™∏√⋅¬∧∨⇔⇐⇑⇒⇓"
    "◊⟨®©™∑⎛⎜⎝⎡⎢⎣⎧⎨⎩⎪¿⟩∫⌠⎮⌡⎞⎟⎠⎤⎥⎦⎫⎬⎭¿"
)
_ZAPF_DINGBATS = (
    " ✁✂✃✄☎✆✇✈✉☛☞✌✍✎✏✐✑✒✓✔✕✖✗✘✙✚✛✜✝✞✟"
    "✠✡✢✣✤✥✦✧★✩✪✫✬✭✮✯✰✱✲✳✴✵✶✷✸✹✺✻✼✽✾✿"
    "❀❁❂❃❄❅❆❇❈❉❊❋●❍■❏❐❑❒▲▼◆❖◗❘❙❚❛❜❝❞¿"
    "❨❩❪❫❬❭❮❯❰❱❲❳❴❵¿¿¿¿¿¿¿¿¿¿¿¿¿¿¿¿¿¿"
    "¿❡❢❣❤❥❦❧♣♦♥♠①②③④⑤⑥⑦⑧⑨⑩❶❷❸❹❺❻❼❽❾❿"
    "➀➁➂➃➄➅➆➇➈➉➊➋➌➍➎➏➐➑➒➓➔→↔↕➘➙➚➛➜➝➞➟"
    "➠➡➢➣➤➥➦➧➨➩➪➫➬➭➮➯¿➱➲➳➴➵➶➷➸➹➺➻➼➽➾¿"
)
_WINGDINGS = (
    " ✏✂✁👓🔔📖🕯☎✆✉🖃📪📫📬📭📁📂📄🗏🗐🗄⌛🖮🖰🖲🖳🖴🖫🖬✇✍"
    "🖎✌👌👍👎☜☞☝☟✋☺😐☹💣☠🏳🏱✈☼💧❄🕆✞🕈✠✡☪☯🕉☸♈♉"
    "♊♋♌♍♎♏♐♑♒♓🙰🙵●❍■□◻❑❒⬧⧫◆❖⬥☒⮹⌘🏵🏶🙶🙷▯"
    "⓪①②③④⑤⑥⑦⑧⑨⑩⓿❶❷❸❹❺❻❼❽❾❿🙢🙠🙡🙣🙞🙜🙝🙟·•"
    "▪○◯🞈◉◎🔿▪☐🟁✦★✶✴✹✵⯐⌖⯎⯏⯑✪✰🕐🕑🕒🕓🕔🕕🕖🕗🕘"
    "🕙🕚🕛⮰⮱⮲⮳⮴⮵⮶⮷🙪🙫🙕🙔🙗🙖🙐🙑🙒🙓⌫⌦⮘➢⮙⮛⮈➲⮉⮋←"
    "→↑↓↖↗↙↘⬅➔⬆⬇⬉⬈⬋⬊⇦⇨⇧⇩⬄⇳⬁⬀⬃▭▫🢭✗✓☒☑¿"
)
_WINGDINGS_2 = (
    " 🖊🖋🖌🖍✄✀🕾🕽🗅🗆🗇🗈🗉🗊🗋🗌🗍📋🗑🗔🖵🖶🖷🖸🖭🖯🖱🖒🖓🖘🖙"
    "🖚🖛👈👉🖜🖝🖞🖟🖠🖡👆👇🖢🖣🖑✗✓☒☑☒☒⮾⮿🛇⦸🙱🙴🙲🙳‽🙹🙺"
    "🙻🙦🙤🙥🙧🙚🙘🙙🙛⓪①②③④⑤⑥⑦⑧⑨⑩⓿❶❷❸❹❺❻❼❽❾❿¿"
    "☉🌕☽☾⸿✝🕇🕜🕝🕞🕟🕠🕡🕢🕣🕤🕥🕦🕧🙨🙩·••●○🞅🞇🞉⊙⦿🞌"
    "🞍◾■☐🞑🞒🞓🞔▣🞕🞖🞗🞘⬩⬥◇🞚◈🞛🞜🞝🞞⬪⬧◊🞠◖◗⯊⯋⯀⯁"
    "⬟⯂⬣⬢⯃⯄🞡🞢🞣🞤🞥🞦🞧🞨🞩🞪🞫🞬🞭🞮🞯🞰🞱🞲🞳🞴🞵🞶🞷🞸🞹🞺"
    "🞻🞼🞽🞾🞿🟀🟂🟄🟆🟉🟊✶🟌🟎🟐🟒✹🟃🟇✯🟍🟔⯌⯍※⁂¿¿¿¿¿¿"
)
_WINGDINGS_3 = (
    " ←→↑↓↖↗↙↘⭰⭲⭱⭳⭶⭸⭻⭽⭤⭥⭪⭬⭫⭭⭍⮠⮡⮢⮣⮤⮥⮦⮧"
    "⮐⮑⮒⮓⮀⮃⭾⭿⮄⮆⮅⮇⮏⮍⮎⮌⭮⭯⎋⌤⌃⌥␣⍽⇪⮸🢠🢡🢢🢣🢤🢥"
    "🢦🢧🢨🢩🢪🢫🡐🡒🡑🡓🡔🡕🡗🡖🡘🡙▲▼△▽◀▶◁▷◣◢◤◥◀▶▲¿"
    "▼⯅⯆⯇⯈⮜⮞⮝⮟🠐🠒🠑🠓🠔🠖🠕🠗🠘🠚🠙🠛🠜🠞🠝🠟🠀🠂🠁🠃🠄🠆🠅"
    "🠇🠈🠊🠉🠋🠠🠢🠤🠦🠨🠪🠬🢜🢝🢞🢟🠮🠰🠲🠴🠶🠸🠺🠹🠻🢘🢚🢙🢛🠼🠾🠽"
    "🠿🡀🡂🡁🡃🡄🡆🡅🡇⮨⮩⮪⮫⮬⮭⮮⮯🡠🡢🡡🡣🡤🡥🡧🡦🡰🡲🡱🡳🡴🡵🡷"
    "🡶🢀🢂🢁🢃🢄🢅🢇🢆🢐🢒🢑🢓🢔🢖🢕🢗¿¿¿¿¿¿¿¿¿¿¿¿¿¿¿"
)
_WEBDINGS = (
    " 🕷🕸🕲🕶🏆🎖🖇🗨🗩🗰🗱🌶🎗🙾🙼🗕🗖🗗◀▶▲▼⏪⏩⏮⏭⏸⏹⏺🗚🗳"
    "🛠🏗🏘🏙🏚🏜🏭🏛🏠🏖🏝🛣🔍🏔👁👂🏞🏕🛤🏟🛳🕬🕫🕨🔈🎔🎕🗬🙽🗭🗪🗫"
    "⮔✔🚲□🛡📦🛱■🚑🛈🛩🛰🟈🕴●🛥🚔🗘✖❓🛲🚇🚍⛳⦸⊖🚭🗮⏐🗯🗲¿"
    "🚹🚺🛉🛊🚼👽🏋⛷🏂🏌🏊🏄🏍🏎🚘🗠🛢💰🏷💳👪🗡🗢🗣✯🖄🖅🖃🖆🖹🖺🖻"
    "🕵🕰🖽🖾📋🗒🗓🕮📚🗞🗟🗃🗂🖼🎭🎜🎘🎙🎧💿🎞📷🎟🎬📽📹📾📻🎚🎛📺💻"
    "🖥🖦🖧🕹🎮🕻🕼📟🖁🖀🖨🖩🖿🖪🗜🔒🔓🗝📥📤🕳🌣🌤🌥🌦☁🌨🌧🌩🌪🌬🌫"
    "🌜🌡🛋🛏🍽🍸🛎🛍Ⓟ♿🛆🖈🎓🗤🗥🗦🗧🛪🐿🐦🐟🐕🐈🙬🙮🙭🙯🗺🌍🌏🌎🕊"
)


def _table(signs: str) -> dict[int, str]:
    found = {_FIRST + at: sign for at, sign in enumerate(signs) if sign != _UNUSED}
    return found | {_PRIVATE + byte: sign for byte, sign in found.items()}


_TABLES = {
    "symbol": _table(_SYMBOL),
    "zapfdingbats": _table(_ZAPF_DINGBATS),
    "wingdings": _table(_WINGDINGS),
    "wingdings2": _table(_WINGDINGS_2),
    "wingdings3": _table(_WINGDINGS_3),
    "webdings": _table(_WEBDINGS),
}
_BULLETS = {
    **{
        _PRIVATE + byte: _TABLES["wingdings"][byte]
        for byte in b"lmnoqrsuvwx\x9f\xa7\xa8\xab\xd8\xdc\xe0\xe8\xf0\xfb\xfc\xfd\xfe"
    },
    **{_PRIVATE + byte: _TABLES["symbol"][byte] for byte in b"-\xb7\xae\xde"},
}
"""Signs of private use characters in ordinary fonts: the bullets, check marks and arrows of Word's lists. Most are from
Wingdings, a few from Symbol."""
_SUBSET = re.compile(r"[A-Z]{6}\+")
_NO_NAME = re.compile(r"[^a-z0-9]++")
_NAME = re.compile(
    r"(?:(?P<wingdings>wingdings[23]?)|(?P<webdings>webdings)|(?P<symbol>symbol(?:mt|ps|std|neu)?)"
    r"|(?:itc)?(?:zapf)?dingbats(?:itc)?|monotypesorts)(?:regular|normal|roman|bold|italic|oblique|bt|mt|std)*+"
)
LONGEST_NAME = 100
"""Most characters of a font's name that are examined."""


@lru_cache(maxsize=512)
def _signs(font: str) -> dict[int, str]:
    """Return the signs of a font by its characters; for an ordinary font, the signs of common bullets."""
    name = _SUBSET.sub("", font, count=1)
    found = _NAME.fullmatch(_NO_NAME.sub("", name.lower()))
    if not found:
        return _BULLETS
    return _TABLES[found["wingdings"] or found["webdings"] or ("symbol" if found["symbol"] else "zapfdingbats")]


def is_symbol_font(font: str) -> bool:
    """Say whether a font has signs in place of letters."""
    return _signs(font[:LONGEST_NAME]) is not _BULLETS


def symbol_text(text: str, font: str) -> str:
    """Return text with the signs of its font in Unicode; other characters are unchanged.

    The font may have any name. In ordinary fonts, only private use characters of common bullets are signs.
    """
    return text.translate(_signs(font[:LONGEST_NAME]))
