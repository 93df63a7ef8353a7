"""Decides from evidence what became of a commit and whether a bookmark still stands on its table. Pure.

Rules: DESIGN §3. A snapshot that is merely present in the metadata proves nothing; only the tag, and the chain of
manifests behind it, say what was published.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True, slots=True)
class Node:
    """A snapshot as the walk sees it."""

    snapshot_id: int
    parent_id: int | None
    sequence_number: int


class Attachment(StrEnum):
    """How a context stands to its table."""

    FIRST_LOAD = "first load"
    ATTACHED = "attached"
    DETACHED = "detached"


def attachment(
    snapshots: Mapping[int, Node], *, main: int | None, tag: int | None, known: bool
) -> tuple[Attachment, str]:
    """Say whether the tag's snapshot is behind `main`, with the reason in words.

    `known`: the state folder or any snapshot summary says that this context was published before.
    """
    if tag is None:
        if known:
            return Attachment.DETACHED, "the context was published before, and its tag is gone"
        return Attachment.FIRST_LOAD, "no batch was ever published"
    anchor = snapshots.get(tag)
    if anchor is None or main is None:
        return Attachment.DETACHED, "the table has no current snapshot"
    node = snapshots.get(main)
    if node is None or node.sequence_number < anchor.sequence_number:
        return Attachment.DETACHED, "main is older than the bookmark: somebody rolled the table back"
    while node is not None:
        if node.snapshot_id == tag:
            return Attachment.ATTACHED, "the bookmark's snapshot is behind main"
        if node.sequence_number < anchor.sequence_number or node.parent_id is None:
            return Attachment.DETACHED, "main does not descend from the bookmark's snapshot"
        node = snapshots.get(node.parent_id)
    return Attachment.ATTACHED, "the history down to the bookmark's snapshot has expired"


class Outcome(StrEnum):
    """What became of a commit that was sent."""

    PUBLISHED = "published"
    LOST = "lost"
    DETACHED = "detached"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class SentCommit:
    """What a commit asserted when it was sent."""

    attempt_id: str
    table_uuid: str
    main: int | None
    tag: int | None
    schema_id: int
    spec_id: int
    sequence_number: int


@dataclass(frozen=True, slots=True)
class Observed:
    """What a reload shows. `attempts` are the attempt ids of the tag's snapshot and of its manifest chain."""

    table_uuid: str | None
    main: int | None
    tag: int | None
    schema_id: int | None
    spec_id: int | None
    last_sequence_number: int
    attempts: Collection[str]


def settle(sent: SentCommit, observed: Observed) -> Outcome:
    """Decide by reading back; UNDECIDED means that the commit may still land.

    LOST is an answer to "match again?", no proof of death: should a schema change be taken back, the first commit could
    land after all. Then its refs refuse the second one, which asserts the same; that is why its files are kept.
    """
    if observed.table_uuid != sent.table_uuid:
        return Outcome.DETACHED
    if sent.attempt_id in observed.attempts:
        return Outcome.PUBLISHED
    asserted = (sent.tag, sent.main, sent.schema_id, sent.spec_id)
    moved = (observed.tag, observed.main, observed.schema_id, observed.spec_id) != asserted
    if moved or observed.last_sequence_number >= sent.sequence_number:
        return Outcome.LOST
    return Outcome.UNDECIDED


def files_may_be_deleted(*, base_version: int, tag_version: int | None) -> bool:
    """Whether the files of an unpublished attempt are surely dead.

    Only once the tag exists and has moved past the version that the attempt started from: until then a paused writer
    or a commit in flight can still land and needs them.
    """
    return tag_version is not None and tag_version > base_version
