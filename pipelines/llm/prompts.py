"""Prompts: templates that a person can edit, document text made safe for them, and an upper estimate of their cost.

A prompt file is a system text, a line `---`, and a user text. `{name}` is a placeholder, `{{name}}` the literal
`{name}`; every other brace is unchanged. Placeholders are filled in one pass, so that braces in document text are never
read as placeholders. Text of documents and users is put between tags such as `<document>` and `</document>`, in the
user text, and passes `as_data`, so that it cannot close its tag.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pipelines.errors import SettingsError
from pipelines.fingerprint import DIGEST_BYTES, fingerprint
from pipelines.ports import Prompt

if TYPE_CHECKING:
    from pipelines.settings.models import PriceSettings


# ---------------------------------------------------------------- templates and keys


DEFAULT_LANGUAGE = "en"

Fields = Mapping[str, bool]
"""Placeholders that a prompt may have; the value is true for those that it must have."""

FIELDS: Mapping[str, Fields] = {
    "summary": {"title": False, "document": True, "characters": False},
    "context": {
        "title": False, "headings": False, "before": False, "chunk": True, "after": False, "characters": False,
    },
    "figure": {"characters": False},
    "hyde": {"question": True},
    "multi_query": {"question": True, "count": False},
    "logprob": {"question": True, "passage": True},
    "listwise": {"question": True, "passages": True, "count": False},
    "answer": {"question": True, "passages": True},
    "choice": {"question": True, "options": True, "passages": True},
    "suggest": {"title": False, "headings": False, "passage": True},
}  # fmt: skip

IN_SYSTEM = frozenset({"characters", "count"})
"""Placeholders whose values are pincite's own numbers. All others hold data, and must be in the user text."""

TAGS = ("title", "headings", "document", "before", "chunk", "after", "caption", "question", "options", "passages",
        "passage")  # fmt: skip
"""Tags that the shipped prompts put around data."""

