"""The one step that writes the target: one snapshot, the tag and all requirements in a single `commit_table`.

After an error of a sent commit the table is read back and decides; the error's class, which differs by catalog, is
asked only where the table leaves open whether the commit is still under way. Never retries a commit: a lost one is
planned and matched again by the caller. Never deletes a file.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from uuid import UUID

from pyiceberg.catalog import Catalog
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.manifest import DataFile
from pyiceberg.table import Table
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType
from pyiceberg.table.update import (
    AssertCurrentSchemaId,
    AssertDefaultSpecId,
    AssertLastAssignedFieldId,
    AssertRefSnapshotId,
    AssertTableUUID,
    RemoveSnapshotRefUpdate,
    RemoveSnapshotsUpdate,
    SetSnapshotRefUpdate,
    TableRequirement,
    TableUpdate,
)

from lakehouse import naming
from lakehouse.catalog import load_table, translated, was_refused
from lakehouse.errors import ConfigurationError, Detached, LakehouseError, OutcomeUnknown, RetryLater, TargetDamaged
from lakehouse.evolve import SchemaChange, with_schema
from lakehouse.faults import fault_point
from lakehouse.iceberg import LiveFiles, SnapshotDraft, draft_restored, draft_snapshot
from lakehouse.model import Reference, RowCounts
from lakehouse.recover import Observed, Outcome, SentCommit, settle
from lakehouse.target import Target, look, summary

KEEP_FOR_EVER = 2**63 - 1
"""Max ref age of the tag in milliseconds: a table's own default would let another engine's expiry drop it."""
SETTLE_POLLS = 10


@dataclass(frozen=True, slots=True)
class Renamed:
    """The bookmark that goes on under the target's context: its own context, and the snapshot of its tag."""

    context: str
    snapshot_id: int


@dataclass(frozen=True, slots=True)
class Change:
    """What one batch changes: data and delete files to add, paths of either to drop, the table's schema, and the
    bookmark that stands for it. `renamed` is a bookmark whose tag goes with the same commit; `restored` are the files
    of an earlier snapshot, which are all that it leaves. `expired` are snapshots that leave the table's history with
    this commit, and no ref may have moved to one of them."""

    attempt_id: str
    batch_id: str
    bookmark_version: int
    manifest: Reference
    rows: RowCounts
    added: Sequence[DataFile] = ()
    removed: frozenset[str] = frozenset()
    schema: SchemaChange | None = None
    maintain: str = ""
    """What upkeep this is, for the summary; empty for a load."""
    renamed: Renamed | None = None
    restored: LiveFiles | None = None
    expired: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class Published:
    """The snapshot that carries the batch; None if others committed first and the batch must be matched again."""

    snapshot_id: int | None


def publish(
    catalog: Catalog,
    target: Target,
    change: Change,
    *,
    live: LiveFiles,
    attempts_after: Callable[[Reference, int], Collection[str]],
    pause: Callable[[float], None],
    sending: Callable[[], None] | None = None,
) -> Published:
    """Commit a change on the refs and the schema that `target` saw; its table is as the catalog gave it.

    `attempts_after(head, version)` reads the attempt ids of the manifest chain from `head` back to `version`; `pause`
    waits some seconds between two looks; `sending` is called right before the commit is sent, and a process that dies
    after it may have published. Raises Detached, or OutcomeUnknown if reading back settles nothing.
    """
    table = target.table
    if table is None:
        raise ValueError("publish needs a table")
    draft = _draft(table, target, change, live)
    sent = SentCommit(
        attempt_id=change.attempt_id,
        table_uuid=target.uuid,
        main=target.main.snapshot_id if target.main else None,
        tag=target.tag.snapshot_id if target.tag else None,
        schema_id=table.metadata.current_schema_id,
        spec_id=table.metadata.default_spec_id,
        sequence_number=draft.sequence_number,
    )
    fault_point("before_publish")
    if sending is not None:
        sending()
    try:
        catalog.commit_table(table, _requirements(catalog, target, change, draft), _updates(target, change, draft))
    except Exception as error:
        outcome = _read_back(
            catalog, target, change, sent, refused=was_refused(error), attempts_after=attempts_after, pause=pause
        )
        if outcome is Outcome.UNDECIDED:
            raise OutcomeUnknown(
                f"table {target.name}: the commit was sent and nobody can say whether it landed: "
                f"batch={change.batch_id} attempt={change.attempt_id} error={type(error).__name__}",
                next=f"lakehouse load {target.name}   # decides by reading the table; nothing can be doubled",
            ) from error
        if outcome is Outcome.LOST:
            return Published(None)
    fault_point("after_publish")
    if target.tag is None:
        _check_first_publish(catalog, target, change, draft)
    return Published(draft.snapshot_id)


