"""The accepted YAML, which is stricter than YAML itself. A repeated key is an error, since one of its values would be
lost. Deeply nested texts, and texts that grow much when aliases are expanded, are errors too.

In settings `off` and `on` are names, as in `summary: off`; only `true` and `false` are booleans. In documents and
side-cars all values are text, lists and mappings.
"""

from __future__ import annotations

from functools import cache
from typing import Any

DEEPEST = 20
LONGEST_LINE = 100
"""Most characters of a wrong line that an error shows."""
MOST_ALIASED = 10_000
"""Largest sum of values and characters that aliases may repeat, so that a small text cannot fill the memory."""


def load(text: str) -> Any:
    """Read settings. Raise yaml.YAMLError."""
    return _load(text, plain=False)


def load_plain(text: str) -> Any:
    """Read the YAML of a document: text, lists and mappings only. Raise yaml.YAMLError."""
    return _load(text, plain=True)


def describe_error(error: Exception, text: str) -> str:
    """Return the place and the reason of a YAML error, with the line itself, as a message to follow the text's name."""
    mark = getattr(error, "problem_mark", None)
    if mark is None:
        return f"not valid YAML: {' '.join(str(error).split())}"
    lines = text.splitlines()
    shown = lines[mark.line].strip()[:LONGEST_LINE] if mark.line < len(lines) else "the end of the text"
    reason = " ".join(part for part in (getattr(error, "context", ""), getattr(error, "problem", "")) if part)
    return f"line {mark.line + 1}, column {mark.column + 1}: not valid YAML ({reason}): {shown}"


def _load(text: str, plain: bool) -> Any:
    import yaml

    try:
        Loader = _loader(plain)
        return yaml.load(text, Loader)
    except (RecursionError, ValueError) as error:
        raise yaml.YAMLError(str(error)) from None


@cache
def _loader(plain: bool) -> Any:
    import yaml

    base: Any = yaml.BaseLoader if plain else yaml.SafeLoader

    class Loader(base):  # type: ignore[misc]
        def __init__(self, stream: str) -> None:
            super().__init__(stream)
            self._depth, self._aliased = 0, 0
            self._weights: dict[int, int] = {}

        def compose_node(self, parent: Any, index: Any) -> Any:
            mark = self.peek_event().start_mark
            if self.check_event(yaml.AliasEvent):
                return self._count_node(super().compose_node(parent, index), mark)
            self._depth += 1
            if self._depth > DEEPEST:
                raise yaml.composer.ComposerError(None, None, f"nested more than {DEEPEST} deep", mark)
            node = super().compose_node(parent, index)
            self._depth -= 1
            self._weights[id(node)] = _weight(node, self._weights)
            return node

        def _count_node(self, node: Any, mark: Any) -> Any:
            if id(node) not in self._weights:
                raise yaml.composer.ComposerError(None, None, "an alias stands within what it repeats", mark)
            self._aliased += self._weights[id(node)]
            if self._aliased > MOST_ALIASED:
                raise yaml.composer.ComposerError(None, None, "aliases repeat too much; write it out", mark)
            return node

        def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
            seen = set()
            for key in (key for key, _ in node.value if isinstance(key, yaml.ScalarNode)):
                if key.value in seen and key.tag != "tag:yaml.org,2002:merge":
                    raise yaml.constructor.ConstructorError(None, None, f"{key.value!r} is given twice", key.start_mark)
                seen.add(key.value)
            made: dict[Any, Any] = super().construct_mapping(node, deep)
            return made

    if not plain:
        Loader.yaml_implicit_resolvers = {
            letter: [(tag, pattern) for tag, pattern in known if letter in "tTfF" or tag != "tag:yaml.org,2002:bool"]
            for letter, known in yaml.SafeLoader.yaml_implicit_resolvers.items()
        }
    return Loader


def _weight(node: Any, weights: dict[int, int]) -> int:
    """Return the number of values and characters in a node with its aliases expanded."""
    import yaml

    if isinstance(node, yaml.ScalarNode):
        return 1 + len(node.value)
    parts = node.value if isinstance(node, yaml.SequenceNode) else [part for pair in node.value for part in pair]
    return 1 + sum(weights[id(part)] for part in parts)
