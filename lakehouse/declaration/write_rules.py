"""Rules of the write modes: what a mode needs, which fields mean something in it, what a table may be given. Pure.

They look at the raw mapping, as `rules` does, and pass over values that the model refuses.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from lakehouse.declaration.fields import environment_value, show
from lakehouse.declaration.problem import Finding, Loc
from lakehouse.naming import MERGE_MODE, MERGE_MODES, REWRITE_RATIO, SMALL_FILE_BYTES, TARGET_FILE_BYTES

MODES = ("upsert", "snapshot", "replace_partition", "append")
KEYED = ("upsert", "snapshot")
"""Modes in which the whole table holds one row for each key."""

# what a mode can only do with the lineage columns, for the message
_BY_LINEAGE = {
    "snapshot": "rows are compared by _source_date",
    "replace_partition": "rows are replaced by _source_date",
    "append": "the rows of an object that is read again are found by _source_file",
}
_DATED = {
    "snapshot": "its newest landing date is the whole truth",
    "replace_partition": "it replaces landing dates",
}
_RESERVED = (
    "uuid", "snapshot-count", "current-snapshot-id", "current-snapshot-summary", "current-snapshot-timestamp-ms",
    "current-schema", "default-partition-spec", "default-sort-order", "connector",
)  # fmt: skip
_ONLY = {
    "format-version": ("2", "tables are written in Iceberg's format version 2"),
    "write.format.default": ("parquet", "files are written as Parquet"),
    "write.delete.format.default": ("parquet", "delete files are written as Parquet"),
    "write.parquet.compression-codec": ("zstd", "files are compressed with zstd"),
}
"""Properties that would promise what the loader does not do, with the one value that is true."""


def broken_write_rules(
    attributes: Mapping[str, Any], source: Mapping[str, Any], *, place: Loc = ("source",)
) -> Iterator[Finding]:
    """Every rule of write modes, deletes and table settings that `attributes`, straight from the file, break with one
    of their sources, which stands at `place`."""
    mode = attributes.get("write", "upsert")
    if mode in MODES:
        yield from _needs(attributes, source, str(mode))
        yield from _deletes(attributes, source, str(mode), place=place)
    yield from _location(attributes.get("location"), source.get("uri"))
    yield from _properties(attributes.get("table_properties"))


def _needs(attributes: Mapping[str, Any], source: Mapping[str, Any], mode: str) -> Iterator[Finding]:
    if mode in KEYED and attributes.get("key") is None:
        yield Finding(("key",), "missing; expected key: [order_id]")
    if mode == "upsert" and attributes.get("order_by") is None:
        yield Finding(("order_by",), "missing; expected order_by: [order_time], newest wins, or order_by: arrival")
    if not _lineage(attributes):
        if mode in _BY_LINEAGE:
            yield Finding(("write",), f"{mode} needs lineage: true, for {_BY_LINEAGE[mode]}")
        elif attributes.get("order_by") == "arrival":
            yield Finding(("order_by",), "arrival needs lineage: true, for the table keeps the time of arrival there")
    if mode in _DATED and source and source.get("partition") is None:
        message = f"{mode} needs a dated source, for {_DATED[mode]}; add source.partition such as input_date=%Y-%m-%d"
        yield Finding(("write",), message)


def _deletes(attributes: Mapping[str, Any], source: Mapping[str, Any], mode: str, *, place: Loc) -> Iterator[Finding]:
    if attributes.get("delete_when") is not None and mode not in KEYED:
        yield Finding(("delete_when",), f"a delete needs a key that is unique in the table; {mode} has none")
    if attributes.get("deletes") == "soft" and attributes.get("delete_when") is None:
        yield Finding(("deletes",), "soft needs delete_when, such as \"op = 'D'\", which says what a delete is")
    ratio = attributes.get("max_deleted_ratio", 0.1)
    if mode != "snapshot" and ratio != 0.1 and isinstance(ratio, int | float) and not isinstance(ratio, bool):
        yield Finding(("max_deleted_ratio",), f"it bounds write: snapshot alone; leave it out with {mode}")
    if source.get("on_overwrite") == "retract":
        place = (*place, "on_overwrite")
        if mode not in KEYED:
            does = "removes the rows of an object's old version already"
            yield Finding(place, f"{mode} {does}; leave retract out")
        elif not _lineage(attributes):
            yield Finding(place, "retract needs lineage: true, for the rows of an object are found by _source_file")


def _lineage(attributes: Mapping[str, Any]) -> bool:
    """Whether the table has lineage columns; a value that is no switch is the model's to refuse."""
    return environment_value(attributes.get("lineage", True)) is not False


def _location(location: object, uri: object) -> Iterator[Finding]:
    if not isinstance(location, str) or not isinstance(uri, str):
        return
    here, landing = location.rstrip("/") + "/", uri.rstrip("/") + "/"
    if here.startswith(landing) or landing.startswith(here):
        yield Finding(("location",), "table and landing zone lie in one folder; choose a location outside source.uri")


def _properties(given: object) -> Iterator[Finding]:
    for name, value in (given if isinstance(given, dict) else {}).items():
        place = ("table_properties", name)
        if name in _RESERVED:
            yield Finding(place, "Iceberg keeps this name for itself; leave it out", at_key=True)
        elif name in (REWRITE_RATIO, SMALL_FILE_BYTES):
            if isinstance(value, str) and not re.fullmatch(r"\d+(\.\d+)?", value):
                yield Finding(place, f"got {show(value)}; expected a number from 0 on, in quotes")
        elif name == TARGET_FILE_BYTES and isinstance(value, str) and not re.fullmatch(r"[1-9]\d*", value):
            yield Finding(place, f"got {show(value)}; expected a number of bytes from 1 on, in quotes")
        elif name == MERGE_MODE and isinstance(value, str) and value not in MERGE_MODES:
            yield Finding(place, f"got {show(value)}; expected {' or '.join(MERGE_MODES)}")
        elif name.startswith(("lakehouse.", "encryption.")):
            owner = (
                "lakehouse keeps its names for itself" if name.startswith("lakehouse.") else "files are not encrypted"
            )
            yield Finding(place, f"{owner}; leave it out", at_key=True)
        elif name in _ONLY and isinstance(value, str) and value != _ONLY[name][0]:
            right, why = _ONLY[name]
            yield Finding(place, f"got {show(value)}; {why}, write {right!r} or leave it out")