def _draft(table: Table, target: Target, change: Change, live: LiveFiles) -> SnapshotDraft:
    commit, properties = UUID(hex=change.attempt_id), _summary(target, change)
    with translated(f"table={target.name}"):
        if change.restored is not None:
            return draft_restored(table, commit_uuid=commit, properties=properties, live=live, restored=change.restored)
        return draft_snapshot(
            with_schema(table, change.schema),
            commit_uuid=commit,
            properties=properties,
            live=live,
            removed=change.removed,
            added=change.added,
        )


def _summary(target: Target, change: Change) -> dict[str, str]:
    properties = {
        naming.BATCH_ID: change.batch_id,
        naming.ATTEMPT_ID: change.attempt_id,
        naming.CONTEXT: target.context,
        naming.BOOKMARK_VERSION: str(change.bookmark_version),
        naming.MANIFEST: change.manifest.uri,
        naming.MANIFEST_SHA256: change.manifest.sha256,
    }
    if change.maintain:
        properties[naming.MAINTAIN] = change.maintain
    if change.renamed is not None:
        properties[naming.RENAMED_FROM] = change.renamed.context
    return properties | {naming.rows_key(name): str(count) for name, count in change.rows.as_dict().items()}


def _updates(target: Target, change: Change, draft: SnapshotDraft) -> tuple[TableUpdate, ...]:
    """The new schema comes first: the snapshot names it."""
    schema = change.schema.updates if change.schema else ()
    old = change.renamed
    gone = (RemoveSnapshotRefUpdate(ref_name=naming.tag(old.context)),) if old else ()
    expired = (RemoveSnapshotsUpdate(snapshot_ids=list(change.expired)),) if change.expired else ()
    return (*schema, *draft.updates, _move_tag(target, draft), *gone, *expired)


def _requirements(
    catalog: Catalog, target: Target, change: Change, draft: SnapshotDraft
) -> tuple[TableRequirement, ...]:
    """What must not have changed since `target` was seen: of its schema, what stood before any change of ours."""
    assert target.table is not None
    metadata = target.table.metadata
    asserted: list[TableRequirement] = [
        AssertTableUUID(uuid=metadata.table_uuid),
        *draft.requirements,
        AssertCurrentSchemaId(current_schema_id=metadata.current_schema_id),
        AssertDefaultSpecId(default_spec_id=metadata.default_spec_id),
    ]
    if change.schema is not None:
        asserted.append(AssertLastAssignedFieldId(last_assigned_field_id=change.schema.base_last_column_id))
    # PyIceberg's own check of requirements refuses any tag on a table without snapshots; a server does not.
    if metadata.snapshots or isinstance(catalog, RestCatalog):
        tag = target.tag.snapshot_id if target.tag else None
        asserted.append(AssertRefSnapshotId(ref=naming.tag(target.context), snapshot_id=tag))
    if (old := change.renamed) is not None:
        asserted.append(AssertRefSnapshotId(ref=naming.tag(old.context), snapshot_id=old.snapshot_id))
    if change.expired:
        ours = (MAIN_BRANCH, naming.tag(target.context))
        others = {name: ref for name, ref in metadata.refs.items() if name not in ours}
        asserted += [AssertRefSnapshotId(ref=name, snapshot_id=ref.snapshot_id) for name, ref in others.items()]
    return tuple(asserted)


