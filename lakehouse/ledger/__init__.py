"""The ledger: four Iceberg tables that tell SQL users what every batch did. An output: no load and no plan reads them.

`sync` is the only writer of rows. Whoever calls it after a publish must take its errors for what they are: the load
succeeded, and the ledger is behind.
"""

from __future__ import annotations

from lakehouse.ledger.compact import Compaction, compact
from lakehouse.ledger.read import ledger_head, newest_in_ledger, read_ledger
from lakehouse.ledger.schema import BATCHES, FILES, LEDGERS, RECONCILIATIONS, REJECTS
from lakehouse.ledger.standing import Standing, standing_of
from lakehouse.ledger.sync import rebuild, sync

__all__ = [
    "BATCHES",
    "FILES",
    "LEDGERS",
    "RECONCILIATIONS",
    "REJECTS",
    "Compaction",
    "Standing",
    "compact",
    "ledger_head",
    "newest_in_ledger",
    "read_ledger",
    "rebuild",
    "standing_of",
    "sync",
]
