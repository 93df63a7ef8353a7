"""The declaration of one table, as a frozen value. Pure; knows neither YAML nor files nor Dagster.

Fields of features that do not exist yet are here too, so that another value than their default is refused by name.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from shlex import quote
from typing import Annotated, Any, Literal

from pydantic import (
    BeforeValidator,
    Field,
    PlainSerializer,
    PlainValidator,
    PrivateAttr,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    model_validator,
)

from lakehouse.declaration.checks import CheckName, CheckPolicy, Gates, all_policies
from lakehouse.declaration.column import Column, named_columns, plain_column
from lakehouse.declaration.fields import (
    Count,
    Cron,
    Day,
    Group,
    Location,
    Owner,
    Positive,
    Ratio,
    ScriptName,
    Switch,
    Table,
    TagKey,
    TagValue,
    Text,
    Values,
    Zone,
    later,
)
from lakehouse.declaration.partition_field import PartitionField, parse_partition_field
from lakehouse.declaration.problem import Position
from lakehouse.declaration.source import Source
from lakehouse.naming import RESCUED

_TEXTS = "map<string, string>"
"""The type of the column RESCUED."""

ARRIVAL = ("\0arrival",)
"""What the word `arrival` becomes in place of the columns of `order_by`: no column can be called like this."""


class Script(Values):
    """A file of SQL beside the declaration: its name there, and the text that it held when it was read."""

    file: ScriptName
    text: Text


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a declaration stands: `document` counts the YAML documents of the file from 0.

    `position` is where `table:` has its value, `fields` where every field of the top level has its own.
    """

    path: Path
    position: Position
    document: int
    fields: Mapping[str, Position] = field(default_factory=dict)


def _partition_field(value: object) -> PartitionField:
    if not isinstance(value, str):
        raise ValueError("expected a column or a transform such as day(order_time)")
    return parse_partition_field(value)


def _ordering(value: object, columns: ValidatorFunctionWrapHandler) -> object:
    return ARRIVAL if value == "arrival" else columns(value)


def _shown_ordering(value: tuple[str, ...]) -> object:
    return "arrival" if value == ARRIVAL else value


Ordering = Annotated[
    tuple[Text, ...],
    Field(min_length=1),
    WrapValidator(_ordering),
    PlainSerializer(_shown_ordering, return_type=object),
]