def _move_tag(target: Target, draft: SnapshotDraft) -> SetSnapshotRefUpdate:
    return SetSnapshotRefUpdate(
        ref_name=naming.tag(target.context),
        type=SnapshotRefType.TAG,
        snapshot_id=draft.snapshot_id,
        max_ref_age_ms=KEEP_FOR_EVER,
        max_snapshot_age_ms=None,
        min_snapshots_to_keep=None,
    )


def _read_back(
    catalog: Catalog,
    target: Target,
    change: Change,
    sent: SentCommit,
    *,
    refused: bool,
    attempts_after: Callable[[Reference, int], Collection[str]],
    pause: Callable[[float], None],
) -> Outcome:
    """Look at the table until it settles the commit or the bound is reached.

    `refused`: the catalog said that this request changed nothing. A conflict need not move a ref: others may have
    expired snapshots or set a property. The next attempt asserts the same refs, so at most one of the two lands.
    """
    for poll in range(SETTLE_POLLS):
        if poll:
            pause(min(0.2 * 2**poll, 5.0))
        try:
            now = look(target.name, target.context, load_table(catalog, target.name))
            outcome = settle(sent, _observe(now, change, attempts_after))
        except (RetryLater, ConfigurationError):
            continue  # also credentials that expired since: they say nothing of the commit
        if outcome is Outcome.UNDECIDED and refused:
            return Outcome.LOST
        if outcome is Outcome.DETACHED:
            raise Detached(f"table {target.name} was dropped or replaced during the commit: uuid was {sent.table_uuid}")
        if outcome is not Outcome.UNDECIDED:
            return outcome
    return Outcome.UNDECIDED


def _observe(now: Target, change: Change, attempts_after: Callable[[Reference, int], Collection[str]]) -> Observed:
    attempts: set[str] = set()
    if now.tag is not None:
        attempts.add(summary(now.tag).get(naming.ATTEMPT_ID, ""))
        if now.bookmark is not None and now.bookmark_version > change.bookmark_version:
            attempts.update(attempts_after(now.bookmark, change.bookmark_version))
    return Observed(
        table_uuid=now.uuid if now.table else None,
        main=now.main.snapshot_id if now.main else None,
        tag=now.tag.snapshot_id if now.tag else None,
        schema_id=now.table.metadata.current_schema_id if now.table else None,
        spec_id=now.table.metadata.default_spec_id if now.table else None,
        last_sequence_number=_last_sequence_number(now),
        attempts=attempts,
    )


def _last_sequence_number(now: Target) -> int:
    """Format version 1 numbers every snapshot 0; there the refs alone decide."""
    return int(getattr(now.table.metadata, "last_sequence_number", -1)) if now.table else 0


def _check_first_publish(catalog: Catalog, target: Target, change: Change, draft: SnapshotDraft) -> None:
    """A catalog that drops one of the two refs silently would lose the bookmark, and one that keeps the tag of a
    renamed one would have it twice: find out at once (DESIGN §3)."""
    try:
        now = look(target.name, target.context, load_table(catalog, target.name))
    except LakehouseError:
        return  # the commit was acknowledged; the next load checks the refs again before it plans
    nodes = now.nodes
    if draft.snapshot_id in nodes and now.tag is None:
        raise TargetDamaged(f"table {target.name}: the catalog accepted the commit and did not keep the bookmark's tag")
    if change.renamed and now.tag is not None and change.renamed.context in now.bookmarks:
        raise TargetDamaged(
            f"table {target.name}: the catalog accepted the commit and kept the tag of {change.renamed.context}",
            next=f"alter table {target.name} drop tag `{naming.tag(change.renamed.context)}`",
        )
