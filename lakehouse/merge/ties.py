"""Decides hits by their content, compared with the target's; of rows that tie in `order_by` the cheap columns first.

Most rows that changed differ in a column that is small, so the large ones are read only for rows that are still equal;
the uri and line that break a tie only for rows of one and the same modification time. The table `tied` holds what
is known of each hit: (__row_id, __file, __pos, old_date, differs, newer, older).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import duckdb
from pyiceberg.schema import Schema, index_by_id

from lakehouse.merge.fetch import fetch_rows
from lakehouse.merge.order import TIE_BREAK, newer, old_date, tie_break
from lakehouse.merge.target_files import TargetFile, TargetReader
from lakehouse.naming import DELETED_AT, quote_name

if TYPE_CHECKING:
    from lakehouse.declaration import Declaration

CHEAP_SHARE = 0.25
"""Columns that together make up to this share of the compared bytes are read in the first round."""
TOGETHER_UP_TO = 32 << 20
"""So many bytes of dear columns are read with the cheap ones: asking a second time would take longer."""
_STAGED = "staged s on s.__row_id = t.__row_id"


@dataclass(frozen=True, slots=True)
class _Round:
    """What every round needs: the session and the files that its rows are in."""

    con: duckdb.DuckDBPyConnection
    reader: TargetReader
    files: Mapping[int, TargetFile]

    def look(self, name: str, asked: str, columns: Sequence[str], picked: str) -> None:
        """Make the table `name` of the rows `asked` (SQL with __row_id, __file, __pos, old_date), with `picked`
        over the target's row `o`, the staged row `s` and the asked row `t`."""
        self.con.execute(f"create or replace table asked as {asked}")
        fetch_rows(self.con, "old_rows", "asked", columns, reader=self.reader, files=self.files)
        self.con.execute(
            f"create or replace table {name} as select t.__row_id, t.__file, t.__pos, {picked} from asked t "
            f"join old_rows o using (__file, __pos) join {_STAGED}"
        )
        self.con.execute("drop table old_rows")
        self.con.execute("drop table asked")


def look_at_hits(
    con: duckdb.DuckDBPyConnection,
    declaration: Declaration,
    *,
    reader: TargetReader,
    files: Mapping[int, TargetFile],
    asked: str,
    ordered: bool,
) -> None:
    """Fill `tied` for the rows of `asked` (SQL with __row_id, __file, __pos, old_date), by what reads the least.

    `ordered`: the rows are known to tie in `order_by` and `old_date` is known; else both are looked up here.
    """
    step = _Round(con, reader, files)
    if not ordered:
        step.look("tied", asked, looked_at(declaration), verdict_columns(declaration))
        return
    cheap, dear = _by_size(con, declaration, reader, files, asked)
    order = _lineage_order(declaration)
    picked = f"t.old_date, {_first_look(declaration, [], cheap, order)}"
    step.look("tied", asked, [*cheap, *order, *_marks(declaration)], picked)
    if dear:
        equal = "from tied where not differs"
        if declaration.soft_deletes:
            equal += " and __row_id not in (select __row_id from staged where _is_delete)"
        step.look("dearer", equal, dear, f"not ({_same(dear)}) as differs")
        con.execute("update tied set differs = true where __row_id in (select __row_id from dearer where differs)")


def settle_looks(
    con: duckdb.DuckDBPyConnection,
    declaration: Declaration,
    *,
    reader: TargetReader,
    files: Mapping[int, TargetFile],
) -> None:
    """Move every row of the table `tied` to `matched` with its verdict."""
    if declaration.lineage and _any(con, "tied where differs and not newer and not older"):
        rest = TIE_BREAK[1:]
        step = _Round(con, reader, files)
        asked = "from tied where differs and not newer and not older"
        step.look("level", asked, rest, f"{newer(rest, 's', 'o', if_equal='true')} as newer")
        con.execute("update tied set newer = true where __row_id in (select __row_id from level where newer)")
    con.execute(
        f"""insert into matched select __row_id, __file, __pos,
            case when not differs then 'unchanged' when not newer then 'stale'
                 when {_deleted(declaration)} then 'removed' else 'updated' end,
            old_date
        from tied"""
    )
    con.execute("delete from tied")


def looked_at(declaration: Declaration) -> list[str]:
    """The columns of the target that `verdict_columns` needs."""
    dated = ["_source_date"] if declaration.lineage else []
    found = [*declaration.order_by, *compared(declaration), *_lineage_order(declaration), *dated, *_marks(declaration)]
    return list(dict.fromkeys(found))


def verdict_columns(declaration: Declaration) -> str:
    """SQL of old_date, differs, newer and older over a target row `o` and the staged row `s` of its key."""
    order = [*declaration.order_by, *_lineage_order(declaration)]
    first_look = _first_look(declaration, declaration.order_by, compared(declaration), order)
    return f"{old_date(declaration)} as old_date, {first_look}"


def _lineage_order(declaration: Declaration) -> list[str]:
    """Lineage that orders ties at first sight: all but the uri and line of one modification time."""
    return [c for c in tie_break(declaration) if c not in TIE_BREAK[1:]] if declaration.lineage else []


def _any(con: duckdb.DuckDBPyConnection, rows: str) -> bool:
    ((found,),) = con.execute(f"select exists (from {rows})").fetchall()
    return bool(found)


def _deleted(declaration: Declaration) -> str:
    return "__row_id in (select __row_id from staged where _is_delete)" if declaration.hard_deletes else "false"


def compared(declaration: Declaration) -> list[str]:
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
    con: duckdb.DuckDBPyConnection,
    declaration: Declaration,
    reader: TargetReader,
    files: Mapping[int, TargetFile],
    asked: str,
) -> tuple[list[str], list[str]]:
    """The compared columns, split into cheap and dear ones by what the manifests say of their size."""
    hit = [files[int(number)] for (number,) in con.execute(f"select distinct __file from ({asked})").fetchall()]
    names = compared(declaration)
    sizes = _bytes(reader, hit, names)
    budget = CHEAP_SHARE * sum(sizes.values())
    cheap: list[str] = []
    for name in sorted(names, key=lambda n: sizes[n]):
        budget -= sizes[name]
        if budget < 0:
            break
        cheap.append(name)
    dear = sum(sizes[name] for name in names if name not in cheap)
    if not cheap or dear <= TOGETHER_UP_TO:
        return names, []
    return cheap, [name for name in names if name not in cheap]


def _bytes(reader: TargetReader, files: Sequence[TargetFile], columns: Sequence[str]) -> dict[str, int]:
    """Compressed bytes of each column with everything inside it, in these files; 0 where their writer did not say."""
    sizes: Counter[int] = Counter()
    for target in files:
        sizes.update(target.file.column_sizes or {})
    fields = {name: reader.schema.find_field(name) for name in columns}
    return {name: sum(sizes[i] for i in index_by_id(Schema(field))) for name, field in fields.items()}
