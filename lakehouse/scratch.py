"""Local scratch folders below LAKEHOUSE_SPILL, removed when their user is done; a killed process leaves its own."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lakehouse.errors import ConfigurationError

_NEXT = "point LAKEHOUSE_SPILL to a local folder with room that this user may write to"


def check_spill(folder: Path) -> None:
    """Find out before anything is read that the spill folder is no place to write. Raises ConfigurationError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(f"LAKEHOUSE_SPILL cannot be used: {folder}: {error.strerror}", next=_NEXT) from error
    if not os.access(folder, os.W_OK | os.X_OK):
        raise ConfigurationError(f"LAKEHOUSE_SPILL cannot be used: {folder}: not writable", next=_NEXT)


@contextmanager
def spilling(folder: Path) -> Iterator[None]:
    """Errors of writing to a folder below LAKEHOUSE_SPILL as ours. Raises ConfigurationError."""
    try:
        yield
    except OSError as error:
        raise ConfigurationError(
            f"cannot write to the spill folder: {error.strerror}: path={folder}",
            next="free space there, or export LAKEHOUSE_SPILL=<a local folder with room>",
        ) from error


@contextmanager
def scratch_folder(spill: Path, name: str) -> Iterator[Path]:
    """A new folder `name` that nobody else can read. Raises ConfigurationError if it cannot be made."""
    folder = spill / name
    try:
        folder.mkdir(parents=True, mode=0o700)
    except OSError as error:
        raise ConfigurationError(f"LAKEHOUSE_SPILL cannot be used: {folder}: {error.strerror}", next=_NEXT) from error
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
