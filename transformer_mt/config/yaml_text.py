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

    depth = 0  # of the value that is being read

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        self.depth += 1
        if self.depth > _DEEPEST:
            raise yaml.constructor.ConstructorError(
                None, None, _NESTED, self.peek_event().start_mark
            )
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node

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


_INT, _FLOAT, _STR = (f"tag:yaml.org,2002:{kind}" for kind in ("int", "float", "str"))
_SCALARS = {_INT, _FLOAT, _STR, "tag:yaml.org,2002:bool", "tag:yaml.org,2002:null"}
_COLLECTIONS = {"tag:yaml.org,2002:seq", "tag:yaml.org,2002:map"}
_LARGEST = 1 << 20  # characters of a text
_MOST_NODES = 100_000  # values, each alias counted as all that it stands for
_DEEPEST = 50  # levels
_MOST_DIGITS = 400
_NO_TEXT = re.compile("[\0\ud800-\udfff]")  # YAML can spell them, no file can hold them

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
    if len(text) > _LARGEST:
        raise ConfigError(f"{where}: more than {_LARGEST >> 20} MiB of YAML; is it the right file?")
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        if node is None:
            return None
        if _measure(loader, node, {})[0] > _MOST_NODES:
            raise ConfigError(
                f"{where}: more than {_MOST_NODES:,} values, with aliases written out; use fewer"
            )
        return loader.construct_document(node)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f" line {mark.line + 1}, column {mark.column + 1}:" if mark else ""
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise ConfigError(f"{where}:{place} not valid YAML: {problem[:500]}") from error
    except ValueError as error:  # an escape beyond the last character
        raise ConfigError(f"{where}: not valid YAML: {error}") from error


_NESTED = f"nested more than {_DEEPEST} levels deep"
_Sizes = dict[int, tuple[int, int] | None]  # of nodes by identity; None: not measured to its end


def _measure(loader: _Loader, node: yaml.Node, known: _Sizes) -> tuple[int, int]:
    """Values and levels of a node, written out; nothing has been made of them yet.

    Raises:
        ConstructorError: a value is of no plain type, too deep, or part of itself.
    """
    if (size := known.get(id(node))) is not None:
        return size
    if id(node) in known:
        raise _problem("a value is part of itself", node)
    known[id(node)] = None
    n_values, depth = 1, 0
    if isinstance(node, yaml.ScalarNode):
        _check_scalar(loader, node)
    elif node.tag not in _COLLECTIONS:
        raise _problem(f"the tag {node.tag} has no meaning here", node)
    else:
        for child in node.value:
            for part in child if isinstance(child, tuple) else (child,):
                n_inner, inner_depth = _measure(loader, part, known)
                n_values, depth = n_values + n_inner, max(depth, inner_depth + 1)
    if depth > _DEEPEST:
        raise _problem(_NESTED, node)
    known[id(node)] = n_values, depth
    return n_values, depth


def _check_scalar(loader: _Loader, node: yaml.ScalarNode) -> None:
    meant = loader.resolve(yaml.ScalarNode, node.value, (True, False))
    fits = node.tag in (meant, _STR) or (node.tag, meant) == (_FLOAT, _INT)
    if node.tag not in _SCALARS or not fits:
        raise _problem(f"the tag {node.tag} has no meaning here", node)
    if node.tag in (_INT, _FLOAT) and len(node.value) > _MOST_DIGITS:
        raise _problem(f"a number of {len(node.value):,} characters", node)
    if _NO_TEXT.search(node.value):
        raise _problem("a text with a NUL or half a character", node)


def _problem(message: str, node: yaml.Node) -> yaml.YAMLError:
    return yaml.constructor.ConstructorError(None, None, message, node.start_mark)


def dump_yaml(tree: Any) -> str:
    """Write plain values, keys in their order, as text that `parse_yaml` reads back."""
    return yaml.dump(tree, Dumper=_Dumper, allow_unicode=True, sort_keys=False)
