"""Finds files that nothing refers to, below a table's location, in its state folder and in the ledger's tables, and
deletes those that nothing can ever refer to.

A file of an attempt of ours goes once its bookmark has moved past the version that the attempt started from. Where that
is not known, a fence is published first, an empty snapshot: every commit of ours asserts the `main` that it has seen
before it wrote its first file, so none that was under way then can land. Everything else, which other writers left
there, goes by its age alone. What is neither is told, and kept.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from pyiceberg.table import Table

from lakehouse.bookmark import FENCE
from lakehouse.catalog import translated
from lakehouse.errors import UsageError
from lakehouse.faults import fault_point
from lakehouse.iceberg import PARALLEL_READS
from lakehouse.ledger import LEDGERS
from lakehouse.ledger.tables import find_ledger
from lakehouse.maintain.attempts import StateObject, look_at_attempts, state_objects
from lakehouse.maintain.expiry import publish_empty, refuse_kept_files, table_of
from lakehouse.maintain.listing import StoredFile, list_files, place_of
from lakehouse.maintain.reach import metadata_files, needed_by
from lakehouse.maintain.removal import inside, remove_files
from lakehouse.model import State
from lakehouse.operate.operator_change import Operator, acting, decide, stand_now
from lakehouse.position import Position, find_position
from lakehouse.services import Services

if TYPE_CHECKING:
    from lakehouse.declaration import Declaration

DEFAULT_AGE = timedelta(days=3)
LEAST_AGE = timedelta(days=1)
"""A commit of another writer can be under way for long, and nothing of ours makes it fail: as Spark has it."""
_DATA = re.compile(r"(?:^|[/-])[0-9a-f]{32}/([0-9a-f]{32})/(?:deletes-)?[0-9]{5,}\.parquet$")
_UUID = "([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})"
_MANIFEST = re.compile(rf"(?:^|/)(?:snap-[0-9]+-[0-9]+-{_UUID}|{_UUID}-m[0-9]+)\.avro$")
_ENDINGS = (".parquet", ".orc", ".avro", ".puffin", ".stats")
_GZIP = b"\x1f\x8b"
_METADATA = (".metadata.json", ".metadata.json.gz")


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file that nothing refers to: what it is of, or why it is kept."""

    uri: str
    bytes: int
    why: str


@dataclass(frozen=True, slots=True)
class Orphans:
    """What nothing refers to. `state`: committed where a fence was published or a file removed; nothing_to_do else, and
    for a dry run. `removed` would be removed by a dry run; `kept` are uncertain. `fence`: whether one was, or would be,
    published."""

    table: str
    context: str
    state: State
    dry_run: bool
    bookmark_version: int
    snapshot_id: int | None
    fence: bool = False
    removed: tuple[FoundFile, ...] = ()
    kept: tuple[FoundFile, ...] = ()
    warnings: tuple[str, ...] = ()
    bytes: int = 0
    ledger: str = "ok"
    next: str = ""


@dataclass(frozen=True, slots=True)
class _Listed:
    """What lay there before the fence."""

    files: Sequence[StoredFile]
    objects: Sequence[StateObject]


@dataclass(frozen=True, slots=True)
class _Verdicts:
    """Files that go now, those that go behind a fence, and those that are kept."""

    gone: tuple[FoundFile, ...] = ()
    fenced: tuple[FoundFile, ...] = ()
    kept: tuple[FoundFile, ...] = ()


