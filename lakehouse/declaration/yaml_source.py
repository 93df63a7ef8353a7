"""YAML text to plain values that remember where they stand.

Scalars follow the YAML 1.2 core schema, less zero-padded numbers: `on`, `no`, `12:30`, `06` and dates stay text.
Duplicate keys, aliases, merge keys and tags are refused; `{{ env.NAME }}` is replaced, and nothing else is. This
module knows no field of a declaration and never reads a file or the environment.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from lakehouse.declaration.problem import Finding, Loc, Position, Problem

_TAG = "tag:yaml.org,2002:"
_NULL = re.compile(r"(?:null|Null|NULL|~|)\Z")
_BOOL = re.compile(r"(?:true|True|TRUE|false|False|FALSE)\Z")
_INT = re.compile(r"(?:[-+]?(?:0|[1-9][0-9]*)|0o[0-7]+|0x[0-9a-fA-F]+)\Z")
_FLOAT = re.compile(
    r"(?:[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?|[-+]?[0-9]+[eE][-+]?[0-9]+"
    r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))\Z"
)
_TEMPLATE = re.compile(r"\{\{\s*env\.([A-Za-z_][A-Za-z0-9_]*)\s*\}\}")
_ALIAS = "!alias"
_MAX_DEPTH = 100


class Substituted(str):
    """Text that came from the environment. Its repr is the template, so that no message prints a secret."""

    __slots__ = ("template",)
    template: str

    def __new__(cls, text: str, template: str) -> Substituted:
        made = super().__new__(cls, text)
        made.template = template
        return made

    def __repr__(self) -> str:
        return repr(self.template)


@dataclass(frozen=True, slots=True)
class Tree:
    """Plain values (None, bool, int, float, str, list, dict) with the position of each value and key.

    `broken` are places that already have a finding: what else is wrong with them is a consequence.
    """

    value: object
    values: Mapping[Loc, Position]
    keys: Mapping[Loc, Position]
    findings: tuple[Finding, ...]
    broken: frozenset[Loc]

    def position(self, loc: Loc, *, at_key: bool = False) -> Position:
        """Where `loc` stands, or the nearest place around it that exists."""
        for length in range(len(loc), 0, -1):
            places = (self.keys, self.values) if at_key else (self.values, self.keys)
            for place in places:
                if found := place.get(loc[:length]):
                    return found
        return self.values[()]


@dataclass(slots=True)
class _Builder:
    env: Mapping[str, str]
    values: dict[Loc, Position] = field(default_factory=dict)
    keys: dict[Loc, Position] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    broken: set[Loc] = field(default_factory=set)

    def refuse(self, loc: Loc, message: str) -> None:
        self.findings.append(Finding(loc, message))
        self.broken.add(loc)


class _CoreLoader(yaml.BaseLoader):
    """PyYAML's composer with the scalars of YAML 1.2, without aliases and with a bound on its recursion."""

    _depth = 0

    yaml_implicit_resolvers = {  # noqa: RUF012 - PyYAML's own attribute
        None: [(_TAG + "null", _NULL), (_TAG + "bool", _BOOL), (_TAG + "int", _INT), (_TAG + "float", _FLOAT)]
    }

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            # kept as a mark of its own: other components in the file may use aliases, our tables may not
            event = self.get_event()  # type: ignore[no-untyped-call]
            return yaml.ScalarNode(_ALIAS, event.anchor, event.start_mark, event.end_mark)
        if self._depth == _MAX_DEPTH:
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise yaml.composer.ComposerError(None, None, f"nested deeper than {_MAX_DEPTH} levels", mark)
        self._depth += 1
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node


def scalar(text: str) -> object:
    """The value of a plain scalar."""
    if _NULL.match(text):
        return None
    if _BOOL.match(text):
        return text.lower() == "true"
    if _INT.match(text):
        return int(text, 0) if text[:2] in ("0o", "0x") else int(text)
    if _FLOAT.match(text):
        return float(text.lower().replace(".inf", "inf").replace(".nan", "nan"))
    return text


def compose(text: str, path: Path) -> list[yaml.Node] | Problem:
    """The nodes of every document, or what breaks the YAML."""
    try:
        return list(yaml.compose_all(text, Loader=_CoreLoader))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        position = Position(mark.line + 1, mark.column + 1) if mark else Position(1, 1)
        what = ", ".join(part for part in (error.context, error.problem) if part)
        return Problem(path, position, "", f"broken YAML: {what}{_hint(text, position)}")
    except yaml.reader.ReaderError as error:
        before = text[: error.position]
        position = Position(before.count("\n") + 1, error.position - before.rfind("\n"))
        message = f"broken YAML: character {error.character!r} is not allowed; write it as an escape in double quotes"
        return Problem(path, position, "", message)


def is_null(node: yaml.Node) -> bool:
    """Whether a document is empty, as after a last `---`."""
    return isinstance(node, yaml.ScalarNode) and node.tag == _TAG + "null"


