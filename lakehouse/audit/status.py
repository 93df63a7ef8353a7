"""What an operator asks first: where a table stands, and which rows did not fit. Reads only.

It reads the bookmark, the manifests and the records of unpublished attempts, so it is right also when the ledger is
behind or gone.
"""

from __future__ import annotations

import io
from collections.abc import Collection, Iterator
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import pyarrow.parquet as pq

from lakehouse import naming
from lakehouse.acceptance import open_question
from lakehouse.attempt import AttemptRecord
from lakehouse.audit.attempts import attempt_records, decided_version, open_attempts
from lakehouse.audit.diagnosis import Condition, diagnose_evidence
from lakehouse.audit.evidence import evidence_of
from lakehouse.audit.measures import MOST_MANIFESTS, Measures, measure_loads
from lakehouse.errors import Detached, LakehouseError
from lakehouse.gate import after_refusal
from lakehouse.lease import read_lease
from lakehouse.ledger import ledger_head
from lakehouse.model import Bookmark, Manifest, Reference, State
from lakehouse.position import Position, find_position
from lakehouse.services import Services
from lakehouse.state import read_blob, walk

if TYPE_CHECKING:
    from lakehouse.declaration import Declaration

_WORDS = {
    Condition.HELD: State.HELD.value,
    Condition.BLOCKED: State.BLOCKED.value,
    Condition.UNKNOWN: State.UNKNOWN.value,
}
"""The words of a receipt for those states; every other one is a load that failed."""


@dataclass(frozen=True, slots=True)
class TableStatus:
    """One line per table. `state` is `new`, `committed`, `running`, `held`, `blocked`, `failed`, `unknown`, `detached`
    or `error`: the table could not be looked at, and `exit_code` is that error's. A state that was found is
    no error. `measures` say how loads have gone of late, None of a table that could not be looked at."""

    table: str
    context: str
    state: str
    bookmark_version: int
    snapshot_id: int | None
    last_batch: str | None
    last_batch_at: datetime | None
    rows: int | None
    ledger: str
    detail: str
    next: str
    exit_code: int = 0
    measures: Measures | None = None

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class RejectedRow:
    """A record that did not fit. `state` is that of its batch: `committed` or `blocked`."""

    batch_id: str
    state: str
    uri: str
    line_number: int
    column_name: str | None
    reason: str
    raw: str | None

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def status_of(declaration: Declaration, services: Services) -> TableStatus:
    """Where a table stands now."""
    try:
        position = find_position(declaration, services)
    except Detached as error:
        return replace(unreadable_status(declaration, error), state=State.DETACHED.value, exit_code=0)
    version = position.bookmark.version
    last = next(_manifests(position, services), None)
    state, detail, next_step = _state(declaration, position, services)
    tag = position.target.tag
    return TableStatus(
        table=declaration.table,
        context=declaration.context,
        state=state,
        bookmark_version=version,
        snapshot_id=tag.snapshot_id if tag else None,
        last_batch=last.batch_id if last else None,
        last_batch_at=last.written_at if last else None,
        rows=position.target.rows,
        ledger=_ledger(declaration, position, services),
        detail=detail,
        next=next_step,
        measures=_measures(declaration, position, services),
    )


def _measures(declaration: Declaration, position: Position, services: Services) -> Measures:
    records = attempt_records(declaration, position.target, services)
    return measure_loads(
        islice(_manifests(position, services), MOST_MANIFESTS),
        [(record.bookmark_version, record.ended_at) for record in records],
        version=position.bookmark.version,
        now=services.now(),
        zone=ZoneInfo(declaration.timezone),
    )


def unreadable_status(declaration: Declaration, error: LakehouseError) -> TableStatus:
    """The status of a table that raised when it was looked at."""
    return TableStatus(
        table=declaration.table,
        context=declaration.context,
        state="error",
        bookmark_version=0,
        snapshot_id=None,
        last_batch=None,
        last_batch_at=None,
        rows=None,
        ledger="unknown",
        detail=error.message,
        next=error.next,
        exit_code=error.exit_code,
    )


def _ledger(declaration: Declaration, position: Position, services: Services) -> str:
    head = ledger_head(
        services.catalog,
        services.settings.ops_namespace,
        table_uuid=position.target.uuid,
        context=declaration.context,
    )
    return "ok" if head >= position.bookmark.version else f"behind: {head} of {position.bookmark.version}"


