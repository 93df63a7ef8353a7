"""What files of objects (JSON lines, JSON documents, XML) must come to: slow readers by the letter, on whole files.

Written from RFC 8259, the documentation of reading and expat's events alone, with nothing of `lakehouse`: no chunks, no
SQL, no shortcut. `judge` makes rows and rejects of objects, the readers find the objects.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from xml.parsers import expat

FLAT = {"id": "string", "s": "string", "n": "long"}
NESTED = {**FLAT, "l": "list<string>", "o": "struct<a: string, b: string>", "m": "map<string, string>"}
XML_NESTED = {**FLAT, "l": "list<string>", "o": "struct<_a: string, b: string>", "m": "map<string, string>"}
BLANKS = " \t\r\n"
DEEP = 3000
"""Brackets inside brackets, from which on a record is too deep; files have far fewer or far more."""
_FOREIGN = (b"\xff\xfe", b"\xfe\xff", b"\x00\x00\xfe\xff", b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"PK\x03\x04", b"BZh")
_LONG = re.compile(r"[+-]?[0-9]+(\.0*)?")
_BAD = object()


class Refused(Exception):
    """The file as a whole is refused."""


class Number(str):
    """A number as it is written."""


@dataclass(frozen=True)
class Options:
    """What the declaration says."""

    columns: Mapping[str, str]
    nulls: Sequence[str]
    ignore: bool


@dataclass
class Outcome:
    """Rows with their lines; rejects as line, bad columns (None: the record as a whole) and raw text."""

    rows: list[tuple[int, tuple[Any, ...]]] = field(default_factory=list)
    rejects: list[tuple[int, frozenset[str] | None, str]] = field(default_factory=list)

    @property
    def records(self) -> int:
        return len(self.rows) + len(self.rejects)


Found = tuple[int, bytes, dict[str, Any] | None]
"""A record: its first line, its bytes, its object; None if it is none."""


def judge(records: Iterator[Found], options: Options) -> Outcome:
    """Rows and rejects. Raises Refused for names that nobody declares and a key column that no object has."""
    outcome, seen, objects = Outcome(), set[str](), 0
    for line, raw, found in records:
        shown = raw.decode("utf-8", "backslashreplace").replace("\0", "\\x00")
        if found is None:
            outcome.rejects.append((line, None, shown))
            continue
        _refuse_unknown(found, options.columns, options)
        objects += 1
        seen |= found.keys()
        values = {name: _value(found.get(name), kind, options) for name, kind in options.columns.items()}
        bad = {name for name, value in values.items() if value is _BAD or (name == "id" and value is None)}
        if bad:
            outcome.rejects.append((line, frozenset(bad), shown))
        else:
            outcome.rows.append((line, tuple(values.values())))
    if objects and "id" not in seen:
        raise Refused("no object has the key")
    return outcome


def _refuse_unknown(found: Mapping[str, Any], known: Mapping[str, Any] | Sequence[str], options: Options) -> None:
    for name in found:
        if name not in known and (not options.ignore or name.strip().lower() in {k.lower() for k in known}):
            raise Refused(f"unknown: {name!r}")


def _value(value: Any, kind: str, options: Options) -> Any:
    if kind == "long":
        return _as_long(_single(value, options), options)
    if kind == "string":
        return _single(value, options)
    if value is None or (type(value) is str and value in options.nulls):
        return None
    if kind.startswith("list"):
        parts = [_single(part, options) for part in value] if isinstance(value, list) else [_BAD]
        return _BAD if _BAD in parts else parts
    if not isinstance(value, dict):
        return _BAD
    if kind.startswith("struct"):
        names = re.findall(r"(\w+):", kind)
        _refuse_unknown(value, names, options)
        fields = {name: _single(value.get(name), options) for name in names}
        return _BAD if _BAD in fields.values() else fields
    keys = [_single(name, Options(options.columns, (), options.ignore)) for name in value]
    parts = [_single(part, options) for part in value.values()]
    return _BAD if _BAD in keys + parts else dict(zip(keys, parts, strict=True))


def _single(value: Any, options: Options) -> Any:
    match value:
        case None:
            return None
        case bool():
            return "true" if value else "false"
        case Number():
            return str(value)
        case str():
            if "\0" in value or re.search("[\ud800-\udfff]", value):
                return _BAD
            return None if value in options.nulls else value
        case _:
            return _BAD


def _as_long(text: Any, options: Options) -> Any:
    if text is None or text is _BAD:
        return text
    trimmed = text.strip(" \t")
    if not trimmed:
        return None if "" in options.nulls else _BAD
    if not _LONG.fullmatch(trimmed):
        return _BAD
    digits = trimmed.partition(".")[0]
    sign, whole = (digits[0], digits[1:]) if digits[0] in "+-" else ("+", digits)
    whole = whole.lstrip("0") or "0"
    if len(whole) > 19:
        return _BAD
    number = int(f"{sign}{whole}")
    return number if -(2**63) <= number < 2**63 else _BAD


def read_jsonl(data: bytes) -> Iterator[Found]:
    """One object per line that is not blank."""
    refuse_foreign(data)
    for number, line in enumerate(data.removeprefix(b"\xef\xbb\xbf").split(b"\n"), start=1):
        raw = line.strip(b" \t\r\n")
        if raw:
            yield number, line.rstrip(b"\r\n"), json_object(raw)


def read_json(data: bytes, path: Sequence[str]) -> Iterator[Found]:
    """The elements of the array at the path, or the one object there. Raises Refused where brackets do not match."""
    refuse_foreign(data)
    scanner = _Scanner(data.removeprefix(b"\xef\xbb\xbf"))
    found = [*scanner.below(path)]
    scanner.blanks()
    if scanner.at < len(scanner.data):
        raise Refused("something behind the document")
    for begin, end in found:
        raw = scanner.data[begin:end]
        yield 1 + scanner.data.count(b"\n", 0, begin), raw, json_object(raw)


def refuse_foreign(data: bytes) -> None:
    """Raise Refused for content that is nothing of text."""
    if data.startswith(_FOREIGN):
        raise Refused("foreign")


class _Scanner:
    """Walks through a JSON document byte by byte, and sees brackets, quotes, commas and colons alone."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def byte(self) -> bytes:
        return self.data[self.at : self.at + 1]

    def blanks(self) -> bytes:
        while self.byte() and self.byte() in b" \t\r\n":
            self.at += 1
        return self.byte()

    def expect(self, wanted: bytes) -> bytes:
        """One of the bytes `wanted`."""
        found = self.blanks()
        if not found or found not in wanted:
            raise Refused(f"{found!r} where one of {wanted!r} belongs")
        self.at += 1
        return found

    def below(self, path: Sequence[str]) -> Iterator[tuple[int, int]]:
        if not path:
            if self.blanks() == b"{":
                yield self.value()
            else:
                for _ in self.items(b"[", b"]"):
                    yield self.value()
            return
        there = 0
        for _ in self.items(b"{", b"}"):
            if self.blanks() != b'"':
                raise Refused("no name")
            begin, end = self.value()
            name = _json_value(self.data[begin:end])
            if not isinstance(name, str):
                raise Refused("no name")
            self.expect(b":")
            if name == path[0]:
                there += 1
                yield from self.below(path[1:])
            else:
                self.value()
        if there != 1:
            raise Refused("not there, or twice")

    def items(self, first: bytes, last: bytes) -> Iterator[None]:
        self.expect(first)
        if self.blanks() == last:
            self.at += 1
            return
        while True:
            yield
            if self.expect(b"," + last) == last:
                return

    def value(self) -> tuple[int, int]:
        first, begin = self.blanks(), self.at
        if not first or first in b",:]}":
            raise Refused("no value")
        if first not in b'{["':
            while self.byte() and self.byte() not in b" \t\r\n,]}":
                self.at += 1
            return begin, self.at
        depth, quoted = 0, False
        while True:
            byte = self.byte()
            if not byte:
                raise Refused("the document ends too early")
            self.at += 1
            if quoted and byte == b"\\":
                if not self.byte():
                    raise Refused("the document ends too early")
                self.at += 1
            elif byte == b'"':
                quoted = not quoted
            elif not quoted:
                depth += (byte in b"{[") - (byte in b"}]")
            if not depth and not quoted:
                return begin, self.at