def _hint(text: str, position: Position) -> str:
    lines = text.splitlines()
    around = lines[max(position.line - 2, 0) : position.line]
    return "; put text with {{ env.NAME }} in quotes" if any("{{" in line for line in around) else ""


def node_position(node: yaml.Node) -> Position:
    return Position(node.start_mark.line + 1, node.start_mark.column + 1)


def build_tree(node: yaml.Node, env: Mapping[str, str]) -> Tree:
    """The values below `node`, environment variables put in."""
    builder = _Builder(env)
    value = _value(node, (), builder)
    return Tree(value, builder.values, builder.keys, tuple(builder.findings), frozenset(builder.broken))


def _value(node: yaml.Node, loc: Loc, builder: _Builder) -> object:
    builder.values[loc] = node_position(node)
    if isinstance(node, yaml.MappingNode) and node.tag == _TAG + "map":
        return _mapping(node, loc, builder)
    if isinstance(node, yaml.SequenceNode) and node.tag == _TAG + "seq":
        return _sequence(node, loc, builder)
    if isinstance(node, yaml.ScalarNode):
        return _scalar(node, loc, builder)
    builder.refuse(loc, f"the tag {node.tag} is not supported; leave it out")
    return None


def _sequence(node: yaml.SequenceNode, loc: Loc, builder: _Builder) -> list[object]:
    value: list[object] = []
    cut = False
    for index, item in enumerate(node.value):
        place = (*loc, index)
        if cut:
            # the other half of what was cut has its finding
            builder.broken.add(place)
        cut = (cut or _opens(node, item, place, builder)) and not _closes(item)
        value.append(None if place in builder.broken else _value(item, place, builder))
    return value


def _opens(parent: yaml.CollectionNode, node: yaml.Node, loc: Loc, builder: _Builder) -> bool:
    """Refuse `[bucket(16, id)]` and `{type: decimal(12,2)}`: between brackets YAML ends plain text at a comma."""
    if not (parent.flow_style and isinstance(node, yaml.ScalarNode) and node.style is None):
        return False
    if node.value.count("(") <= node.value.count(")"):
        return False
    builder.values[loc] = node_position(node)
    builder.refuse(loc, f"{node.value!r} is cut off at the comma; put the whole of it in quotes")
    return True


def _closes(node: yaml.Node) -> bool:
    return isinstance(node, yaml.ScalarNode) and node.value.count(")") > node.value.count("(")


def _scalar(node: yaml.ScalarNode, loc: Loc, builder: _Builder) -> object:
    if node.tag == _ALIAS:
        builder.refuse(loc, f"the alias *{node.value} is not supported; write the value out")
        return None
    name = node.tag.removeprefix(_TAG)
    if name == "str":
        return _substitute(node.value, loc, builder)
    value = scalar(node.value)
    kinds = {"null": type(None), "bool": bool, "int": int, "float": float}
    if name not in kinds or not isinstance(value, kinds[name]):
        builder.refuse(loc, f"the tag {node.tag} is not supported; leave it out")
        return None
    return value


def _mapping(node: yaml.MappingNode, loc: Loc, builder: _Builder) -> dict[str, object]:
    value: dict[str, object] = {}
    cut = False
    for key_node, item in node.value:
        position = node_position(key_node)
        if cut and is_null(item):
            # the other half of what was cut has its finding
            cut = not _closes(key_node)
            continue
        if not isinstance(key_node, yaml.ScalarNode) or key_node.tag == _ALIAS:
            builder.refuse(loc, "a key must be text; put {{ env.NAME }} in quotes")
            continue
        key = str(key_node.value)
        place = (*loc, key)
        if key in value:
            message = f"duplicate key, first on line {builder.keys[place].line}; keep one of them"
            builder.findings.append(Finding(place, message, position=position))
            continue
        builder.keys[place] = position
        if key == "<<" and key_node.style is None:
            builder.refuse(place, "the merge key << is not supported; write the fields out")
            continue
        if "{{" in key:
            builder.refuse(place, "a key cannot hold {{ … }}; write the name out")
        cut = _opens(node, item, place, builder)
        value[key] = None if place in builder.broken else _value(item, place, builder)
    return value


def _substitute(text: str, loc: Loc, builder: _Builder) -> str | None:
    if "{{" not in text:
        return text
    if "{{" in _TEMPLATE.sub("", text):
        builder.refuse(loc, f"{text!r} has a template that is not known; only {{{{ env.NAME }}}} is replaced")
        return None
    missing = [name for name in _TEMPLATE.findall(text) if name not in builder.env]
    if missing:
        builder.refuse(loc, f"environment variable {missing[0]} is not set; set it, or write the value")
        return None
    return Substituted(_TEMPLATE.sub(lambda found: builder.env[found[1]], text), text)
