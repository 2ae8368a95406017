"""YAML as people write it: `off` and `on` are names, as in `summary: off`; only true and false are not."""

from __future__ import annotations

from typing import Any


def load(text: str) -> Any:
    """Raises yaml.YAMLError."""
    import yaml

    class Loader(yaml.SafeLoader):
        pass

    Loader.yaml_implicit_resolvers = {
        letter: [(tag, pattern) for tag, pattern in known if letter in "tTfF" or tag != "tag:yaml.org,2002:bool"]
        for letter, known in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    return yaml.load(text, Loader)
