"""Lists what lies in a table's own folders, with the catalog's credentials, through the table's FileIO. Reads only."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from pyarrow.fs import FileSelector, FileType
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.table import Table

from lakehouse.catalog import translated
from lakehouse.errors import NotAvailable
from lakehouse.maintain.removal import own_folders


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file as storage lists it: `place` is its address without the scheme, which writers spell differently, `below`
    the part of it behind the folder that was listed. `modified` None: the storage does not say."""

    uri: str
    place: str
    below: str
    size: int
    modified: datetime | None


def place_of(io: FileIO, uri: str) -> str:
    """The address of a file without its scheme, as `StoredFile.place`."""
    if not isinstance(io, PyArrowFileIO):
        raise NotAvailable(
            f"files cannot be listed through {type(io).__name__}: uri={uri}",
            next="use PyIceberg's own FileIO: unset py-io-impl",
        )
    return io.parse_location(uri, io.properties)[2]


def list_files(table: Table) -> list[StoredFile]:
    """Every file in the table's own folders, each once. Complete, or raises."""
    found: dict[str, StoredFile] = {}
    with translated(f"table={'.'.join(table.name())}"):
        for folder in own_folders(table):
            if not any(folder.startswith(other) for other in own_folders(table) if other != folder):
                found |= {file.place: file for file in list_folder(table.io, folder)}
    return [found[place] for place in sorted(found)]


def list_folder(io: FileIO, folder: str) -> Iterator[StoredFile]:
    """Every file below a folder, which has a slash at its end. Raises the transport's errors."""
    root = place_of(io, folder).rstrip("/") + "/"
    assert isinstance(io, PyArrowFileIO)
    scheme, netloc, _ = io.parse_location(folder, io.properties)
    system = io.fs_by_scheme(scheme, netloc)
    for info in system.get_file_info(FileSelector(root, recursive=True, allow_not_found=True)):
        if info.type is not FileType.File:
            continue
        below = info.path.removeprefix(root)
        yield StoredFile(folder + below, info.path, below, int(info.size or 0), info.mtime)
