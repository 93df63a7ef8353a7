"""The raw text of a reject without what may not be shown of it, by format (`lakehouse.masking` says what may).

Each function takes the bytes of a record that was read and gives them back masked, or None if it cannot take them
apart. Values that are shown keep their text; JSON and XML are written anew.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any
from xml.parsers import expat
from xml.sax.saxutils import escape, quoteattr

from lakehouse.masking import MASK, Part
from lakehouse.read.csv.records import Dialect, written_fields
from lakehouse.read.objects.json_text import BLANKS, NotAnObject, parse_object
from lakehouse.read.objects.rows import as_compact_json


def masked_csv(raw: bytes, *, dialect: Dialect, shown: Collection[int]) -> bytes | None:
    """A CSV record of which only the fields at the positions `shown` may be; an empty field stays empty.

    A field with a line end in it is masked, too: a quote too many lets one swallow others.
    """
    fields = written_fields(raw, dialect)
    if fields is None:
        return None
    kept = (
        field if not field or (i in shown and len(field.splitlines()) == 1) else MASK for i, field in enumerate(fields)
    )
    return dialect.delimiter.join(kept).encode("utf-8", "surrogateescape")


def masked_json(raw: bytes, *, record: Part) -> bytes | None:
    """A JSON object; NULLs stay."""
    try:
        return as_compact_json(_masked(parse_object(raw.strip(BLANKS)), record)).encode()
    except (NotAnObject, RecursionError):
        return None


def _masked(value: Any, part: Part) -> Any:
    if value is None or part.whole:
        return value
    if not isinstance(value, dict) or not part.below:
        return MASK
    # a name that is not declared may be a value where a name should be
    return {
        name if name in part.below or part.shown else MASK: _masked(inner, part.at(name))
        for name, inner in value.items()
    }


def masked_xml(raw: bytes, *, record: Part) -> bytes | None:
    """An element; comments are left out."""
    writer = _Writer(record)
    parser = expat.ParserCreate(encoding="utf-8")
    parser.buffer_text = True
    parser.StartElementHandler = writer.start
    parser.EndElementHandler = writer.end
    parser.CharacterDataHandler = writer.text
    try:
        parser.Parse(raw, True)
    except expat.ExpatError:
        return None
    return "".join(writer.written).encode()


class _Writer:
    """Writes an element anew from expat's events; whatever is inside a hidden element becomes one mask."""

    def __init__(self, record: Part) -> None:
        self.written: list[str] = []
        self._record = record
        self._open: list[Part] = []
        self._hidden_from: int | None = None
        self._masked = False

    def start(self, name: str, attributes: Mapping[str, str]) -> None:
        part = self._open[-1].at(name) if self._open else self._record
        self._open.append(part)
        if self._hidden_from is not None:
            self._mask()
            return
        shown = (f" {n}={quoteattr(text if part.at(f'_{n}').whole else MASK)}" for n, text in attributes.items())
        self.written.append(f"<{name}{''.join(shown)}>")
        if not part.shown and not part.below:
            self._hidden_from, self._masked = len(self._open), False

    def end(self, name: str) -> None:
        depth = len(self._open)
        self._open.pop()
        if self._hidden_from is not None and depth > self._hidden_from:
            return
        self._hidden_from = None
        self.written.append(f"</{name}>")

    def text(self, text: str) -> None:
        if self._hidden_from is not None:
            if text.strip():
                self._mask()
        else:
            self.written.append(escape(text if self._open[-1].at("_VALUE").whole or not text.strip() else MASK))

    def _mask(self) -> None:
        if not self._masked:
            self.written.append(MASK)
        self._masked = True
