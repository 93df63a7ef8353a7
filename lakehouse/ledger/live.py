"""The live files of a ledger table, and how long whoever lost a commit waits before the next look."""

from __future__ import annotations

from pyiceberg.table import Table

from lakehouse.errors import NotAvailable
from lakehouse.iceberg import LiveFiles, live_files

ATTEMPTS = 10


def live_ledger(table: Table) -> LiveFiles:
    """Raises NotAvailable for delete files of another writer."""
    live = live_files(table, table.current_snapshot())
    if live.deletes:  # a snapshot of ours would bring their rows back
        raise NotAvailable(
            f"the ledger table {'.'.join(table.name())} has delete files of another writer",
            next="compact it with the engine that wrote them, or drop it and run `lakehouse ledger rebuild TABLE`",
        )
    return live


def pause_seconds(attempt: int, random_hex: str) -> float:
    """Longer with every attempt, up to two seconds, and by chance half or twice as long: losers must not meet again."""
    chance = int(random_hex[:8], 16) / 0xFFFFFFFF
    return float(min(0.05 * 2**attempt, 2.0) * (0.25 + 0.75 * chance))
