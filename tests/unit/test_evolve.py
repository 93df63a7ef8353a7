"""Which tables fit a declaration, and what is added or widened where one does not. No catalog: metadata alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.metadata import new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.table.update import AddSchemaUpdate, SetCurrentSchemaUpdate, SetPropertiesUpdate
from pyiceberg.types import (
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestamptzType,
)

from lakehouse.declaration import Declaration
from lakehouse.declaration.load import parse_declarations
from lakehouse.errors import DeclarationError
from lakehouse.evolve import Fit, fit_table, is_wider, with_schema
from lakehouse.naming import LINEAGE
from tests.declaration_text import document

DECLARED: dict[str, IcebergType] = {"id": LongType(), "n": DoubleType(), "t": TimestamptzType(), "day": DateType()}


def table(
    columns: dict[str, IcebergType], *, required: tuple[str, ...] = (), properties: dict[str, str] | None = None
) -> Table:
    """A table whose field ids count from 1."""
    schema = Schema(
        *(NestedField(i, name, kind, required=name in required) for i, (name, kind) in enumerate(columns.items(), 1))
    )
    metadata = new_table_metadata(
        schema, UNPARTITIONED_PARTITION_SPEC, UNSORTED_SORT_ORDER, "s3://warehouse/orders", properties or {}
    )
    return Table(("analytics", "orders"), metadata, "", PyArrowFileIO(), NoopCatalog("none"))


def declaration(**fields: str | None) -> Declaration:
    (found,) = parse_declarations(document(**{"lineage": "false", **fields}), path=Path("defs.yaml"), env={})
    return found


def fit(have: dict[str, IcebergType], required: tuple[str, ...] = (), **fields: str) -> Fit:
    return fit_table(declaration(**fields), table(have, required=required))


def described(found: Fit) -> tuple[str, ...]:
    return found.change.described if found.change else ()


def refused(have: dict[str, IcebergType], required: tuple[str, ...] = (), **fields: str) -> str:
    with pytest.raises(DeclarationError) as error:
        fit(have, required, **fields)
    assert error.value.next
    return error.value.message


def test_the_declared_table_fits_in_any_order() -> None:
    assert fit(DECLARED) == Fit()
    assert fit(dict(reversed(DECLARED.items()))) == Fit()


def test_a_missing_column_is_added_as_optional_with_a_fresh_id() -> None:
    have = table({k: v for k, v in DECLARED.items() if k != "n"})
    found = fit_table(declaration(), have)
    assert described(found) == ("column n double added",)
    assert found.change is not None
    added = found.change.schema.find_field("n")
    assert (added.field_id, added.required) == (4, False)
    assert (found.change.base_schema_id, found.change.base_last_column_id) == (0, 3)
    assert [type(u) for u in found.change.updates] == [AddSchemaUpdate, SetCurrentSchemaUpdate]


def test_the_id_of_a_dropped_column_is_not_used_again() -> None:
    found = fit_table(declaration(), without(table(DECLARED), "day"))
    assert found.change is not None and found.change.schema.find_field("day").field_id == 5


def test_a_required_declared_column_is_added_as_optional() -> None:
    found = fit({"id": LongType()}, columns="{id: bigint, v: {type: string, required: true}}", order_by="[v]")
    assert found.change is not None and found.change.schema.find_field("v").optional


def test_lineage_columns_are_added() -> None:
    found = fit(DECLARED, lineage="true")
    assert len(described(found)) == 6 and described(found)[0] == "column _batch_id string added"


def without(have: Table, *names: str) -> Table:
    """The table after these columns were dropped."""
    kept = Schema(*(f for f in have.schema().fields if f.name not in names), schema_id=1)
    metadata = have.metadata.model_copy(update={"schemas": [*have.metadata.schemas, kept], "current_schema_id": 1})
    return Table(have.name(), metadata, "", have.io, have.catalog)


LOADED: dict[str, IcebergType] = DECLARED | {
    "_batch_id": StringType(),
    "_source_file": StringType(),
    "_source_line": LongType(),
    "_source_mtime": TimestamptzType(),
    "_source_date": DateType(),
    "_ingested_at": TimestamptzType(),
}
APPEND = {"lineage": "true", "write": "append", "order_by": None, "key": None}


@pytest.mark.parametrize(
    ("lost", "fields"),
    [
        (["_source_file"], {"lineage": "true"}),
        (["_source_file"], APPEND),
        (list(LINEAGE), APPEND),
        (["_deleted_at"], {"lineage": "true", "delete_when": "n < 0", "deletes": "soft"}),
    ],
)
def test_a_column_of_the_loader_that_went_is_not_added_again(lost: list[str], fields: dict[str, str | None]) -> None:
    """Rows would lose where they came from, and the next overwrite of their object would double them."""
    deleted_at: dict[str, IcebergType] = {"_deleted_at": TimestamptzType()} if "deletes" in fields else {}
    have = without(table(LOADED | deleted_at), *lost)
    with pytest.raises(DeclarationError, match=f"column {lost[0]} of the loader is gone from the table"):
        fit_table(declaration(**fields), have)


def test_lineage_that_was_given_up_may_come_back_where_no_row_depends_on_it() -> None:
    found = fit_table(declaration(lineage="true"), without(table(LOADED), *LINEAGE))
    assert len(described(found)) == 6


@pytest.mark.parametrize(
    ("narrow", "wide"),
    [
        (IntegerType(), LongType()),
        (FloatType(), DoubleType()),
        (DecimalType(9, 2), DecimalType(12, 2)),
    ],
)
def test_a_narrower_column_is_widened_and_a_wider_one_allowed(narrow: IcebergType, wide: IcebergType) -> None:
    assert is_wider(wide, narrow) and not is_wider(narrow, wide) and not is_wider(wide, wide)
    columns = f"{{id: bigint, v: '{str(wide).replace(' ', '')}'}}"
    found = fit({"id": LongType(), "v": narrow}, columns=columns, order_by="[id]")
    assert found.change is not None and found.change.schema.find_field("v").field_type == wide
    assert found.change.schema.find_field("v").field_id == 2
    columns = f"{{id: bigint, v: '{str(narrow).replace(' ', '')}'}}"
    assert fit({"id": LongType(), "v": wide}, columns=columns, order_by="[id]") == Fit()


@pytest.mark.parametrize(
    "have", [StringType(), LongType(), DecimalType(12, 3), DecimalType(9, 1)], ids=["text", "long", "scale", "less"]
)
def test_another_type_is_refused(have: IcebergType) -> None:
    said = refused({"id": LongType(), "v": have}, columns="{id: bigint, v: 'decimal(10,2)'}", order_by="[id]")
    assert "column v is declared as decimal(10,2), and" in said


def test_an_undeclared_optional_column_is_carried_and_a_required_one_refused() -> None:
    have = {**DECLARED, "note": StringType()}
    assert fit(have) == Fit(None, ("note",))
    assert "column note is required in the table and not declared" in refused(have, ("note",))


def test_a_column_that_could_be_renamed_is_refused_with_both_names() -> None:
    have = {"id": LongType(), "amount": DoubleType(), "word": StringType(), "t": TimestamptzType(), "day": DateType()}
    said = refused(have)
    assert "column n double is declared and missing" in said
    assert "ALTER TABLE analytics.orders RENAME COLUMN amount TO n, or declare both" in said and "word" not in said
    both = "{id: bigint, n: double, amount: double, t: timestamptz, day: {type: date, from_path: date}}"
    found = fit(have, columns=both)
    assert described(found) == ("column n double added",) and found.carried == ("word",)


def test_a_column_that_cannot_be_the_old_one_is_no_reason_to_refuse() -> None:
    have = {k: v for k, v in DECLARED.items() if k != "n"} | {"word": StringType()}
    assert described(fit(have)) == ("column n double added",)


def test_a_required_column_of_the_table_must_be_declared_as_required() -> None:
    assert "column n is required in the table and not in the declaration" in refused(DECLARED, ("n",))
    columns = "{id: {type: bigint, required: true}, n: double, t: timestamptz, day: {type: date, from_path: date}}"
    assert fit(DECLARED, columns=columns) == Fit()


def test_lineage_columns_of_the_table_are_not_left_wrong() -> None:
    assert "column _source_file is in the table" in refused({**DECLARED, "_source_file": StringType()})


def test_names_that_differ_in_case_alone_are_refused() -> None:
    said = refused({"ID": LongType(), **{k: v for k, v in DECLARED.items() if k != "id"}})
    assert "column ID is in the table, and id is declared" in said
    assert "columns x and X of the table differ in case alone" in refused(
        {**DECLARED, "x": StringType(), "X": StringType()}
    )


def test_every_fault_is_named_at_once() -> None:
    said = refused({"id": StringType(), "t": DateType(), "day": DateType(), "x": LongType()}, ("x",))
    assert said.count(";") == 2 and "column id" in said and "column t" in said and "column x" in said


def test_table_properties_are_set_where_they_differ() -> None:
    have = table(DECLARED, properties={"write.merge.mode": "merge-on-read", "kept": "yes"})
    wanted: Any = {"write.merge.mode": "copy-on-write", "kept": "yes"}
    found = fit_table(declaration().model_copy(update={"table_properties": wanted}), have)
    assert found.change is not None and described(found) == ("table property write.merge.mode=copy-on-write set",)
    assert found.change.updates == (SetPropertiesUpdate(updates={"write.merge.mode": "copy-on-write"}),)
    after = with_schema(have, found.change)
    assert after.properties == {"write.merge.mode": "copy-on-write", "kept": "yes"}
    assert after.schema() == have.schema()


def test_the_format_version_is_not_a_property_to_set() -> None:
    changed: Any = {"table_properties": {"format-version": "1"}}
    with pytest.raises(DeclarationError, match="declares format-version 1, and the table has 2"):
        fit_table(declaration().model_copy(update=changed), table(DECLARED))
    changed = {"table_properties": {"format-version": "2"}}
    assert fit_table(declaration().model_copy(update=changed), table(DECLARED)) == Fit()


def test_an_existing_table_does_not_move() -> None:
    same: Any = {"location": "s3://warehouse/orders/"}
    assert fit_table(declaration().model_copy(update=same), table(DECLARED)) == Fit()
    other: Any = {"location": "s3://elsewhere/orders"}
    with pytest.raises(DeclarationError, match="location is declared as s3://elsewhere/orders, and the table is at s3"):
        fit_table(declaration().model_copy(update=other), table(DECLARED))


def test_the_name_mapping_follows_the_schema() -> None:
    mapping = '[{"field-id":1,"names":["id"]},{"field-id":2,"names":["t"]},{"field-id":3,"names":["day"]}]'
    have = table(
        {"id": LongType(), "t": TimestamptzType(), "day": DateType()},
        properties={"schema.name-mapping.default": mapping},
    )
    found = fit_table(declaration(), have)
    assert found.change is not None
    after = with_schema(have, found.change)
    assert '"n"' in after.properties["schema.name-mapping.default"]


def test_with_schema_leaves_the_table_as_it_was() -> None:
    have = table({k: v for k, v in DECLARED.items() if k != "n"})
    found = fit_table(declaration(), have)
    after = with_schema(have, found.change)
    assert with_schema(have, None) is have
    assert (have.metadata.current_schema_id, after.metadata.current_schema_id) == (0, 1)
    assert (have.metadata.last_column_id, after.metadata.last_column_id) == (3, 4)
    assert fit_table(declaration(), after) == Fit()


NESTED = {
    "columns": "{id: bigint, v: 'struct<a: long, b: list<double>, c: map<string, struct<x: long>>>'}",
    "order_by": "[id]",
    "source": "{uri: s3://landing/orders, partition: input_date=%Y-%m-%d, format: {type: jsonl}}",
}


def nested(**changes: IcebergType) -> dict[str, IcebergType]:
    """The table's columns for NESTED, with parts of `v` replaced."""
    parts: dict[str, IcebergType] = {
        "a": LongType(),
        "b": ListType(20, DoubleType(), False),
        "c": MapType(21, StringType(), 22, StructType(NestedField(23, "x", LongType(), required=False)), False),
    } | changes
    fields = (NestedField(10 + i, name, kind, required=False) for i, (name, kind) in enumerate(parts.items()))
    return {"id": LongType(), "v": StructType(*fields)}