_DIVIDER = re.compile(r"^---[ \t]*$", re.MULTILINE)
_PLACEHOLDER = re.compile(r"\{\{([^\W\d]\w*)\}\}|\{[ \t]*([^\W\d]\w*)[ \t]*\}")
_UNSEEN = "\xad\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff"
_GAP = f"[\\s{_UNSEEN}]*"
_NAMES = "|".join(f"[{_UNSEEN}]*".join(name) for name in TAGS)
_TAG = re.compile(f"[<＜]({_GAP}(?:[/／]{_GAP})?(?:{_NAMES})(?![\\w-])[^<>＜＞]{{0,200}})([>＞]?)", re.IGNORECASE)
_CHAT_MARK = re.compile(
    r"<([|｜][^<>\n]{1,60}?[|｜])>|<(/?(?:start_of_turn|end_of_turn|bos|eos|s))>|\[(/?INST)\]|<<(/?SYS)>>",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class PromptTemplate:
    """A prompt with placeholders. `language` chooses the words put between stretches of data."""

    system: str
    user: str
    language: str = DEFAULT_LANGUAGE

    def render(self, **values: object) -> tuple[str, str]:
        """Return (system, user) with every placeholder filled, in one pass.

        A value without a placeholder in the template is ignored. Raise KeyError if a placeholder has no value."""

        def fill(match: re.Match[str]) -> str:
            return f"{{{match.group(1)}}}" if match.group(1) else str(values[match.group(2)])

        return _PLACEHOLDER.sub(fill, self.system), _PLACEHOLDER.sub(fill, self.user)


def template_from(text: str, origin: str, fields: Fields) -> PromptTemplate:
    """Return the template of a prompt file's text; `origin` names the file in errors.

    Raise SettingsError if the divider is missing, the user text is empty, or a placeholder is missing, unknown, or in
    the system text although it is data."""
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    parts = _DIVIDER.split(text, maxsplit=1)
    if len(parts) != 2 or not parts[1].strip():
        raise SettingsError(f"{origin}: write the system text, then a line '---', then the user text")
    system, user = (part.strip() for part in parts)
    known = ", ".join(f"{{{name}}}" for name in fields)
    for name in _names(text):
        if name not in fields:
            raise SettingsError(f"{origin}: unknown placeholder {{{name}}}; use {known}, or {{{{{name}}}}} for braces")
    for name in _names(system):
        if name not in IN_SYSTEM:
            raise SettingsError(f"{origin}: {{{name}}} is data; move it below the line '---'")
    for name, required in fields.items():
        if required and name not in _names(user):
            raise SettingsError(f"{origin}: the placeholder {{{name}}} is missing; put it below the line '---'")
    return PromptTemplate(system, user)


def _names(text: str) -> list[str]:
    return [match.group(2) for match in _PLACEHOLDER.finditer(text) if match.group(2)]


def templates_of(name: str, texts: Mapping[str, str]) -> dict[str, PromptTemplate]:
    """Return the templates of one prompt by language, from the texts of its files by language."""
    return {language: template_from(text, f"{name}.{language}.md", FIELDS[name]) for language, text in texts.items()}


def in_language(templates: Mapping[str, PromptTemplate], language: str) -> PromptTemplate:
    """Return the template of a language, or the English one if that language is missing; its `language` says which."""
    found = language if language in templates else DEFAULT_LANGUAGE
    return replace(templates[found], language=found)


def as_data(text: str) -> str:
    """Return the text with every tag of TAGS and every chat-template mark (`<|im_end|>`, `[INST]`) put in round
    brackets. The rest is unchanged."""
    text = _TAG.sub(lambda match: f"({match.group(1)}{')' if match.group(2) else ''}", text)
    return _CHAT_MARK.sub(lambda match: f"({next(filter(None, match.groups()))})", text)


def prompt_key(model: str, temperature: float | None, prompt: Prompt) -> str:
    """Return the key under which a reply is cached: a hash of everything that shapes it, except the endpoint's
    address."""
    warmth = None if temperature is None else float(temperature)
    pictures = prompt.image_names or tuple(
        hashlib.blake2b(image, digest_size=DIGEST_BYTES).hexdigest() for image in prompt.images
    )
    return fingerprint(
        "reply", model, warmth, prompt.most_tokens, prompt.top_logprobs, prompt.system, prompt.user, pictures
    )


# ---------------------------------------------------------------- upper estimate of cost


PER_MESSAGE = 8
"""Tokens that a chat template puts around a message."""
PER_PICTURE = 1600
"""Tokens of a large picture, if pictures are priced by tiles (85 + 8 x 170 in the GPT-4o family) or by area (1,600 at
Anthropic). Some small models count a multiple of this number."""

_PIECE = re.compile(r"[A-Za-z]{1,4}|\S|\s{2,}|[^\S ]")
_WIDE = re.compile("[^\x00-\u07ff]")


def estimated_tokens(text: str) -> int:
    """Return an upper estimate of a text's tokens. Up to four Latin letters of a word, any other sign, and white space
    other than a single space make one token each; a sign from U+0800 on makes two.

    Ratios of estimated to counted tokens on 1.5 million characters of prose, filings, code and Ukrainian leaflets:

    ========= ========= ========= ========= ========= =========
    text      cl100k    o200k     XLM-R     MiniLM    SmolLM2
    ========= ========= ========= ========= ========= =========
    English   1.34-1.52 1.34-1.52 1.18-1.47 1.36-1.58 1.27-1.36
    code      1.45      1.45      1.18      1.19      1.15
    Ukrainian 1.43-1.53 2.05-2.37 2.41-3.07 1.06-1.09 1.04-1.07
    ========= ========= ========= ========= ========= =========

    The last two tokenizers read Ukrainian nearly letter by letter, and set the measure for it. Only text without words
    (encrypted text, random identifiers) can have up to twice as many tokens as estimated."""
    return len(_PIECE.findall(text)) + len(_WIDE.findall(text))


def prompt_tokens(prompt: Prompt) -> int:
    """Estimate the tokens of both messages and the pictures of a prompt."""
    texts = sum(estimated_tokens(text) + PER_MESSAGE for text in (prompt.system, prompt.user))
    return texts + PER_PICTURE * len(prompt.images)


def most_tokens(characters: int) -> int:
    """Return the token limit for a reply of at most `characters`: two tokens a character, since some tokenizers read
    Ukrainian byte by byte."""
    return 2 * characters + 32


def cost(price: PriceSettings | None, prompt_tokens: int, completion_tokens: int) -> float:
    """Return the cost in the currency of the prices; 0.0 if the model has no price."""
    if price is None:
        return 0.0
    return (prompt_tokens * price.prompt + completion_tokens * price.completion) / 1_000_000
