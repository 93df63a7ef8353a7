"""A local folder as storage: for state on one machine and for tests. Never follows a key out of its folder.

Plain files, not obstore's LocalStore: that one changes some names, hides others and has no conditional write.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

from lakehouse.errors import ConfigurationError, ObjectChanged
from lakehouse.model import LandingObject
from lakehouse.storage.interface import Contents

_OURS = ".lakehouse-"
"""Files of this module: half-written ones and locks. Never listed."""


@dataclass(frozen=True, slots=True)
class LocalStorage:
    """`lakehouse.storage.Storage` on a local folder, which need not exist before the first write."""

    folder: Path

    def uri(self, key: str) -> str:
        return f"file://{self.folder}/{key}".replace("file:////", "file:///")

    def key(self, uri: str) -> str:
        if not uri.startswith(self.uri("")):
            raise ConfigurationError(f"the address lies outside this storage: uri={uri} storage={self.uri('')}")
        return uri[len(self.uri("")) :]

    def list(self, prefix: str) -> Iterator[LandingObject]:
        start = self.folder / prefix.rpartition("/")[0]
        if not self.folder.is_dir():
            raise ConfigurationError(f"cannot list: the folder does not exist: uri={self.uri('')}")
        for path in _files(start):
            key = path.relative_to(self.folder).as_posix()
            if key.startswith(prefix) and path.is_file():
                with _explained("list", path):
                    status = path.stat()
                modified = datetime.fromtimestamp(status.st_mtime, UTC)
                yield LandingObject(self.uri(key), _etag(status), status.st_size, modified)

    def fetch(self, obj: LandingObject, target: Path) -> None:
        with self._listed(obj) as file, target.open("wb") as copy:
            shutil.copyfileobj(file, copy)

    def fetch_bytes(self, obj: LandingObject) -> bytes:
        with self._listed(obj) as file:
            return file.read()

    def fetch_beginning(self, obj: LandingObject) -> bytes:
        with self._listed(obj) as file:
            return file.read(1)

    @contextmanager
    def _listed(self, obj: LandingObject) -> Iterator[BinaryIO]:
        """The open file of an object, which must be the listed version before and after."""
        source = self._path(self.key(obj.uri))
        if not source.is_file():
            raise ObjectChanged(f"the object was deleted since it was listed: uri={obj.uri}", uri=obj.uri)
        with _explained("read", source), source.open("rb") as file:
            before = _etag(os.fstat(file.fileno()))
            yield file
            if not before == _etag(os.fstat(file.fileno())) == obj.etag:
                raise ObjectChanged(f"the object was overwritten since it was listed: uri={obj.uri}", uri=obj.uri)

    def read(self, key: str) -> bytes | None:
        found = self.read_with_etag(key)
        return found[0] if found else None

    def read_with_etag(self, key: str) -> tuple[bytes, str] | None:
        path = self._path(key)
        with _explained("read", path):
            try:
                with path.open("rb") as file:
                    return file.read(), _etag(os.fstat(file.fileno()))
            except FileNotFoundError:
                return None

    def read_many(self, keys: Sequence[str]) -> Contents:
        return [self.read(key) for key in keys]

    def create(self, key: str, data: bytes) -> bool:
        with self._written(key, data) as new:
            try:
                os.link(new, self._path(key))
            except FileExistsError:
                return False
        return True

    def replace(self, key: str, data: bytes, etag: str) -> str | None:
        target = self._path(key)
        with self._locked(key):
            if not target.exists() or _etag(target.stat()) != etag:
                return None
            with self._written(key, data) as new:
                new.replace(target)
            return _etag(target.stat())

    def put(self, key: str, data: bytes) -> None:
        with self._written(key, data) as new:
            new.replace(self._path(key))

    def upload(self, path: Path, key: str) -> None:
        with self._written(key, b"") as new:
            shutil.copyfile(path, new)
            new.replace(self._path(key))

    def delete(self, key: str) -> None:
        self._path(key).unlink(missing_ok=True)

    def _path(self, key: str) -> Path:
        if not key or {"", ".", ".."} & set(key.split("/")):
            raise ConfigurationError(f"the address has empty, '.' or '..' folders: uri={self.uri(key)}")
        return self.folder / key

    @contextmanager
    def _written(self, key: str, data: bytes) -> Iterator[Path]:
        """A finished file beside the target: readers never see half of it."""
        target = self._path(key)
        with _explained("write", target):
            target.parent.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(prefix=_OURS, dir=target.parent)
            new = Path(name)
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(data)
                    os.fsync(file.fileno())
                yield new
            finally:
                new.unlink(missing_ok=True)

    @contextmanager
    def _locked(self, key: str) -> Iterator[None]:
        """An OS lock beside the target; the system frees it when the process dies."""
        target = self._path(key)
        if not target.parent.is_dir():
            yield
            return
        with (target.parent / f"{_OURS}{target.name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


@contextmanager
def _explained(action: str, path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ConfigurationError(f"cannot {action}: {error.strerror}: path={path}") from error


def _files(folder: Path) -> Iterator[Path]:
    """Everything below that is no folder, folder by folder; an unreadable folder raises instead of looking empty."""

    def fail(error: OSError) -> None:
        raise ConfigurationError(f"cannot list: {error.strerror}: path={error.filename}") from error

    if not folder.is_dir():
        return
    for parent, folders, names in os.walk(folder, onerror=fail):
        folders.sort()
        yield from (Path(parent, name) for name in sorted(names) if not name.startswith(_OURS))


def _etag(status: os.stat_result) -> str:
    return f'"{status.st_ino:x}-{status.st_mtime_ns:x}-{status.st_size:x}"'
