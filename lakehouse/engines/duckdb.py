"""Opens the embedded engine: one in-memory DuckDB per batch that spills to a folder. Owns no SQL of any step."""

from __future__ import annotations

from pathlib import Path

import duckdb


def open_session(*, spill: Path, memory_bytes: int, threads: int | None = None) -> duckdb.DuckDBPyConnection:
    """Open a session in UTC that keeps at most `memory_bytes` in memory and spills the rest to `spill`.

    Nothing is downloaded: extensions are neither installed nor loaded on demand.
    """
    spill.mkdir(parents=True, exist_ok=True)
    config: dict[str, str | bool | int | float | list[str]] = {
        "temp_directory": str(spill),
        "memory_limit": f"{max(memory_bytes, 256 << 20)}B",
        "autoinstall_known_extensions": "false",
        "autoload_known_extensions": "false",
        "checkpoint_threshold": "1TB",  # nothing is kept: compacting tables between two steps would only take time
    }
    if threads is not None:
        config["threads"] = threads
    con = duckdb.connect(":memory:", config=config)
    _set_up(con)
    return con


def second(con: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    """Another connection of the same session, for another thread. It sees the same tables and views."""
    other = con.cursor()
    _set_up(other)
    return other


def _set_up(con: duckdb.DuckDBPyConnection) -> None:
    con.execute("set TimeZone = 'UTC'")
    con.execute("set preserve_insertion_order = true")
