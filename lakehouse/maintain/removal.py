"""Deletes files of a table that nothing needs any more: never one outside the table's own folders."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from pyiceberg.table import Table

from lakehouse.catalog import translated
from lakehouse.iceberg import PARALLEL_READS


def own_folders(table: Table) -> tuple[str, ...]:
    """The folders that the table writes below, each with a slash at its end: its location, and where its properties
    put data and metadata."""
    provider = table.location_provider()
    places = (table.location(), provider.data_path, provider.metadata_path)
    return tuple(dict.fromkeys(place.rstrip("/") + "/" for place in places))


def inside(table: Table, paths: Iterable[str]) -> tuple[list[str], list[str]]:
    """Addresses in the table's own folders and all others, each in order."""
    folders = own_folders(table)
    ours: list[str] = []
    others: list[str] = []
    for path in sorted(paths):
        plain = not {"..", "."} & set(path.split("/")) and not {"?", "#"} & set(path)
        (ours if plain and path.startswith(folders) else others).append(path)
    return ours, others


def remove_files(table: Table, paths: Collection[str]) -> None:
    """Delete files of the table; one that is not there is no error. Raises what the storage raises."""
    _each(lambda path: _delete(table, path), paths)


def _delete(table: Table, path: str) -> None:
    with translated(f"file={path}"), suppress(FileNotFoundError):
        table.io.delete(path)


def _each(act: Callable[[str], None], items: Collection[str]) -> None:
    with ThreadPoolExecutor(PARALLEL_READS) as pool:
        for _ in pool.map(act, items):
            pass
