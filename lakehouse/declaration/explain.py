"""Validation errors of the model in the words of a declaration: what stood there, and what would be right. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from lakehouse.declaration.checks import CheckPolicy, ExpectedObjects, Gates
from lakehouse.declaration.column import COLUMN_NAME, Column
from lakehouse.declaration.fields import NOT_AVAILABLE, TOLD, show
from lakehouse.declaration.formats import (
    FORMATS,
    BooleanWords,
    CsvFormat,
    JsonFormat,
    JsonlFormat,
    Trailer,
    XmlFormat,
)
from lakehouse.declaration.model import Declaration
from lakehouse.declaration.problem import Finding, Loc, nearest
from lakehouse.declaration.source import Ready, Source
from lakehouse.declaration.yaml_source import Substituted

_KINDS = {
    "string_type": "expected text",
    "int_type": "expected a whole number",
    "int_from_float": "expected a whole number",
    "float_type": "expected a number",
    "finite_number": "expected a finite number",
    "bool_type": "expected true or false",
    "tuple_type": "expected a list such as [a, b]",
    "dict_type": "expected a mapping such as {name: value}",
    "mapping_type": "expected a mapping such as {name: value}",
    "model_type": "expected a mapping such as {name: value}",
    "model_attributes_type": "expected a mapping such as {name: value}",
    "too_short": "expected at least one",
    "string_too_short": "expected text that is not empty",
}
_EXAMPLES = {
    "table": "table: analytics.orders",
    "bookmark": "bookmark: orders_eu, a name of its own",
    "uri": "uri: s3://bucket/folder/",
    "format": "format: {type: csv}",
    "columns": "columns: {order_id: bigint, order_time: timestamptz}",
    "type": "a type such as bigint, string, timestamptz",
    "key": "key: [order_id]",
    "order_by": "order_by: [order_time], newest wins",
    "start_date": "start_date: 2026-08-30, the first landing date",
    "min": "min: 1",
    "row_element": "row_element: order, the element that is a record",
    "starts_with": "starts_with: TRAILER",
    "true": 'words such as ["yes", "1"]',
    "false": 'words such as ["no", "0"]',
}


def explain(error: ValidationError, attributes: object) -> Iterator[Finding]:
    """The findings of a failed validation of `attributes`, with places that exist in the file."""
    for detail in error.errors(include_url=False):
        if detail["type"] == "too_short" and detail["input"]:
            # the items that are there have findings of their own
            continue
        yield _finding(detail, attributes)


def _finding(detail: ErrorDetails, attributes: object) -> Finding:
    kind = detail["type"]
    context: dict[str, Any] = detail.get("ctx", {})
    loc = in_file(detail["loc"], attributes)
    # a check may have turned text from the environment into plain text: the file's own value prints as its template
    value = found if isinstance(found := value_at(loc, attributes), Substituted) else detail["input"]
    if kind == NOT_AVAILABLE:
        at = (context["at"],) if context["at"] else ()
        return Finding((*loc, *at), f"{context['text']}; leave it out", later=True)
    if kind == TOLD:
        return Finding(loc, context["text"])
    if kind == "missing":
        name = detail["loc"][-1]
        return Finding((*loc, name), f"missing; expected {_EXAMPLES.get(str(name), 'a value')}")
    if kind == "extra_forbidden":
        return _unknown_field(loc, detail["loc"])
    if kind == "string_type" and isinstance(value, dict) and list(value) == ["secret"]:
        return Finding(loc, "a secret is not available yet; use {{ env.NAME }}", later=True)
    if kind in ("union_tag_not_found", "union_tag_invalid"):
        got = show(value_at((*loc, "type"), attributes)) if "tag" in context else "no type"
        return Finding((*loc, "type"), f"got {got}; expected one of {', '.join(FORMATS)}")
    at_key = detail["loc"][-1:] == ("[key]",)
    return Finding(loc, f"got {show(value)}; {_expected(kind, context, value, detail['msg'])}", at_key=at_key)


def _expected(kind: str, context: dict[str, Any], value: object, message: str) -> str:
    if kind == "value_error":
        return str(context["error"])
    if kind == "literal_error":
        allowed = str(context["expected"]).replace("'", "").replace("True", "true").replace("False", "false")
        return f"expected {allowed}"
    if kind == "string_type" and not isinstance(value, (dict, list)):
        return "expected text; put it in quotes if it is meant"
    for bound, words in (("ge", "at least"), ("gt", "above"), ("le", "at most")):
        if bound in context:
            return f"expected a number {words} {context[bound]:g}"
    if kind == "none_required":
        return "expected null"
    return _KINDS.get(kind, message[:1].lower() + message[1:])


def in_file(loc: Loc, attributes: object) -> Loc:
    """The place in the file that a place in the model stands for.

    Union tags and model-only levels have none; a number inside a mapping counts its keys (columns are a list in the
    model and a mapping in the file).
    """
    value = attributes
    place: list[str | int] = []
    for part in loc:
        if isinstance(value, dict) and (key := _key(value, part)) is not None:
            place.append(key)
            value = value[key]
        elif isinstance(value, list) and isinstance(part, int) and part < len(value):
            place.append(part)
            value = value[part]
    return tuple(place)


def value_at(loc: Loc, attributes: object) -> object:
    """The value at a place of the file; None if there is none."""
    value = attributes
    for part in loc:
        if isinstance(value, dict):
            value = value.get(part)
        elif isinstance(value, list) and isinstance(part, int) and part < len(value):
            value = value[part]
        else:
            return None
    return value


def _key(mapping: dict[str, object], part: str | int) -> str | None:
    if isinstance(part, int):
        return list(mapping)[part] if part < len(mapping) else None
    return part if part in mapping else None


def _unknown_field(loc: Loc, model_loc: Loc) -> Finding:
    name = str(model_loc[-1])
    model = _model_at(model_loc[:-1])
    known = _fields_of(model)
    close = nearest(name, known)
    if not close.startswith("did"):
        homes = [home for home, other in _HOMES.items() if other is not model and name in _fields_of(other)]
        if homes:
            close = f"it belongs into {homes[0]}"
    return Finding(loc, f"unknown field; {close}", at_key=True)


_HOMES: dict[str, type[BaseModel]] = {
    "attributes": Declaration,
    "source": Source,
    "source.format of csv": CsvFormat,
    "source.format of jsonl": JsonlFormat,
    "source.format of json": JsonFormat,
    "source.format of xml": XmlFormat,
    "source.ready": Ready,
    "gates": Gates,
    "gates.expected_objects": ExpectedObjects,
    "a column": Column,
}


def _model_at(loc: Loc) -> type[BaseModel]:
    match ("source", *loc[2:]) if loc[:1] == ("sources",) else loc:
        case ("source",):
            return Source
        case ("source", "ready"):
            return Ready
        case ("source", "format", str(tag)):
            return FORMATS[tag]
        case ("source", "format", _, "trailer"):
            return Trailer
        case ("source", "format", _, "booleans") | ("columns", _, "booleans"):
            return BooleanWords
        case ("columns", _):
            return Column
        case ("gates",):
            return Gates
        case ("gates", _):
            return ExpectedObjects
        case ("checks", _):
            return CheckPolicy
        case _:
            return Declaration


def _fields_of(model: type[BaseModel]) -> list[str]:
    names = (info.alias or name for name, info in model.model_fields.items())
    return sorted(name for name in names if name != COLUMN_NAME)
