"""Rules about columns that only the SQL of a declaration computes: no file has them. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from lakehouse.declaration.fields import environment_value
from lakehouse.declaration.problem import Finding

_OF_FILES = (
    "from", "from_path", "mixed", "date_format", "timestamp_format", "timezone", "dst_overlap", "booleans", "binary",
    "null_values", "decimal", "thousands",
)  # fmt: skip
"""What a column may say of the file that it is read from."""


def is_computed(spec: Mapping[str, Any]) -> bool:
    """Whether a column, straight from the file, is computed; a value that is no switch is the model's to refuse."""
    return environment_value(spec.get("computed")) is True


def broken_computed_rules(
    columns: Mapping[str, Mapping[str, Any]], *, script: object, unknown_columns: object
) -> Iterator[Finding]:
    """Every rule about computed columns and the SQL that is broken; `script` is what stands under `sql`."""
    if script is not None and unknown_columns == "add":
        text = "the SQL says which columns there are, so files can add none; declare the column, or rescue them"
        yield Finding(("unknown_columns",), text)
    for name, spec in columns.items():
        if not is_computed(spec):
            continue
        if script is None:
            yield Finding(("columns", name, "computed"), "only SQL computes a column; add sql: orders.sql")
        for option in _OF_FILES:
            if spec.get(option) is not None:
                yield Finding(("columns", name, option), "the SQL gives the values of a computed column; leave it out")
    if columns and all(is_computed(spec) for spec in columns.values()):
        yield Finding(("columns",), "all columns are computed; declare those that the SQL reads")
