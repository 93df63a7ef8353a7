"""What write modes, deletes and table settings need of each other, and where a mistake is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakehouse.declaration import Declaration, parse_declarations
from lakehouse.errors import DeclarationError
from lakehouse.schema import target_columns
from tests.declaration_text import BASE, document

RETRACT = BASE["source"].replace("format", "on_overwrite: retract, format")
UNDATED = "{uri: s3://landing/orders, format: {type: csv}}"
PLAIN = "{id: bigint, t: timestamptz, op: string}"


def parse(**fields: str | None) -> Declaration:
    (declaration,) = parse_declarations(document(**fields), path=Path("defs.yaml"), env={})
    return declaration


def mistakes(**fields: str | None) -> list[str]:
    with pytest.raises(DeclarationError) as caught:
        parse(**fields)
    return str(caught.value).splitlines()


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, (True, ("id",), ("t",), False)),
        ({"order_by": "arrival"}, (True, ("id",), (), True)),
        ({"write": "snapshot", "order_by": None}, (True, ("id",), (), False)),
        ({"write": "snapshot", "order_by": "arrival"}, (True, ("id",), (), True)),
        ({"write": "replace_partition", "key": None, "order_by": None}, (False, (), (), False)),
        ({"write": "replace_partition"}, (False, ("id",), ("t",), False)),
        (
            {"write": "append", "key": None, "order_by": None, "source": UNDATED, "columns": PLAIN},
            (False, (), (), False),
        ),
    ],
)
def test_modes(fields: dict[str, str | None], expected: tuple[bool, tuple[str, ...], tuple[str, ...], bool]) -> None:
    d = parse(**fields)
    assert (d.keyed, d.key, d.order_by, d.arrival) == expected


def test_a_column_may_be_called_arrival() -> None:
    d = parse(columns="{id: bigint, arrival: date}", source=UNDATED, order_by="[arrival]")
    assert (d.order_by, d.arrival) == (("arrival",), False)
    assert parse(columns="{id: bigint, arrival: date}", source=UNDATED, order_by="arrival").arrival


def test_everything_that_can_be_said_of_deletes_and_the_table() -> None:
    d = parse(
        columns=PLAIN,
        delete_when="\"op = 'D'\"",
        deletes="soft",
        location="s3://warehouse/orders/",
        table_properties='{"write.parquet.compression-codec": zstd, owner: sales}',
        source=RETRACT,
    )
    assert (d.delete_when, d.soft_deletes, d.source.on_overwrite) == ("op = 'D'", True, "retract")
    assert d.location == "s3://warehouse/orders"
    assert d.table_properties == {"write.parquet.compression-codec": "zstd", "owner": "sales"}
    assert list(target_columns(d))[-2:] == ["_ingested_at", "_deleted_at"]
    assert str(d.position_of("delete_when")) == "Position(line=9, column=16)"
    assert parse(write="snapshot", max_deleted_ratio="1").max_deleted_ratio == 1.0


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        ({"write": "merge"}, "9:10: write: got 'merge'; expected upsert, snapshot, replace_partition or append"),
        ({"write": "snapshot", "key": None}, "3:3: key: missing; expected key: [order_id]"),
        ({"write": "append", "key": "[]"}, "6:8: key: got a list; expected at least one"),
        ({"order_by": "[arrival]"}, "7:13: order_by: no column 'arrival'; write order_by: arrival"),
        ({"order_by": "time"}, "7:13: order_by: got 'time'; expected a list"),
        ({"order_by": "arrival", "lineage": "false"}, "7:13: order_by: arrival needs lineage: true"),
        ({"write": "snapshot", "lineage": "false"}, "9:10: write: snapshot needs lineage: true"),
        ({"write": "append", "lineage": "false"}, "9:10: write: append needs lineage: true"),
        ({"write": "replace_partition", "lineage": "false"}, "9:10: write: replace_partition needs lineage: true"),
        ({"write": "snapshot", "source": UNDATED, "columns": PLAIN}, "9:10: write: snapshot needs a dated source"),
        ({"write": "replace_partition", "source": UNDATED, "columns": PLAIN}, "9:10: write: replace_partition needs a"),
        ({"write": "append", "delete_when": "n = 1"}, "10:16: delete_when: a delete needs a key that is unique"),
        ({"write": "replace_partition", "delete_when": "n = 1"}, "10:16: delete_when: a delete needs a key"),
        ({"delete_when": '""'}, "9:16: delete_when: got ''; expected text that is not empty"),
        ({"deletes": "soft"}, "9:12: deletes: soft needs delete_when"),
        ({"deletes": "never"}, "9:12: deletes: got 'never'; expected hard or soft"),
        ({"max_deleted_ratio": "0.2"}, "9:22: max_deleted_ratio: it bounds write: snapshot alone"),
        ({"write": "snapshot", "max_deleted_ratio": "20"}, "10:22: max_deleted_ratio: got 20; expected a number at"),
        ({"write": "append", "source": RETRACT}, ": source.on_overwrite: append removes the rows of an object's"),
        ({"lineage": "false", "source": RETRACT}, ": source.on_overwrite: retract needs lineage: true"),
        ({"columns": "{id: bigint, t: date, _deleted_at: date}"}, "5:34: columns._deleted_at: the name belongs to"),
        ({"columns": "{id: bigint, t: date, _Is_Delete: date}"}, "5:34: columns._Is_Delete: the name belongs to"),
        ({"location": "orders"}, "9:13: location: got 'orders'; expected a folder such as s3://"),
        ({"location": "s3://landing"}, "9:13: location: table and landing zone lie in one folder"),
        ({"location": "s3://landing/orders/table"}, "9:13: location: table and landing zone lie in one folder"),
        ({"table_properties": "[a]"}, "9:21: table_properties: got a list; expected a mapping"),
        ({"table_properties": "{a: 1}"}, "9:25: table_properties.a: got 1; expected text; put it in quotes"),
        (
            {"table_properties": '{write.target-file-size-bytes: "0"}'},
            "9:52: table_properties.write.target-file-size-bytes: got '0'; expected a number of bytes from 1 on",
        ),
        (
            {"table_properties": "{write.merge.mode: foo}"},
            "9:40: table_properties.write.merge.mode: got 'foo'; expected copy-on-write or merge-on-read",
        ),
        ({"table_properties": '{format-version: "3"}'}, "9:38: table_properties.format-version: got '3'; tables are"),
        (
            {"table_properties": "{write.format.default: orc}"},
            "got 'orc'; files are written as Parquet, write 'parquet'",
        ),
        ({"table_properties": "{uuid: x}"}, "9:22: table_properties.uuid: Iceberg keeps this name for itself"),
        ({"table_properties": "{lakehouse.x: y}"}, "9:22: table_properties.lakehouse.x: lakehouse keeps its names"),
        ({"table_properties": "{encryption.key-id: y}"}, "table_properties.encryption.key-id: files are not encrypted"),
    ],
)
def test_a_mistake_has_its_place_and_remedy(fields: dict[str, str | None], line: str) -> None:
    (found,) = mistakes(**fields)
    assert found.startswith("defs.yaml:") and line in found


def test_a_location_beside_the_landing_folder_is_fine() -> None:
    assert parse(location="s3://landing/orders_table").location == "s3://landing/orders_table"