class Declaration(Values):
    """One table: where its rows come from, what they look like, how they are merged, checked and scheduled.

    Equal if every field is, wherever it was declared.
    """

    table: Table
    description: Text = ""
    owners: tuple[Owner, ...] = ()
    group: Group | None = None
    tags: Mapping[TagKey, TagValue] = Field(default_factory=dict)
    one_source: Source | None = Field(default=None, alias="source")
    many_sources: Annotated[tuple[Source, ...], Field(min_length=1)] = Field(default=(), alias="sources")
    columns: Annotated[tuple[Column, ...], BeforeValidator(named_columns), Field(min_length=1)]
    unknown_columns: Literal["reject", "ignore", "rescue", "add"] = "reject"
    sql: Script | None = None
    write: Literal["upsert", "snapshot", "replace_partition", "append"] = "upsert"
    key: Annotated[tuple[Text, ...], Field(min_length=1)] = ()
    ordering: Ordering = Field(default=(), alias="order_by")
    delete_when: Annotated[Text, Field(min_length=1)] | None = None
    deletes: Literal["hard", "soft"] = "hard"
    max_deleted_ratio: Ratio = 0.1
    partition_by: tuple[Annotated[PartitionField, PlainValidator(_partition_field)], ...] = ()
    lineage: Switch = True
    location: Location | None = None
    table_properties: Mapping[Text, Text] = Field(default_factory=dict)
    gates: Gates = Gates()
    tolerance: Count = 0
    schedule: Cron | None = None
    maintenance: Cron | None = None
    timezone: Zone = "UTC"
    start_date: Day
    backfill: Literal["partition", "range"] = "partition"
    timeout_minutes: Positive = 60
    checks: Annotated[Mapping[CheckName, CheckPolicy], BeforeValidator(all_policies)] = Field(
        default_factory=dict, validate_default=True
    )
    engine: Annotated[Literal["duckdb"], later("spark", "auto")] = "duckdb"
    catalog: Annotated[Text, Field(min_length=1)] | None = None
    _origin: Origin | None = PrivateAttr(default=None)
    _declared: Declaration | None = PrivateAttr(default=None)
    _every_source: tuple[Source, ...] = PrivateAttr(default=())

    @model_validator(mode="before")
    @classmethod
    def _default_bookmark(cls, data: object) -> object:
        """The context of an only source is the table's own name unless one is given."""
        if not isinstance(data, dict):
            return data
        data = {name: value for name, value in data.items() if name != "sources" or value is not None}
        table = data.get("table")
        name = table.rpartition(".")[2] if isinstance(table, str) else ""
        # an invalid table has a finding of its own
        default = name if re.fullmatch(r"[A-Za-z0-9_]+", name) else "unknown"
        if isinstance(source := data.get("source"), dict):
            data["source"] = _named(source, default)
        if isinstance(sources := data.get("sources"), list) and len(sources) == 1 and isinstance(sources[0], dict):
            data["sources"] = [_named(sources[0], default)]
        return data

    @model_validator(mode="before")
    @classmethod
    def _rescued_column(cls, data: object) -> object:
        """Columns that are to be rescued have one of the table's own, the last one."""
        if not isinstance(data, dict) or data.get("unknown_columns") != "rescue":
            return data
        columns = data.get("columns")
        # a column of that name has a finding of its own
        return {**data, "columns": {**columns, RESCUED: _TEXTS}} if isinstance(columns, dict) else data

    @property
    def namespace(self) -> str:
        return self.table.rpartition(".")[0]

    @property
    def name(self) -> str:
        return self.table.rpartition(".")[2]

    @property
    def sources(self) -> tuple[Source, ...]:
        """Everything that fills the table, in the declared order."""
        return self.many_sources or ((self.one_source,) if self.one_source else ())

    @property
    def source(self) -> Source:
        """The only source: loads and what they call are given a declaration with one (`by_source`).

        Raises ValueError where there are several.
        """
        (source,) = self.sources
        return source

    @property
    def by_source(self) -> tuple[Declaration, ...]:
        """The same table once for each source, with that source alone; each knows the contexts of all of them."""
        if len(self.sources) == 1:
            return (self,)
        return tuple(self._with_source(source) for source in self.sources)

    @property
    def context(self) -> str:
        """The name of the only source's position."""
        return self.source.bookmark

    @property
    def contexts(self) -> tuple[str, ...]:
        """The names of the positions of all sources that the file declares, in its order."""
        return tuple(source.bookmark for source in self.every_source)

    @property
    def source_option(self) -> str:
        """What a command says of this source: nothing where the file declares no other."""
        return f" --source {quote(self.context)}" if len(self.sources) == 1 < len(self.contexts) else ""

    @property
    def every_source(self) -> tuple[Source, ...]:
        """All sources that the file declares, also of a declaration that is left with one of them."""
        return self._every_source or self.sources

    @property
    def dated(self) -> bool:
        """Whether the paths of objects name landing dates: those of every source, or of none."""
        return self.sources[0].landing is not None

    def under(self, context: str) -> Declaration:
        """The declaration of the source with that context; of any other context, as if the first source had it."""
        for declaration in self.by_source:
            if declaration.context == context:
                return declaration
        return self._with_source(self.sources[0].model_copy(update={"bookmark": context}))

    def _with_source(self, source: Source) -> Declaration:
        made = self.model_copy(update={"one_source": source, "many_sources": ()})
        made.__dict__.pop("hash", None)  # kept of the copied one, which another source may have
        made._every_source = self.every_source
        return made

    def origin(self, column: Column) -> tuple[str, ...]:
        """The names that lead to a column's value in a record, from the outside; in CSV a dot is a character."""
        return (column.source_name,) if self.source.format.type == "csv" else tuple(column.source_name.split("."))

    @property
    def order_by(self) -> tuple[str, ...]:
        """The business columns by which the newest row is known; empty if there are none, as with `arrival`."""
        return () if self.arrival else self.ordering

    @property
    def arrival(self) -> bool:
        """Whether rows are ordered by arrival alone: object mtime, uri and line."""
        return self.ordering == ARRIVAL

    @property
    def rescues(self) -> bool:
        """Whether readers keep columns of a file that are not declared in the column RESCUED."""
        return self.unknown_columns in ("rescue", "add")

    @property
    def adds(self) -> bool:
        """Whether columns of a file that are not declared become columns of the table."""
        return self.unknown_columns == "add"

    @property
    def as_read(self) -> Declaration:
        """What readers follow: where columns are added, what is not declared goes to the column RESCUED first."""
        if not self.adds:
            return self
        return self.model_copy(update={"columns": (*self.columns, plain_column(RESCUED, _TEXTS))})

    def with_added(self, names: Sequence[str]) -> Declaration:
        """The same declaration with optional columns of text behind its own; its hash stays the declared one."""
        if not names:
            return self
        more = self.model_copy(update={"columns": (*self.columns, *(plain_column(n, "string") for n in names))})
        more._declared = self
        return more

    @property
    def declared(self) -> Declaration:
        """The declaration as it was declared, without the columns of `with_added`."""
        return self._declared or self

    @property
    def added(self) -> tuple[str, ...]:
        """Names of the columns of `with_added`."""
        return tuple(c.name for c in self.columns[len(self.declared.columns) :])

    @property
    def file_columns(self) -> tuple[Column, ...]:
        """The columns whose values stand in the file under a name of their own."""
        return tuple(
            c
            for c in self.columns
            if c.from_path is None and not c.computed and not (self.rescues and c.name == RESCUED)
        )

    def needs_value(self, column: Column) -> bool:
        """True for a required column, and for one of a key that rows are found by: no row of the table lacks it."""
        return column.required or (column.name in self.key and self.write != "append")

    @cached_property
    def hidden_columns(self) -> tuple[str, ...]:
        """The columns whose values are not shown."""
        return tuple(column.name for column in self.columns if column.pii)

    @property
    def keyed(self) -> bool:
        """Whether the whole table holds one row for each key."""
        return self.write in ("upsert", "snapshot")

    @property
    def soft_deletes(self) -> bool:
        """Whether a deleted row stays, marked in `_deleted_at`."""
        return self.deletes == "soft"

    @property
    def hard_deletes(self) -> bool:
        """Whether a row that is marked as deleted takes its key out of the table."""
        return self.delete_when is not None and not self.soft_deletes

    @cached_property
    def hash(self) -> str:
        """16 hex digits over what changes the read or the result; owners, gates, bounds and schedules do not.

        Defaults are left out, so that a new field does not make every loaded object look outdated. With one source it
        is the same whether that stands under `source` or alone under `sources`.
        """
        if self._declared is not None:
            return self._declared.hash
        # what is shown of a value changes nothing that was read
        what = self.model_dump(
            mode="json",
            by_alias=True,
            exclude_defaults=True,
            include=_HASHED,
            exclude={"columns": {"__all__": {"pii"}}},
        )
        if len(self.many_sources) == 1:
            (what["source"],) = what.pop("sources")
        return hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()[:16]

    @property
    def path(self) -> Path:
        """The file it was declared in."""
        return self._origin.path if self._origin else Path()

    @property
    def line(self) -> int:
        """The line of `table:`, 1-based; 0 if it was not read from a file."""
        return self.position.line

    @property
    def document(self) -> int:
        """Which YAML document of the file it is, counted from 0."""
        return self._origin.document if self._origin else 0

    @property
    def position(self) -> Position:
        """Where `table:` has its value."""
        return self._origin.position if self._origin else Position(0, 0)

    def position_of(self, name: str) -> Position:
        """Where a field of the top level has its value; where `table:` has its own if the file does not name it."""
        return self._origin.fields.get(name, self.position) if self._origin else self.position

    def at(self, origin: Origin) -> Declaration:
        """The same declaration, standing there."""
        placed = self.model_copy()
        placed._origin = origin
        return placed

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Declaration) and self.model_dump() == other.model_dump()

    def __hash__(self) -> int:
        return hash((self.table, self.hash))


def _named(source: dict[str, object], bookmark: str) -> dict[str, object]:
    return source if source.get("bookmark") is not None else {**source, "bookmark": bookmark}


_OF_SOURCE = {"uri", "partition", "files", "format", "on_overwrite"}
_HASHED: dict[str, Any] = {
    "one_source": _OF_SOURCE,
    "many_sources": {"__all__": _OF_SOURCE},
    "sql": {"text"},
    **dict.fromkeys(("columns", "unknown_columns", "write", "key", "ordering"), True),
    **dict.fromkeys(("delete_when", "deletes", "lineage"), True),
}
