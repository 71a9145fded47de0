"""YAML files and texts ↔ plain values, with scalars read as people mean them.

This file knows how scalars are spelled and quoted, and nothing of what the keys mean.
"""

import math
import re
import stat
from collections.abc import Hashable, Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn

import yaml

from transformer_mt.config.problems import kind_of
from transformer_mt.config.typing_mistakes import FOLDED, find_mistakes, is_guess, mended
from transformer_mt.config.yaml_errors import explain, tell_mistakes
from transformer_mt.errors import ConfigError
from transformer_mt.messages.catalogue import tr

_LARGEST = 1 << 20  # characters of a text
_MOST_NODES = 100_000  # values, each alias counted as all that it stands for
_DEEPEST = 50  # levels
_NO_TEXT = re.compile("[\0\ud800-\udfff]")  # YAML can spell them, no file can hold them
_NUMBER = list("-+0123456789")


class _Loader(yaml.SafeLoader):
    """YAML as people mean it: YAML 1.2 core booleans and numbers, and no repeated keys.

    PyYAML's own rules read `1e-4` as text, `no` (the language code) as False, `012` as 10.
    """

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[str] = set()
        for key, _ in node.value if isinstance(node, yaml.MappingNode) else ():
            if not isinstance(key, yaml.ScalarNode):
                _refuse(tr("a key must be text"), key)
            if key.value in seen:
                _refuse(tr("key {!r} appears twice", key.value), key)
            seen.add(key.value)
        return super().construct_mapping(node, deep)

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep)
        except (ValueError, KeyError, IndexError):  # the last of `!!float ''`
            _refuse(tr("{!r} is no value of the tag {}", node.value[:50], node.tag), node)

    def fetch_flow_collection_start(self, TokenClass: type[yaml.Token]) -> None:
        """Refuse depth at once: the scanner's work on a token grows with the brackets around it."""
        if self.flow_level > _DEEPEST:
            raise RecursionError
        super().fetch_flow_collection_start(TokenClass)

    def construct_undefined(self, node: yaml.Node) -> NoReturn:
        _refuse(tr("the tag {} has no meaning here", node.tag), node)


def _construct_int(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> int:
    return int(str(loader.construct_scalar(node)).replace("_", ""))


_Loader.yaml_implicit_resolvers = {}
_Loader.yaml_constructors = {
    f"tag:yaml.org,2002:{kind}": yaml.SafeLoader.yaml_constructors[f"tag:yaml.org,2002:{kind}"]
    for kind in ("bool", "null", "float", "str", "seq", "map")
}
_FLOAT = r"^[-+]?(?:\.[0-9]+|[0-9][0-9_]*(?:\.[0-9_]*)?)(?:[eE][-+]?[0-9]+)?$|^[-+]?\.inf$"
for _kind, _pattern, _first in (
    ("bool", r"^(?:true|True|TRUE|false|False|FALSE)$", list("tTfF")),
    ("null", r"^(?:~|null|Null|NULL|)$", ["~", "n", "N", ""]),
    ("int", r"^[-+]?[0-9][0-9_]*$", _NUMBER),
    ("float", _FLOAT, [*_NUMBER, "."]),
):
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_kind}", re.compile(_pattern), _first)
_Loader.add_constructor("tag:yaml.org,2002:int", _construct_int)
_Loader.add_constructor(None, _Loader.construct_undefined)


class _Dumper(yaml.SafeDumper):
    """Quotes a text which either PyYAML or tmt would read as something else: `no`, `08`, `1e5`, or
    take for a slip of the hand: `a，b`."""

    def represent_str(self, data: str) -> yaml.ScalarNode:
        style = "'" if data != data.translate(FOLDED) else None
        return self.represent_scalar("tag:yaml.org,2002:str", data, style=style)


_Dumper.add_representer(str, _Dumper.represent_str)

_Dumper.yaml_implicit_resolvers = {
    first: [
        *yaml.SafeDumper.yaml_implicit_resolvers.get(first, []),
        *_Loader.yaml_implicit_resolvers.get(first, []),
    ]
    for first in {*yaml.SafeDumper.yaml_implicit_resolvers, *_Loader.yaml_implicit_resolvers}
}


def read_config_text(path: Path) -> str:
    """The text of a YAML file; FileNotFoundError if absent, a ConfigError if not readable."""
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode) and not path.is_dir():
            raise ConfigError(
                tr("{}: is a pipe or a device; write it to a file, and give that", path)
            )
        if status.st_size > 4 * _LARGEST:
            raise ConfigError(tr("{}: more than 1 MiB; is it the right file?", path))
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise
    except OSError as error:
        name = str(path) if len(str(path)) < 1000 else f"{str(path)[:60]}…"
        raise ConfigError(tr("{}: cannot be read: {}", name, error.strerror)) from error
    except UnicodeDecodeError as error:
        raise ConfigError(
            tr("{}: not UTF-8 text (byte {}); save it as UTF-8", path, error.start + 1)
        ) from error


