"""YAML text ↔ plain values, with scalars read as people mean them.

Comes in: YAML text, or a tree of plain values. Goes out: the tree, or the text. This file knows
how scalars are spelled and quoted, and nothing of what the keys mean.
"""

import re
from collections.abc import Hashable
from typing import Any

import yaml

from transformer_mt.errors import ConfigError


class _Loader(yaml.SafeLoader):
    """YAML as people mean it: YAML 1.2 core booleans and numbers, and no repeated keys.

    PyYAML's own rules read `1e-4` as text, `no` (the language code) as False, `012` as 10.
    """

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise yaml.constructor.ConstructorError(
                    None, None, "a key must be text", key.start_mark
                )
            if key.value in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"key {key.value!r} appears twice", key.start_mark
                )
            seen.add(key.value)
        return super().construct_mapping(node, deep)


def _construct_int(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> int:
    return int(node.value.replace("_", ""))


_Loader.yaml_implicit_resolvers = {}  # without PyYAML's own
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:bool", re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$"), list("tTfF")
)
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:null", re.compile(r"^(?:~|null|Null|NULL|)$"), ["~", "n", "N", ""]
)
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:int", re.compile(r"^[-+]?[0-9][0-9_]*$"), list("-+0123456789")
)
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?(?:\.[0-9]+|[0-9][0-9_]*(?:\.[0-9_]*)?)(?:[eE][-+]?[0-9]+)?$|^[-+]?\.inf$"),
    list("-+0123456789."),
)
_Loader.add_constructor("tag:yaml.org,2002:int", _construct_int)


class _Dumper(yaml.SafeDumper):
    """Quotes a text which either PyYAML or tmt would read as something else: `no`, `08`, `1e5`."""


_Dumper.yaml_implicit_resolvers = {
    first: [
        *yaml.SafeDumper.yaml_implicit_resolvers.get(first, []),
        *_Loader.yaml_implicit_resolvers.get(first, []),
    ]
    for first in {*yaml.SafeDumper.yaml_implicit_resolvers, *_Loader.yaml_implicit_resolvers}
}


def parse_yaml(text: str, where: str) -> Any:
    """Parse YAML text with tmt's reading of scalars.

    Raises:
        ConfigError: not valid YAML; the message gives line and column.
    """
    try:
        return yaml.load(text, Loader=_Loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f" line {mark.line + 1}, column {mark.column + 1}:" if mark else ""
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise ConfigError(f"{where}:{place} not valid YAML: {problem}") from error


def dump_yaml(tree: Any) -> str:
    """Write plain values, keys in their order, as text that `parse_yaml` reads back."""
    return yaml.dump(tree, Dumper=_Dumper, allow_unicode=True, sort_keys=False)
