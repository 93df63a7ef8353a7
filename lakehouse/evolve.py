"""Decides whether an existing table fits its declaration, and which schema changes make it fit. Sends nothing.

Columns are compared by name, nested ones by path, in any order; from then on field ids alone count. What can be made to
fit without touching a row (an optional column more, a wider type, a table property) becomes a `SchemaChange`, whose
updates `lakehouse.publish` commits together with the rows. Everything else is refused, with every fault at once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.update import (
    AddSchemaUpdate,
    SetCurrentSchemaUpdate,
    SetPropertiesUpdate,
    TableUpdate,
    update_table_metadata,
)
from pyiceberg.types import (
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StructType,
)

from lakehouse.added import is_added
from lakehouse.errors import DeclarationError
from lakehouse.naming import ADDED, DELETED_AT, LINEAGE
from lakehouse.schema import iceberg_type, target_columns

if TYPE_CHECKING:
    from lakehouse.declaration import Declaration

FORMAT_VERSION = "format-version"
NAME_MAPPING = "schema.name-mapping.default"
_OURS = {**dict.fromkeys(LINEAGE, "lineage: false"), DELETED_AT: "deletes: hard"}
"""Columns that say something of their row's last change, and what a declaration says that does not write them."""

Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SchemaChange:
    """What a commit changes of the table's schema and properties, beside its rows.

    `schema` is the current one afterwards, new columns with ids above `base_last_column_id`. A commit of `updates` must
    assert that the table still has `base_schema_id` and `base_last_column_id`. `described` tells each change in words.
    """

    base_schema_id: int
    base_last_column_id: int
    schema: Schema
    updates: tuple[TableUpdate, ...]
    described: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Fit:
    """How a table fits. `change` None: as it is. `carried` are optional columns of the table that are not declared: a
    load keeps their values and sets none. `notes` are what is declared otherwise and stays as it is, in words."""

    change: SchemaChange | None = None
    carried: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def told(self) -> tuple[str, ...]:
        """What a plan and a receipt say of it."""
        changes = (f"the table changes with the next batch: {'; '.join(self.change.described)}",) if self.change else ()
        return (*changes, *self.notes)


@dataclass(slots=True)
class _Comparison:
    """What the walk over the columns found, with the full path of each column. `brought` are columns of files that are
    not declared, `unmarked` those of them that another writer made."""

    brought: frozenset[str] = frozenset()
    unmarked: list[str] = field(default_factory=list)
    added: list[tuple[Path, IcebergType]] = field(default_factory=list)
    widened: list[tuple[Path, IcebergType, IcebergType]] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)


def fit_table(declaration: Declaration, table: Table) -> Fit:
    """Compare the declaration with the table as it is now.

    Raises DeclarationError that names every column, property and place that cannot be made to fit.
    """
    schema = table.schema()
    found = _Comparison(frozenset(declaration.added))
    carried = _compare_columns(declaration, schema, found)
    properties = _compare_table(declaration, table, found)
    found.faults += _lost(declaration, table, {path[0] for path, _ in found.added})
    if found.faults:
        raise DeclarationError(
            f"table {declaration.table} does not fit its declaration: {'; '.join(found.faults)}",
            next=f"change {declaration.path}, or alter the table; then lakehouse plan {declaration.table}",
        )
    notes = _partitioned_otherwise(declaration, table)
    if not (found.added or found.widened or found.unmarked or properties):
        return Fit(None, carried, notes)
    return Fit(_change(table, found, properties), carried, notes)


def with_schema(table: Table, change: SchemaChange | None) -> Table:
    """The table as it will be once `change` is committed; it is for reading and writing files, and never committed on.

    Its metadata holds the new schema as the current one, so that data files, manifests and the snapshot name it.
    """
    if change is None:
        return table
    return Table(
        identifier=table.name(),
        metadata=update_table_metadata(table.metadata, change.updates),
        metadata_location=table.metadata_location,
        io=table.io,
        catalog=table.catalog,
        config=table.config,
    )


def _change(table: Table, found: _Comparison, properties: dict[str, str]) -> SchemaChange:
    """PyIceberg assigns the ids and keeps the name mapping; its transaction is never committed."""
    transaction = table.transaction()
    if found.added or found.widened or found.unmarked:
        with transaction.update_schema() as update:
            for path, kind in found.added:
                update.add_column(path, kind, doc=ADDED if path[0] in found.brought else None)
            for name in found.unmarked:
                update.update_column((name,), doc=ADDED)
            for path, _, kind in found.widened:
                update.update_column(path, kind)
    after = transaction.table_metadata
    schema = after.schema()
    updates: list[TableUpdate] = []
    if schema.schema_id not in {s.schema_id for s in table.metadata.schemas}:
        updates += [AddSchemaUpdate(schema_=schema), SetCurrentSchemaUpdate(schema_id=-1)]
    elif schema.schema_id != table.metadata.current_schema_id:
        updates.append(SetCurrentSchemaUpdate(schema_id=schema.schema_id))
    if (mapping := after.properties.get(NAME_MAPPING)) != table.metadata.properties.get(NAME_MAPPING) and mapping:
        properties = {**properties, NAME_MAPPING: mapping}
    if properties:
        updates.append(SetPropertiesUpdate(updates=properties))
    return SchemaChange(
        base_schema_id=table.metadata.current_schema_id,
        base_last_column_id=table.metadata.last_column_id,
        schema=schema,
        updates=tuple(updates),
        described=tuple(_described(found, properties)),
    )


