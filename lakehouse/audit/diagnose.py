"""Says what became of a load, or of one batch, from what there is to see of it. Reads only.

Which state the evidence means is `lakehouse.audit.diagnosis`'s to say.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from itertools import islice
from typing import TYPE_CHECKING

from lakehouse import naming
from lakehouse.attempt import AttemptRecord
from lakehouse.audit.attempts import attempt_records
from lakehouse.audit.diagnosis import Condition, Diagnosis, Evidence, diagnose_evidence
from lakehouse.audit.evidence import (
    MOST_MANIFESTS,
    gather,
    ledger_of,
    newest_manifests,
    run_text,
    state_folders,
    time_text,
)
from lakehouse.bookmark import LOAD
from lakehouse.lease import read_lease
from lakehouse.ledger import standing_of
from lakehouse.manifest import decode_manifest
from lakehouse.model import Manifest
from lakehouse.position import detached_target
from lakehouse.services import Services
from lakehouse.state import find_version
from lakehouse.target import Target

if TYPE_CHECKING:
    from lakehouse.declaration import Declaration


def diagnose_source(declaration: Declaration, services: Services) -> Diagnosis:
    """Which state holds for one source of a table. Raises what `find_position` raises, but Detached."""
    return diagnose_evidence(gather(declaration, services))


def diagnose_batch(declaration: Declaration, batch_id: str, services: Services) -> Diagnosis | None:
    """What became of one batch of a source, None if nothing knows it there. Raises as `detached_target` does."""
    target, _ = detached_target(declaration, services)
    batch = _Batch.find(declaration, target, batch_id, services)
    if batch.published is not None:
        return _committed(declaration, target, batch.published, services)
    lease = read_lease(services.state, naming.lease(services.catalog_name, declaration.table))
    under_way = lease is not None and lease.holder.batch_id == batch_id and not lease.finished
    if batch.base_version is None and not under_way:
        return None
    if under_way or batch.base_version == target.bookmark_version:
        return _open_batch(declaration, batch_id, services)
    return _overtaken(declaration, target, batch, services)


def near_batches(declaration: Declaration, batch_id: str, services: Services) -> list[str]:
    """Ids that batches of a source have and that resemble this one: of those that begin alike, and of the newest."""
    target, _ = detached_target(declaration, services)
    folders = [
        root + naming.batches_folder(declaration.context) for root in state_folders(declaration, target, services)
    ]
    known = {manifest.batch_id for manifest in newest_manifests(target, services)}
    known |= {record.batch_id for record in attempt_records(declaration, target, services)}
    for length in (8, 4, 2):
        for folder in folders:
            items = islice(services.state.list(folder + batch_id[:length]), MOST_MANIFESTS)
            known |= {services.state.key(item.uri).removeprefix(folder).partition("/")[0] for item in items}
    return get_close_matches(batch_id, sorted(known - {batch_id}), n=3)


@dataclass(frozen=True, slots=True)
class _Batch:
    """What is known of one batch: its manifest behind the tag, or what attempts at it have left."""

    batch_id: str
    published: Manifest | None
    records: Sequence[AttemptRecord]
    unpublished: Sequence[Manifest]

    @property
    def base_version(self) -> int | None:
        """The bookmark version that the attempts started from, None without any."""
        found = [r.bookmark_version for r in self.records] + [m.bookmark_version - 1 for m in self.unpublished]
        return max(found, default=None)

    @classmethod
    def find(cls, declaration: Declaration, target: Target, batch_id: str, services: Services) -> _Batch:
        written = [*_manifests(declaration, target, batch_id, services)]
        for manifest in written:
            found = find_version(services.state, target.bookmark, manifest.bookmark_version)
            if found is not None and found[0].attempt_id == manifest.attempt_id:
                return cls(batch_id, found[0], (), ())
        records = [r for r in attempt_records(declaration, target, services) if r.batch_id == batch_id]
        if not written and not records:  # published under another name of the bookmark?
            return cls(
                batch_id, next((m for m in newest_manifests(target, services) if m.batch_id == batch_id), None), (), ()
            )
        return cls(batch_id, None, records, written)


def _committed(declaration: Declaration, target: Target, manifest: Manifest, services: Services) -> Diagnosis:
    version = manifest.bookmark_version
    snapshot = standing_of(target).snapshot_ids.get(version)
    ledger = ledger_of(declaration, target, services)
    what = f"{len(manifest.objects)} objects" if manifest.kind == LOAD else manifest.kind
    at = f"snapshot {snapshot}" if snapshot is not None else "a snapshot that has expired"
    why = (
        f"batch {manifest.batch_id} is committed at version {version}, {at}: {what}, {manifest.rows.inserted} rows "
        f"inserted, {manifest.rows.updated} updated"
    )
    facts = {
        "batch": f"version {version}, written at {time_text(manifest.written_at)}, attempt {manifest.attempt_id}",
        "run": run_text(manifest.run_id),
        "snapshot": str(snapshot or "expired"),
        "ledger": f"ends at version {ledger} of {target.bookmark_version}",
    }
    behind = Evidence(
        table=declaration.table,
        context=declaration.context,
        several=len(declaration.contexts) > 1,
        now=services.now(),
        version=version,
        ledger=ledger,
        facts=facts,
    )
    found = diagnose_evidence(behind)
    return replace(found, why=why if found.state is Condition.NOTHING else f"{why}; {found.why}")


def _open_batch(declaration: Declaration, batch_id: str, services: Services) -> Diagnosis:
    """The state of the source as far as it is this batch's."""
    evidence = gather(declaration, services)
    own = [attempt for attempt in evidence.attempts if attempt.batch_id == batch_id]
    lease = evidence.lease if evidence.lease and evidence.lease.batch_id == batch_id else None
    found = diagnose_evidence(replace(evidence, attempts=own, lease=lease, quarantined=()))
    if found.state is Condition.NOTHING:
        return replace(
            found, why=f"batch {batch_id} was attempted and is not in the table; a later load did without it"
        )
    return found


