"""What the ledger tables look like: names, columns, partitioning, and the property that holds their head. No I/O."""

from __future__ import annotations

from collections.abc import Mapping

from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import NestedField

from lakehouse.errors import ConfigurationError
from lakehouse.model import RowCounts
from lakehouse.schema import iceberg_type
from lakehouse.types import parse_type

FILES, BATCHES, REJECTS, RECONCILIATIONS = "files", "batches", "rejects", "reconciliations"
LEDGERS = (FILES, BATCHES, REJECTS, RECONCILIATIONS)

FORMAT_VERSION = 2
PROPERTIES = {"format-version": str(FORMAT_VERSION), "write.parquet.compression-codec": "zstd"}

KEY = ("target", "table_uuid", "context", "bookmark_version")
"""In every row of every ledger table, and never NULL."""

_KEY_COLUMNS = {"target": "string", "table_uuid": "string", "context": "string", "bookmark_version": "long"}
_COUNTS = {f"rows_{name}": "long" for name in RowCounts().as_dict()}

COLUMNS: Mapping[str, Mapping[str, str]] = {
    FILES: {
        **_KEY_COLUMNS,
        "batch_id": "string",
        "uri": "string",
        "etag": "string",
        "version_id": "string",
        "size": "long",
        "last_modified": "timestamptz",
        "first_seen": "timestamptz",
        "landing_date": "date",
        "decision": "string",
        "reason": "string",
        **_COUNTS,
    },
    BATCHES: {
        **_KEY_COLUMNS,
        "batch_id": "string",
        "attempt_id": "string",
        "run_id": "string",
        "state": "string",
        "kind": "string",
        "mode": "string",
        "advance": "boolean",
        "declaration": "string",
        "snapshot_id": "long",
        "objects": "long",
        **_COUNTS,
        "started_at": "timestamptz",
        "merge_started_at": "timestamptz",
        "merge_ended_at": "timestamptz",
        "ended_at": "timestamptz",
        "lookback_days": "int",
        "author": "string",
        "reason": "string",
        "manifest": "string",
        "manifest_sha256": "string",
    },
    REJECTS: {
        **_KEY_COLUMNS,
        "batch_id": "string",
        "uri": "string",
        "line_number": "long",
        "column_name": "string",
        "reason": "string",
        "raw": "string",
    },
    RECONCILIATIONS: {
        **_KEY_COLUMNS,
        "batch_id": "string",
        "snapshot_id": "long",
        "equation": "string",
        "landing_date": "date",
        "left_value": "long",
        "right_value": "long",
    },
}
"""Name and Iceberg type of every column, by ledger table."""

SORTED_BY: Mapping[str, tuple[str, ...]] = {
    FILES: ("context", "bookmark_version", "landing_date", "uri"),
    BATCHES: ("context", "bookmark_version"),
    REJECTS: ("context", "bookmark_version", "uri", "line_number"),
    RECONCILIATIONS: ("context", "bookmark_version", "equation", "landing_date"),
}
"""The order in which rows are handed to a reader."""


def ledger_schema(name: str) -> Schema:
    """The Iceberg schema of a new ledger table."""
    return Schema(
        *(
            NestedField(number, column, iceberg_type(parse_type(text)), required=column in KEY)
            for number, (column, text) in enumerate(COLUMNS[name].items(), start=1)
        )
    )


def ledger_spec(schema: Schema) -> PartitionSpec:
    """One partition per life of a target, so that loads of other tables never share a file."""
    return PartitionSpec(
        PartitionField(schema.find_field("table_uuid").field_id, 1000, IdentityTransform(), "table_uuid")
    )


def head_property(*, table_uuid: str, context: str) -> str:
    """The table property that holds the bookmark version up to which a ledger table has this context's rows."""
    return f"lakehouse.ledger.{table_uuid}.{context}"


def head_of(table: Table, *, table_uuid: str, context: str) -> int:
    """The bookmark version up to which the table is filled; 0 before the first one."""
    return int(table.properties.get(head_property(table_uuid=table_uuid, context=context), "0"))


def check_ledger(table: Table, name: str) -> None:
    """Raise ConfigurationError unless the table has every ledger column, our partitioning and our format version."""
    have = {field.name: str(field.field_type) for field in table.schema().fields}
    want = {column: str(iceberg_type(parse_type(text))) for column, text in COLUMNS[name].items()}
    faults = [f"column {c} is {have.get(c, 'missing')} and should be {t}" for c, t in want.items() if have.get(c) != t]
    specs = list(table.specs().values())
    partitioning = [(str(f.transform), table.schema().find_column_name(f.source_id)) for s in specs for f in s.fields]
    if len(specs) != 1 or partitioning != [("identity", "table_uuid")]:
        faults.append("it is not partitioned by table_uuid alone")
    if table.format_version != FORMAT_VERSION:
        faults.append(f"its format version is {table.format_version} and should be {FORMAT_VERSION}")
    if faults:
        raise ConfigurationError(
            f"the ledger table {'.'.join(table.name())} is not as this release makes it: {'; '.join(faults)}",
            next="rename or drop it: it is made again, and `lakehouse ledger rebuild TABLE` fills it",
        )
