"""Column types: one value for what Iceberg, Spark, SQL and DuckDB call by different names. Never touches data."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from lakehouse.naming import quote_name

MAX_DEPTH = 16
"""How deep types may stand in one another; a reader of nested values recurses as deep."""

_ALIASES = {
    "bool": "boolean",
    "integer": "int",
    "bigint": "long",
    "real": "float",
    "double precision": "double",
    "varchar": "string",
    "text": "string",
    "numeric": "decimal",
    "timestamp without time zone": "timestamp",
    "timestamp with time zone": "timestamptz",
    "bytes": "binary",
    "array": "list",
    "row": "struct",
}
_SQL = {
    "boolean": "BOOLEAN",
    "int": "INTEGER",
    "long": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "date": "DATE",
    "time": "TIME",
    "timestamp": "TIMESTAMP",
    "timestamptz": "TIMESTAMP WITH TIME ZONE",
    "string": "VARCHAR",
    "uuid": "UUID",
    "binary": "BLOB",
}
_NESTED = ("struct", "list", "map")
_CLOSING = {"<": ">", "(": ")", "[": "]"}
_PLAIN_NAME = re.compile(r"[^\W\d]\w*")
_TOKEN = re.compile(r"""\s*(?:(?P<quoted>`(?:[^`]|``)+`|"(?:[^"]|"")+")|(?P<word>\w+)|(?P<mark>[<>()\[\],:]))\s*""")


@dataclass(frozen=True, slots=True)
class ColumnType:
    """An Iceberg type.

    `precision` and `scale` are those of a decimal, `length` the bytes of a fixed. `fields` are the named parts of a
    nested type: the fields of a struct, the `element` of a list, the `key` and `value` of a map. All of them are
    optional but a map's key.
    """

    name: str
    precision: int = 0
    scale: int = 0
    length: int = 0
    fields: tuple[tuple[str, ColumnType], ...] = ()

    def __str__(self) -> str:
        match self.name:
            case "decimal":
                return f"decimal({self.precision},{self.scale})"
            case "fixed":
                return f"fixed({self.length})"
            case "struct":
                return f"struct<{', '.join(f'{_spelled(name)}: {kind}' for name, kind in self.fields)}>"
            case "list" | "map":
                return f"{self.name}<{', '.join(str(kind) for _, kind in self.fields)}>"
            case _:
                return self.name

    @property
    def sql(self) -> str:
        """The type's name in DuckDB."""
        match self.name:
            case "decimal":
                return f"DECIMAL({self.precision},{self.scale})"
            case "fixed":
                return "BLOB"
            case "struct":
                return f"STRUCT({', '.join(f'{quote_name(name)} {kind.sql}' for name, kind in self.fields)})"
            case "list":
                return f"{self.fields[0][1].sql}[]"
            case "map":
                return f"MAP({', '.join(kind.sql for _, kind in self.fields)})"
            case _:
                return _SQL[self.name]

    @property
    def nested(self) -> bool:
        """Whether it is a struct, a list or a map."""
        return self.name in _NESTED

    def leaves(self) -> Iterator[ColumnType]:
        """The primitive types that it is made of, itself if it is one."""
        if not self.nested:
            yield self
        for _, kind in self.fields:
            yield from kind.leaves()


NAMES = tuple(sorted([*_SQL, "decimal(p,s)", "fixed(length)", "struct<name: type>", "list<type>", "map<type, type>"]))


def struct_of(fields: Iterator[tuple[str, ColumnType]] | tuple[tuple[str, ColumnType], ...]) -> ColumnType:
    return ColumnType("struct", fields=tuple(fields))


def list_of(element: ColumnType) -> ColumnType:
    return ColumnType("list", fields=(("element", element),))


def map_of(key: ColumnType, value: ColumnType) -> ColumnType:
    return ColumnType("map", fields=(("key", key), ("value", value)))


def parse_type(text: str) -> ColumnType:
    """Read a type as Iceberg, Spark or SQL writes it: `long`, `decimal(12,2)`, `struct<a: int, b: list<string>>`.

    Names of types are read without case, names of fields with it; a field's name that is no plain word stands in
    backticks or double quotes. Raises ValueError with what would be right.
    """
    return _Parser(text).whole()


class _Parser:
    """Reads one type by recursive descent."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens: list[str] = []
        position = 0
        while position < len(text):
            token = _TOKEN.match(text, position)
            if token is None:
                if not text[position:].strip():
                    break
                raise ValueError(f"unknown type {text!r}: {text[position:].strip()[0]!r} cannot stand there")
            self._tokens.append(token[0].strip())
            position = token.end()
        self._next = 0

    def whole(self) -> ColumnType:
        found = self._type(1)
        if self._next < len(self._tokens):
            raise self._unexpected("the end of the type")
        return found

    def _type(self, depth: int) -> ColumnType:
        if depth > MAX_DEPTH:
            raise ValueError(f"types nested deeper than {MAX_DEPTH} are not supported")
        name = self._words()
        name = _ALIASES.get(name, name)
        if name in _NESTED:
            return self._nested(name, depth)
        if name in _SQL:
            return ColumnType(name)
        if name in ("decimal", "fixed"):
            return self._sized(name)
        raise ValueError(f"unknown type {name or self._text!r}; one of {', '.join(NAMES)}")

    def _words(self) -> str:
        """The words of a name such as `timestamp with time zone`, lower case."""
        words = []
        while self._peek() and _PLAIN_NAME.fullmatch(self._peek()):
            words.append(self._take().lower())
        return " ".join(words)

    def _nested(self, name: str, depth: int) -> ColumnType:
        example = {"struct": "struct<a: int, b: string>", "list": "list<int>", "map": "map<string, int>"}[name]
        if self._peek() not in ("<", "("):
            raise ValueError(f"expected what the {name} holds, such as {example}")
        closing = _CLOSING[self._take()]
        if name == "struct":
            found = struct_of(tuple(self._fields(closing, depth)))
            _check_names([field for field, _ in found.fields])
            return found
        first = self._type(depth + 1)
        if name == "list":
            self._expect(closing)
            return list_of(first)
        self._expect(",")
        second = self._type(depth + 1)
        self._expect(closing)
        return map_of(first, second)

    def _fields(self, closing: str, depth: int) -> Iterator[tuple[str, ColumnType]]:
        while True:
            name = self._field_name()
            if self._peek() == ":":
                self._take()
            yield name, self._type(depth + 1)
            if self._peek() != ",":
                break
            self._take()
        self._expect(closing)

    def _field_name(self) -> str:
        token = self._peek()
        if token[:1] in ("`", '"'):
            quote = self._take()[0]
            return token[1:-1].replace(quote * 2, quote)
        if not re.fullmatch(r"\w+", token):
            raise self._unexpected("the name of a field")
        return self._take()

    def _sized(self, name: str) -> ColumnType:
        example = "decimal(12,2)" if name == "decimal" else "fixed(16)"
        if self._peek() not in ("(", "["):
            raise ValueError(f"expected {name} with its size, such as {example}")
        closing = _CLOSING[self._take()]
        sizes = [self._number(example)]
        while self._peek() == ",":
            self._take()
            sizes.append(self._number(example))
        self._expect(closing)
        if len(sizes) != (2 if name == "decimal" else 1):
            raise ValueError(f"expected {name} with its size, such as {example}")
        return _decimal(*sizes) if name == "decimal" else _fixed(sizes[0])

    def _number(self, example: str) -> int:
        if not re.fullmatch(r"[0-9]{1,9}", self._peek()):
            raise self._unexpected(f"a whole number, as in {example}")
        return int(self._take())

    def _peek(self) -> str:
        return self._tokens[self._next] if self._next < len(self._tokens) else ""

    def _take(self) -> str:
        self._next += 1
        return self._tokens[self._next - 1]

    def _expect(self, mark: str) -> None:
        if self._peek() != mark:
            raise self._unexpected(repr(mark))
        self._take()

    def _unexpected(self, expected: str) -> ValueError:
        found = repr(self._peek()) if self._peek() else "the end"
        return ValueError(f"expected {expected} in the type {self._text!r}, got {found}")


def _decimal(precision: int, scale: int) -> ColumnType:
    if not 1 <= precision <= 38 or scale > precision:
        raise ValueError(f"decimal needs 1 <= precision <= 38 and scale <= precision, got decimal({precision},{scale})")
    return ColumnType("decimal", precision, scale)


def _fixed(length: int) -> ColumnType:
    if not 1 <= length <= 1 << 20:
        raise ValueError(f"fixed needs a length from 1 to {1 << 20} bytes, got fixed({length})")
    return ColumnType("fixed", length=length)


def _check_names(names: list[str]) -> None:
    """A dot would make a path of names ambiguous, and most engines take names without case."""
    if dotted := [name for name in names if "." in name or "\0" in name]:
        raise ValueError(f"the name of a field has neither dot nor NUL, got {dotted[0]!r}")
    lower: dict[str, str] = {}
    for name in names:
        if (other := lower.setdefault(name.lower(), name)) != name or names.count(name) > 1:
            raise ValueError(f"two fields of a struct have the same name but for case: {other}, {name}")


def _spelled(name: str) -> str:
    return name if _PLAIN_NAME.fullmatch(name) else "`" + name.replace("`", "``") + "`"
