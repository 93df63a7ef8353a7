"""A session of the engine for one piece of work."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import duckdb

from lakehouse.engines.duckdb import open_session
from lakehouse.scratch import scratch_folder
from lakehouse.services import Services


@contextmanager
def engine_session(services: Services, name: str) -> Iterator[tuple[duckdb.DuckDBPyConnection, Path]]:
    """A session with a folder of its own below the spill folder, both gone afterwards; no two pieces of work at a time
    have one `name`. Raises ConfigurationError if the folder cannot be made."""
    with (
        scratch_folder(services.settings.spill, f"lakehouse-{name}") as folder,
        closing(open_session(spill=folder / "spill", memory_bytes=services.settings.memory_bytes)) as con,
    ):
        yield con, folder
