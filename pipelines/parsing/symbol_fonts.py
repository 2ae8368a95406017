"""The characters of symbol fonts in Unicode: Symbol, Zapf Dingbats, Wingdings, Wingdings 2 and 3, Webdings.

Text in such a font has a byte for each sign, either as the character of that number or in the private use area at
U+F000. Signs are those of Adobe's tables and of Unicode's proposals for the Wingdings fonts. If an older sign looks the
same (☑, ☒, ☐, ✓, ✗, ●, →), it is taken: people search for it, and models know it.
"""

from __future__ import annotations

import re

_FIRST, _LAST = 0x20, 0xFF
_PRIVATE = 0xF000
"""Offset of the private use characters that stand for bytes of a symbol font."""
_UNUSED = "¿"
"""Mark of a byte that the font has no sign for, or none that Unicode has."""
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
"""Signs of private use characters in fonts that are no symbol fonts: bullets, check marks and arrows, as Word has them
in lists. Most are from Wingdings, few from Symbol."""
_SUBSET = re.compile(r"[A-Z]{6}\+")
_NO_NAME = re.compile(r"[^a-z0-9]++")
_NAME = re.compile(
    r"(?:(?P<wingdings>wingdings[23]?)|(?P<webdings>webdings)|(?P<symbol>symbol(?:mt|ps|std|neu)?)"
    r"|(?:itc)?(?:zapf)?dingbats(?:itc)?|monotypesorts)(?:regular|normal|roman|bold|italic|oblique|bt|mt|std)*+"
)
LONGEST_NAME = 100
"""Characters of the longest name of a font that is looked at."""


def _signs(font: str) -> dict[int, str]:
    """Return the signs of a font by their characters; without a symbol font, those of common bullets."""
    name = _SUBSET.sub("", font[:LONGEST_NAME], count=1)
    found = _NAME.fullmatch(_NO_NAME.sub("", name.lower()))
    if not found:
        return _BULLETS
    return _TABLES[found["wingdings"] or found["webdings"] or ("symbol" if found["symbol"] else "zapfdingbats")]


def is_symbol_font(font: str) -> bool:
    """Say whether the letters of a font are signs."""
    return _signs(font) is not _BULLETS


def symbol_text(text: str, font: str) -> str:
    """Return text with the signs of its font in Unicode; a character that stands for no sign stays as it is.

    The font may have any name. In other fonts, only private use characters that are common bullets are signs."""
    return text.translate(_signs(font))