def parse_yaml(text: str, where: str) -> Any:
    """Plain values of a text.

    Raises:
        ConfigError: each slip of the hand, or what YAML does not allow, with its line and a caret.
    """
    if len(text) > _LARGEST:
        raise ConfigError(
            tr("{}: more than {} MiB of YAML; is it the right file?", where, _LARGEST >> 20)
        )
    mistakes = find_mistakes(text)
    told = tell_mistakes(text, mistakes, where)
    if any(mistake.certain for mistake in mistakes):
        raise ConfigError("\n".join(told))
    try:
        return _plain_values(text, where)
    except ConfigError as error:
        if not mistakes:
            raise
        if all(mistake.edits for mistake in mistakes) and not is_guess(text):
            try:
                _plain_values(mended(text, mistakes), where)
            except ConfigError as rest:
                told.append(str(rest))
        raise ConfigError("\n".join(told)) from error


def _plain_values(text: str, where: str) -> Any:
    try:
        loader = _Loader(text)
        if (node := loader.get_single_node()) is None:
            return None
        _check(node, [0], depth=0)
        return loader.construct_document(node)
    except yaml.YAMLError as error:
        raise ConfigError(explain(error, text, where)) from error
    except RecursionError as error:
        raise ConfigError(tr("{}: nested more than {} levels deep", where, _DEEPEST)) from error
    except ValueError as error:  # an escape beyond the last character
        raise ConfigError(tr("{}: not valid YAML: {}", where, error)) from error


def _check(node: yaml.Node, n_nodes: list[int], *, depth: int) -> None:
    """Refuse what is too much, once aliases are written out; nothing has been made of it yet."""
    n_nodes[0] += 1
    if n_nodes[0] > _MOST_NODES:
        _refuse(tr("more than {:,} values, with aliases written out; use fewer", _MOST_NODES), node)
    if depth > _DEEPEST:
        _refuse(tr("nested more than {} levels deep, or part of itself", _DEEPEST), node)
    if isinstance(node, yaml.ScalarNode):
        if _NO_TEXT.search(node.value):
            _refuse(tr("a text with a NUL or half a character"), node)
        return
    for child in node.value:
        for part in child if isinstance(child, tuple) else (child,):
            _check(part, n_nodes, depth=depth + 1)


def _refuse(message: str, node: yaml.Node) -> NoReturn:
    raise yaml.constructor.ConstructorError(None, None, message, node.start_mark)


def dump_yaml(tree: Any) -> str:
    """Write plain values, keys in their order, as text that `parse_yaml` reads back."""
    return yaml.dump(tree, Dumper=_Dumper, allow_unicode=True, sort_keys=False)


def flow_yaml(value: Any) -> str:
    """A plain value on one line, as it stands behind a key."""
    text = yaml.dump(
        value,
        Dumper=_Dumper,
        allow_unicode=True,
        default_flow_style=True,
        width=math.inf,
        sort_keys=False,
    )
    return text.removesuffix("\n").removesuffix("\n...")


def flattened(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The values of a tree with their whole keys: `train.lr`."""
    for key, value in tree.items():
        if isinstance(value, dict):
            yield from flattened(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


_KEY = re.compile(r"[\w-]{1,100}(\.[\w-]{1,100}){0,9}")  # of --set


def apply_setting(tree: dict[str, Any], override: str) -> str:
    """Change a tree as `--set` says; the key."""
    key, value = parse_setting(override)
    *parents, leaf = key.split(".")
    for parent in parents:
        if tree.get(parent) is None:
            tree[parent] = {}
        tree = tree[parent]
        if not isinstance(tree, dict):
            kind = kind_of(tree)
            raise ConfigError(
                tr("--set {}: {} is {}, not a section", _shown(override), parent, kind)
            )
    tree[leaf] = value
    return key


def parse_setting(override: str) -> tuple[str, Any]:
    """`section.key=value` as the key and the value that YAML reads."""
    key, equals, value = override.partition("=")
    if not equals or not _KEY.fullmatch(key):
        raise ConfigError(
            tr(
                "--set {}: expected section.key=value, e.g. train.max_updates=500",
                _shown(override),
            )
        )
    return key, parse_yaml(value, f"--set {_shown(override)}")


def _shown(override: str) -> str:
    return override if len(override) <= 200 else f"{override[:200]}…"
