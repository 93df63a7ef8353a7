"""Reads the objects of a batch into staging, one after the other, while the next ones are fetched.

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
from lakehouse.model import Bookmark, Decision, ObjectDecision, ObjectOutcome, RowCounts
from lakehouse.services import Progress, Services
from lakehouse.stage import create_staging, stage_object
from lakehouse.storage import Storage

if TYPE_CHECKING:
    from lakehouse.declaration import Declaration


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
    outcomes: list[ObjectOutcome] = []
    changed: list[str] = []
    failed: list[tuple[ObjectDecision, str]] = []
    warnings: list[str] = []
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
                    outcome, warning = _stage(con, declaration, item, local, bookmark=bookmark, now=now)
                outcomes.append(outcome)
                if warning:
                    warnings.append(f"{item.object.uri}: {warning}")
            report.advance(item, outcomes)
    return Staged(tuple(outcomes), tuple(changed), tuple(failed), tuple(warnings))


def _stage(
    con: duckdb.DuckDBPyConnection,
    declaration: Declaration,
    item: ObjectDecision,
    local: Path | LakehouseError,
    *,
    bookmark: Bookmark,
    now: datetime,
) -> tuple[ObjectOutcome, str]:
    """What became of the object, and what must be told of it though it was read; empty if nothing."""
    seen = first_seen(bookmark.seen, item.object, now=now)
    try:
        if isinstance(local, LakehouseError):
            raise local
        staged = stage_object(con, path=local, item=item, declaration=declaration)
    except UnreadableObject as error:
        return ObjectOutcome(item.object, item.landing_date, Decision.QUARANTINED, error.message, seen), ""
    finally:
        if isinstance(local, Path):
            local.unlink(missing_ok=True)
    warning = f"columns missing in the file are NULL: {', '.join(staged.missing)}" if staged.missing else ""
    reason = f"{item.reason}; {warning}" if warning else item.reason
    return ObjectOutcome(item.object, item.landing_date, Decision.CONSUMED, reason, seen, staged.rows), warning


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

    def advance(self, item: ObjectDecision, outcomes: Sequence[ObjectOutcome]) -> None:
        self._done += 1
        self._done_bytes += item.object.size
        spent = self._watch.elapsed() - self._started
        left = spent * (self._bytes - self._done_bytes) / self._done_bytes if self._done_bytes else None
        rows = sum((o.rows for o in outcomes), RowCounts()).read
        self._services.progress(Progress("stage", self._done, self._total, rows, left))
