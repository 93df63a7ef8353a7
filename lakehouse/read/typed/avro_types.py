"""Avro's types as Arrow's, and its values as Arrow takes them. Pure.

Schemas are fastavro's, with references to named types resolved. Values are those of the plain types below the logical
ones: a date is a number of days, so that no year is out of Python's reach.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Context, Decimal
from typing import Any, TypeAlias
from uuid import UUID

import pyarrow as pa

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


class UnsupportedType(ValueError):
    """A type that no column can have; the message names it."""


def without_logical(schema: Schema) -> Schema:
    """The schema whose values are the plain ones."""
    if isinstance(schema, list):
        return [without_logical(branch) for branch in schema]
    if isinstance(schema, Mapping):
        return {key: without_logical(value) for key, value in schema.items() if key != "logicalType"}
    return schema


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


def converter(schema: Schema) -> Converter | None:
    """Makes a plain value one that Arrow takes for `arrow_type`; None if it is one already."""
    if isinstance(schema, list):
        inner = converter(_only_branch(schema))
        return _optional(inner) if inner else None
    if isinstance(schema, str):
        return None
    name, logical = schema["type"], schema.get("logicalType")
    if isinstance(name, (dict, list)):
        return converter(name)
    if logical == "decimal" and name in ("bytes", "fixed"):
        scale = schema.get("scale", 0)
        return lambda value: _EXACT.scaleb(Decimal(int.from_bytes(value, "big", signed=True)), -scale)
    if (name, logical) == ("string", "uuid"):
        return lambda value: UUID(value).bytes
    match name:
        case "record" | "error":
            return _record(schema)
        case "array":
            inner = converter(schema["items"])
            return _each(inner) if inner else None
        case "map":
            return _entries(converter(schema["values"]))
        case _:
            return None


def _optional(inner: Converter) -> Converter:
    return lambda value: None if value is None else inner(value)


def _each(inner: Converter) -> Converter:
    return lambda value: [inner(item) for item in value]


def _entries(inner: Converter | None) -> Converter:
    if inner is None:
        return lambda value: list(value.items())
    return lambda value: [(key, inner(item)) for key, item in value.items()]


def _record(schema: Schema) -> Converter | None:
    inners = {f["name"]: inner for f in schema["fields"] if (inner := converter(f["type"]))}
    if not inners:
        return None
    return lambda value: {**value, **{name: inner(value[name]) for name, inner in inners.items()}}
