"""The SQL that turns source rows into typed rows and tells bad ones: one Cell per declared column. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from lakehouse.declaration import Column, Declaration, Format
from lakehouse.naming import quote_text
from lakehouse.read.casts import BLANKS, CastRules, cast
from lakehouse.read.header import must_have_value

_OWN = ("date_format", "timestamp_format", "timezone", "dst_overlap", "binary", "decimal", "thousands")
"""What formats and columns say of spellings under the name that the rules have for it."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One declared column as SQL over the source relation.

    `value` is the typed value, NULL if there is none or it cannot be one; `given` is true where the source holds a
    value all the same; `complaint` says what that value is not.
    """

    column: Column
    value: str
    given: str = "false"
    complaint: str = ""


@dataclass(frozen=True, slots=True)
class Relation:
    """Source rows: `sql` stands in a FROM clause and has a BIGINT column `line`, 1-based; `raw` is SQL of their text.

    With `problems` it also has `problem` (VARCHAR) and `problem_columns` (VARCHAR[]), NULL for rows without one.
    A problem without columns condemns the record, one with columns is one more reason beside failed casts.
    """

    sql: str
    raw: str = "NULL"
    problems: bool = False


def missing_cell(column: Column) -> Cell:
    """A declared column that the source does not have: NULL."""
    return Cell(column, f"NULL::{column.type.sql}")


def rescued_cell(column: Column, texts: Mapping[str, str]) -> Cell:
    """The column that keeps what is not declared: a map of the VARCHAR expressions `texts` by name, without NULLs."""
    entries = [f"struct_pack(key := {quote_text(name)}, value := {texts[name]})" for name in sorted(texts)]
    kept = f"list_filter([{', '.join(entries)}], lambda entry: entry.value IS NOT NULL)"
    return Cell(
        column, f"CASE WHEN coalesce({', '.join(texts.values())}) IS NOT NULL THEN map_from_entries({kept}) END"
    )


def rules_of(spelled: Column | Format, rules: CastRules) -> CastRules:
    """The rules with what a format, or one of its columns, says instead; a format has not all of the options."""
    own = {name: value for name in _OWN if (value := getattr(spelled, name, None)) is not None}
    if words := getattr(spelled, "booleans", None):
        own |= {"true_words": words.true, "false_words": words.false}
    return replace(rules, **own) if own else rules


def nulls_of(column: Column, format: Format) -> frozenset[str]:
    """The texts that mean no value in a column: its own list, or that of its format; typed formats have none."""
    own = column.null_values
    return frozenset(getattr(format, "null_values", ()) if own is None else own)


def text_cell(column: Column, text: str, *, rules: CastRules, blank_is_null: bool) -> Cell:
    """A column whose source is the VARCHAR expression `text`; blanks alone are no value for other types than text."""
    value = cast(column.type, text, rules_of(column, rules))
    if column.type.name == "string":
        return Cell(column, value)
    given = f"trim({text}, {BLANKS}) <> ''" if blank_is_null else f"{text} IS NOT NULL"
    if column.type.name == "binary" and blank_is_null:
        # no other type has a value that is written as nothing
        value = f"CASE WHEN {given} THEN {value} END"
    return Cell(column, value, given, f"not a valid {column.type}")


@dataclass(frozen=True, slots=True)
class Projection:
    """The columns of a declaration over one relation."""

    relation: Relation
    cells: tuple[Cell, ...]
    required: tuple[bool, ...]

    def over(self, columns: Collection[str] | None) -> Projection:
        """The same over some of the columns, by name; None: all."""
        if columns is None:
            return self
        picked = [(c, r) for c, r in zip(self.cells, self.required, strict=True) if c.column.name in columns]
        return Projection(self.relation, tuple(c for c, _ in picked), tuple(r for _, r in picked))

    @property
    def typed(self) -> str:
        """The relation with typed values `v0`, `v1`, … beside its own columns, for a FROM clause."""
        values = "".join(f", {cell.value} AS v{i}" for i, cell in enumerate(self.cells))
        return f"(SELECT *{values} FROM {self.relation.sql}) AS typed"

    @property
    def values(self) -> str:
        return ", ".join(f"v{i}" for i in range(len(self.cells)))

    @property
    def bad(self) -> str:
        """Condition over `typed`: the row is a reject. NULL counts as false."""
        # a required column is bad whether its value is missing or wrong
        conditions = [
            f"v{i} IS NULL" if required else f"(v{i} IS NULL AND {cell.given})"
            for i, (cell, required) in enumerate(zip(self.cells, self.required, strict=True))
            if required or cell.given != "false"
        ]
        if self.relation.problems:
            conditions.append("problem IS NOT NULL")
        return " OR ".join(conditions) or "false"

    @property
    def bad_columns(self) -> str:
        """Names of the bad columns over `typed`, joined by commas; NULL if the record as a whole is bad."""
        named = [self._if_bad(i, quote_text(cell.column.name), quote_text(cell.column.name)) for i, cell in self._bad()]
        problem = ["array_to_string(problem_columns, ',')"] if self.relation.problems else []
        return f"nullif(concat_ws(',', {', '.join(problem + named) or 'NULL'}), '')"

    @property
    def reasons(self) -> str:
        """Every reason over `typed`, joined by semicolons."""
        reasons = [
            self._if_bad(
                i,
                quote_text(f"{cell.column.name}: {cell.complaint}"),
                quote_text(f"{cell.column.name}: no value, and the column needs one"),
            )
            for i, cell in self._bad()
        ]
        problem = ["problem"] if self.relation.problems else []
        return f"concat_ws('; ', {', '.join(problem + reasons) or 'NULL'})"

    def _bad(self) -> list[tuple[int, Cell]]:
        cells = zip(self.cells, self.required, strict=True)
        return [(i, cell) for i, (cell, required) in enumerate(cells) if required or cell.given != "false"]

    def _if_bad(self, i: int, wrong: str, absent: str) -> str:
        cell, required = self.cells[i], self.required[i]
        otherwise = f"ELSE {absent}" if required else ""
        case = f"CASE WHEN v{i} IS NOT NULL THEN NULL WHEN {cell.given} THEN {wrong} {otherwise} END"
        if not self.relation.problems:
            return case
        named = f"coalesce(list_contains(problem_columns, {quote_text(cell.column.name)}), false)"
        return f"CASE WHEN problem IS NULL OR (problem_columns IS NOT NULL AND NOT {named}) THEN {case} END"


def project(relation: Relation, cells: Mapping[str, Cell], declaration: Declaration) -> Projection:
    """All declared columns in order, from `cells` by column name; those without a cell are missing in the source."""
    ordered: Sequence[Cell] = [cells.get(c.name) or missing_cell(c) for c in declaration.columns]
    required = tuple(must_have_value(c, declaration) for c in declaration.columns)
    return Projection(relation, tuple(ordered), required)