def remove_orphans(
    declaration: Declaration,
    services: Services,
    operator: Operator,
    *,
    older_than: timedelta | None = None,
    dry_run: bool = False,
) -> Orphans:
    """Delete what nothing refers to; of other writers' files those older than `older_than`. A dry run only lists.

    Raises UsageError for an age below a day and for a table without a bookmark of ours, DataError where the chain of
    manifests is damaged, what `find_position` raises, LeaseHeld, and Conflict if others always commit first.
    """
    age = DEFAULT_AGE if older_than is None else older_than
    if age < LEAST_AGE:
        raise UsageError(
            f"--older-than: a commit of another writer may be under way for a day: {age}",
            next=f"lakehouse maintain {declaration.table} orphans --older-than 1d",
        )
    declaration = acting(declaration, services)

    def once() -> Orphans | None:
        before = services.now() - age
        table = table_of(find_position(declaration, services))
        refuse_kept_files(table)
        listed = _Listed(list_files(table), state_objects(declaration, table, services))
        position = find_position(declaration, services)
        found = _judge(declaration, position, listed, services, before=before)
        fence = bool(found.fenced)
        if fence and not dry_run:
            if publish_empty(declaration, position, operator, services, kind=FENCE) is None:
                return None
            position = find_position(declaration, services)
            found = _judge(declaration, position, listed, services, before=before)
        ledgers = _ledger_orphans(services, before=before)
        told = _report(declaration, position, found, [one for _, one in ledgers], fence=fence, dry_run=dry_run)
        if dry_run or not (fence or told.removed):
            return told
        fault_point("before_removal")
        _remove(table_of(position), [*found.gone, *found.fenced], listed.objects, services)
        for ledger, verdicts in ledgers:
            remove_files(ledger, [file.uri for file in verdicts.gone])
        now = stand_now(declaration, services)
        return replace(told, bookmark_version=now.bookmark_version, snapshot_id=now.snapshot_id, ledger=now.ledger)

    return decide(declaration, operator, services, "orphans", once, dry_run=dry_run)


def _judge(
    declaration: Declaration, position: Position, listed: _Listed, services: Services, *, before: datetime
) -> _Verdicts:
    table = table_of(position)
    attempts, history = look_at_attempts(declaration, position, listed.objects, services, before=before)
    gone: list[FoundFile] = []
    fenced: list[FoundFile] = []
    kept: list[FoundFile] = []
    for item in listed.objects:
        if item.key in history:
            gone.append(FoundFile(item.uri, item.size, "record of an attempt that is history"))
        elif item.attempt and item.attempt not in attempts.published and item.uri not in attempts.referred:
            proven = attempts.proven(item.attempt)
            (gone if proven else fenced).append(FoundFile(item.uri, item.size, "state of an unpublished attempt"))
    protected = tuple(dict.fromkeys([*(source.uri for source in declaration.every_source), services.state.uri("")]))
    known = {item.attempt for item in listed.objects} | attempts.published
    for file, why, attempt in _strays(table, listed.files, known, protected, before=before):
        told = FoundFile(file.uri, file.size, why)
        if attempt is None:
            kept.append(told)
        else:
            (gone if not attempt or attempts.proven(attempt) else fenced).append(told)
    return _Verdicts(tuple(gone), tuple(fenced), tuple(kept))


def _strays(
    table: Table,
    files: Sequence[StoredFile],
    known: frozenset[str] | set[str],
    protected: tuple[str, ...],
    *,
    before: datetime,
) -> Iterator[tuple[StoredFile, str, str | None]]:
    """Files below the table's folders that no snapshot needs, with a word, and the attempt of ours that wrote them;
    empty for what goes by its age, None for what stays."""
    needed = {
        place_of(table.io, uri) for uri in (*needed_by(table, table.metadata.snapshots).paths, *metadata_files(table))
    }
    loose = [file for file in files if file.place not in needed]
    deletable = set(inside(table, (file.uri for file in loose))[0])
    roots = _other_tables(table, loose)
    for file in loose:
        attempt = _attempt_of(table, file, known)
        if file.uri.startswith(protected):
            continue
        if any(file.place.startswith(root) for root in roots):
            yield file, "another table has its metadata here", None
        elif file.uri not in deletable:
            yield file, "no address that can be deleted safely", None
        elif attempt:
            yield file, "file of an attempt of ours", attempt
        elif (why := _why_kept(table, file, before=before)) is not None:
            yield file, why, None
        else:
            yield file, "file of another writer or old metadata", ""


def _attempt_of(table: Table, file: StoredFile, known: frozenset[str] | set[str]) -> str:
    """The attempt of ours that wrote a file; empty for others. Outside the table's location another table may write
    the same names, so there only the attempts of this one count."""
    if (found := _MANIFEST.search(file.below)) is not None:
        attempt = (found[1] or found[2]).replace("-", "")
        return attempt if attempt in known else ""
    if (found := _DATA.search(file.below)) is None:
        return ""
    at_home = file.uri.startswith(table.location().rstrip("/") + "/")
    return found[1] if at_home or found[1] in known else ""


