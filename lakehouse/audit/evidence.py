"""Gathers what there is to see of one source of a table after a load. Reads only.

The work is bounded whatever the history: the refs, the lease, one chain of manifests, the records of attempts, and a
few objects. The ledger is looked at for how far it has come, and never asked what happened.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime
from itertools import islice, takewhile
from typing import TYPE_CHECKING

from lakehouse import naming
from lakehouse.acceptance import Question, open_question
from lakehouse.attempt import AttemptRecord
from lakehouse.audit.attempts import open_attempts
from lakehouse.audit.diagnosis import SENT, Answer, Attempt, Evidence, Failure, Lease
from lakehouse.bookmark import UPKEEP, ruling_of
from lakehouse.errors import Detached, LakehouseError, OutcomeUnknown
from lakehouse.lease import read_lease
from lakehouse.lease_record import COMMIT, LeaseRecord
from lakehouse.ledger import ledger_head
from lakehouse.model import NEW_TABLE, Bookmark, Decision, Manifest, Seen, SeenObject, State
from lakehouse.position import Position, detached_target, find_position
from lakehouse.process import Process, is_gone, this_process
from lakehouse.services import Services
from lakehouse.state import walk
from lakehouse.storage import Storage, open_root
from lakehouse.target import Target

if TYPE_CHECKING:
    from lakehouse.declaration import Declaration

MOST_MANIFESTS = 300
"""So many of the newest manifests are looked through for a batch that has no folder under its source's name."""
MOST_SEEN = 300_000
"""A set of seen objects up to this size is looked through for quarantined ones; of a larger one, what changed last."""
MOST_QUARANTINED = 5
_RUN_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""Dagster's run ids are UUIDs; those of the command line begin with `cli-`."""


def gather(declaration: Declaration, services: Services) -> Evidence:
    """What there is to see. The lease comes first: a load that ends meanwhile is then called running, never broken
    off. Raises as `diagnose_source` does."""
    lease = read_lease(services.state, naming.lease(services.catalog_name, declaration.table))
    try:
        position = find_position(declaration, services)
    except Detached as error:
        return _gather_detached(declaration, _nothing(declaration, services), error, lease, services)
    with ThreadPoolExecutor(3, thread_name_prefix="diagnose") as beside:
        ledger = beside.submit(ledger_of, declaration, position.target, services)
        question = beside.submit(open_question, declaration, position, services)
        quarantined = beside.submit(_quarantined, declaration, position.bookmark, services)
        attempts = [*open_attempts(declaration, position, services)]
        head = next((manifest for manifest, _ in walk(services.state, position.target.bookmark)), None)
        asked = question.result()
    bookmark = position.bookmark
    evidence = replace(
        evidence_of(declaration, position, lease, attempts, asked, services),
        ledger=ledger.result(),
        accepted=sorted({one.gate for one in bookmark.accepted if one.declaration == declaration.hash}),
        quarantined=quarantined.result(),
    )
    facts = {
        **_target_facts(position.target, head),
        "ledger": f"ends at version {evidence.ledger} of {evidence.version}",
        **_lease_facts(declaration, lease, position.target, services),
        **(_attempt_facts(attempts, declaration, position.target, services)),
    }
    return replace(evidence, facts=facts)


def evidence_of(
    declaration: Declaration,
    position: Position,
    lease: LeaseRecord | None,
    attempts: Sequence[AttemptRecord],
    question: Question | None,
    services: Services,
) -> Evidence:
    """What the lease, the open attempts and the bookmark show, as far as loads and operators go: of a ledger that is as
    far as the bookmark."""
    return replace(
        _nothing(declaration, services),
        version=position.bookmark.version,
        ledger=position.bookmark.version,
        lease=_lease(declaration, lease, position.target, services),
        attempts=sorted(
            [*map(_attempt, attempts), *_unsettled(declaration, lease, position.target, services)],
            key=lambda one: one.ended_at,
            reverse=True,
        ),
        held=position.held.text if position.held else "",
        question=Answer(question.reason, question.next) if question else None,
    )


def _nothing(declaration: Declaration, services: Services) -> Evidence:
    return Evidence(
        table=declaration.table,
        context=declaration.context,
        several=len(declaration.contexts) > 1,
        now=services.now(),
    )


