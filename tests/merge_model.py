"""What a table must hold after each load, by the rules of DESIGN §4 and §6, on plain Python values. Knows no engine.

One list of rows, one dict of remembered deletes, one dict of what was read: each mode is a few lines over them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from typing import Any, Literal

from lakehouse.model import RowCounts

WriteMode = Literal["upsert", "snapshot", "replace_partition", "append"]
Deletes = Literal["none", "hard", "soft"]
Order = Literal["column", "arrival", "none"]


@dataclass(frozen=True, slots=True)
class Landed:
    """One version of an object: `rows` are its records in order, by column."""

    uri: str
    day: date
    mtime: datetime
    rows: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a batch or of the table; a row of another writer has no origin. `op` says what a staged row is."""

    values: Mapping[str, Any]
    uri: str | None = None
    line: int | None = None
    mtime: datetime | None = None
    day: date | None = None
    deleted: bool = False

    @property
    def key(self) -> Any:
        return self.values["id"]

    @property
    def is_delete(self) -> bool:
        return self.values.get("op") == "D"


@dataclass(frozen=True, slots=True)
class Rules:
    """What the declaration says."""

    mode: WriteMode = "upsert"
    keyed: bool = True
    order: Order = "column"
    deletes: Deletes = "none"
    lineage: bool = True
    retract: bool = False


