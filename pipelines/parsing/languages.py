"""The language of a document: what its file declares, else what its text looks like."""

from __future__ import annotations

import re

_CODES = (
    "aa ab ae af ak am an ar as av ay az ba be bg bh bi bm bn bo br bs ca ce ch co cr cs cu cv cy da de dv dz ee "
    "el en eo es et eu fa ff fi fj fo fr fy ga gd gl gn gu gv ha he hi ho hr ht hu hy hz ia id ie ig ii ik io is "
    "it iu ja jv ka kg ki kj kk kl km kn ko kr ks ku kv kw ky la lb lg li ln lo lt lu lv mg mh mi mk ml mn mr ms "
    "mt my na nb nd ne ng nl nn no nr nv ny oc oj om or os pa pi pl ps pt qu rm rn ro ru rw sa sc sd se sg sh si "
    "sk sl sm sn so sq sr ss st su sv sw ta te tg th ti tk tl tn to tr ts tt tw ty ug uk ur uz ve vi vo wa wo xh "
    "yi yo za zh zu "
)
ISO_639_1 = frozenset(_CODES.split())
_FORMER = {"iw": "he", "in": "id", "ji": "yi", "jw": "jv", "mo": "ro"}


def declared_language(declared: str) -> str | None:
    """ISO 639-1 code of a declared language, without its script, region and case; None where it is no such code, or
    where several are declared."""
    tags = {tag.lower() for tag in re.split(r"[,;\s]+", declared) if tag}
    codes = {_FORMER.get(code, code) for code in (re.split("[-_]", tag, maxsplit=1)[0] for tag in tags)}
    return codes.pop() if len(codes) == 1 and codes <= ISO_639_1 else None
