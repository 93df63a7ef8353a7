"""A lake in memory for tests of the orchestration: it plans as lakehouse does and "loads" by remembering objects."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from lakehouse.audit.diagnosis import Condition, Diagnosis
from lakehouse.audit.recount import Recount
from lakehouse.errors import LakehouseError
from lakehouse.ingest import LoadRequest
from lakehouse.maintain import Expiry
from lakehouse.model import (
    BatchReceipt,
    Bookmark,
    DateCounts,
    Decision,
    Equation,
    FileCounts,
    GateResult,
    LandingObject,
    ObjectDecision,
    Plan,
    Receipt,
    RowCounts,
    SeenObject,
    State,
)
from lakehouse.orchestration.library import Library
from lakehouse.plan import make_plan
from tests.landing_values import declared

if TYPE_CHECKING:
    from lakehouse.declaration import Declaration
    from lakehouse.maintain import Upkept
    from lakehouse.services import Progress, Services

NOW = datetime(2024, 1, 10, 12, tzinfo=UTC)
ROWS = 5
"""Rows of each object."""


def daily_table(**changes: Any) -> Declaration:
    """A table with partitions from 2024-01-01 on, objects below `day=2024-01-01/`."""
    return declared(**{"start_date": "2024-01-01", **changes})


@dataclass
class Lake:
    """What is there and what was read; `fail` makes the next loads end that way."""

    objects: dict[str, LandingObject] = field(default_factory=dict)
    bookmark: Bookmark = field(default_factory=Bookmark)
    requests: list[LoadRequest] = field(default_factory=list)
    recounts: list[tuple[int | None, date | None]] = field(default_factory=list)
    fail: Receipt | None = None
    broken: Exception | None = None
    undiagnosed: Exception | None = None
    stop: BaseException | None = None
    now: datetime = NOW
    missing_rows: int = 0
    progress: list[Progress] = field(default_factory=list)
    added_columns: tuple[str, ...] = ()
    kept_up: list[tuple[tuple[str, ...], bool]] = field(default_factory=list)
    upkeep_error: LakehouseError | None = None

    def land(self, day: str, name: str = "a.csv", etag: str = "A", *, at: datetime | None = None) -> None:
        uri = f"s3://landing/in/day={day}/{name}"
        self.objects[uri] = LandingObject(uri, etag, 10, at or datetime.fromisoformat(f"{day}T06:00:00+00:00"))

    def load(self) -> None:
        """Read everything, as a load from the command line does."""
        library = self.library()
        library.ingest(daily_table(), LoadRequest(), library.open(daily_table(), lambda _: None))

    def rule(self, day: str, name: str, decision: Decision) -> None:
        """An operator decides about an object as it is."""
        item = self.objects[f"s3://landing/in/day={day}/{name}"]
        version = self.bookmark.version + 1
        made = SeenObject(item, date.fromisoformat(day), decision, "ruled", f"batch{version}", version, "", self.now)
        self.bookmark = replace(self.bookmark, version=version, rulings={**self.bookmark.rulings, item.uri: made})

    def reset(self) -> None:
        """Forget what was read, as an operator does: the version moves on."""
        self.bookmark = Bookmark(version=self.bookmark.version + 1)

    def library(self) -> Library:
        return Library(
            open=self._open,
            ingest=self._ingest,
            plan=self._plan,
            recount=self._recount,
            diagnose=self._diagnose,
            maintain=self._maintain,
        )

    def _diagnose(self, declaration: Declaration, services: Services) -> list[Diagnosis]:
        if self.undiagnosed:
            raise self.undiagnosed
        why, evidence = "gate max_rejected_ratio", {"lease": "free"}
        return [
            Diagnosis(declaration.table, "orders", Condition.BLOCKED, why, "lakehouse gate accept", evidence=evidence)
        ]

    def _open(self, declaration: Declaration, progress: Callable[[Progress], None]) -> Services:
        if self.broken:
            raise self.broken
        for item in self.progress:
            progress(item)
        return cast("Services", SimpleNamespace(now=lambda: self.now))

    def _maintain(
        self, declaration: Declaration, services: Services, kinds: Sequence[str], run_id: str, dry_run: bool
    ) -> dict[str, Upkept]:
        self.kept_up.append((tuple(kinds), dry_run))
        if self.upkeep_error:
            raise self.upkeep_error
        state = State.NOTHING_TO_DO if dry_run else State.COMMITTED
        return {"expire": Expiry(declaration.table, declaration.context, state, dry_run, 2, 7, files=("a", "b"))}

    def _plan(self, declaration: Declaration, request: LoadRequest, services: Services) -> Plan:
        return make_plan(
            declaration=declaration,
            bookmark=self.bookmark,
            listing=list(self.objects.values()),
            mode=request.mode,
            window=request.window,
            table_uuid="uuid",
            now=self.now,
        )

    def _ingest(self, declaration: Declaration, request: LoadRequest, services: Services) -> Receipt:
        self.requests.append(request)
        if self.stop:
            raise self.stop
        if self.fail:
            return replace(self.fail, run_id=request.run_id, bookmark_version=self.bookmark.version)
        plan = self._plan(declaration, request, services)
        planned = [d for d in plan.decisions if d.decision is Decision.PLANNED]
        if planned:
            self.bookmark = self._after(planned, declaration)
        made = receipt(declaration, request, planned, self.bookmark.version)
        return replace(
            made, added_columns=self.added_columns, objects={**made.objects, "deferred": plan.count(Decision.DEFERRED)}
        )

    def _after(self, planned: Iterable[ObjectDecision], declaration: Declaration) -> Bookmark:
        version = self.bookmark.version + 1
        seen = {
            d.object.uri: SeenObject(
                d.object, d.landing_date, Decision.CONSUMED, "", f"batch{version}", version, declaration.hash, self.now
            )
            for d in planned
        }
        rulings = {uri: r for uri, r in self.bookmark.rulings.items() if uri not in seen}
        return Bookmark(version=version, seen=self.bookmark.seen.changed(seen), rulings=rulings)

    def _recount(
        self, declaration: Declaration, services: Services, snapshot_id: int | None, landing_date: date | None
    ) -> Recount:
        self.recounts.append((snapshot_id, landing_date))
        seen = [s for s in self.bookmark.seen.values() if landing_date in (None, s.landing_date)]
        rows = ROWS * len(seen)
        return Recount(
            snapshot_id or 1,
            (
                Equation("date: rows = gained - lost", rows - self.missing_rows, rows, landing_date),
                Equation("table: count(*) = count(distinct key)", rows, rows),
                Equation("table: rows with a NULL key = 0", 0, 0),
            ),
        )


def receipt(declaration: Declaration, request: LoadRequest, planned: Iterable[ObjectDecision], version: int) -> Receipt:
    """What a load of these objects reports: `ROWS` inserted rows each, snapshot 1000 + version."""
    dates: dict[str, DateCounts] = {}
    for item in planned:
        rows = RowCounts(read=ROWS, staged=ROWS, inserted=ROWS)
        key = item.landing_date.isoformat() if item.landing_date else "undated"
        dates[key] = dates.get(key, DateCounts()) + DateCounts(1, rows, ROWS, 0)
    rows = sum((counts.rows for counts in dates.values()), RowCounts())
    objects = sum(counts.objects for counts in dates.values())
    state = State.COMMITTED if objects else State.NOTHING_TO_DO
    batch = BatchReceipt(f"batch{version}", state, 1000 + version, version, objects, rows, "ok")
    return Receipt(
        table=declaration.table,
        context=declaration.context,
        run_id=request.run_id,
        state=state,
        bookmark_version=version,
        snapshot_id=1000 + version if version else None,
        declaration=declaration.hash,
        next="",
        objects={"read": objects, "deferred": 0, "ignored": 0, "outside_window": 0, "quarantined": 0},
        rows=rows,
        dates=dates,
        files=FileCounts(added=len(dates)),
        gates=(GateResult("max_rejected_ratio", True, 0.0, 0.5),) if objects else (),
        seconds={"plan": 0.1, "total": 0.2},
        batches=(batch,) if objects else (),
        table_rows=ROWS * objects,
    )


def failed(declaration: Declaration, state: State, exit_code: int, **changes: Any) -> Receipt:
    """A load that ended badly."""
    empty = receipt(declaration, LoadRequest(), [], 0)
    return replace(
        empty, state=state, exit_code=exit_code, error="it went wrong: value=1", next="lakehouse diagnose", **changes
    )
