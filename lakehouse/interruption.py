"""What Ctrl-C and SIGTERM leave of a load: its receipt, which says as much as is certain. Decides nothing about the
table."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from lakehouse.errors import LakehouseError, OutcomeUnknown, RetryLater
from lakehouse.lease_record import COMMIT
from lakehouse.model import Receipt
from lakehouse.receipt import failed_receipt
from lakehouse.receipt_total import total
from lakehouse.stopping import stop_code

if TYPE_CHECKING:
    from lakehouse.declaration import Declaration


class Interrupted(KeyboardInterrupt):
    """Ctrl-C or SIGTERM in a load, with the receipt of what it has done until then."""

    def __init__(self, receipt: Receipt) -> None:
        super().__init__()
        self.receipt = receipt


def interruption(table: str, step: str) -> LakehouseError:
    """The interruption as an error of the tree, for a receipt; `step` as the lease has it, empty before the load began
    with the source."""
    command = f"lakehouse diagnose {shlex.quote(table)}"
    if step == COMMIT:
        text = f"table {table}: interrupted while the commit was on its way: it may have landed, or land yet"
        return OutcomeUnknown(text, next=command)
    where = f"at step {step}" if step else "before it began"
    return RetryLater(f"table {table}: interrupted {where}; what it had committed stands", next=command)


def interrupted(
    declaration: Declaration,
    run_id: str,
    stop: KeyboardInterrupt,
    *,
    ended: Sequence[Receipt] = (),
    seconds: Mapping[str, float] | None = None,
) -> Interrupted:
    """A load that ended so, out of the receipts of its sources: those that `ended`, the one that `stop` may carry, and
    those that were never begun."""
    parts = [*ended, stop.receipt] if isinstance(stop, Interrupted) else [*ended]
    error = interruption(declaration.table, "")
    parts += [failed_receipt(one, run_id, error, seconds) for one in declaration.by_source[len(parts) :]]
    return Interrupted(total(declaration, parts))


def last_receipt(declaration: Declaration, run_id: str, stop: KeyboardInterrupt) -> Receipt:
    """The receipt of a load that was stopped, also before it began."""
    found = stop if isinstance(stop, Interrupted) else interrupted(declaration, run_id, stop)
    return replace(found.receipt, exit_code=stop_code())
