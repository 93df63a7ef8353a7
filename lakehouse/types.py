"""Column types: one value for what Iceberg, SQL and DuckDB call by different names. Never touches data."""

from __future__ import annotations

import re
from dataclasses import dataclass

_ALIASES = {
    "bool": "boolean",
    "integer": "int",
    "bigint": "long",
    "real": "float",
    "varchar": "string",
    "text": "string",
    "numeric": "decimal",
    "timestamp with time zone": "timestamptz",
    "bytes": "binary",
}
_SQL = {
    "boolean": "BOOLEAN",
    "int": "INTEGER",
    "long": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "date": "DATE",
    "time": "TIME",
    "timestamp": "TIMESTAMP",
    "timestamptz": "TIMESTAMP WITH TIME ZONE",
    "string": "VARCHAR",
    "uuid": "UUID",
    "binary": "BLOB",
}
_NESTED = re.compile(r"\s*(struct|list|map|array|row)\b", re.IGNORECASE)
_DECIMAL = re.compile(r"decimal\(\s*(\d+)\s*,\s*(\d+)\s*\)")


@dataclass(frozen=True, slots=True)
class ColumnType:
    """A primitive Iceberg type. `precision` and `scale` are set for decimals alone."""

    name: str
    precision: int = 0
    scale: int = 0

    def __str__(self) -> str:
        return f"decimal({self.precision},{self.scale})" if self.name == "decimal" else self.name

    @property
    def sql(self) -> str:
        """The type's name in DuckDB."""
        return f"DECIMAL({self.precision},{self.scale})" if self.name == "decimal" else _SQL[self.name]


NAMES = tuple(sorted([*_SQL, "decimal(p,s)"]))


def parse_type(text: str) -> ColumnType:
    """Read a type as Iceberg or SQL writes it.

    Raises ValueError with what would be right; nested types are named as not available yet.
    """
    if _NESTED.match(text):
        raise ValueError(f"nested types are not available yet: {text}")
    name = re.sub(r"\s+", " ", text.strip().lower())
    name = _ALIASES.get(name, name).replace("numeric(", "decimal(")
    if match := _DECIMAL.fullmatch(name):
        precision, scale = int(match[1]), int(match[2])
        if not 1 <= precision <= 38 or scale > precision:
            raise ValueError(f"decimal needs 1 <= precision <= 38 and scale <= precision, got {text}")
        return ColumnType("decimal", precision, scale)
    if name in _SQL:
        return ColumnType(name)
    raise ValueError(f"unknown type {text!r}; one of {', '.join(NAMES)}")
