"""Object storage: one bucket or local folder behind one small interface. Never knows what the bytes mean."""

from __future__ import annotations

from lakehouse.storage.interface import Storage
from lakehouse.storage.open import open_root, open_storage, split_uri
from lakehouse.storage.patience import Patience

__all__ = ["Patience", "Storage", "open_root", "open_storage", "split_uri"]
