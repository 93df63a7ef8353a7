"""Avro's types as Arrow's, and its values as Arrow takes them. Pure.

Schemas are fastavro's, with references to named types resolved. Values are those of the plain types below the logical
ones: a date is a number of days, so that no year is out of Python's reach, and a map is a list of entries, so that a
key that stands twice is seen.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from decimal import Context, Decimal
from itertools import count
from typing import Any, TypeAlias
from uuid import UUID

import pyarrow as pa
from pyarrow import types

from lakehouse.read.typed.far_times import INFINITE

Schema: TypeAlias = Any
"""A schema as JSON has it: a name, a list of branches, or a mapping."""
Converter: TypeAlias = Callable[[Any], Any]

MOST_DIGITS = 38
_EXACT = Context(prec=100)
_PLAIN: dict[str, pa.DataType] = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
}
_LOGICAL: dict[tuple[str, str], pa.DataType] = {
    ("int", "date"): pa.date32(),
    ("int", "time-millis"): pa.time32("ms"),
    ("long", "time-micros"): pa.time64("us"),
    ("long", "timestamp-millis"): pa.timestamp("ms", "UTC"),
    ("long", "timestamp-micros"): pa.timestamp("us", "UTC"),
    ("long", "timestamp-nanos"): pa.timestamp("ns", "UTC"),
    ("long", "local-timestamp-millis"): pa.timestamp("ms"),
    ("long", "local-timestamp-micros"): pa.timestamp("us"),
    ("long", "local-timestamp-nanos"): pa.timestamp("ns"),
    ("string", "uuid"): pa.uuid(),
    ("fixed", "uuid"): pa.uuid(),
}
_MICROSECONDS = {"time-millis": 1000, "time-micros": 1, "timestamp-millis": 1000, "local-timestamp-millis": 1000}
"""Those of a logical type's unit, where a value may be beyond what Arrow and DuckDB hold."""
_DAY = 86_400_000_000


class UnsupportedType(ValueError):
    """A type that no column can have; the message names it."""


def without_logical(schema: Schema) -> Schema:
    """The schema whose values are the plain ones; references in it may be unresolved. A map is written as an array of
    its entries is, so it becomes one."""
    return _plain(schema, count())


def _plain(schema: Schema, numbers: Iterator[int]) -> Schema:
    if isinstance(schema, list):
        return [_plain(branch, numbers) for branch in schema]
    if not isinstance(schema, Mapping):
        return schema
    if schema.get("type") == "map" and "values" in schema:
        fields = [{"name": "key", "type": "string"}, {"name": "value", "type": _plain(schema["values"], numbers)}]
        # no two types may have one name
        entry = {"type": "record", "name": f"lakehouse_entry_{next(numbers)}", "fields": fields}
        return {"type": "array", "items": entry}
    return {key: _plain(value, numbers) for key, value in schema.items() if key != "logicalType"}


def has_endless_array(schema: Schema) -> bool:
    """Whether some array has items that take no bytes, of which a few bytes can claim any number."""
    if isinstance(schema, list):
        return any(map(has_endless_array, schema))
    if not isinstance(schema, Mapping):
        return False
    if schema["type"] == "array" and _takes_nothing(schema["items"], ()):
        return True
    inner = [field["type"] for field in schema.get("fields", ())]
    inner += [schema[part] for part in ("type", "items", "values") if part in schema]
    return any(map(has_endless_array, inner))


def _takes_nothing(schema: Schema, above: Collection[str]) -> bool:
    """Whether the values take no bytes, inside of types with the names `above`; a union takes those of its branch's
    number."""
    if isinstance(schema, str):
        return schema == "null" or schema in above
    if isinstance(schema, list):
        return False
    match schema["type"]:
        case "record" | "error":
            inside = (*above, schema["name"])
            return all(_takes_nothing(field["type"], inside) for field in schema["fields"])
        case "fixed":
            return bool(schema["size"] == 0)
        case "array" | "map" | "enum":
            return False
        case inner:
            return _takes_nothing(inner, above)


def arrow_type(schema: Schema) -> pa.DataType:
    """The Arrow type of the values. Raises UnsupportedType."""
    if isinstance(schema, list):
        return arrow_type(_only_branch(schema))
    if isinstance(schema, str):
        if schema not in _PLAIN:
            raise UnsupportedType(f"the type {schema}, which holds itself")
        return _PLAIN[schema]
    name, logical = schema["type"], schema.get("logicalType")
    if isinstance(name, (dict, list)):
        return arrow_type(name)
    if found := _LOGICAL.get((name, logical)):
        return found
    if logical == "decimal" and name in ("bytes", "fixed"):
        return _decimal(schema.get("precision"), schema.get("scale", 0))
    match name:
        case "record" | "error":
            return pa.struct([pa.field(f["name"], arrow_type(f["type"])) for f in schema["fields"]])
        case "enum":
            return pa.string()
        case "array":
            return pa.list_(arrow_type(schema["items"]))
        case "map":
            return pa.map_(pa.string(), arrow_type(schema["values"]))
        case "fixed" if logical == "duration":
            raise UnsupportedType("a duration")
        case "fixed":
            return pa.binary(int(schema["size"]))
        case _:
            return arrow_type(name)


