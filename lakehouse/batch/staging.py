"""Reads the objects of a batch into staging while the next ones are fetched: small ones together, others one by one.

An object that cannot be read as declared is quarantined, one whose fetch failed for now is left for the next load;
neither stops the others. Never touches the target.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb

from lakehouse.batch.stopwatch import Stopwatch
from lakehouse.bookmark import first_seen
from lakehouse.errors import LakehouseError, ObjectChanged, RetryLater, UnreadableObject
from lakehouse.landing import fetch_all
from lakehouse.model import Bookmark, Decision, ObjectDecision, ObjectOutcome
from lakehouse.services import Progress, Services
from lakehouse.stage import StagedObject, create_staging, make_object_plain, stage_object, stage_small_objects
from lakehouse.storage import Storage

if TYPE_CHECKING:
    from lakehouse.declaration import Declaration

SMALL = 256 << 10
"""Bytes of the largest object that waits for others."""
TOGETHER = 8 << 20
"""Bytes of the objects that are staged together, which are in memory at once."""
MOST_TOGETHER = 200


@dataclass(frozen=True, slots=True)
class Staged:
    """What was staged. `changed` were overwritten while we worked, `failed` could not be fetched for now.

    `warnings` has a line per object that was read without all of the declared columns. `withheld` are landing dates
    whose objects were taken out again.
    """

    outcomes: tuple[ObjectOutcome, ...]
    changed: tuple[str, ...]
    failed: tuple[tuple[ObjectDecision, str], ...]
    warnings: tuple[str, ...]
    withheld: frozenset[date | None] = frozenset()


def stage_objects(
    con: duckdb.DuckDBPyConnection,
    declaration: Declaration,
    objects: Sequence[ObjectDecision],
    *,
    bookmark: Bookmark,
    landing: Storage,
    folder: Path,
    now: datetime,
    services: Services,
    watch: Stopwatch,
) -> Staged:
    """Fill `staged` and `rejects` and say what became of every object."""
    create_staging(con, declaration)
    stager = _Stager(con, declaration, bookmark=bookmark, now=now)
    changed: list[str] = []
    failed: list[tuple[ObjectDecision, str]] = []
    report = _Reporter(objects, services, watch)
    with closing(fetch_all(landing, [o.object for o in objects], folder)) as fetched:
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
        with watch.step("stage"):
            stager.finish()
    return Staged(tuple(stager.outcomes), tuple(changed), tuple(failed), tuple(stager.warnings))


class _Stager:
    """Stages objects in order; small ones wait, under a name of their own, until there are enough for one go."""

    def __init__(
        self, con: duckdb.DuckDBPyConnection, declaration: Declaration, *, bookmark: Bookmark, now: datetime
    ) -> None:
        self.outcomes: list[ObjectOutcome] = []
        self.warnings: list[str] = []
        self.rows_read = 0
        self._con, self._declaration = con, declaration
        self._bookmark, self._now = bookmark, now
        self._waiting: list[tuple[ObjectDecision, Path]] = []
        self._bytes = 0

    def take(self, item: ObjectDecision, local: Path | LakehouseError) -> None:
        """Stage the object now or with the next ones. Its local copy is used up."""
        if isinstance(local, Path):
            try:
                make_object_plain(local, item=item, declaration=self._declaration)
            except UnreadableObject as error:
                local.unlink(missing_ok=True)
                local = error
        size = local.stat().st_size if isinstance(local, Path) else 0
        if isinstance(local, Path) and size <= SMALL:
            self._waiting.append((item, local.rename(local.with_name(f"{local.name}-waiting"))))
            self._bytes += size
            if self._bytes >= TOGETHER or len(self._waiting) >= MOST_TOGETHER:
                self.finish()
            return
        self.finish()
        try:
            if isinstance(local, LakehouseError):
                raise local
            self._tell(item, stage_object(self._con, path=local, item=item, declaration=self._declaration))
        except UnreadableObject as error:
            self._tell(item, error)
        finally:
            if isinstance(local, Path):
                local.unlink(missing_ok=True)

    def finish(self) -> None:
        """Stage what waits."""
        waiting, self._waiting, self._bytes = self._waiting, [], 0
        for (item, path), staged in zip(
            waiting, stage_small_objects(self._con, objects=waiting, declaration=self._declaration), strict=True
        ):
            path.unlink(missing_ok=True)
            self._tell(item, staged)

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
            self.warnings.append(f"{item.object.uri}: {warning}")


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