def _gather_detached(
    declaration: Declaration, nothing: Evidence, error: Detached, lease: LeaseRecord | None, services: Services
) -> Evidence:
    target, reason = detached_target(declaration, services)
    rewind = f"lakehouse bookmark rewind {shlex.quote(declaration.table)}{nothing.source} --to-table --reason TEXT"
    return replace(
        nothing,
        version=target.bookmark_version,
        ledger=target.bookmark_version,
        detached=Answer(reason or error.message, f"{rewind} && {nothing.load}"),
        facts={**_target_facts(target, None), **_lease_facts(declaration, lease, target, services)},
    )


def ledger_of(declaration: Declaration, target: Target, services: Services) -> int:
    return ledger_head(
        services.catalog,
        services.settings.ops_namespace,
        table_uuid=target.uuid,
        context=declaration.context,
    )


def _lease(declaration: Declaration, record: LeaseRecord | None, target: Target, services: Services) -> Lease | None:
    """The lease as far as it is about this source. A load that runs, or broke off before it began with one, is about
    all of them."""
    if record is None:
        return None
    holder = record.holder
    gone = record.interrupted or is_gone(holder.process, this_process())
    broken_off = not record.finished and (gone or services.now() >= record.expires_at)
    if broken_off and holder.context not in ("", declaration.context):
        return None
    failed = next((f for f in holder.failures if f.context == declaration.context), None)
    return Lease(
        run_id=holder.run_id,
        host=holder.process.host,
        pid=holder.process.pid,
        step=holder.step,
        batch_id=holder.batch_id,
        attempt_id=holder.attempt_id,
        command=holder.command,
        since=record.acquired_at,
        expires_at=record.expires_at,
        finished=record.finished,
        gone=gone,
        interrupted=record.interrupted,
        published=(failed is not None or not record.finished) and _is_published(record, target, services),
        failure=Failure(failed.step, failed.error, failed.exit_code, holder.command, failed.next, at=record.acquired_at)
        if failed
        else None,
    )


def _is_published(record: LeaseRecord, target: Target, services: Services) -> bool:
    """Whether what the holder was about is behind the tag: a change of an operator is known by its run."""
    holder = record.holder
    since = takewhile(lambda manifest: manifest.written_at >= record.acquired_at, newest_manifests(target, services))
    if holder.attempt_id:
        return any(manifest.attempt_id == holder.attempt_id for manifest in since)
    return any(manifest.run_id == holder.run_id for manifest in since)


def _unsettled(
    declaration: Declaration, record: LeaseRecord | None, target: Target, services: Services
) -> Iterator[Attempt]:
    """Loads that were killed with a commit on its way and left no record: others hold their lease by now. A batch or an
    operator that has moved the bookmark since has answered them."""
    open_ones = [one for one in record.unsettled if one.context == declaration.context] if record else []
    if not open_ones:
        return
    manifests = [*newest_manifests(target, services)]
    published = {manifest.attempt_id for manifest in manifests}
    moved = next((manifest.written_at for manifest in manifests if manifest.kind not in UPKEEP), None)
    for sent in open_ones:
        if sent.attempt_id in published or (moved is not None and moved > sent.last_seen):
            continue
        yield Attempt(
            attempt_id=sent.attempt_id,
            batch_id=sent.batch_id,
            run_id=sent.run_id,
            state=State.UNKNOWN.value,
            ended_at=sent.last_seen,
            failure=Failure(
                COMMIT,
                f"its process was killed or has died; {SENT}",
                OutcomeUnknown.exit_code,
                sent.command,
                at=sent.last_seen,
            ),
        )


def _attempt(record: AttemptRecord) -> Attempt:
    return Attempt(
        attempt_id=record.attempt_id,
        batch_id=record.batch_id,
        run_id=record.run_id,
        state=record.state.value,
        ended_at=record.ended_at,
        failure=Failure(record.step, record.error, record.exit_code, record.command, record.next, at=record.ended_at),
        refused=tuple(gate.name for gate in record.gates if gate.stops),
    )


def _quarantined(declaration: Declaration, bookmark: Bookmark, services: Services) -> list[tuple[str, str]]:
    """Some objects that could not be read, that no operator has skipped, and that are listed as they were."""
    landing = open_root(declaration.source.uri, services.env)
    there = (
        (item.object.uri, item.reason)
        for item in _unread(bookmark)
        if ruling_of(bookmark, item.object) is None and _is_there(item, landing)
    )
    return [*islice(there, MOST_QUARANTINED)]


def _is_there(item: SeenObject, landing: Storage) -> bool:
    """Whether the object is listed as it was. It counts while nobody can list it: other evidence is to be told too."""
    try:
        found = [one.identity for one in islice(landing.list(landing.key(item.object.uri)), 10)]
    except LakehouseError:
        return True
    return item.object.identity in found