def stored_type(kind: pa.DataType, *, exact: bool) -> pa.DataType:
    """The type of the arrays for what `converter` makes of values of an `arrow_type`."""
    if types.is_struct(kind):
        return pa.struct([pa.field(part.name, stored_type(part.type, exact=exact)) for part in kind.fields])
    if types.is_list(kind):
        return pa.list_(stored_type(kind.value_type, exact=exact))
    if types.is_map(kind):
        item = stored_type(kind.item_type, exact=exact)
        return pa.map_(kind.key_type, item) if exact else pa.list_(pa.struct({"key": kind.key_type, "value": item}))
    if types.is_time(kind):
        return pa.time64("us")
    if types.is_timestamp(kind) and kind.unit == "ms":
        return pa.timestamp("us", kind.tz)
    return kind


def _decimal(precision: object, scale: object) -> pa.DataType:
    if not isinstance(precision, int) or not isinstance(scale, int) or not 0 <= scale <= precision > 0:
        raise UnsupportedType(f"a decimal with precision {precision!r} and scale {scale!r}")
    if precision > MOST_DIGITS:
        raise UnsupportedType(f"a decimal of {precision} digits")
    decimal: pa.DataType = pa.decimal128(precision, scale)
    return decimal


def _only_branch(branches: list[Schema]) -> Schema:
    others = [branch for branch in branches if branch != "null"]
    if len(others) > 1:
        names = [branch if isinstance(branch, str) else branch.get("type") for branch in others]
        raise UnsupportedType(f"a union of {' and '.join(map(str, names))}")
    return others[0] if others else "null"


def converter(schema: Schema, *, exact: bool) -> Converter | None:
    """Makes a plain value one that Arrow takes for the `stored_type`; None if it is one already.

    Times are in microseconds. One outside of a day becomes 24:00:00 and a timestamp beyond them infinite, which no
    column takes; a map becomes a list of its entries. With `exact` the former raise ValueError, and a map is one.
    """
    if isinstance(schema, list):
        inner = converter(_only_branch(schema), exact=exact)
        return _optional(inner) if inner else None
    if isinstance(schema, str):
        return None
    name, logical = schema["type"], schema.get("logicalType")
    if isinstance(name, (dict, list)):
        return converter(name, exact=exact)
    if (name, logical) in _LOGICAL and logical in _MICROSECONDS:
        return _instant(logical, exact=exact)
    if logical == "decimal" and name in ("bytes", "fixed"):
        scale = schema.get("scale", 0)
        return lambda value: _EXACT.scaleb(Decimal(int.from_bytes(value, "big", signed=True)), -scale)
    if (name, logical) == ("string", "uuid"):
        return lambda value: UUID(value).bytes
    match name:
        case "record" | "error":
            return _record(schema, exact=exact)
        case "array":
            inner = converter(schema["items"], exact=exact)
            return _each(inner) if inner else None
        case "map":
            inner = converter(schema["values"], exact=exact)
            if exact:
                return _pairs(inner)
            return _each(_entry(inner)) if inner else None
        case _:
            return None


def _instant(logical: str, *, exact: bool) -> Converter:
    unit = _MICROSECONDS[logical]
    first, last, other = (0, _DAY - 1, _DAY) if logical.startswith("time-") else (-INFINITE, INFINITE, INFINITE)

    def convert(value: int) -> int:
        if first <= value * unit <= last:
            return value * unit
        if exact:
            raise ValueError(f"a {logical} of {value}")
        return other

    return convert


def _optional(inner: Converter) -> Converter:
    return lambda value: None if value is None else inner(value)


def _each(inner: Converter) -> Converter:
    return lambda value: [inner(item) for item in value]


def _pairs(inner: Converter | None) -> Converter:
    return lambda value: [(entry["key"], inner(entry["value"]) if inner else entry["value"]) for entry in value]


def _entry(inner: Converter) -> Converter:
    return lambda entry: {"key": entry["key"], "value": inner(entry["value"])}


def _record(schema: Schema, *, exact: bool) -> Converter | None:
    inners = {f["name"]: inner for f in schema["fields"] if (inner := converter(f["type"], exact=exact))}
    if not inners:
        return None
    return lambda value: {**value, **{name: inner(value[name]) for name, inner in inners.items()}}
