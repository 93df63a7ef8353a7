"""Rules between the fields of one declaration. Pure.

They look at the raw mapping, not at the model: a mistake in one field must not hide the mistakes between the others.
Values of a wrong kind are passed over, the model has refused them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from lakehouse.declaration.column_names import name_faults
from lakehouse.declaration.computed_rules import broken_computed_rules, is_computed
from lakehouse.declaration.fields import show
from lakehouse.declaration.mixed_rules import broken_mixed_rules
from lakehouse.declaration.partition_field import TIME_TRANSFORMS, PartitionField, fits, fitting, parse_partition_field
from lakehouse.declaration.problem import Finding, Loc, nearest
from lakehouse.declaration.source_rules import broken_source_rules, placed_sources
from lakehouse.declaration.type_rules import broken_type_rules
from lakehouse.declaration.write_rules import broken_write_rules
from lakehouse.types import ColumnType, parse_type

_TIMES = ("timestamp", "timestamptz")
_NUMBERS = ("int", "long", "float", "double", "decimal")
_SPELLED = {
    "date_format": ("date",),
    "timestamp_format": _TIMES,
    "timezone": ("timestamptz",),
    "dst_overlap": ("timestamptz",),
    "booleans": ("boolean",),
    "binary": ("binary", "fixed"),
    "decimal": _NUMBERS,
    "thousands": _NUMBERS,
}
"""What a column may say of the spelling of its texts, with the types that have it."""
_OF_JSON = ("date_format", "timestamp_format", "timezone", "dst_overlap", "binary")
_COLUMN_OPTIONS = {
    "csv": (*_SPELLED, "null_values"),
    "jsonl": (*_OF_JSON, "null_values"),
    "json": (*_OF_JSON, "null_values"),
    "xml": (*_OF_JSON, "booleans", "null_values"),
    "parquet": ("timezone",),
    "orc": ("timezone",),
    "avro": ("timezone",),
}


@dataclass(frozen=True, slots=True)
class _Raw:
    """The parts of the raw attributes that rules speak about, empty where they are wrong. `place` is where the source
    stands, `options` what the formats of all sources let a column say."""

    columns: Mapping[str, Mapping[str, Any]]
    types: Mapping[str, ColumnType]
    place: Loc
    source: Mapping[str, Any]
    format: Mapping[str, Any]
    options: Collection[str]


def broken_rules(attributes: Mapping[str, Any]) -> Iterator[Finding]:
    """Every rule between fields that `attributes`, straight from the file, break; what several sources break comes once
    for each."""
    given = _mapping(attributes.get("columns"))
    columns = {name: spec if isinstance(spec, dict) else {"type": spec} for name, spec in given.items()}
    types = {name: found for name, spec in columns.items() if (found := _type(spec.get("type")))}
    yield from broken_source_rules(attributes)
    sources = placed_sources(attributes)
    formats = [_mapping(source.get("format")) for _, source in sources]
    options = {option for form in formats for option in _COLUMN_OPTIONS.get(str(form.get("type")), ())}
    for (place, source), form in zip(sources, formats, strict=True):
        yield from _broken_with(attributes, _Raw(columns, types, place, source, form, options))


def _broken_with(attributes: Mapping[str, Any], raw: _Raw) -> Iterator[Finding]:
    """The rules with one source."""
    columns, types = raw.columns, raw.types
    yield from _column_names(raw)
    yield from _paths(raw)
    yield from _ready(raw)
    yield from _spellings(raw)
    yield from _nested_origins(raw)
    if columns:
        yield from _key(attributes.get("key"), raw)
        yield from _order(attributes.get("order_by"), raw)
        yield from _partition_fields(attributes.get("partition_by"), raw)
    yield from _format_characters(raw)
    yield from broken_type_rules(
        types,
        columns=columns,
        format_type=raw.format.get("type"),
        key=_texts(attributes.get("key")),
        order_by=_texts(attributes.get("order_by")),
    )
    yield from broken_mixed_rules(
        types, columns=columns, format_type=raw.format.get("type"), key=_texts(attributes.get("key"))
    )
    yield from broken_write_rules(attributes, raw.source, place=raw.place)
    yield from broken_computed_rules(
        columns, script=attributes.get("sql"), unknown_columns=attributes.get("unknown_columns")
    )


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _texts(value: object) -> list[tuple[int, str]]:
    return [(i, item) for i, item in enumerate(value) if isinstance(item, str)] if isinstance(value, list) else []


def _type(value: object) -> ColumnType | None:
    try:
        return parse_type(value) if isinstance(value, str) else None
    except ValueError:
        return None


def _column_names(raw: _Raw) -> Iterator[Finding]:
    seen: dict[str, str] = {}
    read: dict[str, str] = {}
    for name, spec in raw.columns.items():
        place = ("columns", name)
        for fault in name_faults(name):
            yield Finding(place, fault, at_key=True)
        if first := seen.get(name.lower()):
            yield Finding(
                place, f"the column name differs from {first} by case alone; choose another name", at_key=True
            )
        seen.setdefault(name.lower(), name)
        if "from_path" in spec or is_computed(spec):
            continue
        origin = spec.get("from", name)
        first = read.setdefault(origin, name) if isinstance(origin, str) else name
        if first != name and not spec.get("mixed") == raw.columns[first].get("mixed") == "columns":
            message = f"{show(origin)} is read into {first} already; keep one of them, or give both mixed: columns"
            yield Finding((*place, "from"), message)


def _paths(raw: _Raw) -> Iterator[Finding]:
    for name, spec in raw.columns.items():
        if spec.get("from_path") is None:
            continue
        if spec.get("from") is not None:
            place = ("columns", name, "from")
            yield Finding(place, "a column comes from the file or from the path; keep `from` or `from_path`")
        if spec.get("pii") is True:
            message = "the value stands in the object's path, which is shown everywhere; leave it out"
            yield Finding(("columns", name, "pii"), message)
        if spec["from_path"] != "date":
            continue
        place = ("columns", name, "from_path")
        if raw.source and raw.source.get("partition") is None:
            yield Finding(place, "the source has no landing date; add source.partition such as input_date=%Y-%m-%d")
        if name in raw.types and raw.types[name].name != "date":
            yield Finding((*place[:2], "type"), f"got {raw.types[name]}; expected date, for from_path: date")


def _ready(raw: _Raw) -> Iterator[Finding]:
    """What makes a landing date ready means nothing where there is none."""
    if not raw.source or raw.source.get("partition") is not None:
        return
    for name in ("objects", "marker"):
        if _mapping(raw.source.get("ready")).get(name) is not None:
            message = "it is about a landing date, and the source has none; add source.partition, or use control"
            yield Finding((*raw.place, "ready", name), message, at_key=True)


def _spellings(raw: _Raw) -> Iterator[Finding]:
    """What a column says of the spelling of its texts must be something that the format can say, for its type."""
    known = _COLUMN_OPTIONS.get(str(raw.format.get("type")), ())
    for name, spec in raw.columns.items():
        for option in (*_SPELLED, "null_values"):
            if spec.get(option) is None or is_computed(spec):
                continue
            place = ("columns", name, option)
            kind = raw.types.get(name)
            if spec.get("from_path") is not None:
                yield Finding(place, "the value comes from the path, whose spelling is fixed; leave it out")
            elif known and option not in raw.options:
                yield Finding(
                    place, f"columns of a {raw.format['type']} file have no {option}; known are {', '.join(known)}"
                )
            elif kind and not kind.nested and kind.name not in _SPELLED.get(option, (kind.name,)):
                yield Finding(place, f"a column of type {kind} has no {option}; leave it out")


def _nested_origins(raw: _Raw) -> Iterator[Finding]:
    """In a CSV header a dot is a character like others; elsewhere it leads into a nested value."""
    if raw.format.get("type") == "csv":
        return
    origins = {
        name: origin
        for name, spec in raw.columns.items()
        if spec.get("from_path") is None and not is_computed(spec) and isinstance(origin := spec.get("from", name), str)
    }
    for name, origin in origins.items():
        place = ("columns", name, "from")
        if "" in origin.split("."):
            yield Finding(place, f"got {show(origin)}; expected names joined by dots")
        elif raw.format.get("type") == "xml" and (
            whole := next((other for other in origins.values() if origin.startswith(f"{other}.")), None)
        ):
            yield Finding(
                place, f"{show(origin)} lies inside {show(whole)}, which is read as a whole; keep one of them"
            )


def _known_columns(field: str, value: object, raw: _Raw) -> Iterator[Finding]:
    seen: set[str] = set()
    for index, name in _texts(value):
        if name not in raw.columns:
            yield Finding((field, index), f"no column {show(name)}; {nearest(name, list(raw.columns))}")
        elif name in seen:
            yield Finding((field, index), f"{show(name)} is named twice; leave it out once")
        seen.add(name)


def _key(key: object, raw: _Raw) -> Iterator[Finding]:
    yield from _known_columns("key", key, raw)


def _order(order_by: object, raw: _Raw) -> Iterator[Finding]:
    if "arrival" in [name for _, name in _texts(order_by)] and "arrival" not in raw.columns:
        message = "no column 'arrival'; write order_by: arrival for the order of arrival, or name a column"
        yield Finding(("order_by",), message)
        return
    yield from _known_columns("order_by", order_by, raw)


def _partition_fields(partition_by: object, raw: _Raw) -> Iterator[Finding]:
    lower = {name.lower() for name in raw.columns}
    seen: set[tuple[str, str, int | None]] = set()
    for index, text in _texts(partition_by):
        place = ("partition_by", index)
        try:
            field = parse_partition_field(text)
        except ValueError:
            # the model has a finding for it
            continue
        if field.source not in raw.columns:
            yield Finding(place, f"no column {show(field.source)}; {nearest(field.source, list(raw.columns))}")
            continue
        family = (field.source, "time" if field.transform in TIME_TRANSFORMS else field.transform, field.width)
        if family in seen:
            yield Finding(place, f"{field.source} is partitioned like this already; keep one of them")
        seen.add(family)
        yield from _transform(place, field, raw)
        if field.transform != "identity" and field.name.lower() in lower:
            yield Finding(place, f"its field would be called {field.name}, as a column is; rename the column")


def _transform(place: tuple[str, int], field: PartitionField, raw: _Raw) -> Iterator[Finding]:
    column = raw.types.get(field.source)
    if column and not fits(field, column):
        types = ", ".join(fitting(field.transform))
        yield Finding(place, f"{field.transform} does not fit {field.source} of type {column}; expected {types}")


def _format_characters(raw: _Raw) -> Iterator[Finding]:
    place = (*raw.place, "format")
    if raw.format.get("type") == "csv":
        delimiter, quote = raw.format.get("delimiter", ","), raw.format.get("quote", '"')
        if delimiter == quote:
            yield Finding((*place, "quote"), f"delimiter and quote are both {show(quote)}; choose another")
        if raw.format.get("escape") is not None and raw.format["escape"] == delimiter:
            yield Finding((*place, "escape"), "it is the delimiter too; choose another character")
        if raw.format.get("thousands") == (point := raw.format.get("decimal", ".")):
            message = f"decimal and thousands are both {show(point)}; declare the other one of them"
            yield Finding((*place, "thousands"), message)
    yield from _boolean_words((*place, "booleans"), raw.format)
    for name, spec in raw.columns.items():
        yield from _boolean_words(("columns", name, "booleans"), spec)


def _boolean_words(place: Loc, spec: Mapping[str, Any]) -> Iterator[Finding]:
    booleans = _mapping(spec.get("booleans"))
    both = {word for _, word in _texts(booleans.get("true"))} & {word for _, word in _texts(booleans.get("false"))}
    if both:
        yield Finding(place, f"{show(min(both))} is true and false; keep one of them")
