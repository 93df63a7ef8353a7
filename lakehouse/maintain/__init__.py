"""Upkeep of a table: old snapshots and the files that nothing needs any more go.

Each kind publishes what it changes as every change is published; files are deleted after that, and never before.
"""

from lakehouse.maintain.expire import Expiry, expire

__all__ = ["Expiry", "expire"]