def json_object(raw: bytes) -> dict[str, Any] | None:
    """The object; None if the bytes are none, or hold a key twice, or are too deep."""
    found = _json_value(raw)
    return found if isinstance(found, dict) else None


def _json_value(raw: bytes) -> Any:
    """The value; _BAD if the bytes are no JSON."""
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        return _BAD
    depth = deepest = 0
    quoted = escaped = False
    for character in text:
        if quoted:
            quoted = escaped or character != '"'
            escaped = not escaped and character == "\\"
        else:
            quoted = character == '"'
            depth += (character in "[{") - (character in "]}")
            deepest = max(deepest, depth)
    if deepest > DEEP:
        return _BAD
    parser = _Json(text)
    try:
        value = parser.value()
        parser.blanks()
    except ValueError:
        return _BAD
    return value if parser.at == len(text) else _BAD


_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_ESCAPES = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


class _Json:
    """RFC 8259, character by character. Raises ValueError."""

    def __init__(self, text: str) -> None:
        self._text, self.at = text, 0

    def blanks(self) -> str:
        while self._text[self.at : self.at + 1] and self._text[self.at] in BLANKS:
            self.at += 1
        return self._text[self.at : self.at + 1]

    def value(self) -> Any:
        match self.blanks():
            case "{":
                return self._object()
            case "[":
                return self._array()
            case '"':
                return self._string()
        for word, value in (("true", True), ("false", False), ("null", None)):
            if self._text.startswith(word, self.at):
                self.at += len(word)
                return value
        number = _NUMBER.match(self._text, self.at)
        if number is None:
            raise ValueError
        self.at = number.end()
        return Number(number[0])

    def _take(self, wanted: str) -> str:
        found = self.blanks()
        if not found or found not in wanted:
            raise ValueError
        self.at += 1
        return found

    def _object(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        self._take("{")
        if self.blanks() == "}":
            self.at += 1
            return found
        while True:
            if self.blanks() != '"':
                raise ValueError
            name = self._string()
            self._take(":")
            value = self.value()
            if name in found:
                raise ValueError
            found[name] = value
            if self._take(",}") == "}":
                return found

    def _array(self) -> list[Any]:
        found: list[Any] = []
        self._take("[")
        if self.blanks() == "]":
            self.at += 1
            return found
        while True:
            found.append(self.value())
            if self._take(",]") == "]":
                return found

    def _string(self) -> str:
        self.at += 1
        units: list[str] = []
        while True:
            character = self._text[self.at : self.at + 1]
            self.at += 1
            if not character or character < " ":
                raise ValueError
            if character == '"':
                return re.sub("([\ud800-\udbff])([\udc00-\udfff])", _joined, "".join(units))
            if character == "\\":
                character = self._text[self.at : self.at + 1]
                self.at += 1
                if character == "u":
                    code = self._text[self.at : self.at + 4]
                    if not re.fullmatch("[0-9A-Fa-f]{4}", code):
                        raise ValueError
                    self.at += 4
                    character = chr(int(code, 16))
                elif character in _ESCAPES and character:
                    character = _ESCAPES[character]
                else:
                    raise ValueError
            units.append(character)


def _joined(pair: re.Match[str]) -> str:
    return chr(0x10000 + (ord(pair[1]) - 0xD800) * 0x400 + ord(pair[2]) - 0xDC00)


@dataclass
class _Element:
    name: str
    attributes: dict[str, str]
    line: int
    begin: int
    end: int = 0
    text: str = ""
    children: list[_Element] = field(default_factory=list)


def read_xml(data: bytes, row_element: str, options: Options) -> Iterator[Found]:
    """The outermost elements of the name. Raises Refused for what is not well-formed, a document type, an encoding that
    is not UTF-8, and elements of other names alone."""
    refuse_foreign(data)
    data = data.removeprefix(b"\xef\xbb\xbf")
    root = _tree(data)
    records = [*_outermost(root, row_element)]
    if not records and root.children:
        raise Refused("elements of other names alone")
    for element in records:
        raw = data[element.begin : element.end]
        yield element.line, raw, _fields(element, options.columns, options)


def _tree(data: bytes) -> _Element:
    parser = expat.ParserCreate(encoding="utf-8")
    top = _Element("", {}, 0, 0)
    stack = [top]

    def start(name: str, attributes: dict[str, str]) -> None:
        element = _Element(name, attributes, parser.CurrentLineNumber, parser.CurrentByteIndex)
        stack[-1].children.append(element)
        stack.append(element)

    def end(_: str) -> None:
        element, place = stack.pop(), parser.CurrentByteIndex
        first = _behind_tag(data, element.begin)
        element.end = first if data[first - 2 : first] == b"/>" else _behind_tag(data, place)

    def text(more: str) -> None:
        stack[-1].text += more

    def declared(_version: str, encoding: str | None, _standalone: int) -> None:
        if encoding and encoding.lower() not in ("utf-8", "utf8", "ascii", "us-ascii"):
            raise Refused(encoding)

    def doctype(*_: object) -> None:
        raise Refused("a document type")

    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.CharacterDataHandler, parser.XmlDeclHandler = text, declared
    parser.StartDoctypeDeclHandler = doctype
    if b"\0" in data:
        raise Refused("not UTF-8")
    try:
        parser.Parse(data, True)
    except expat.ExpatError as error:
        raise Refused(str(error)) from None
    return top.children[0]


def _behind_tag(data: bytes, at: int) -> int:
    """The place behind the tag that begins there; `>` in the quotes of an attribute does not end it."""
    quote = b""
    while True:
        byte = data[at : at + 1]
        assert byte, "the tag does not end"
        at += 1
        if quote:
            quote = b"" if byte == quote else quote
        elif byte in b"\"'":
            quote = byte
        elif byte == b">":
            return at


def _outermost(root: _Element, name: str) -> Iterator[_Element]:
    left = [root]
    while left:
        element = left.pop()
        if element.name == name:
            yield element
        else:
            left += reversed(element.children)


def _fields(element: _Element, kinds: Mapping[str, str], options: Options) -> dict[str, Any] | None:
    """The fields of an element as the declared types shape them; None for text between elements."""
    found: dict[str, Any] = {f"_{name}": text for name, text in _own(element)}
    if element.children and element.text.strip():
        return None
    for name in dict.fromkeys(child.name for child in element.children):
        same, kind = [child for child in element.children if child.name == name], kinds.get(name)
        if kind is None:
            found[name] = None
            continue
        if len(same) > 1 and not kind.startswith("list"):
            found[name] = [None for _ in same]  # an array where none is declared
            continue
        values = [_shaped(child, "string" if kind.startswith("list") else kind, options) for child in same]
        if _BAD in values:
            return None
        found[name] = values if kind.startswith("list") else values[0]
    if not element.children and element.text.strip():
        found["_VALUE"] = element.text
    return found


def _own(element: _Element) -> list[tuple[str, str]]:
    """The attributes that are not about namespaces."""
    return [
        (name, text)
        for name, text in element.attributes.items()
        if name != "xmlns" and not name.startswith(("xmlns:", "xsi:"))
    ]


def _shaped(element: _Element, kind: str, options: Options) -> Any:
    if element.attributes.get("xsi:nil") in ("true", "1"):
        return None
    if kind.startswith("struct"):
        fields = _fields(element, dict.fromkeys(re.findall(r"(\w+):", kind), "string"), options)
        return _BAD if fields is None else fields or None
    if kind.startswith("map"):
        fields = _fields(element, {child.name: "string" for child in element.children}, options)
        return _BAD if fields is None else fields
    if element.children or (_own(element) and not options.ignore):
        fields = _fields(element, {}, options)
        return _BAD if fields is None else fields
    return element.text
