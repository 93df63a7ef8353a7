"""Plans that wait for an operator's word: a load of one ends before anything is read. Pure."""

from __future__ import annotations

from lakehouse.errors import Blocked, Held, Unaccepted
from lakehouse.model import Plan

_NAMED = 5


def refuse(plan: Plan, *, accept_missing: bool) -> None:
    """Raises Held for a table on hold, Unaccepted for a source that nobody has accepted, and Blocked for dates to be
    replaced that lost a consumed object: their rows would go, which `accept_missing` says is meant."""
    if plan.held:
        raise Held(f"table {plan.table} is {plan.held}", next=f"lakehouse release {plan.table} --reason TEXT")
    if plan.unaccepted:
        raise Unaccepted(f"table {plan.table}: {plan.unaccepted}; nothing was read", next=plan.answer)
    if plan.missing and not accept_missing:
        more = f" and {len(plan.missing) - _NAMED} more" if len(plan.missing) > _NAMED else ""
        raise Blocked(
            f"table {plan.table}: consumed objects of dates to be replaced are not listed any more: "
            f"{', '.join(plan.missing[:_NAMED])}{more}",
            next=f"lakehouse load {plan.table} --accept-missing   # their rows are removed; or land the objects again",
        )
