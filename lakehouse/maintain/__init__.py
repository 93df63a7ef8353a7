"""Upkeep of a table: old snapshots and the files that nothing needs any more go.

Each kind publishes what it changes as every change is published; files are deleted after that, and never before.
"""

from lakehouse.maintain.expiry import Expiry, expire
from lakehouse.maintain.orphans import FoundFile, Orphans, remove_orphans

__all__ = ["Expiry", "FoundFile", "Orphans", "expire", "remove_orphans"]
