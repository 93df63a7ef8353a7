"""Upkeep of a table: small files become few, old snapshots go, and files that nothing needs any more.

Each kind publishes what it changes as every change is published; files are deleted after that, and never before.
"""

from lakehouse.maintain.compaction import Compaction, compact
from lakehouse.maintain.expiry import Expiry, expire
from lakehouse.maintain.kinds import Kind, Upkept, maintain
from lakehouse.maintain.orphans import FoundFile, Orphans, remove_orphans

__all__ = [
    "Compaction",
    "Expiry",
    "FoundFile",
    "Kind",
    "Orphans",
    "Upkept",
    "compact",
    "expire",
    "maintain",
    "remove_orphans",
]
