"""JSON lines into a sink: one object per line."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import BinaryIO

from lakehouse.masking import record_parts
from lakehouse.read.csv.records import MAX_RECORD
from lakehouse.read.local_file import skip_bom
from lakehouse.read.masked import masked_json
from lakehouse.read.objects.json_text import BLANKS, NotAnObject, parse_object
from lakehouse.read.objects.rows import ObjectRows
from lakehouse.read.sink import Sink, transaction

RAW_KEPT = 64 << 10
"""Bytes that are shown of a record that is too long."""


def read_jsonl(sink: Sink, path: Path) -> tuple[str, ...]:
    """Read the file into the sink, in one transaction; returns the declared columns that no object of it has.

    Raises UnreadableObject for an unknown key unless ignored, and if a column is missing that must not be.
    """
    rows = ObjectRows(sink)
    sink.mask_with(partial(masked_json, record=record_parts(sink.declaration)))
    with path.open("rb") as binary, transaction(sink.con):
        for number, line in _lines(binary):
            if raw := line.strip(BLANKS):
                add_json(rows, number, line.rstrip(b"\r\n"), raw)
        rows.flush()
        return rows.missing()


def add_json(rows: ObjectRows, number: int, shown: bytes, raw: bytes) -> None:
    """Add the record that `raw` should be an object of; what is none is condemned."""
    try:
        found = parse_object(raw)
    except NotAnObject as problem:
        kept = shown[:RAW_KEPT] if len(raw) > MAX_RECORD else shown
        rows.condemn(number, kept, problem.reason, name=problem.name)
        return
    rows.add(number, shown, found)


def _lines(binary: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Every line with its 1-based number, without the byte order mark; of an overlong one only the beginning."""
    skip_bom(binary)
    number = 0
    while line := binary.readline(MAX_RECORD + 1):
        number += 1
        yield number, line
        while not line.endswith(b"\n") and line:
            line = binary.readline(MAX_RECORD)