def _described(found: _Comparison, properties: dict[str, str]) -> Iterator[str]:
    yield from (f"column {_dotted(path)} {type_text(kind)} added" for path, kind in found.added)
    yield from (
        f"column {_dotted(path)} widened from {type_text(old)} to {type_text(new)}" for path, old, new in found.widened
    )
    yield from (f"table property {k}={v} set" for k, v in properties.items() if k != NAME_MAPPING)


def _compare_columns(declaration: Declaration, schema: Schema, found: _Comparison) -> tuple[str, ...]:
    """Walk over all columns; returns the undeclared ones that are carried."""
    have = {f.name: f for f in schema.fields}
    want = {name: iceberg_type(column) for name, column in target_columns(declaration).items()}
    declared = {c.name for c in declaration.declared.columns}
    required = {c.name for c in declaration.columns if c.required}
    found.faults += _names_that_differ_in_case(list(want), list(have))
    undeclared = [f for name, f in have.items() if name not in want]
    found.faults += [
        f"column {f.name} is required in the table and not declared: declare it, or make it optional"
        for f in undeclared
        if f.required
    ]
    found.faults += [
        f"column {f.name} is in the table and the declaration has {_OURS[f.name]}; an update would leave it wrong: "
        "drop it, or declare the other"
        for f in undeclared
        if f.name in _OURS
    ]
    carried = [f for f in undeclared if f.optional and f.name not in _OURS]
    old_names = [f for f in carried if not is_added(f)]
    for name, kind in want.items():
        if name in have:
            _compare_requirement(name, have[name], required, found)
            if is_added(have[name]) and kind != have[name].field_type:
                found.faults.append(_brought_as_text(declaration.table, name, type_text(kind)))
                continue
            _compare_types((name,), kind, have[name].field_type, found)
            if name in found.brought and not is_added(have[name]):
                found.unmarked.append(name)
        elif name in declared and (old := [f.name for f in old_names if _could_be(kind, f.field_type)]):
            found.faults.append(_renamed(declaration.table, name, type_text(kind), old))
        else:
            found.added.append(((name,), kind))
    return tuple(f.name for f in carried)


def _lost(declaration: Declaration, table: Table, missing: Collection[str]) -> Iterator[str]:
    """Columns of ours that the table had and has no more. Added again they would be empty, and rows of old files,
    replaced dates and deleted keys would be taken for others' and doubled or shown again."""
    had = {f.name for schema in table.metadata.schemas for f in schema.fields}
    have = {f.name for f in table.schema().fields}
    asked = declaration.arrival or declaration.write != "upsert" or declaration.source.on_overwrite == "retract"
    for name in (*LINEAGE, DELETED_AT):
        if name in missing and name in had and (name == DELETED_AT or asked or have & set(LINEAGE)):
            yield (
                f"column {name} of the loader is gone from the table, by a rename or a drop: rename it back, or roll "
                "the table back to before it went"
            )


def _compare_requirement(name: str, have: NestedField, required: set[str], found: _Comparison) -> None:
    """A declared `required` needs nothing of the table, for staged rows are held to it; the other way round a NULL that
    the declaration allows would not be one that the table may hold."""
    if have.required and name not in required:
        found.faults.append(
            f"column {name} is required in the table and not in the declaration: declare required: true, "
            "or make it optional in the table"
        )


def _brought_as_text(table: str, name: str, kind: str) -> str:
    return (
        f"column {name} is declared as {kind}, and the table has it as text, as files brought it undeclared; text "
        f"becomes no other type: put it aside with ALTER TABLE {table} RENAME COLUMN {name} TO {name}_text, "
        f"then lakehouse load {table} --mode full reads it as {kind}"
    )


def _renamed(table: str, name: str, kind: str, old: list[str]) -> str:
    return (
        f"column {name} {kind} is declared and missing in the table, which has undeclared columns that could be its "
        f"old name: {', '.join(old)}; rename it with ALTER TABLE {table} RENAME COLUMN {old[0]} TO {name}, "
        "or declare both"
    )


def _names_that_differ_in_case(want: list[str], have: list[str]) -> list[str]:
    """SQL engines take `Amount` and `amount` for one column, so both in one table can be read by few."""
    lower = {name.lower(): name for name in want}
    faults = [
        f"column {name} is in the table, and {lower[name.lower()]} is declared: write both alike"
        for name in have
        if name not in want and name.lower() in lower
    ]
    known: dict[str, str] = {}
    for name in have:
        if name.lower() in known:
            faults.append(f"columns {known[name.lower()]} and {name} of the table differ in case alone: rename one")
        known.setdefault(name.lower(), name)
    return faults


