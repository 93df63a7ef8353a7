"""The range of batches that a load asks for again (G5-G7): what makes sense, and which bookmark versions it names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse.audit.bookmark_history import named_version
from lakehouse.bookmark import LOAD
from lakehouse.errors import UsageError
from lakehouse.model import Mode, Reference, VersionRange
from lakehouse.services import Services
from lakehouse.state import walk

if TYPE_CHECKING:
    from lakehouse.declaration import Declaration


def check_range(declaration: Declaration, *, mode: Mode, first: str | None, last: str | None) -> None:
    """Both ends or none, of one source, and only where the bookmark stays where it is (G7). Raises UsageError."""
    ends = [end for end in (first, last) if end is not None]
    if len(ends) == 1:
        raise UsageError(
            "a range of batches has two ends, and one is given",
            next=f"lakehouse load {declaration.table} --mode no-advance --from-batch A --to-batch B",
        )
    if ends and mode is not Mode.NO_ADVANCE:
        raise UsageError(
            f"a range of batches is read again without moving the bookmark, and the mode is {mode.value}",
            next=f"lakehouse load {declaration.table} --mode no-advance --from-batch {ends[0]} --to-batch {ends[1]}",
        )
    if ends and len(declaration.sources) > 1:
        raise UsageError(
            f"a range of batches is one source's, and table {declaration.table} has {len(declaration.sources)}: "
            f"{', '.join(declaration.contexts)}",
            next=f"the same command with --source {declaration.contexts[0]}",
        )


def versions_between(
    declaration: Declaration, newest: Reference | None, services: Services, *, first: str | None, last: str | None
) -> VersionRange | None:
    """The bookmark versions that two batches stand for; None for no batches. `newest` is the bookmark's last manifest.

    Raises UsageError for a batch that is not there.
    """
    if first is None or last is None:
        return None
    lower, upper = (named_version(declaration, services, newest, named)[0] for named in (first, last))
    if lower > upper:
        raise UsageError(
            f"--from-batch is version {lower} and --to-batch is version {upper}: the range is empty",
            next=f"lakehouse bookmark history {declaration.table}",
        )
    read: dict[tuple[str, str, str | None], int] = {}
    for manifest, _ in walk(services.state, newest, above=lower):
        if manifest.bookmark_version <= upper and manifest.kind == LOAD:
            for item in manifest.objects:
                read.setdefault(item.object.identity, manifest.bookmark_version)
    return VersionRange(lower, upper, read)