@dataclass
class Model:
    """The table. `rows` in any order; `graves` holds the newest hard delete of each key. `seen` is what the bookmark
    counts as read, `read` what the table has rows of."""

    rules: Rules
    rows: list[Row] = field(default_factory=list)
    graves: dict[Any, Row] = field(default_factory=dict)
    read: dict[str, datetime] = field(default_factory=dict)
    seen: dict[str, datetime] = field(default_factory=dict)

    def copy(self) -> Model:
        """The table as it is now."""
        return Model(self.rules, list(self.rows), dict(self.graves), dict(self.read), dict(self.seen))

    def planned(self, listing: Iterable[Landed], *, full: bool) -> list[Landed]:
        """The objects that a load reads: those that are unseen, and what the mode wants to see beside them."""
        listed = list(listing)
        unseen = [o for o in listed if full or self.seen.get(o.uri) != o.mtime]
        days = {o.day for o in unseen}
        if self.rules.mode == "replace_partition":
            return [o for o in listed if o.day in days]
        if self.rules.mode == "snapshot" and _newest_day(listed) in days:
            return [o for o in listed if o in unseen or o.day == _newest_day(listed)]
        return unseen

    def load(self, listing: Iterable[Landed], *, full: bool) -> RowCounts | None:
        """Load what is planned; None if that is nothing. `read` and `staged` of the counts are rows of this batch."""
        listed = list(listing)
        objects = self.planned(listed, full=full)
        if not objects:
            return None
        staged = [
            Row(values, o.uri, line, o.mtime, o.day) for o in objects for line, values in enumerate(o.rows, start=1)
        ]
        again = {o.uri for o in objects if o.uri in self.read}
        match self.rules.mode:
            case "append":
                counts = self._replace(staged, [r for r in self.rows if r.uri in again])
            case "replace_partition":
                days = {o.day for o in objects}
                counts = self._replace(staged, [r for r in self.rows if r.day in days])
            case "upsert":
                counts = self._merge(staged, again)
            case "snapshot":
                newest = _newest_day(listed)
                if newest in {o.day for o in objects}:
                    counts = self._merge(staged, again, truth={r.key for r in staged if r.day == newest})
                else:
                    counts = self._merge(staged, again, settled=newest)
        self.read.update({o.uri: o.mtime for o in objects})
        self.seen.update({o.uri: o.mtime for o in objects})
        return replace(counts, read=len(staged), staged=len(staged))

    def _replace(self, staged: Sequence[Row], old: Sequence[Row]) -> RowCounts:
        """Old rows go as a whole, new ones come; with a key one row for each key and landing date."""
        new = list(staged)
        if self.rules.mode == "replace_partition" and self.rules.keyed:
            new = list(self._newest(staged, lambda r: (r.key, r.day)))
        self.rows = [r for r in self.rows if r not in old] + new
        return RowCounts(superseded=len(staged) - len(new), inserted=len(new), replaced=len(old), deleted=len(old))

    def _merge(
        self,
        staged: Sequence[Row],
        again: set[str],
        *,
        truth: set[Any] | None = None,
        settled: date | None = None,
    ) -> RowCounts:
        """Upsert by key; then vanish the keys absent from `truth`, or from the new version of a retracted object.

        `truth` are the keys of a snapshot's newest date, which is read as a whole. Without a new object in that date
        the table has its keys already (`settled`): rows of older dates bring no other ones, and retract none.
        """
        before = {r.key: r for r in self.rows}
        keys = {r.key for r in staged}
        after = dict(before)
        counts = dict.fromkeys(("inserted", "updated", "unchanged", "stale", "removed", "absent"), 0)
        winners = self._newest(staged, lambda r: r.key)
        for row in winners:
            if (truth is not None and row.key not in truth) or (settled is not None and row.key not in after):
                verdict = self._missed(row)
            else:
                verdict = self._merge_row(row, after)
            counts[verdict] += 1
        retracted = again if self.rules.retract and settled is None else set()
        vanished = {
            key
            for key, old in before.items()
            if (truth is not None and key not in truth) or (old.uri in retracted and key not in keys)
        }
        self.rows = [row for key, row in after.items() if key not in vanished]
        superseded = len(staged) - len(winners)
        deleted = counts["removed"] + len(vanished)
        return RowCounts(**counts, superseded=superseded, vanished=len(vanished), deleted=deleted)

    def _merge_row(self, row: Row, table: dict[Any, Row]) -> str:
        """Apply one winner to the table; returns its verdict."""
        old = table.get(row.key)
        hard = row.is_delete and self.rules.deletes == "hard"
        soft = row.is_delete and self.rules.deletes == "soft"
        if old is None:
            if hard:
                self._bury(row)
                return "absent"
            if row.key in self.graves and self._rank(row) < self._rank(self.graves[row.key]):
                return "stale"
            table[row.key] = replace(row, deleted=soft)
            return "inserted"
        if not hard and self._same(row, old, soft=soft):
            return "unchanged"
        if not self._may_replace(row, old):
            return "stale"
        if hard:
            self._bury(row)
            del table[row.key]
            return "removed"
        if soft:
            kept = {name: value for name, value in old.values.items() if name not in self._order_columns()}
            row = replace(row, values={**row.values, **kept}, deleted=True)
        table[row.key] = row
        return "updated"

    def _missed(self, row: Row) -> str:
        """A row of a date that is no longer true, whose key is not true any more: nothing comes of it."""
        if row.is_delete and self.rules.deletes == "hard":
            self._bury(row)
            return "absent"
        return "stale"

    def _bury(self, row: Row) -> None:
        known = self.graves.get(row.key)
        if known is None or self._rank(row) > self._rank(known):
            self.graves[row.key] = row

    def _same(self, row: Row, old: Row, *, soft: bool) -> bool:
        """Whether nothing would change: a soft delete of a deleted row counts by its order columns alone."""
        names = self._order_columns() if soft and old.deleted else {*row.values, *old.values}
        return soft == old.deleted and all(equal(row.values.get(n), old.values.get(n)) for n in names)

    def _may_replace(self, row: Row, old: Row) -> bool:
        """Without lineage the target does not know when its row arrived, and wins ties."""
        if self.rules.lineage:
            return self._rank(row) >= self._rank(old)
        return self._order(row) > self._order(old)

    def _newest(self, rows: Iterable[Row], key: Any) -> list[Row]:
        found: dict[Any, Row] = {}
        for row in rows:
            if key(row) not in found or self._rank(row) > self._rank(found[key(row)]):
                found[key(row)] = row
        return list(found.values())

    def _rank(self, row: Row) -> tuple[Any, ...]:
        """(order_by…, mtime, uri, line), NULL oldest; a snapshot without order_by counts by its date first."""
        dated = self.rules.mode == "snapshot" and self.rules.order == "none"
        first = (_null_oldest(row.day),) if dated else ()
        return (*self._order(row), *first, *(_null_oldest(v) for v in (row.mtime, row.uri, row.line)))

    def _order(self, row: Row) -> tuple[Any, ...]:
        return tuple(_null_oldest(row.values.get(name)) for name in sorted(self._order_columns()))

    def _order_columns(self) -> set[str]:
        return {"t"} if self.rules.order == "column" else set()


def _newest_day(listing: Iterable[Landed]) -> date:
    return max(o.day for o in listing)


def equal(one: Any, other: Any) -> bool:
    """Equality of two values as a table sees it: NaN is NaN."""
    if isinstance(one, float) and isinstance(other, float) and math.isnan(one) and math.isnan(other):
        return True
    return bool(one == other)


def _null_oldest(value: Any) -> tuple[Any, ...]:
    return (0,) if value is None else (1, value)
