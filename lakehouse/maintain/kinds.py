"""The kinds of upkeep that belong together, one after the other: what compaction leaves behind, expiry takes away."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, TypeAlias

from lakehouse.maintain.compaction import Compaction, compact
from lakehouse.maintain.expiry import Expiry, expire
from lakehouse.maintain.orphans import Orphans, remove_orphans
from lakehouse.operate.operator_change import Operator
from lakehouse.services import Services

if TYPE_CHECKING:
    from lakehouse.declaration import Declaration

Upkept: TypeAlias = Compaction | Expiry | Orphans


class Kind(StrEnum):
    """In the order in which they are done."""

    COMPACT = "compact"
    EXPIRE = "expire"
    ORPHANS = "orphans"


def maintain(
    declaration: Declaration,
    services: Services,
    operator: Operator,
    *,
    kinds: Sequence[Kind] = tuple(Kind),
    dry_run: bool = False,
) -> dict[Kind, Upkept]:
    """Do these kinds of upkeep with the ages that the table declares. Raises what they raise; the ones before stay
    done."""

    def one(kind: Kind) -> Upkept:
        match kind:
            case Kind.COMPACT:
                return compact(declaration, services, operator, dry_run=dry_run)
            case Kind.EXPIRE:
                return expire(declaration, services, operator, dry_run=dry_run)
            case Kind.ORPHANS:
                return remove_orphans(declaration, services, operator, dry_run=dry_run)

    return {kind: one(kind) for kind in Kind if kind in kinds}
