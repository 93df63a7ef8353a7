"""XML documents into a sink: each element of the declared name is a record.

Names and shapes as Spark's XML reader has them: child elements are fields, attributes are fields `_name`, the text of
an element that has attributes is `_VALUE`, an element that is repeated is a list. Which of these an element is, the
declared type says, never the document. A document type is refused: it can bring entities and defaults, and files from
elsewhere. What a record says of namespaces (`xmlns`, `xsi:type`) is no field.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NoReturn, TypeAlias
from xml.parsers import expat

from lakehouse.declaration import XmlFormat
from lakehouse.errors import UnreadableObject
from lakehouse.masking import record_parts, shown_names
from lakehouse.read.csv.records import MAX_RECORD
from lakehouse.read.masked import masked_xml
from lakehouse.read.objects.json_nested import XML_WORDS
from lakehouse.read.objects.rows import ObjectRows
from lakehouse.read.origins import origins_of
from lakehouse.read.sink import Sink, transaction
from lakehouse.types import ColumnType

CHUNK = 1 << 20
RAW_KEPT = 64 << 10
NAMES_SHOWN = 10
TypeOf: TypeAlias = Callable[[str], ColumnType | None]
_TEXT = "_VALUE"
_NIL = "xsi:nil"


def read_xml(sink: Sink, path: Path, format: XmlFormat) -> tuple[str, ...]:
    """Read the file into the sink, in one transaction; returns the declared columns that no record of it has.

    Raises UnreadableObject if it is not well-formed, has a document type or elements of other names alone, for an
    unknown field unless ignored, and if a column is missing that must not be.
    """
    rows = ObjectRows(sink, XML_WORDS)
    sink.mask_with(partial(masked_xml, record=record_parts(sink.declaration)))
    with path.open("rb") as binary, transaction(sink.con):
        document = _Document(sink, rows, format)
        while chunk := binary.read(CHUNK):
            document.feed(chunk)
        document.finish()
        rows.flush()
        return rows.missing()


@dataclass(slots=True)
class _Element:
    """An element inside a record; `parts` are the texts around its children."""

    attributes: Mapping[str, str]
    children: dict[str, list[_Element]] = field(default_factory=dict)
    parts: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "".join(self.parts)

    @property
    def attribute_fields(self) -> dict[str, str]:
        """Its attributes as fields."""
        return {f"_{name}": text for name, text in self.attributes.items() if not _of_namespaces(name)}

    def fields(self, type_of: TypeOf, *, ignored: bool) -> dict[str, Any]:
        """Its fields by name, shaped as their types say; one without a type has no value here."""
        found: dict[str, Any] = dict(self.attribute_fields)
        if self.children and self.text.strip():
            raise _Misfit("text between elements")
        for name, elements in self.children.items():
            kind = type_of(name)
            found[name] = _shaped(elements, kind, ignored=ignored) if kind else None
        if not self.children and (text := self.text).strip():
            found[_TEXT] = text
        return found


class _Misfit(ValueError):
    """An element has something that its record cannot keep."""


def _shaped(elements: Sequence[_Element], kind: ColumnType, *, ignored: bool) -> Any:
    if kind.name == "list":
        ((_, part),) = kind.fields
        return [_value(element, part, ignored=ignored) for element in elements]
    if len(elements) > 1:
        # an array where none is declared: the caller's complaint
        return [None for _ in elements]
    return _value(elements[0], kind, ignored=ignored)


def _free(elements: Sequence[_Element], *, empty_is_null: bool) -> Any:
    """Elements of which no type says how they are shaped."""
    values = [_free_value(element, empty_is_null=empty_is_null) for element in elements]
    return values if len(values) > 1 else values[0]


def _free_value(element: _Element, *, empty_is_null: bool) -> Any:
    if element.attributes.get(_NIL) in ("true", "1"):
        return None
    inside = {name: _free(parts, empty_is_null=empty_is_null) for name, parts in element.children.items()}
    found = element.attribute_fields | inside
    if not found:
        return None if empty_is_null and not element.text else element.text
    return found | ({_TEXT: element.text} if element.text.strip() else {})


def _of_namespaces(attribute: str) -> bool:
    return attribute == "xmlns" or attribute.startswith(("xmlns:", "xsi:"))


def _value(element: _Element, kind: ColumnType, *, ignored: bool) -> Any:
    if element.attributes.get(_NIL) in ("true", "1"):
        return None
    if kind.name == "struct":
        return element.fields(dict(kind.fields).get, ignored=ignored) or None
    if kind.name == "map":
        return element.fields(lambda _: kind.fields[1][1], ignored=ignored)
    if element.children or (element.attribute_fields and not ignored):
        return element.fields(lambda _: None, ignored=ignored)
    return element.text


class _Document:
    """Turns expat's events into records; keeps no more than one of them and one chunk."""

    def __init__(self, sink: Sink, rows: ObjectRows, format: XmlFormat) -> None:
        self._uri, self._rows, self._format = sink.uri, rows, format
        self._declaration = sink.declaration
        self._types = origins_of(sink.declaration).types()
        self._ignored = sink.declaration.unknown_columns == "ignore"
        self._rescues = sink.declaration.rescues
        self._empty_is_null = "" in format.null_values
        # what the file is written in was decided before: it is UTF-8 by now
        parser = self._parser = expat.ParserCreate(encoding="utf-8")
        parser.XmlDeclHandler = self._declared
        parser.StartDoctypeDeclHandler = self._doctype
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._text
        parser.DefaultHandlerExpand = self._other
        # `_head` are bytes above the chunk, from `_head_at` on: those of a tag that was cut, or of the record
        self._chunk, self._offset = b"", 0
        self._head, self._head_at = b"", 0
        self._seen = 0
        self._open: list[_Element] = []
        self._whole: _Element | None = None
        self._line, self._begin = 0, 0
        self._others: dict[str, None] = {}
        self._root = True
        self._found = False

    def feed(self, chunk: bytes) -> None:
        """Parse the next bytes."""
        start = self._begin if self._open or self._whole else self._seen
        head = self._bytes(start, self._offset + len(self._chunk))
        self._head, self._head_at = head, start
        self._offset += len(self._chunk)
        self._chunk = chunk
        if b"\0" in chunk:
            # by such bytes expat would take the document for UTF-16, whatever it is told
            self._fail(self._parser.CurrentLineNumber, "a NUL, which no UTF-8 document has; declare its encoding")
        self._parse(chunk, last=False)

    def finish(self) -> None:
        """The document is over."""
        self._parse(b"", last=True)
        self._close(self._offset + len(self._chunk))
        if not self._found and self._others:
            names = shown_names(self._others, self._declaration)
            raise UnreadableObject(
                f"no element has the declared name: "
                f"uri={self._uri} row_element={self._format.row_element!r} found={names}"
            )

    def _parse(self, chunk: bytes, *, last: bool) -> None:
        try:
            self._parser.Parse(chunk, last)
        except expat.ExpatError as error:
            self._fail(error.lineno, f"{expat.ErrorString(error.code)} at character {error.offset + 1}")

    def _declared(self, _version: str, encoding: str | None, _standalone: int) -> None:
        declared = self._format.encoding
        if encoding and not _same(encoding, declared):
            self._fail(1, f"its encoding is {encoding}, declared is {declared}")

    def _doctype(self, *_: object) -> NoReturn:
        self._fail(
            self._parser.CurrentLineNumber, "a document type (DOCTYPE) is refused: it can bring entities and defaults"
        )

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self._close(self._parser.CurrentByteIndex)
        if not self._open:
            root, self._root = self._root, False
            if name != self._format.row_element:
                if not root and len(self._others) < NAMES_SHOWN:
                    self._others[name] = None
                return
            self._found = True
            self._line, self._begin = self._parser.CurrentLineNumber, self._parser.CurrentByteIndex
            self._open.append(_Element(attributes))
            return
        element = _Element(attributes)
        if not self._too_long():
            self._open[-1].children.setdefault(name, []).append(element)
        self._open.append(element)

    def _end(self, _: str) -> None:
        self._close(self._parser.CurrentByteIndex)
        if self._open:
            element = self._open.pop()
            if not self._open:
                self._whole = element

    def _text(self, text: str) -> None:
        self._close(self._parser.CurrentByteIndex)
        if self._open and not self._too_long():
            self._open[-1].parts.append(text)

    def _other(self, _: str) -> None:
        self._close(self._parser.CurrentByteIndex)

    def _too_long(self) -> bool:
        return self._parser.CurrentByteIndex - self._begin > MAX_RECORD

    def _bytes(self, begin: int, end: int) -> bytes:
        """What stands between two places of the document, of a record that is too long only the beginning."""
        above = self._head[begin - self._head_at : max(end - self._head_at, 0)] if begin < self._offset else b""
        if len(above) > MAX_RECORD:
            return above
        return above + self._chunk[max(begin - self._offset, 0) : max(end - self._offset, 0)]

    def _close(self, end: int) -> None:
        """Hand over the record that has ended; it goes to where the next event begins."""
        self._seen = end
        if self._whole is None:
            return
        element, self._whole = self._whole, None
        raw = self._bytes(self._begin, end)
        if end - self._begin > MAX_RECORD:
            self._rows.condemn(self._line, raw[:RAW_KEPT], f"the record is longer than {MAX_RECORD} bytes")
            return
        try:
            found = element.fields(self._types.get, ignored=self._ignored)
            if self._rescues:
                unknown = {name: parts for name, parts in element.children.items() if name not in self._types}
                found |= {name: _free(parts, empty_is_null=self._empty_is_null) for name, parts in unknown.items()}
        except _Misfit as misfit:
            self._rows.condemn(self._line, raw, str(misfit))
            return
        except RecursionError:
            self._rows.condemn(self._line, raw, "elements nested too deeply")
            return
        self._rows.add(self._line, raw, found)

    def _fail(self, line: int, reason: str) -> NoReturn:
        raise UnreadableObject(f"the XML document cannot be read: uri={self._uri} line={line} reason={reason}")


def _same(encoding: str, declared: str) -> bool:
    """Whether two names stand for one encoding; UTF-16 may say its byte order or not."""
    try:
        found = codecs.lookup(encoding).name
    except LookupError:
        return False
    return (
        found == declared
        or (found == "ascii" and declared == "utf-8")
        or (found.startswith("utf-16") and declared.startswith("utf-16"))
    )
