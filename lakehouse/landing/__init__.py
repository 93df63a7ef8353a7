"""The landing zone: which objects are there, and local copies of them. Never decides what is read."""

from __future__ import annotations

from lakehouse.landing.discover import discover
from lakehouse.landing.fetch import fetch_all

__all__ = ["discover", "fetch_all"]