def _compare_types(
    path: Path, want: IcebergType, have: IcebergType, found: _Comparison, *, fixed: bool = False
) -> None:
    """Compare one column, nested ones part by part. `fixed`: part of a map's key, which can never change."""
    if isinstance(want, StructType) and isinstance(have, StructType):
        _compare_structs(path, want, have, found, fixed=fixed)
    elif isinstance(want, ListType) and isinstance(have, ListType):
        _compare_parts_required((*path, "element"), have.element_required, found)
        _compare_types((*path, "element"), want.element_type, have.element_type, found, fixed=fixed)
    elif isinstance(want, MapType) and isinstance(have, MapType):
        _compare_types((*path, "key"), want.key_type, have.key_type, found, fixed=True)
        _compare_parts_required((*path, "value"), have.value_required, found)
        _compare_types((*path, "value"), want.value_type, have.value_type, found, fixed=fixed)
    elif want == have or is_wider(have, want):
        return
    elif is_wider(want, have) and not fixed:
        found.widened.append((path, have, want))
    else:
        found.faults.append(
            f"column {_dotted(path)} is declared as {type_text(want)}, and {type_text(have)} in the table"
        )


def _compare_parts_required(path: Path, required: bool, found: _Comparison) -> None:
    """Nothing holds the parts of a nested value to a requirement when they are staged."""
    if required:
        found.faults.append(
            f"column {_dotted(path)} is required in the table, and no declared part is: make it optional in the table"
        )


def _compare_structs(path: Path, want: StructType, have: StructType, found: _Comparison, *, fixed: bool) -> None:
    """A struct is written as a whole, so a part that is not declared cannot be carried."""
    parts = {f.name: f for f in have.fields}
    declared = {f.name for f in want.fields}
    found.faults += [
        f"column {_dotted((*path, name))} is in the table and not declared: a struct is written as a whole"
        for name in parts
        if name not in declared
    ]
    for part in want.fields:
        below = (*path, part.name)
        if part.name in parts:
            _compare_parts_required(below, parts[part.name].required, found)
            _compare_types(below, part.field_type, parts[part.name].field_type, found, fixed=fixed)
        elif fixed:
            found.faults.append(f"column {_dotted(below)} is missing in the table, and the key of a map cannot change")
        else:
            found.added.append((below, part.field_type))


def is_wider(one: IcebergType, other: IcebergType) -> bool:
    """Whether every value of `other` is one of `one`, by a promotion that Iceberg knows; False for equal types."""
    if isinstance(one, DecimalType) and isinstance(other, DecimalType):
        return one.scale == other.scale and one.precision > other.precision
    return (isinstance(one, LongType) and isinstance(other, IntegerType)) or (
        isinstance(one, DoubleType) and isinstance(other, FloatType)
    )


def _could_be(want: IcebergType, have: IcebergType) -> bool:
    """Whether a column of the table could be the declared one under another name."""
    probe = _Comparison()
    _compare_types((), want, have, probe)
    return not probe.faults


def _compare_table(declaration: Declaration, table: Table, found: _Comparison) -> dict[str, str]:
    """The declared place must be the table's; returns the declared properties that the table has not or otherwise."""
    if declaration.location is not None and declaration.location.rstrip("/") != table.location().rstrip("/"):
        found.faults.append(
            f"location is declared as {declaration.location}, and the table is at {table.location()}: "
            "it is the place of a new table, and nothing moves an existing one"
        )
    wanted = dict(declaration.table_properties)
    version = wanted.pop(FORMAT_VERSION, None)
    if version is not None and version != str(table.metadata.format_version):
        found.faults.append(
            f"table_properties declares {FORMAT_VERSION} {version}, and the table has {table.metadata.format_version}: "
            "upgrade it with the engine of your choice"
        )
    return {key: value for key, value in wanted.items() if table.metadata.properties.get(key) != value}


def _partitioned_otherwise(declaration: Declaration, table: Table) -> tuple[str, ...]:
    """A table keeps its partition spec: rows are written by it, and no result depends on it."""
    schema = table.schema()
    have = [
        (schema.find_column_name(f.source_id) or "?", str(f.transform))
        for f in table.spec().fields
        if str(f.transform) != "void"
    ]
    want = [(f.source, f"{f.transform}[{f.width}]" if f.width else f.transform) for f in declaration.partition_by]
    if have == want:
        return ()
    texts = [", ".join(f"{t}({c})" if t != "identity" else c for c, t in spec) or "nothing" for spec in (have, want)]
    return (f"the table is partitioned by {texts[0]}, the declaration says {texts[1]}: the table's own stays",)


def type_text(kind: IcebergType) -> str:
    """A type as a declaration spells it, without field ids."""
    if isinstance(kind, StructType):
        return f"struct<{', '.join(f'{f.name}: {type_text(f.field_type)}' for f in kind.fields)}>"
    if isinstance(kind, ListType):
        return f"list<{type_text(kind.element_type)}>"
    if isinstance(kind, MapType):
        return f"map<{type_text(kind.key_type)}, {type_text(kind.value_type)}>"
    return str(kind).replace(" ", "")


def _dotted(path: Path) -> str:
    return ".".join(path)