def test_nested_columns_fit_by_name() -> None:
    assert fit(nested(), **NESTED) == Fit()


def test_parts_of_nested_columns_are_added_and_widened_by_path() -> None:
    have = nested(a=IntegerType(), b=ListType(20, FloatType(), False))
    have["v"] = StructType(*have["v"].fields[:2])  # type: ignore[attr-defined]
    found = fit(have, **NESTED)
    assert described(found) == (
        "column v.c map<string, struct<x: long>> added",
        "column v.a widened from int to long",
        "column v.b.element widened from float to double",
    )
    assert found.change is not None
    after = found.change.schema
    assert (after.find_field("v.a").field_id, after.find_field("v.b").field_id) == (3, 4)
    assert after.find_field("v.c.value.x").field_id > found.change.base_last_column_id
    inside = nested(c=MapType(21, StringType(), 22, StructType(), False))
    found = fit(inside, **NESTED)
    assert found.change is not None and found.change.schema.find_field("v.c.value.x").field_type == LongType()


def test_parts_that_would_be_lost_or_broken_are_refused() -> None:
    assert "column v.d is in the table and not declared" in refused(nested(d=LongType()), **NESTED)
    must = nested(b=ListType(20, DoubleType(), True))
    assert "column v.b.element is required in the table" in refused(must, **NESTED)
    key = MapType(21, IntegerType(), 22, StructType(NestedField(23, "x", LongType(), required=False)), False)
    columns = NESTED["columns"].replace("map<string", "map<long")
    said = refused(nested(c=key), **{**NESTED, "columns": columns})
    assert "column v.c.key is declared as long, and int" in said


def test_another_partitioning_is_noted_and_stays() -> None:
    found = fit(DECLARED, partition_by="[day, 'day(t)']")
    assert found.change is None
    assert found.notes == (
        "the table is partitioned by nothing, the declaration says day, day(t): the table's own stays",
    )