def _overtaken(declaration: Declaration, target: Target, batch: _Batch, services: Services) -> Diagnosis:
    base = batch.base_version
    assert base is not None
    after = find_version(services.state, target.bookmark, base + 1)
    last = next(iter(batch.records), None)
    ended = f"ended {last.state.value} at step {last.step}: {last.error}" if last else "wrote its manifest and no more"
    by = "another history of the table"
    facts = {"attempts": ", ".join([r.attempt_id for r in batch.records] or [m.attempt_id for m in batch.unpublished])}
    if after is not None:
        manifest = after[0]
        by = f"batch {manifest.batch_id} ({manifest.kind}), version {manifest.bookmark_version}"
        read = {item.object.identity for item in manifest.objects}
        wanted = last.objects if last else [item.object.identity for item in batch.unpublished[0].objects]
        if manifest.kind == LOAD:
            by += f", which read {sum(item in read for item in wanted)} of its {len(wanted)} objects"
        facts["superseded by"] = by
    if last:
        facts |= {"ended": time_text(last.ended_at), "run": run_text(last.run_id)}
    return Diagnosis(
        table=declaration.table,
        context=declaration.context,
        state=Condition.NOTHING,
        why=f"batch {batch.batch_id} was attempted on version {base} and not published: it {ended}; superseded by {by}",
        next="",
        evidence=facts,
    )


def _manifests(declaration: Declaration, target: Target, batch_id: str, services: Services) -> Iterator[Manifest]:
    """Those that attempts at a batch have written, published or not."""
    for root in state_folders(declaration, target, services):
        folder = root + naming.batches_folder(declaration.context) + f"{batch_id}/"
        keys = [services.state.key(item.uri) for item in services.state.list(folder)]
        wanted = [key for key in keys if key.endswith("/" + naming.manifest_name())]
        yield from (decode_manifest(data) for data in services.state.read_many(wanted) if data is not None)