def _why_kept(table: Table, file: StoredFile, *, before: datetime) -> str | None:
    """Why a file of another writer stays; None if it goes."""
    provider, home = table.location_provider(), table.location().rstrip("/") + "/"
    folders = tuple(place.rstrip("/") + "/" for place in (provider.data_path, provider.metadata_path))
    name = file.below.rpartition("/")[2]
    if not file.uri.startswith(home):
        return "outside the table's location: other tables may write here"
    if not file.uri.startswith(folders):
        return "neither among data nor among metadata"
    if name.startswith((".", "_")) or not name.endswith((*_ENDINGS, *_METADATA)):
        return "no file of a table"
    if file.modified is None or file.modified >= before:
        return "too young: its writer may still commit it"
    return None


def _other_tables(table: Table, loose: Sequence[StoredFile]) -> tuple[str, ...]:
    """Folders, as places, that other tables call their own: they have metadata files there."""
    ours = place_of(table.io, table.location_provider().metadata_path).rstrip("/")
    roots = set()
    here = []
    for file in loose:
        if not file.place.endswith(_METADATA):
            continue
        folder = file.place.rpartition("/")[0]
        if folder == ours:
            here.append(file)
        else:
            roots.add(folder.rpartition("/")[0] + "/")
    uuid = str(table.metadata.table_uuid)
    with ThreadPoolExecutor(PARALLEL_READS) as pool:
        if any(found != uuid for found in pool.map(lambda file: _uuid_in(table, file), here)):
            roots.add("")  # the folder is another table's too, or was: of no file can be said whose it is
    return tuple(sorted(roots))


def _uuid_in(table: Table, file: StoredFile) -> str:
    """The uuid in a metadata file; empty if nobody can read it."""
    with translated(f"file={file.uri}"), table.io.new_input(file.uri).open() as stream:
        data = stream.read()
    try:
        if data.startswith(_GZIP):
            data = gzip.decompress(data)
        return str(json.loads(data).get("table-uuid", ""))
    except (ValueError, AttributeError, EOFError, OSError):
        return ""


def _ledger_orphans(services: Services, *, before: datetime) -> list[tuple[Table, _Verdicts]]:
    """Loads of all tables write the ledger, under no lease: its files go by their age."""
    found = []
    for name in LEDGERS:
        listed = find_ledger(services.catalog, services.settings.ops_namespace, name)
        if listed is None:
            continue
        files = list_files(listed)
        ledger = find_ledger(services.catalog, services.settings.ops_namespace, name)
        if ledger is None or ledger.metadata.table_uuid != listed.metadata.table_uuid:
            continue
        strays = [*_strays(ledger, files, frozenset(), (services.state.uri(""),), before=before)]
        gone = tuple(FoundFile(f.uri, f.size, f"ledger: {why}") for f, why, attempt in strays if attempt == "")
        kept = tuple(FoundFile(f.uri, f.size, f"ledger: {why}") for f, why, attempt in strays if attempt is None)
        found.append((ledger, _Verdicts(gone=gone, kept=kept)))
    return found


def _remove(table: Table, files: Sequence[FoundFile], objects: Sequence[StateObject], services: Services) -> None:
    keys = {item.uri: item.key for item in objects}
    remove_files(table, [file.uri for file in files if file.uri not in keys])
    for file in files:
        if file.uri in keys:
            services.state.delete(keys[file.uri])


def _report(
    declaration: Declaration,
    position: Position,
    found: _Verdicts,
    ledgers: Sequence[_Verdicts],
    *,
    fence: bool,
    dry_run: bool,
) -> Orphans:
    tag = position.target.tag
    removed = (*found.gone, *found.fenced, *(file for one in ledgers for file in one.gone))
    kept = (*found.kept, *(file for one in ledgers for file in one.kept))
    return Orphans(
        table=declaration.table,
        context=declaration.context,
        state=State.COMMITTED if (removed or fence) and not dry_run else State.NOTHING_TO_DO,
        dry_run=dry_run,
        bookmark_version=position.bookmark.version,
        snapshot_id=tag.snapshot_id if tag else None,
        fence=fence,
        removed=removed,
        kept=kept,
        bytes=sum(file.bytes for file in removed),
        next=f"lakehouse maintain {declaration.table} orphans" if dry_run and removed else "",
    )
