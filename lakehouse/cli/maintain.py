"""`lakehouse maintain`: upkeep of a table beside its loads."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict
from datetime import timedelta
from enum import StrEnum
from typing import Annotated

import typer

from lakehouse.cli.operate import Reason, print_hints, state_text, this_operator
from lakehouse.cli.options import AsJson, DryRun, TableName, declared, services_for
from lakehouse.cli.output import print_json, print_pairs, print_table
from lakehouse.declaration import Declaration
from lakehouse.errors import UsageError
from lakehouse.maintain import Compaction, Expiry, FoundFile, Orphans, Upkept, compact, expire, remove_orphans
from lakehouse.maintain import maintain as upkeep
from lakehouse.operate.dedupe import Deduplication, dedupe
from lakehouse.operate.operator_change import Operator
from lakehouse.services import Services
from lakehouse.step_log import open_log
from lakehouse.units import parse_age

_SHOWN = 20
"""So many files are listed for people; `--json` lists all."""


class Upkeep(StrEnum):
    """What `maintain` can be asked for."""

    COMPACT = "compact"
    EXPIRE = "expire"
    ORPHANS = "orphans"
    DEDUPE = "dedupe"


def add_to(app: typer.Typer) -> None:
    app.command("maintain", epilog="Example: lakehouse maintain analytics.orders expire --dry-run")(maintain)


def maintain(
    table: TableName,
    what: Annotated[
        Upkeep | None, typer.Argument(metavar="[compact|expire|orphans|dedupe]", help="One kind of upkeep.")
    ] = None,
    dry_run: DryRun = False,
    older_than: Annotated[
        str | None,
        typer.Option("--older-than", metavar="AGE", help="Of expire and orphans: 5d, 36h, 0s; else the declared age."),
    ] = None,
    reason: Reason = "",
    as_json: AsJson = False,
) -> None:
    """Upkeep of a table that respects bookmarks and running loads.

    `compact` merges small files and applies deletes, `expire` drops old snapshots with their files, `orphans` removes
    what nothing refers to: these three, in that order, without a kind. `dedupe` keeps the newest row of every key.
    """
    age = _age(older_than, what)
    declaration = declared(table)
    services, operator = services_for(declaration, log=open_log(os.environ)), this_operator(reason)
    if what is None:
        done = upkeep(declaration, services, operator, dry_run=dry_run)
        if as_json:
            print_json({"table": table, **{kind.value: asdict(one) for kind, one in done.items()}})
        else:
            for one in done.values():
                _print(one)
        return
    found = _one_kind(what, declaration, services, operator, age=age, dry_run=dry_run)
    if as_json:
        print_json(asdict(found))
    else:
        _print(found)


def _one_kind(
    what: Upkeep,
    declaration: Declaration,
    services: Services,
    operator: Operator,
    *,
    age: timedelta | None,
    dry_run: bool,
) -> Upkept | Deduplication:
    match what:
        case Upkeep.COMPACT:
            return compact(declaration, services, operator, dry_run=dry_run)
        case Upkeep.EXPIRE:
            return expire(declaration, services, operator, older_than=age, dry_run=dry_run)
        case Upkeep.ORPHANS:
            return remove_orphans(declaration, services, operator, older_than=age, dry_run=dry_run)
        case Upkeep.DEDUPE:
            return dedupe(declaration, services, operator, dry_run=dry_run)


def _print(found: Upkept | Deduplication) -> None:
    match found:
        case Compaction():
            _print_compaction(found)
        case Expiry():
            _print_expiry(found)
        case Orphans():
            _print_orphans(found)
        case Deduplication():
            _print_deduplication(found)


def _age(text: str | None, what: Upkeep | None) -> timedelta | None:
    if text is None:
        return None
    if what not in (Upkeep.EXPIRE, Upkeep.ORPHANS):  # each has an age of its own
        raise UsageError(
            "--older-than goes with expire or orphans", next="lakehouse maintain TABLE expire --older-than 5d"
        )
    try:
        return parse_age(text)
    except ValueError as error:
        raise UsageError(f"--older-than: {error}", next="lakehouse maintain TABLE expire --older-than 5d") from None


def _print_compaction(found: Compaction) -> None:
    after = "" if found.data_files_after is None else f", {found.data_files_after:,} now"
    deletes = "" if found.delete_files_after is None else f", {found.delete_files_after:,} now"
    print_pairs(
        {
            "table": found.table,
            "state": state_text(found.state, found.dry_run),
            "bookmark": f"{found.context} version {found.bookmark_version}",
            "snapshot": found.snapshot_id,
            "rewritten": f"{found.rewritten:,} files of {found.partitions:,} partitions, {found.bytes:,} bytes",
            "data files": f"{found.data_files_before:,} before{after}",
            "delete files": f"{found.delete_files_before:,} before{deletes}",
            "commits": found.commits,
            "ledger": found.ledger,
        }
    )
    print_hints(found.warnings, found.next)


def _print_expiry(found: Expiry) -> None:
    print_pairs(
        {
            "table": found.table,
            "state": state_text(found.state, found.dry_run),
            "bookmark": f"{found.context} version {found.bookmark_version}",
            "snapshot": found.snapshot_id,
            "expired": f"{found.expired:,} snapshots, {found.kept:,} are kept",
            "moved": ", ".join(found.moved) or "no bookmark",
            "files": f"{len(found.files):,} data and delete files, {found.bytes:,} bytes",
            "metadata": f"{len(found.metadata):,} manifests, lists and statistics",
            "ledger": found.ledger,
        }
    )
    _print_files("removed" if not found.dry_run else "would be removed", found.files)
    _print_files("outside the table's folders, kept", found.outside)
    print_hints(found.warnings, found.next)


def _print_orphans(found: Orphans) -> None:
    of_ledger = sum(file.why.startswith("ledger:") for file in found.kept)
    print_pairs(
        {
            "table": found.table,
            "state": state_text(found.state, found.dry_run),
            "bookmark": f"{found.context} version {found.bookmark_version}",
            "snapshot": found.snapshot_id,
            "fence": "an empty snapshot, so that no attempt can land any more" if found.fence else "not needed",
            "removed": f"{len(found.removed):,} files, {found.bytes:,} bytes",
            "kept": f"{len(found.kept):,} files that nothing refers to, {of_ledger:,} of them of the ledger",
            "ledger": found.ledger,
        }
    )
    _print_found("removed" if not found.dry_run else "would be removed", found.removed)
    _print_found("kept", found.kept)
    print_hints(found.warnings, found.next)


def _print_found(title: str, files: Sequence[FoundFile]) -> None:
    _print_files(title, [f"{file.uri}   ({file.why})" for file in files])


def _print_files(title: str, files: Sequence[str]) -> None:
    if not files:
        return
    more = [(f"… and {len(files) - _SHOWN:,} more (--json lists all)",)] if len(files) > _SHOWN else []
    print_table("", [title], [*((path,) for path in files[:_SHOWN]), *more])


def _print_deduplication(found: Deduplication) -> None:
    print_pairs(
        {
            "table": found.table,
            "state": state_text(found.state, found.dry_run),
            "bookmark": f"{found.context} version {found.bookmark_version}",
            "snapshot": found.snapshot_id,
            "rows": f"{found.rows:,}",
            "doubled keys": f"{found.doubled:,}",
            "removed": f"{found.removed:,} rows",
            "ledger": found.ledger,
        }
    )
    if found.first:
        print_table("", ["key", "rows"], [(d.key, d.rows) for d in found.first])
    print_hints(found.warnings, found.next)
