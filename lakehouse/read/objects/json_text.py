"""One JSON text to an object of names and values, every number kept as it was written.

DuckDB's JSON functions are not used: they turn `1.10` into `1.1` and long numbers into doubles, and of a doubled key
they drop a value without a word.
"""

from __future__ import annotations

import json
from typing import Any

from lakehouse.read.csv.records import damage
from lakehouse.read.objects.rows import Number

BLANKS = b" \t\r\n"


class NotAnObject(ValueError):
    """The text is not one JSON object; `reason` says why, for the reject, and `name` which of its names is to blame."""

    def __init__(self, reason: str, *, name: str | None = None) -> None:
        super().__init__(reason)
        self.reason, self.name = reason, name


def parse_object(raw: bytes) -> dict[str, Any]:
    """The object that the bytes hold, without blanks around it; numbers are `Number`. Raises NotAnObject."""
    if problem := damage(raw):
        raise NotAnObject(problem)
    text = raw.decode()
    try:
        found, end = _DECODER.raw_decode(text)
        if end != len(text):
            raise json.JSONDecodeError("Extra data", text, end)
    except json.JSONDecodeError as error:
        raise NotAnObject(f"not JSON at character {error.pos + 1}: {error.msg.lower()}") from None
    except RecursionError:
        raise NotAnObject("JSON nested too deeply") from None
    if not isinstance(found, dict):
        raise NotAnObject("the record is JSON, but not an object")
    return found


def parse_text(raw: bytes) -> str | None:
    """The JSON text that the bytes hold; None if they hold none."""
    try:
        # of bytes, json would guess the encoding
        found = json.loads(raw.decode())
    except ValueError:
        return None
    return found if isinstance(found, str) else None


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        raise NotAnObject("a key twice", name=next(name for name in names if names.count(name) > 1))
    return found


def _constant(text: str) -> None:
    raise NotAnObject(f"{text} is not JSON")


_DECODER = json.JSONDecoder(
    object_pairs_hook=_pairs, parse_float=Number, parse_int=Number, parse_constant=_constant, strict=True
)
