"""YAML as people write it: `off` and `on` are names, as in `summary: off`; only true and false are not. A key that
is given twice is an error, since one of the two would be lost."""

from __future__ import annotations

from typing import Any


def load(text: str) -> Any:
    """Raises yaml.YAMLError."""
    import yaml

    class Loader(yaml.SafeLoader):
        def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
            seen = set()
            for key, _ in node.value:
                if key.value in seen and key.tag != "tag:yaml.org,2002:merge":
                    raise yaml.constructor.ConstructorError(None, None, f"{key.value!r} is given twice", key.start_mark)
                seen.add(key.value)
            return super().construct_mapping(node, deep)

    Loader.yaml_implicit_resolvers = {
        letter: [(tag, pattern) for tag, pattern in known if letter in "tTfF" or tag != "tag:yaml.org,2002:bool"]
        for letter, known in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    return yaml.load(text, Loader)