def _state(declaration: Declaration, position: Position, services: Services) -> tuple[str, str, str]:
    """As `diagnose` judges it; how far the ledger is, and objects that are quarantined, are told elsewhere."""
    lease = read_lease(services.state, naming.lease(services.catalog_name, declaration.table))
    attempts = [*open_attempts(declaration, position, services)]
    question = open_question(declaration, position, services)
    found = diagnose_evidence(evidence_of(declaration, position, lease, attempts, question, services))
    if found.state is Condition.NOTHING:
        return ("committed" if position.bookmark.version else "new"), "", ""
    if found.state is Condition.RUNNING and lease is not None:
        holder = lease.holder
        detail = f"running: host={holder.process.host} pid={holder.process.pid} step={holder.step} run={holder.run_id}"
        return "running", detail, ""
    commands = (after_refusal(declaration, one.batch_id, one.gates) for one in attempts if one.state is State.BLOCKED)
    longer = next((text for text in commands if found.next in text), found.next)
    return _WORDS.get(found.state, State.FAILED.value), found.why, longer


def rejected_rows(declaration: Declaration, services: Services, *, batch_id: str | None = None) -> list[RejectedRow]:
    """Rejects that stand, newest batch first: of the latest version of each object, as it was read last, and of the
    attempts that are open. With `batch_id` those of one batch, whatever was read since."""
    position = find_position(declaration, services)
    since = decided_version(position, services)
    open_records: dict[str, AttemptRecord] = {}
    for record in attempt_records(declaration, position.target, services):
        wanted = record.batch_id == batch_id or (batch_id is None and record.bookmark_version >= since)
        if wanted and record.rejects is not None:
            open_records.setdefault(record.batch_id, record)
    rows: list[RejectedRow] = []
    for record in open_records.values():
        rows += _rows(services, record.batch_id, record.state.value, record.rejects)
    for manifest in _manifests(position, services):
        if batch_id in (None, manifest.batch_id):
            found = _rows(services, manifest.batch_id, State.COMMITTED.value, manifest.rejects)
            last = _read_last(position.bookmark, {row.uri for row in found}, manifest) if not batch_id else ()
            rows += [row for row in found if batch_id or row.uri in last]
    return rows


def objects_with_rejects(position: Position, services: Services, *, batch_id: str | None = None) -> tuple[str, ...]:
    """The objects whose rejects stand, by uri; with `batch_id` those that this batch was the last to read."""
    found: set[str] = set()
    for manifest in _manifests(position, services):
        if batch_id in (None, manifest.batch_id):
            rejected = [item.object.uri for item in manifest.objects if item.rows.rejected]
            found |= _read_last(position.bookmark, rejected, manifest)
    return tuple(sorted(found))


def attempt_of(declaration: Declaration, position: Position, services: Services, batch_id: str) -> AttemptRecord | None:
    """The newest attempt at a batch that ended unpublished."""
    return next((r for r in attempt_records(declaration, position.target, services) if r.batch_id == batch_id), None)


def knows_batch(declaration: Declaration, position: Position, services: Services, batch_id: str) -> bool:
    """Whether an attempt at a batch of that id left a record, or it was published."""
    return (
        attempt_of(declaration, position, services, batch_id) is not None
        or published_version(position, services, batch_id) is not None
    )


def published_version(position: Position, services: Services, batch_id: str) -> int | None:
    """The bookmark version that a batch was published as, None if it was not."""
    found = (m.bookmark_version for m in _manifests(position, services) if m.batch_id == batch_id)
    return next(found, None)


def _read_last(bookmark: Bookmark, uris: Collection[str], manifest: Manifest) -> set[str]:
    """Those of these objects that the manifest's batch was the last one to read."""
    known = bookmark.seen.lookup(uris)
    return {uri for uri, seen in known.items() if seen.bookmark_version == manifest.bookmark_version}


def _manifests(position: Position, services: Services) -> Iterator[Manifest]:
    return (manifest for manifest, _ in walk(services.state, position.target.bookmark))


def _rows(services: Services, batch_id: str, state: str, reference: Reference | None) -> list[RejectedRow]:
    if reference is None:
        return []
    table = pq.read_table(io.BytesIO(read_blob(services.state, reference)))
    return [RejectedRow(batch_id=batch_id, state=state, **row) for row in table.to_pylist()]
