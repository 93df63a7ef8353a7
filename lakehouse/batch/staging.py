"""Reads the objects of a batch into staging while the next ones are fetched: small ones together, others one by one.

An object that cannot be read as declared is quarantined, one whose fetch failed for now is left for the next load;
neither stops the others. Columns that files bring undeclared become columns of the staged rows (`spread_added`). Never
touches the target.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
from pyiceberg.table import Table

from lakehouse.added import MOST_ADDED, added_columns, effective_declaration, refused_objects
from lakehouse.batch.stopwatch import Stopwatch
from lakehouse.bookmark import first_seen, narrowed
from lakehouse.errors import Blocked, LakehouseError, ObjectChanged, RetryLater, UnreadableObject
from lakehouse.faults import fault_point
from lakehouse.landing import fetch_all
from lakehouse.model import Bookmark, Decision, Equation, ObjectDecision, ObjectOutcome, RowCounts
from lakehouse.services import Progress, Services
from lakehouse.stage import (
    StagedObject,
    brought_names,
    create_staging,
    drop_objects,
    is_plain,
    make_object_plain,
    spread_rescued,
    stage_object,
    stage_small_objects,
)
from lakehouse.storage import Storage

if TYPE_CHECKING:
    from lakehouse.declaration import Declaration

SMALL = 256 << 10
"""Bytes of the largest object that waits for others."""
TOGETHER = 8 << 20
"""Bytes of the objects that are staged together, which are in memory at once."""
MOST_TOGETHER = 1000


@dataclass(frozen=True, slots=True)
class Staged:
    """What was staged. `changed` were overwritten while we worked, `failed` could not be fetched for now.

    `warnings` has a line per object that was read without all of the declared columns. `withheld` are landing dates
    whose objects were taken out again. `transformed` is what was counted where a declared SQL made the staged rows.
    """

    outcomes: tuple[ObjectOutcome, ...]
    changed: tuple[str, ...]
    failed: tuple[tuple[ObjectDecision, str], ...]
    warnings: tuple[str, ...]
    withheld: frozenset[date | None] = frozenset()
    transformed: tuple[Equation, ...] = ()


def stage_objects(
    con: duckdb.DuckDBPyConnection,
    declaration: Declaration,
    objects: Sequence[ObjectDecision],
    *,
    table: Table | None,
    bookmark: Bookmark,
    landing: Storage,
    folder: Path,
    now: datetime,
    services: Services,
    watch: Stopwatch,
) -> Staged:
    """Fill `staged` and `rejects` and say what became of every object. `table` is the target as it is now."""
    create_staging(con, declaration.as_read)
    known = narrowed(bookmark, [item.object.uri for item in objects])
    stager = _Stager(con, declaration.as_read, folder, bookmark=known, now=now)
    changed: list[str] = []
    failed: list[tuple[ObjectDecision, str]] = []
    report = _Reporter(objects, services, watch)
    with closing(fetch_all(landing, [o.object for o in objects], folder, small=SMALL)) as fetched:
        for item in objects:
            with watch.step("read"):
                _, local = next(fetched)
            if isinstance(local, ObjectChanged):
                changed.append(item.object.uri)
            elif isinstance(local, RetryLater):
                failed.append((item, local.message))
            else:
                with watch.step("stage"):
                    stager.take(item, local)
            report.advance(item, stager.rows_read)
            fault_point("after_object")
        with watch.step("stage"):
            stager.finish()
            if declaration.adds:
                stager.refuse(refused_objects(declaration, table, brought_names(con)))
    return Staged(tuple(stager.outcomes), tuple(changed), tuple(failed), tuple(stager.warnings.values()))


def spread_added(
    con: duckdb.DuckDBPyConnection, declaration: Declaration, table: Table | None
) -> tuple[Declaration, tuple[str, ...]]:
    """Make columns of `staged` of what its rows have undeclared, and of what earlier batches added to the table.

    Returns the declaration of what is staged now, and the names that are new to the table; the declaration itself
    without `unknown_columns: add`. Raises Blocked for more than MOST_ADDED columns in all.
    """
    if not declaration.adds:
        return declaration, ()
    by_object = brought_names(con)
    brought = {name for names in by_object.values() for name in names}
    effective = effective_declaration(declaration, table, brought)
    known = added_columns(declaration, table)
    new = effective.added[len(known) :]
    if new and len(effective.added) > MOST_ADDED:
        uri = max(sorted(by_object), key=lambda uri: len(set(by_object[uri]).intersection(new)))
        raise Blocked(
            f"table {declaration.table}: files would add too many columns: new={len(new)} added_before={len(known)} "
            f"most={MOST_ADDED} first={', '.join(map(repr, new[:5]))} most_by={uri}; nothing was changed",
            next=f"lakehouse object skip {shlex.quote(uri)} --reason TEXT, or declare unknown_columns: rescue in "
            f"{declaration.path}; then lakehouse load {declaration.table}",
        )
    spread_rescued(con, effective.added, filled=brought)
    return effective, new


class _Stager:
    """Stages objects in order; small ones wait in memory until there are enough for one go."""

    def __init__(
        self,
        con: duckdb.DuckDBPyConnection,
        declaration: Declaration,
        folder: Path,
        *,
        bookmark: Bookmark,
        now: datetime,
    ) -> None:
        self.outcomes: list[ObjectOutcome] = []
        self.warnings: dict[str, str] = {}
        self.rows_read = 0
        self._con, self._declaration, self._folder = con, declaration, folder
        self._bookmark, self._now = bookmark, now
        self._waiting: list[tuple[ObjectDecision, bytes]] = []
        self._bytes = 0

    def take(self, item: ObjectDecision, local: Path | bytes | LakehouseError) -> None:
        """Stage the object now or with the next ones. Its local copy is used up."""
        try:
            plain = self._plain(item, local)
        except UnreadableObject as error:
            self.finish()
            self._tell(item, error)
            return
        if isinstance(plain, bytes):
            self._waiting.append((item, plain))
            self._bytes += len(plain)
            if self._bytes >= TOGETHER or len(self._waiting) >= MOST_TOGETHER:
                self.finish()
            return
        self.finish()
        try:
            self._tell(item, stage_object(self._con, path=plain, item=item, declaration=self._declaration))
        except UnreadableObject as error:
            self._tell(item, error)
        except Exception as error:
            error.add_note(f"uri={item.object.uri}")
            raise
        finally:
            plain.unlink(missing_ok=True)

    def _plain(self, item: ObjectDecision, local: Path | bytes | LakehouseError) -> Path | bytes:
        """The plain content of an object, in memory if it is small. Raises UnreadableObject."""
        if isinstance(local, LakehouseError):
            raise local
        if isinstance(local, bytes):
            if is_plain(local, self._declaration):
                return local
            path = self._folder / "packed-object"
            path.write_bytes(local)
            local = path
        try:
            make_object_plain(local, item=item, declaration=self._declaration)
            if local.stat().st_size > SMALL:
                return local
            data = local.read_bytes()
        except UnreadableObject:
            local.unlink(missing_ok=True)
            raise
        local.unlink()
        return data

    def finish(self) -> None:
        """Stage what waits."""
        waiting, self._waiting, self._bytes = self._waiting, [], 0
        if not waiting:
            return
        results = stage_small_objects(self._con, objects=waiting, declaration=self._declaration, folder=self._folder)
        for (item, _), staged in zip(waiting, results, strict=True):
            self._tell(item, staged)

    def refuse(self, refused: Mapping[str, str]) -> None:
        """Quarantine objects after all, by URI with the reason; nothing of them stays."""
        if not refused:
            return
        drop_objects(self._con, list(refused))
        self.outcomes = [_refused(o, refused[o.object.uri]) if o.object.uri in refused else o for o in self.outcomes]
        self.warnings = {uri: text for uri, text in self.warnings.items() if uri not in refused}

    def _tell(self, item: ObjectDecision, staged: StagedObject | UnreadableObject) -> None:
        seen = first_seen(self._bookmark, item.object, now=self._now)
        if isinstance(staged, UnreadableObject):
            decided = ObjectOutcome(item.object, item.landing_date, Decision.QUARANTINED, staged.message, seen)
            self.outcomes.append(decided)
            return
        warning = f"columns missing in the file are NULL: {', '.join(staged.missing)}" if staged.missing else ""
        reason = f"{item.reason}; {warning}" if warning else item.reason
        self.outcomes.append(
            ObjectOutcome(item.object, item.landing_date, Decision.CONSUMED, reason, seen, staged.rows)
        )
        self.rows_read += staged.rows.read
        if warning:
            self.warnings[item.object.uri] = f"{item.object.uri}: {warning}"


def _refused(outcome: ObjectOutcome, reason: str) -> ObjectOutcome:
    return replace(outcome, decision=Decision.QUARANTINED, reason=reason, rows=RowCounts())


class _Reporter:
    """Tells how far staging is; time left follows the bytes, for files differ in size."""

    def __init__(self, objects: Sequence[ObjectDecision], services: Services, watch: Stopwatch) -> None:
        self._total = len(objects)
        self._bytes = sum(o.object.size for o in objects) or 1
        self._services = services
        self._watch = watch
        self._started = watch.elapsed()
        self._done = 0
        self._done_bytes = 0

    def advance(self, item: ObjectDecision, rows: int) -> None:
        self._done += 1
        self._done_bytes += item.object.size
        spent = self._watch.elapsed() - self._started
        left = spent * (self._bytes - self._done_bytes) / self._done_bytes if self._done_bytes else None
        self._services.progress(Progress("stage", self._done, self._total, rows, left))