def _unread(bookmark: Bookmark) -> Iterator[SeenObject]:
    seen = bookmark.seen if bookmark.seen.store.size <= MOST_SEEN else Seen(bookmark.seen.changes)
    days = {day for day, decision in seen.tallies() if decision is Decision.QUARANTINED}
    return (item for item in seen.of_dates(days) if item.decision is Decision.QUARANTINED) if days else iter(())


def _target_facts(target: Target, head: Manifest | None) -> dict[str, str]:
    tag, main = target.tag, target.main
    facts = {
        "table": f"uuid {target.uuid}" if target.table is not None else "does not exist",
        "tag": f"{naming.tag(target.context)} at version {target.bookmark_version}, snapshot {tag.snapshot_id}"
        if tag
        else f"{naming.tag(target.context)} is not there",
        "main": f"snapshot {main.snapshot_id}" if main else "no snapshot",
    }
    if head is not None:
        facts["newest batch"] = (
            f"{head.batch_id} ({head.kind}), written at {time_text(head.written_at)} by {run_text(head.run_id)}"
        )
    return facts


def _lease_facts(
    declaration: Declaration, record: LeaseRecord | None, target: Target, services: Services
) -> dict[str, str]:
    if record is None:
        return {"lease": "none was ever taken"}
    holder = record.holder
    text = f"taken at {time_text(record.acquired_at)} by process {holder.process.pid} of host {holder.process.host}"
    if record.finished:
        text = f"free; last {text}, released at step {holder.step or '-'}"
        return {"lease": text, "run": run_text(holder.run_id)}
    until = "interrupted" if record.interrupted else f"expires at {time_text(record.expires_at)}"
    facts = {
        "lease": f"{text}, {until}, step {holder.step or '-'}"
        + (f", source {holder.context}" if holder.context else ""),
        "process": _presence(holder.process),
        "run": run_text(holder.run_id),
    }
    if holder.attempt_id:
        folders = [
            root + naming.batch_folder(holder.context or declaration.context, holder.batch_id, holder.attempt_id)
            for root in state_folders(declaration, target, services)
        ]
        files = [item.uri for folder in folders for item in islice(services.state.list(folder), 10)]
        facts["attempt"] = f"{holder.attempt_id} at batch {holder.batch_id}: " + (
            ", ".join(files) or "no manifest is written"
        )
    return facts


def _attempt_facts(
    attempts: Sequence[AttemptRecord], declaration: Declaration, target: Target, services: Services
) -> dict[str, str]:
    if not attempts:
        return {}
    newest = attempts[0]
    root = state_folders(declaration, target, services)[0]
    facts = {
        "ended attempt": f"{newest.attempt_id} at batch {newest.batch_id}: {newest.state.value} at step {newest.step}, "
        f"{time_text(newest.ended_at)}, by {run_text(newest.run_id)}",
        "record": services.state.uri(root + naming.attempt_record(newest.attempt_id)),
    }
    if newest.staging:
        facts["staged rows"] = newest.staging
    if newest.rejects is not None:
        facts["rejects"] = newest.rejects.uri
    if len(attempts) > 1:
        facts["attempts"] = f"{len(attempts)} have ended unpublished on this version"
    return facts


def state_folders(declaration: Declaration, target: Target, services: Services) -> list[str]:
    """The state folders of this life of the table, and of before it was made."""
    lives = dict.fromkeys([target.uuid, NEW_TABLE])
    return [naming.incarnation_root(services.catalog_name, declaration.table, life) for life in lives]


def newest_manifests(target: Target, services: Services) -> Iterator[Manifest]:
    return (manifest for manifest, _ in islice(walk(services.state, target.bookmark), MOST_MANIFESTS))


def _presence(process: Process) -> str:
    here = this_process()
    if is_gone(process, here):
        return f"{process.pid} of host {process.host} is gone"
    if (process.host, process.boot, process.pid_space) == (here.host, here.boot, here.pid_space):
        return f"{process.pid} of host {process.host} is there"
    return f"{process.pid} of host {process.host} cannot be seen from here ({here.host})"


def run_text(run_id: str) -> str:
    if not run_id:
        return "no run"
    return f"Dagster run {run_id}" if _RUN_ID.fullmatch(run_id) else f"run {run_id}"


def time_text(moment: datetime) -> str:
    return moment.isoformat(sep=" ", timespec="seconds")
