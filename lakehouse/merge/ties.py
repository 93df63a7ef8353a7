"""Decides hits by their content, compared with the target's; of rows that tie in `order_by` the cheap columns first.

Most rows that changed differ in a column that is small, so the large ones are read only for rows that are still equal;
the uri and line that break a tie only for rows of one and the same modification time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import duckdb
from pyiceberg.schema import Schema, index_by_id

from lakehouse.merge.fetch import fetch_rows
from lakehouse.merge.order import TIE_BREAK, newer, tie_break
from lakehouse.merge.target_files import TargetFile, TargetReader
from lakehouse.naming import DELETED_AT, quote_name

if TYPE_CHECKING:
    from lakehouse.declaration import Declaration

CHEAP_SHARE = 0.25
"""Columns that together make up to this share of the compared bytes are read in the first round."""
_STAGED = "(select rowid as __row_id, * from staged) s on s.__row_id = t.__row_id"


@dataclass(frozen=True, slots=True)
class _Round:
    """What every round needs: the session and the files that its rows are in."""

    con: duckdb.DuckDBPyConnection
    reader: TargetReader
    files: Mapping[int, TargetFile]

    def look(self, name: str, where: str, columns: Sequence[str], picked: str) -> None:
        """Make the temp table `name` of the ties that meet `where`, with `picked` over old `o` and staged `s` rows."""
        asked = "ties"
        if where:
            asked = "asked"
            self.con.execute(f"create or replace temp table asked as select __file, __pos from ties t where {where}")
        fetch_rows(self.con, "old_rows", asked, columns, reader=self.reader, files=self.files)
        self.con.execute(
            f"create or replace temp table {name} as select t.__row_id, {picked} from ties t "
            f"join old_rows o using (__file, __pos) join {_STAGED}"
        )
        self.con.execute("drop table old_rows")


def judge_rows(
    con: duckdb.DuckDBPyConnection,
    declaration: Declaration,
    *,
    reader: TargetReader,
    files: Mapping[int, TargetFile],
    ordered: bool,
) -> None:
    """Move every row of the temp table `ties` (__row_id, __file, __pos, old_date) to `matched` with its verdict.

    `ordered`: the rows are known to tie in `order_by` and `old_date` is known; else both are looked up here, in one
    round with all columns.
    """
    ((count,),) = con.execute("select count(*) from ties").fetchall()
    if not count:
        return
    step = _Round(con, reader, files)
    cheap, dear = _by_size(con, declaration, reader, files) if ordered else (_compared(declaration), [])
    order = [] if ordered else list(declaration.order_by)
    order += [c for c in tie_break(declaration) if c not in TIE_BREAK[1:]] if declaration.lineage else []
    dated = ["_source_date"] if declaration.lineage and not ordered else []
    old_date = 'o."_source_date"' if dated else "t.old_date"
    level = [] if ordered else list(declaration.order_by)
    picked = f"{_first_look(declaration, level, cheap, order)}, {old_date} as old_date"
    step.look("tied", "", [*level, *cheap, *order, *dated, *_marks(declaration)], picked)
    if dear:
        equal = "t.__row_id in (select __row_id from tied where not differs)"
        if declaration.soft_deletes:
            equal += " and t.__row_id not in (select rowid from staged where _is_delete)"
        step.look("dearer", equal, dear, f"not ({_same(dear)}) as differs")
        con.execute("update tied set differs = true where __row_id in (select __row_id from dearer where differs)")
    if declaration.lineage and _any(con, "tied where differs and not newer and not older"):
        open_ones = "t.__row_id in (select __row_id from tied where differs and not newer and not older)"
        rest = TIE_BREAK[1:]
        step.look("level", open_ones, rest, f"{newer(rest, 's', 'o', if_equal='true')} as newer")
        con.execute("update tied set newer = true where __row_id in (select __row_id from level where newer)")
    con.execute(
        f"""insert into matched select t.__row_id, __file, __pos,
            case when not differs then 'unchanged' when not newer then 'stale'
                 when {_deleted(declaration)} then 'removed' else 'updated' end,
            tied.old_date
        from ties t join tied using (__row_id)"""
    )
    for name in ("ties", "tied"):
        con.execute(f"drop table {name}")


def _any(con: duckdb.DuckDBPyConnection, rows: str) -> bool:
    ((found,),) = con.execute(f"select exists (from {rows})").fetchall()
    return bool(found)


def _deleted(declaration: Declaration) -> str:
    return "t.__row_id in (select rowid from staged where _is_delete)" if declaration.hard_deletes else "false"


def _compared(declaration: Declaration) -> list[str]:
    """Business columns beside the key and `order_by`: what is left to tell whether a row changed."""
    decided = (*declaration.key, *declaration.order_by)
    return [column.name for column in declaration.columns if column.name not in decided]


def _marks(declaration: Declaration) -> list[str]:
    return [DELETED_AT] if declaration.soft_deletes else []


def _first_look(declaration: Declaration, level: Sequence[str], cheap: Sequence[str], order: Sequence[str]) -> str:
    """SQL of `differs`, `newer` and `older`. `level` are the columns of `order_by` where rows may differ in them.

    Without lineage the target wins ties, so no row that ties is newer.
    """
    differs = f"not ({_same([*level, *cheap])})"
    if declaration.hard_deletes:
        differs = f"s._is_delete or {differs}"
    if declaration.soft_deletes:
        # a delete of a deleted row says nothing new but its order: its other values are the target's already
        dead = f"o.{quote_name(DELETED_AT)} is not null"
        differs = f"if(s._is_delete, not ({dead}) or not ({_same(level)}), {dead} or {differs})"
    return f"({differs}) as differs, {newer(order, 's', 'o')} as newer, {newer(order, 'o', 's')} as older"


def _same(columns: Sequence[str]) -> str:
    """No column differs. NaN is equal to NaN and -0.0 to 0.0, as DuckDB compares them. Lineage is never asked."""
    names = map(quote_name, columns)
    return " and ".join(f"s.{name} is not distinct from o.{name}" for name in names) or "true"


def _by_size(
    con: duckdb.DuckDBPyConnection, declaration: Declaration, reader: TargetReader, files: Mapping[int, TargetFile]
) -> tuple[list[str], list[str]]:
    """The compared columns, split into cheap and dear ones by what the manifests say of their size."""
    hit = [files[int(number)] for (number,) in con.execute("select distinct __file from ties").fetchall()]
    names = _compared(declaration)
    sizes = {name: _bytes(reader, hit, name) for name in names}
    budget = CHEAP_SHARE * sum(sizes.values())
    cheap: list[str] = []
    for name in sorted(names, key=lambda n: sizes[n]):
        budget -= sizes[name]
        if budget < 0:
            break
        cheap.append(name)
    if not cheap or len(cheap) == len(names):
        return names, []
    return cheap, [name for name in names if name not in cheap]


def _bytes(reader: TargetReader, files: Sequence[TargetFile], column: str) -> int:
    """Compressed bytes of a column with everything inside it, in these files; 0 where their writer did not say."""
    field = reader.schema.find_field(column)
    ids = set(index_by_id(Schema(field)))
    return sum(size for target in files for i, size in (target.file.column_sizes or {}).items() if i in ids)
